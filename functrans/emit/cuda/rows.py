"""Allocation of scratch rows: which are registers, and the element types of those in memory."""

from __future__ import annotations

import numpy as np

from functrans.emit.printer import in_memory
from functrans.loop.scalar import BOOL, postorder
from functrans.loop.statements import Buffer, Kernel, MatrixMultiply, Store
from functrans.loop.walk import expressions, walk


def stored_as(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in memory of a row's elements."""
    return np.dtype(np.uint8) if dtype == BOOL else in_memory(dtype)


def registers_of(kernel: Kernel) -> set[Buffer]:
    """Private rows that are only accessed at constant positions: a variable for each element."""
    varying: set[Buffer] = set()
    for statement in walk(kernel.body):
        elements = [
            (node.attribute, node.args)
            for node in postorder(expressions(statement))
            if node.op == "load"
        ]
        if isinstance(statement, Store):
            elements.append((statement.target, statement.indices))
        if isinstance(statement, MatrixMultiply):
            elements.append((statement.sums.target, statement.sums.indices))
        varying |= {one for one, indices in elements if any(i.op != "const" for i in indices)}
    return set(kernel.private) - varying

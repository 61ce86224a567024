"""Allocation of scratch rows: which are registers, and the element types of those in memory."""

from __future__ import annotations

import numpy as np

from functrans.emit.printer import in_memory
from functrans.loop.scalar import BOOL
from functrans.loop.statements import Buffer, Kernel, MatrixMultiply
from functrans.loop.walk import accesses, walk


def stored_as(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in memory of a row's elements."""
    return np.dtype(np.uint8) if dtype == BOOL else in_memory(dtype)


def registers_of(kernel: Kernel) -> set[Buffer]:
    """Private rows that are only accessed at constant positions: a variable for each element."""
    products = [x.sums for x in walk(kernel.body) if isinstance(x, MatrixMultiply)]
    elements = [(one, position) for one, position, _ in accesses(kernel.body)]
    elements += [(each.target, each.indices) for each in products]
    return set(kernel.private) - {
        one for one, position in elements if any(i.op != "const" for i in position)
    }

"""Functions that need statements of their own for each element: a loop, or a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, convert
from functrans.loop.statements import Statement, Store
from functrans.ops.compiled.elements import broadcast_index
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest

Statements = tuple[Statement, ...]

Made = tuple[Statements, Scalar]
"""Statements, and the number that they compute."""

DOUBLE = np.dtype(np.float64)


def for_each(
    at: Emission, made: Callable[..., Made], uncounted: int, dtype: np.dtype[Any] | None = None
) -> None:
    """Compute each element by statements; its operands are converted to a dtype, if one is given.

    ``uncounted`` are the operations of an element in loops of unknown length.
    """
    target = at.result()
    loops = tuple(index("i", extent) for extent in target.extents)
    elements = [
        at.element(number, broadcast_index(loops, operand.aval.shape))
        for number, operand in enumerate(at.eqn.inputs)
    ]
    statements, found = made(*(x if dtype is None else convert(x, dtype) for x in elements))
    body = (*statements, Store(target, loops, convert(found, target.dtype)))
    at.call(nest(loops, body, parallel=True), uncounted=uncounted * target.count)

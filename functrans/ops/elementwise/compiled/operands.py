"""Operands of functions that need a loop for each element."""

from __future__ import annotations

import numpy as np

from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, convert
from functrans.ops.compiled.elements import broadcast_index
from functrans.ops.compiled.emission import Emission, Position

DOUBLE = np.dtype(np.float64)


def doubles(at: Emission) -> tuple[Position, tuple[Scalar, ...]]:
    """Loops over the result, and the elements of all operands there, as float64."""
    loops = tuple(index("i", extent) for extent in at.result().extents)
    elements = (
        at.element(number, broadcast_index(loops, operand.aval.shape))
        for number, operand in enumerate(at.eqn.inputs)
    )
    return loops, tuple(convert(element, DOUBLE) for element in elements)

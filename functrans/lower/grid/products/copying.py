"""Asynchronous copies: which operands of products bypass the registers, 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.affine import lies_along
from functrans.loop.scalar import Scalar
from functrans.loop.walk import Access
from functrans.lower.grid.contiguity import WIDEST, neighbours
from functrans.lower.select.root import extent_of


def is_copied(
    operand: Scalar,  # the operand, as an expression of loops
    loops: Sequence[Scalar],  # the loops of its side
    counters: Sequence[Scalar],  # the loops over terms
) -> bool:
    """Whether an operand of a product consists of aligned pieces of 16 bytes."""
    if operand.op != "load":
        return False
    along = counters if lies_along(operand, counters[-1], loops[-1]) else loops
    width = WIDEST // operand.dtype.itemsize
    if len(along) > 1 or extent_of(along[0]) % width:
        return False
    return neighbours(Access(operand.attribute, operand.args, False), along[0], ()) == width

"""Loop unrolling: which loops, of few iterations and known bounds, are written out."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import For, Reduce, Store

MOST_WRITTEN_OUT = 256
"""Operations in the innermost of several loops of a sum, if its extent is known.

A tile of a 3x3 convolution is summed up a sixth faster so.
"""

FEW_COPIES = 4
"""Vectors of a loop that only copies them, such as the lines of a packed operand."""


def few_copies(statement: For) -> range:
    """Where the vectors of a loop begin that copies a few; empty for another loop."""
    start, stop, lanes = statement.start, statement.stop, statement.lanes
    if not (statement.whole and start.op == stop.op == "const" and len(statement.body) == 1):
        return range(0)
    found = range(int(start.attribute or 0), int(stop.attribute or 0), lanes)
    copy = statement.body[0]
    copies = isinstance(copy, Store) and copy.value.op == "load"
    return found if copies and len(found) <= FEW_COPIES else range(0)


def is_written_out(statement: Reduce, start: Scalar, stop: Scalar) -> bool:
    """Whether the innermost loop of a sum is unrolled."""
    if len(statement.loops) == 1 or statement.body or not start.op == stop.op == "const":
        return False
    operations = len(postorder(statement.values))
    return int(stop.attribute - start.attribute) * operations <= MOST_WRITTEN_OUT

"""Loop unrolling: which loops of few iterations are fully unrolled."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import For, Reduce, Store

MOST_WRITTEN_OUT = 256
"""The most operations in the innermost loop of a reduction over several indices.

This makes the sums in a tile of a 3x3 convolution a sixth faster.
"""

FEW_COPIES = 4
"""The most vectors of a loop that only copies them, such as the lines of a packed operand."""


def few_copies(statement: For) -> range:
    """The indices of a short copy loop's vectors; empty for another loop."""
    start, stop, lanes = statement.start, statement.stop, statement.lanes
    if not (statement.whole and start.op == stop.op == "const" and len(statement.body) == 1):
        return range(0)
    found = range(int(start.attribute or 0), int(stop.attribute or 0), lanes)
    copy = statement.body[0]
    copies = isinstance(copy, Store) and copy.value.op == "load"
    return found if copies and len(found) <= FEW_COPIES else range(0)


def is_written_out(statement: Reduce, start: Scalar, stop: Scalar) -> bool:
    """Whether the innermost loop of a reduction is unrolled."""
    if len(statement.loops) == 1 or statement.body or not start.op == stop.op == "const":
        return False
    operations = len(postorder(statement.values))
    return int(stop.attribute - start.attribute) * operations <= MOST_WRITTEN_OUT

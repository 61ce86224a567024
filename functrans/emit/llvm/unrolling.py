"""Loop unrolling: which loops of few iterations are fully unrolled."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Reduce

MOST_WRITTEN_OUT = 256
"""The most operations in the innermost loop of a reduction over several indices.

This makes the sums in a tile of a 3x3 convolution a sixth faster.
"""


def is_written_out(statement: Reduce, start: Scalar, stop: Scalar) -> bool:
    """Whether the innermost loop of a reduction is unrolled."""
    if len(statement.loops) == 1 or statement.body or not start.op == stop.op == "const":
        return False
    operations = len(postorder(statement.values))
    return int(stop.attribute - start.attribute) * operations <= MOST_WRITTEN_OUT

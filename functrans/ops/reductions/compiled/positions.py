"""Argmax and argmin of long rows on a CPU: the extreme of each block, then the first position.

Only the block with the extreme is read twice, and not the whole row from a slower cache.
"""

from __future__ import annotations

from typing import NamedTuple

from functrans.ir.graph import Eqn
from functrans.loop.nodes import ZERO, fold
from functrans.loop.scalar import Scalar, maximum, minimum
from functrans.loop.statements import load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.reductions.reduce import first_of


class Blocks(NamedTuple):
    """The blocks of long rows. All are measured."""

    smallest: int = 1 << 11
    """The fewest bytes of a block."""
    largest: int = 1 << 14
    """The most bytes of a block, half of a first-level cache."""
    fewest: int = 4
    """The fewest blocks of a row, for which two passes over the whole row take longer."""

    def size(self, row: int) -> int:
        """The bytes of a block for those of a row: a power of two, about a sixteenth of them."""
        return min(max(1 << (row >> 4).bit_length(), self.smallest), self.largest)


def are_long(eqn: Eqn, target: Target) -> bool:
    """Whether rows, contiguous in memory, have many blocks."""
    (x,) = eqn.inputs
    is_last = eqn.params["axis"] == x.aval.ndim - 1
    extent: int = x.aval.shape[eqn.params["axis"]]
    limits = target[Blocks]
    return is_last and extent * x.aval.dtype.itemsize >= limits.fewest * limits.smallest


def emit(operation: str, at: Emission) -> None:
    """The extremes of blocks by an operation; the first block of the largest; its position."""
    x, out = at.eqn.inputs[0].aval, at.eqn.outputs[0].aval
    extent: int = x.shape[-1]
    length = at.target[Blocks].size(extent * x.dtype.itemsize) // x.dtype.itemsize
    count = -(-extent // length)
    extremes = at.scratch("extremes", x.dtype, (*out.shape, count))
    blocks = at.scratch("blocks", out.dtype, out.shape)

    def extreme(line: tuple[Scalar, ...], block: Scalar) -> Scalar:
        start = first_in(block)
        return fold(operation, [length], lambda k: at.element(0, (*line, start + k)))

    def first_in(block: Scalar) -> Scalar:
        # the last block begins earlier instead of ending earlier
        return minimum(block * length, extent - length)

    *line, block = loops = at.loops((*out.shape, count))
    at.compute(extremes, loops, range(len(loops)), [Element(loops, extreme((*line,), block))])

    line = at.loops(out.shape)
    of_blocks = lambda b: load(extremes, (*line, b))  # noqa: E731
    found = first_of(fold(operation, [count], of_blocks), of_blocks, count)
    at.compute(blocks, line, range(len(line)), [Element(line, found)])

    line = at.loops(out.shape)
    block = minimum(maximum(load(blocks, line), ZERO), count - 1)
    start = first_in(block)
    within = first_of(
        load(extremes, (*line, block)), lambda k: at.element(0, (*line, start + k)), length
    )
    at.compute(at.result(), line, range(len(line)), [Element(line, start + within)])

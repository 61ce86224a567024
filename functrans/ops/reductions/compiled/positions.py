"""Argmax and argmin of long rows on a CPU: the extreme of each block, then the first position.

Only the block with the extreme is read twice, and not the whole row from a slower cache.
"""

from __future__ import annotations

from functrans.ir.graph import Eqn
from functrans.loop.nodes import ZERO, fold
from functrans.loop.scalar import BOOL, Scalar, maximum, minimum
from functrans.loop.statements import load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.reductions.compiled.short_circuit import emit_position
from functrans.ops.reductions.reduce import first_of
from functrans.records import NamedTuple


class Blocks(NamedTuple):
    """The blocks of long rows. All are measured."""

    smallest: int = 1 << 9
    """The fewest bytes of a block."""
    middle: int = 1 << 11
    """The most bytes of a block that is a twelfth of its row."""
    largest: int = 1 << 14
    """The most bytes of a block, half of a first-level cache."""
    fewest: int = 7
    """The fewest blocks of a row. Elements that are computed are computed again in one of them."""

    def size(self, row: int) -> int:
        """The bytes of a block for those of a row: a power of two, about a twelfth or less."""
        twelfth, sixteenth = (1 << (row // parts).bit_length() for parts in (12, 16))
        return min(max(sixteenth, min(twelfth, self.middle), self.smallest), self.largest)


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
    if x.dtype == BOOL:
        emit_position(operation == "max", at)
        return
    length = at.target[Blocks].size(extent * x.dtype.itemsize) // x.dtype.itemsize
    count = -(-extent // length)
    extremes = at.scratch("extremes", x.dtype, (*out.shape, count))
    blocks = at.scratch("blocks", out.dtype, out.shape)

    def first_in(block: Scalar) -> Scalar:
        # the last block begins earlier instead of ending earlier
        return minimum(block * length, extent - length)

    loops = at.loops((*out.shape, count))
    start = first_in(loops[-1])
    extreme = fold(operation, [length], lambda k: at.element(0, (*loops[:-1], start + k)))
    at.compute(extremes, loops, range(len(loops)), [Element(loops, extreme)])

    line = at.loops(out.shape)

    def extreme_of(block: Scalar) -> Scalar:
        return load(extremes, (*line, block))

    first = first_of(fold(operation, [count], extreme_of), extreme_of, count)
    at.compute(blocks, line, range(len(line)), [Element(line, first)])

    own = at.loops(out.shape)
    block = minimum(maximum(load(blocks, own), ZERO), count - 1)
    begin = first_in(block)
    within = first_of(
        load(extremes, (*own, block)), lambda k: at.element(0, (*own, begin + k)), length
    )
    at.compute(at.result(), own, range(len(own)), [Element(own, begin + within)])

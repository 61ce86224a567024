"""Loop unrolling: short loops as straight-line code, and several terms of sums in each round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from math import prod
from typing import Protocol

from functrans.emit.llvm.expression import Expressions
from functrans.loop.affine import Coefficients
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Reduce


class Loop(Protocol):
    """Emits a counting loop, which may carry accumulators."""

    def __call__(
        self, start: str, stop: str, step: int = 1, sums: bool = False
    ) -> AbstractContextManager[str]: ...


MOST_WRITTEN_OUT = 256
"""The most operations in the innermost loop of a reduction over several indices.

This makes the sums in a tile of a 3x3 convolution a sixth faster.
"""

TERMS = 4
"""The terms in a round of a loop that adds up several sums, without AVX-512.

Alone, a core takes the same time for each term in any case, that of the multiplications; if it
executes another thread as well, which gets every other instruction, counters and addresses take
their share of it.
"""

FEWEST_TERMS = 32
"""The fewest terms for which rounds, and prefetching where sums will be stored, save time."""

REGISTERS, VECTOR_BYTES = 16, 32
"""The vector registers of a machine without AVX-512, and their size."""

NEAR = 64
"""The most bytes between terms of a row whose addresses are offsets from one register."""


def is_written_out(statement: Reduce, start: Scalar, stop: Scalar) -> bool:
    """Whether the innermost loop of a reduction is unrolled."""
    if len(statement.loops) == 1 or statement.body or not start.op == stop.op == "const":
        return False
    operations = len(postorder(statement.values))
    return int(stop.attribute - start.attribute) * operations <= MOST_WRITTEN_OUT


def has_many_sums(ex: Expressions, statement: Reduce) -> bool:
    """Whether a reduction adds many terms to several sums, on a machine without AVX-512."""
    extents = [
        stop.attribute - start.attribute
        for _, start, stop in statement.loops
        if start.op == stop.op == "const"
    ]
    is_long = len(extents) < len(statement.loops) or prod(extents) >= FEWEST_TERMS
    return is_long and len(statement.targets) > 1 and "rounds" in ex.writer.instructions


def _fits(ex: Expressions, statement: Reduce) -> bool:
    """Whether registers hold all sums, a vector of columns, a value of a row, and addresses.

    With one vector more than these, LLVM moves sums from register to register in unrolled code; and
    where the terms of a row are far apart, each needs an address of its own.
    """
    vector = ex.vector
    if vector is None:
        return False
    vectors = -(-vector.lanes * statement.targets[0].dtype.itemsize // VECTOR_BYTES)
    if (len(statement.targets) + 1) * vectors + 1 >= REGISTERS:
        return False
    index = statement.loops[-1][0]
    places = Coefficients(index)
    for x in postorder(statement.values):
        if x.op == "load" and vector.index not in postorder([x]) and index in postorder([x]):
            distance = places.of_element(x.attribute, x.args)
            if distance is None or abs(distance) * x.dtype.itemsize > NEAR:
                return False
    return True


def rounds(
    ex: Expressions, loop: Loop, statement: Reduce, bounds: tuple[str, str]
) -> Iterator[None]:
    """The iterations of a reduction's innermost loop, in their order, several in each round."""
    define, (start, stop) = ex.writer.define, bounds
    index, first, end = statement.loops[-1]
    if has_many_sums(ex, statement) and _fits(ex, statement):
        whole = define(f"sub nsw i64 {stop}, {TERMS - 1}")
        with loop(start, whole, TERMS, sums=True) as counter:
            for number in range(TERMS):
                term = define(f"add nsw i64 {counter}, {number}")
                with ex.scope(), ex.bound(index, term):
                    yield
        if first.op == end.op == "const" and (end.attribute - first.attribute) % TERMS == 0:
            return
        length = define(f"sub nsw i64 {stop}, {start}")
        some = ex.writer.call("llvm.smax.i64", "i64", [("i64", length), ("i64", "0")])
        start = define(f"add nsw i64 {start}, {define(f'and i64 {some}, {-TERMS}')}")
    with loop(start, stop, sums=True) as counter, ex.bound(index, counter):
        yield

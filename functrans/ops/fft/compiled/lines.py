"""Decimation in frequency: Fourier transforms of many lines at once, with vectors across lines.

A transform of ``n`` points consists of ``n / r`` butterflies of ``r`` points, and then ``r``
transforms of ``n / r`` points each (Gentleman and Sande, "Fast Fourier transforms: for fun and
profit", 1966). Butterflies work in place, except that the first ones may read, and the last ones
may write, other memory. The last ones also store results in the right order, which costs nothing:
the elements of all lines with the same number are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

from functrans.loop import walk
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Statement, Store, buffer, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.pairs import Pair
from functrans.ops.compiled.statements import loop_or_body
from functrans.ops.fft.compiled.butterflies import butterfly, by
from functrans.ops.fft.split import factors
from functrans.records import NamedTuple


class Parts(NamedTuple):
    """The buffers of complex numbers: the real and the imaginary parts."""

    re: Buffer
    im: Buffer

    def load(self, *position: Scalar) -> Pair:
        """The complex number at a position."""
        return Pair(load(self.re, position), load(self.im, position))


class Stored(NamedTuple):
    """A complex number, and the position where it is stored."""

    parts: Parts
    position: tuple[Scalar, ...]
    value: Pair


Read = Callable[[Scalar, Scalar], Pair]
"""Reads an element: takes its index in its line, and the index of the line."""

Write = Callable[[Scalar, Scalar, Pair], Stored]
"""Where a result is stored: takes its index in its line, the index of the line, and its value."""


class Lines(NamedTuple):
    """Lines side by side, which are transformed together."""

    points: int  # the length of each line
    width: int  # the number of lines
    dtype: np.dtype[Any]
    lanes: int  # the length of vectors
    simplify: Simplifier
    # the distance of a butterfly's inputs, in elements of a line, from which butterflies have four
    # points rather than eight
    large: int
    shared: bool = False  # whether threads share the butterflies of the same lines

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return 2 * self.points * self.width * self.dtype.itemsize

    def memory(self) -> Parts:
        """Buffers for all elements; those with the same index in their lines are contiguous."""
        shape = (self.points * self.width,)
        return Parts(*(buffer(f"lines_{part}", self.dtype, shape) for part in ("re", "im")))

    def place(self, number: Scalar, line: Scalar) -> Scalar:
        """The position of an element in these buffers."""
        return self.simplify(number * self.width + line)

    def transform(
        self,
        memory: Parts,  # the lines, unless ``read`` is given; it is overwritten
        # The twiddle factors: cosines and sines of multiples of a turn divided by the number of
        # points. None if there is only one stage of butterflies.
        turns: Parts | None,
        write: Write,
        read: Read | None = None,
    ) -> Body:
        """The statements that transform the lines."""
        found = radices(self.points, self.large)
        body: list[Statement] = []
        for number in range(len(found)):
            taken = read if number == 0 else None
            if number < len(found) - 1:
                body += self._in_place(found, number, memory, turns, taken)
            else:
                body += self._last(found, memory, write, taken)
        return tuple(body)

    def _in_place(
        self, found: tuple[int, ...], number: int, memory: Parts, turns: Parts | None,
        read: Read | None,
    ) -> Body:  # fmt: skip
        """One stage of butterflies, whose results replace their inputs."""
        assert turns is not None
        radix, blocks = found[number], prod(found[:number])
        left = self.points // (blocks * radix)

        def at(block: Scalar, place: Scalar, line: Scalar) -> Body:
            places = [
                self.simplify(block * (radix * left) + place + left * j) for j in range(radix)
            ]
            x = [self._taken(memory, read, j, line) for j in places]
            return stored(
                Stored(memory, (self.place(j, line),), self._turned(y, turns, place * (k * blocks)))
                for k, (j, y) in enumerate(zip(places, butterfly(x), strict=True))
            )

        return self._loop(
            "block",
            blocks,
            lambda block: self._loop(
                "place",
                left,
                lambda place: vector_loop(
                    "line", self.width, self.lanes, lambda line: at(block, place, line)
                ),
            ),
        )

    def _last(self, found: tuple[int, ...], memory: Parts, write: Write, read: Read | None) -> Body:
        """The last stage, which gives the results, in the order of reversed digits."""
        radix = found[-1]

        def at(digits: tuple[Scalar, ...], line: Scalar) -> Body:
            block, result = ZERO, ZERO
            for number, digit in enumerate(digits):
                block = block * found[number] + digit
                result = result + digit * prod(found[:number])
            places = [self.simplify(block * radix + j) for j in range(radix)]
            x = [self._taken(memory, read, j, line) for j in places]
            step = self.points // radix
            return stored(
                write(self.simplify(result + step * k), line, y) for k, y in enumerate(butterfly(x))
            )

        def over(digits: tuple[Scalar, ...]) -> Body:
            if len(digits) < len(found) - 1:
                # the innermost loop is over the first digit, along which results are contiguous
                extent = found[-2 - len(digits)]
                return self._loop("digit", extent, lambda digit: over((digit, *digits)))
            return vector_loop("line", self.width, self.lanes, lambda line: at(digits, line))

        return over(())

    def _loop(self, name: str, extent: int, body: Callable[[Scalar], Body]) -> Body:
        """A loop over independent butterflies."""
        if self.shared:
            return vector_loop(name, extent, self.lanes, body)
        return loop_or_body(name, extent, body)

    def _taken(self, memory: Parts, read: Read | None, number: Scalar, line: Scalar) -> Pair:
        return read(number, line) if read else memory.load(self.place(number, line))

    def _turned(self, y: Pair, turns: Parts, numerator: Scalar) -> Pair:
        numerator = self.simplify(numerator)
        return y if numerator == ZERO else by(y, *turns.load(numerator))


def radices(points: int, large: int = 1 << 62) -> tuple[int, ...]:
    """The lengths of the butterflies of each stage, whose product is the number of points.

    For powers of two, a butterfly has eight points if its inputs are less than ``large`` elements
    apart, and four points beyond.
    """
    primes = factors(points)
    found = sorted((p for p in primes if p != 2), reverse=True)
    twos = primes.count(2)
    while twos:
        # two of four are less work than one of eight and one of two
        is_large = twos > 2 and 1 << (twos - 3) >= large
        found.append(4 if twos == 4 or is_large else 2 ** min(twos, 3))
        twos -= found[-1].bit_length() - 1
    return tuple(found) or (1,)


def stored(results: Iterable[Stored]) -> Body:
    """Store results after all of them are computed: first the real parts."""
    found = list(results)
    names = [Pair(*(local(part.dtype, "y") for part in each.value)) for each in found]
    values = [part for each in found for part in each.value]
    stores = [
        Store(each.parts[part], each.position, name[part])
        for part in range(2)
        for each, name in zip(found, names, strict=True)
    ]
    return (Let(tuple(part for name in names for part in name), tuple(values)), *stores)


def vector_loop(name: str, extent: int, lanes: int, body: Callable[[Scalar], Body]) -> Body:
    """A vectorised loop of independent iterations.

    If it does not change what it reads, the last vector may overlap the one before it: a masked
    copy of a butterfly takes as long to compile as the butterfly.
    """
    if extent == 1:
        return body(ZERO)
    while lanes > extent:
        lanes //= 2
    i = index(name, extent)
    stop, inner, whole = const(extent, INDEX), body(i), extent % lanes == 0
    repeatable = not whole and walk.loaded(inner).isdisjoint(walk.stored(inner))
    return (For(i, ZERO, stop, inner, lanes=lanes, whole=whole, repeatable=repeatable),)

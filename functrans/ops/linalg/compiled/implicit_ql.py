"""Spectra of small symmetric matrices across vector lanes, by the implicit QL algorithm.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 8.3: steps with
Wilkinson's shifts annihilate the off-diagonal elements of tridiagonal matrices. In each step, all
lanes rotate the same pairs of rows at the same time; a lane whose matrix is not affected by a
rotation keeps its numbers.

The order of operations is that of LAPACK's `steqr`, because the signs of eigenvectors depend on it,
and differ only where decisions are within rounding errors. Where `steqr` takes QR steps, which find
the eigenvalues of a block from its other end, the rows of the block are reversed.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, index
from functrans.loop.scalar import (
    Scalar,
    convert,
    copysign,
    eq,
    fma,
    lshr,
    maximum,
    sqrt,
    where,
)
from functrans.loop.statements import Assign, Buffer, For, If, Let, Store, While, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import ensure, let
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.tridiagonal import NOTHING, ONE, Tridiagonal
from functrans.records import NamedTuple

MOST_STEPS = 30
"""The most steps for each row, as in LAPACK; two or three are usual."""

ROUNDING = float(np.finfo(DOUBLE).eps) / 2

TINY = float(np.finfo(DOUBLE).tiny) / ROUNDING
"""Squares below this are negligible: the matrices are of size 1, and sums of larger squares are
exact to rounding."""


def spectrum(at: Emission) -> None:
    """Eigenvalues, and eigenvectors if these are asked for, of symmetric matrices."""
    values, *vectors = (at.result(number) for number in range(len(at.eqn.outputs)))
    _Spectrum(at).emit(values, *vectors)


class _Block(NamedTuple):
    """The block of rows in which each lane finds eigenvalues, and the part that a step rotates."""

    first: Buffer
    """The first remaining row of the block; the number of rows if nothing remains."""
    last: Buffer
    """The last row of the block."""
    end: Buffer
    """The last row of a step; the first one if there is no step."""
    swaps: Buffer
    """Whether to reverse the rows: 1 or 0."""
    reverse: Buffer
    """Whether the rows are in the opposite order of LAPACK's: 1 or 0."""


class _Step(NamedTuple):
    """The initial values of a step in each lane."""

    above: Buffer
    """The first diagonal element; the first eigenvalue of two rows."""
    below: Buffer
    """The second diagonal element; the second eigenvalue of two rows."""
    beside: Buffer
    """The element between both; the cosine of the rotation of two rows."""
    sine: Buffer
    """The sine of the rotation of two rows."""
    shift: Buffer
    """The last diagonal element minus the shift."""


class _Spectrum(Tridiagonal):
    """The statements for eigenvalues and eigenvectors of a group."""

    def __init__(self, at: Emission) -> None:
        super().__init__(at)
        self.block = _Block(*(self.memory(name, dtype=INDEX) for name in _Block._fields))
        self.step = _Step(*(self.memory(name) for name in _Step._fields))

    def emit(self, values: Buffer, vectors: Buffer | None = None) -> None:
        self.has_vectors = vectors is not None
        order, ranked = self.ordered(self.diagonal)
        body = (
            *self.tridiagonalised(),
            *(self.orthogonal() if self.has_vectors else ()),
            *(self._diagonalised() if self.n > 1 else ()),
            self.in_lanes(*ranked),
            self.in_turn(*self._unpacked(order, values, vectors), only_given=True),
        )
        self.call(body, uncounted=(4 if self.has_vectors else 2) * self.n**3)

    # -- blocks ------------------------------------------------------------------------------------

    def _diagonalised(self) -> Body:
        """Steps until every block has one row."""
        n, block = self.n, self.block
        first, last, end = (self.of(each) for each in (block.first, block.last, block.end))
        ended, any_ended = self.over_lanes("or", (first > last) & (first < n))
        remains, any_remains = self.over_lanes("or", first < n)
        two, any_two = self.over_lanes("or", eq(end, first + 1))
        low, lowest = self.over_lanes("min", where(first < end, first, n - 1))
        high, highest = self.over_lanes("max", where(first < end, end, 0))
        start, stop, steps = (local(INDEX, label) for label in ("start", "stop", "steps"))
        range_ = tuple(bounded(x, n, "clip") for x in (low, maximum(low, high)))
        well = ~remains
        return (
            self.in_lanes(
                self.store(block.first, ZERO),
                *(self.store(each, as_index(-1)) for each in (block.last, block.reverse)),
                self.store(self.step.sine, NOTHING),
            ),
            Let((steps,), (ZERO,)),
            While(
                (
                    any_ended,
                    If(ended, (self.in_lanes(*self._next_blocks()), self._reversed())),
                    self.in_lanes(*self._next_step()),
                    any_remains,
                ),
                remains & (steps < MOST_STEPS * n),
                (
                    any_two,
                    If(two, (self.in_lanes(*self._two_rows()),)),
                    lowest, highest,
                    Let((start, stop), range_),
                    self.in_lanes(*self._rotated(start, stop)),
                    Assign((steps,), (steps + 1,)),
                ),
            ),
            any_remains,
            ensure(well, EIGENVALUES_NOT_CONVERGED),
        )  # fmt: skip

    def _is_small(self, i: Scalar) -> Scalar:
        """Whether the element between two rows is negligible."""
        beside = self.of(self.beside, i)
        above, below = abs(self.of(self.diagonal, i)), abs(self.of(self.diagonal, i + 1))
        return beside * beside <= fma(ROUNDING * ROUNDING * above, below, TINY)

    def _next_blocks(self) -> Body:
        """Find the next block of several rows, in lanes whose block is done."""
        n, block, i = self.n, self.block, index("i", self.n)
        first, last = self.of(block.first), self.of(block.last)
        start, stop = local(INDEX, "start"), local(INDEX, "stop")
        top, bottom = local(DOUBLE, "top"), local(DOUBLE, "bottom")
        size, of_last = abs(self.of(self.diagonal, i)), abs(self.of(self.diagonal, n - 1))
        (small,), tested = let(self._is_small(i))
        begins = eq(start, n) & (i > last) & ~small
        ends = eq(stop, n - 1) & (start < i) & small
        # LAPACK finds eigenvalues from the end with the smaller diagonal element
        is_done = first > last
        from_end = bottom < top if self.lower else top < bottom
        swaps = from_end if self.lower else ~from_end
        (one, zero) = as_index(1), ZERO
        return (
            Let((start, stop, top, bottom), (as_index(n), as_index(n - 1), NOTHING, of_last)),
            self.loop(
                i, 0, n - 1, tested,
                Assign(
                    (start, stop, top, bottom),
                    (where(begins, i, start), where(ends, i, stop),
                     where(begins, size, top), where(ends, size, bottom)),
                ),
            ),
            self.store(block.swaps, where(is_done & (start < n) & swaps, one, zero)),
            self.store(block.reverse, where(is_done, where(from_end, one, zero),
                                            self.of(block.reverse))),
            self.store(block.first, where(is_done, start, first)),
            self.store(block.last, where(is_done, stop, last)),
        )  # fmt: skip

    def _reversed(self) -> For:
        """Reverse the rows of blocks, lane by lane."""
        n, block, lane = self.n, self.block, self.lane
        i, j, k = (index(label, n) for label in "ijk")
        labels = ("first", "last", "middle", "between")
        first, last, middle, between = bounds = tuple(local(INDEX, x) for x in labels)

        def exchanged(memory: Buffer, before: Scalar, after: Scalar, *outer: Scalar) -> Body:
            places = [(*outer, bounded(x, n, "clip"), lane) for x in (before, after)]
            (x, y), named = let(*(load(memory, place) for place in places))
            return named, Store(memory, places[0], y), Store(memory, places[1], x)

        def clipped(*values: Scalar) -> tuple[Scalar, ...]:
            return tuple(bounded(x, n, "clip") for x in values)

        columns = self.loop(k, 0, n, *exchanged(self.a, i, first + last - i, k))
        rows = (
            *exchanged(self.diagonal, i, first + last - i),
            *((columns,) if self.has_vectors else ()),
        )
        body = (
            Let(bounds[:2], clipped(load(block.first, (lane,)), load(block.last, (lane,)))),
            Let(bounds[2:], clipped(lshr(first + last + 1, 1), lshr(first + last, 1))),
            self.loop(i, first, middle, *rows),
            self.loop(j, first, between, *exchanged(self.beside, j, first + last - 1 - j)),
        )
        return self.in_turn(If(load(block.swaps, (lane,)) > 0, body))

    # -- steps -------------------------------------------------------------------------------------

    def _next_step(self) -> Body:
        """Find the first part of a block that does not decouple, and its shift."""
        n, block, i = self.n, self.block, index("i", self.n)
        first, last = self.of(block.first), self.of(block.last)
        start, stop = local(INDEX, "start"), local(INDEX, "stop")
        found = above, below, beside, end = tuple(local(DOUBLE, "x") for _ in range(4))
        d, following = self.of(self.diagonal, i), self.of(self.diagonal, i + 1)
        (small, inside), tested = let(self._is_small(i), (i >= first) & (i < last))
        begins = inside & ~small & eq(start, n)
        ends = inside & small & (start < i) & eq(stop, n)
        ratio = (below - above) / (2 * beside)
        root = copysign(sqrt(fma(ratio, ratio, ONE)), ratio)
        shift = end - above + beside / (ratio + root)
        is_step = start < n
        (made,), named = let(where(is_step, start, last + 1))
        return (
            Let((start, stop, *found), (as_index(n), as_index(n), NOTHING, NOTHING, ONE,
                                        self.of(self.diagonal, n - 1))),
            self.loop(
                i, 0, n - 1, tested,
                Assign(
                    (start, stop, *found),
                    (
                        where(begins, i, start), where(ends, i, stop),
                        where(begins, d, above), where(begins, following, below),
                        where(begins, self.of(self.beside, i), beside),
                        where(ends | (eq(i, last) & eq(stop, n)), d, end),
                    ),
                ),
            ),
            named,
            self.store(self.step.above, above),
            self.store(self.step.below, below),
            self.store(self.step.beside, beside),
            self.store(self.step.shift, shift),
            self.store(block.first, made),
            self.store(block.end, where(is_step, where(eq(stop, n), last, stop), made)),
        )  # fmt: skip

    def _two_rows(self) -> Body:
        """The eigenvalues and the rotation of two rows (LAPACK's `laev2`)."""
        step = self.step
        reverse = self.of(self.block.reverse) > 0
        above, below = self.of(step.above), self.of(step.below)
        (a, b, c), named = let(
            where(reverse, below, above), self.of(step.beside), where(reverse, above, below)
        )
        total, gap, twice = a + c, a - c, b + b
        size, between = abs(gap), abs(twice)
        ratio = where(size > between, between, size) / maximum(maximum(size, between), TINY)
        root = maximum(size, between) * sqrt(fma(ratio, ratio, ONE))
        (root, total, gap), rooted = let(root, total, gap)
        larger, smaller = where(abs(a) > abs(c), a, c), where(abs(a) > abs(c), c, a)
        first = where(eq(total, 0), root, total + copysign(root, total)) * 0.5
        divisor = where(eq(first, 0), 1, first)
        second = (larger / divisor) * smaller - (b / divisor) * b
        (first, second), solved = let(first, where(eq(total, 0), root * -0.5, second))
        summed = where(gap < 0, gap - root, gap + root)
        wide, none = abs(summed) > between, eq(between, 0)
        slope = -where(wide, twice, summed) / where(wide, summed, where(none, 1, twice))
        (slope,), sloped = let(slope)
        long = 1 / sqrt(fma(slope, slope, ONE))
        cosine = where(wide, slope * long, where(none, 1, long))
        sine = where(wide, long, where(none, 0, slope * long))
        (cosine, sine), turned = let(cosine, sine)
        same = eq(total < 0, gap < 0)
        cosine, sine = where(same, -sine, cosine), where(same, cosine, sine)
        return (
            named, rooted, solved, sloped, turned,
            self.store(step.above, where(reverse, second, first)),
            self.store(step.below, where(reverse, first, second)),
            self.store(step.beside, cosine),
            self.store(step.sine, where(reverse, sine, -sine)),
        )  # fmt: skip

    def _rotated(self, start: Scalar, stop: Scalar) -> Body:
        """A step: rotations of neighbouring rows, from the last pair in any lane to the first.

        The diagonal element of the upper row and the element beside it stay in registers for the
        next rotation, also in lanes that are not affected.
        """
        d, e, a, block, step = self.diagonal, self.beside, self.a, self.block, self.step
        t, k = index("t", self.n), index("k", self.n)
        (first, end), named = let(self.of(block.first), self.of(block.end))
        (is_two,), tested = let(eq(end, first + 1))
        labels = ("cosine", "sine", "less", "g", "below", "behind")
        cosine, sine, less, g, below, behind = state = tuple(local(DOUBLE, x) for x in labels)
        i = start + stop - 1 - t
        (above, beside, active), given = let(self.of(d, i), self.of(e, i), (i >= first) & (i < end))
        (c, s, r), rotated = _rotation(g, sine * beside)
        (c, s, b), chosen = let(
            where(is_two, self.of(step.beside), c),
            where(is_two, self.of(step.sine), s),
            cosine * beside,
        )
        (shifted,), less_shift = let(below - less)
        (change,), changed = let(fma(above - shifted, s, 2 * c * b))
        (new_less, new_g), made = let(s * change, fma(c, change, -b))
        (own_c, own_s, is_first), kept = let(
            where(active, c, 1), where(active, s, 0), active & eq(i, first)
        )
        (x, y), loaded = let(self.of(a, k, i), self.of(a, k, i + 1))
        columns = self.loop(
            k, 0, self.n, loaded,
            self.store(a, fma(own_c, x, -(own_s * y)), k, i),
            self.store(a, fma(own_c, y, own_s * x), k, i + 1),
        )  # fmt: skip
        lower_row = where(is_two, self.of(step.below), shifted + new_less)
        upper_row = where(is_two, self.of(step.above), above - new_less)
        return (
            named, tested,
            Let(state,
                (ONE, ONE, NOTHING, self.of(step.shift), self.of(d, stop), self.of(e, stop))),
            self.loop(
                t, start, stop, given, rotated, chosen, less_shift, changed, made, kept,
                self.store(e, where(active, where(eq(i + 1, end), 0, r), behind), i + 1),
                self.store(d, where(active, lower_row, below), i + 1),
                Assign(state, (
                    where(active, c, cosine), where(active, s, sine),
                    where(active, new_less, less), where(active, new_g, g),
                    where(is_first, upper_row, above),
                    where(is_first, where(is_two, 0, new_g), beside),
                )),
                *((columns,) if self.has_vectors else ()),
            ),
            self.store(d, below, start),
            self.store(e, behind, start),
        )  # fmt: skip

    # -- results -----------------------------------------------------------------------------------

    def _unpacked(self, order: Buffer, values: Buffer, vectors: Buffer | None) -> Body:
        n, lane, at = self.n, self.lane, self.at()
        i, k, place = index("i", n), index("k", n), local(INDEX, "place")
        power = load(self.power, (lane,))
        value = load(self.diagonal, (place, lane)) * power
        body: Body = (
            Let((place,), (bounded(load(order, (k, lane)), n, "clip"),)),
            Store(values, (*at, k), convert(value, values.dtype)),
        )
        if vectors is not None:
            element = where(eq(power, power), load(self.a, (i, place, lane)), np.nan)
            store = Store(vectors, (*at, self.line(i), k), convert(element, vectors.dtype))
            body = (*body, self.loop(i, 0, n, store))
        return (self.loop(k, 0, n, *body),)


def _rotation(x: Scalar, y: Scalar) -> tuple[tuple[Scalar, ...], Let]:
    """The rotation that annihilates ``y``, and the new ``x`` (LAPACK's `lartg`)."""
    squares = fma(x, x, y * y)
    nothing = squares < TINY
    inverse = 1 / sqrt(where(nothing, 1, squares))
    signed = where(x < 0, -inverse, inverse)
    return let(
        where(nothing, 1, abs(x) * inverse),
        where(nothing, 0, y * signed),
        where(nothing, x, squares * signed),
    )

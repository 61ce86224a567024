"""Jacobi rotations of disjoint pairs of rows in parallel, in the order of a tournament.

Numbers are tuples of their parts: real ones have one, complex ones two. So a rule is written once
for symmetric and for Hermitian matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrans.loop.nodes import ZERO, as_index
from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    copysign,
    eq,
    maximum,
    minimum,
    ne,
    sqrt,
    where,
)
from functrans.loop.statements import Buffer, Let, Reduce, Statement, Store, load, local
from functrans.ops.compiled.emission import Position

Body = tuple[Statement, ...]

SWEEPS = 60
"""Passes over all pairs at most: six to ten are enough, or 25 for matrices of rank 30 of 60."""

THOROUGH = 8
"""The number of passes in which all pairs are rotated."""

NEGLECTED = 1e-3
"""Later, those are not that have less of what is to be rotated than this part of the largest."""

Number = tuple[Scalar, ...]
"""The real part, and the imaginary one of a complex number."""


def plus(x: Number, y: Number) -> Number:
    return tuple(a + b for a, b in zip(x, y, strict=True))


def minus(x: Number, y: Number) -> Number:
    return tuple(a - b for a, b in zip(x, y, strict=True))


def times(x: Number, y: Number) -> Number:
    if len(x) == 1:
        return (x[0] * y[0],)
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def scaled(x: Number, factor: Scalar) -> Number:
    return tuple(part * factor for part in x)


def conjugate(x: Number) -> Number:
    return (x[0], *(-part for part in x[1:]))


def size(x: Number) -> Scalar:
    """The absolute value, without squares that overflow or vanish."""
    if len(x) == 1:
        return abs(x[0])
    re, im = map(abs, x)
    largest, smallest = maximum(re, im), minimum(re, im)
    ratio = smallest / where(eq(largest, 0), 1, largest)
    return largest * sqrt(1 + ratio * ratio)


def named(values: Sequence[Scalar]) -> tuple[tuple[Scalar, ...], Let]:
    """Numbers that are computed once, and their names."""
    names = tuple(local(x.dtype, "x") for x in values)
    return names, Let(names, tuple(values))


class Matrix(NamedTuple):
    """A matrix in memory: a buffer for each part of its numbers.

    Parameters
    ----------
    parts : tuple of Buffer
    at : tuple of Scalar
        Where in memory its rows begin.
    """

    parts: tuple[Buffer, ...]
    at: Position = ()

    def load(self, row: Scalar, column: Scalar) -> Number:
        return tuple(load(part, (*self.at, row, column)) for part in self.parts)

    def store(self, row: Scalar, column: Scalar, value: Number) -> tuple[Store, ...]:
        return tuple(
            Store(part, (*self.at, row, column), x)
            for part, x in zip(self.parts, value, strict=True)
        )


class Limits(NamedTuple):
    """Tolerances: numbers as good as zero beside numbers of size 1.

    Parameters
    ----------
    rounding : float
        Of the product of two vectors, beside the product of their lengths.
    tiny : float
        In any case: quotients of smaller numbers would be inexact.
    short : float
        Squares of smaller numbers would be.
    """

    rounding: float
    tiny: float
    short: float

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Limits:
        about = np.finfo(dtype)
        eps, least = float(about.eps), float(about.tiny)
        return cls(eps, least / eps, least**0.5 / eps)


class Rotation(NamedTuple):
    """A Jacobi rotation of cosine ``c = 1 - less`` and sine ``s``: makes two rows diagonal.

    It takes ``p`` and ``q`` to ``c p - conj(s) q`` and ``s p + c q``.
    """

    less: Scalar
    sine: Number

    def __call__(self, p: Number, q: Number) -> tuple[Number, Number]:
        """Two numbers of a row, which the rotation is applied to from the right.

        As Rutishauser has it, what is added is small where the angle is, and so is its rounding.
        """
        less, sine = self
        first = plus(scaled(p, less), times(conjugate(sine), q))
        second = minus(times(sine, p), scaled(q, less))
        return minus(p, first), plus(q, second)

    @property
    def from_left(self) -> Rotation:
        """The one that is applied to two numbers of a column."""
        return Rotation(self.less, conjugate(self.sine))


def rotation(first: Scalar, second: Scalar, between: Number) -> tuple[Rotation, Scalar]:
    """The rotation for two elements of a diagonal and the one between them; what they change by.

    The angle is 45 degrees at the most (Golub and Van Loan, Matrix Computations, 8.5.2): of the
    first element, the change is taken away, to the second it is added.
    """
    dtype = first.dtype
    length = size(between)
    counts = length > Limits.of(dtype).tiny
    divisor = where(counts, length, 1)
    cotangent = (second - first) / (divisor + divisor)
    tangent = 1 / (abs(cotangent) + sqrt(1 + cotangent * cotangent))
    tangent = where(counts, copysign(tangent, cotangent), 0)
    cosine = 1 / sqrt(1 + tangent * tangent)
    sine = tangent * cosine
    return (
        Rotation(sine * sine / (1 + cosine), tuple(part / divisor * sine for part in between)),
        tangent * length,
    )


def threshold(sweep: Scalar, largest: Scalar) -> Scalar:
    """The threshold of a pass: an element of a pair that is no larger stays for another one.

    Of equal eigenvalues any vectors will do. They are what rounding makes them, anew in each pass,
    and as long as they are turned among each other, what is between them and others is not done.
    """
    zero = const(0, largest.dtype)
    return where(sweep < THOROUGH, zero, largest * NEGLECTED)


class Tournament(NamedTuple):
    """The order of pairs: in each round all of an even number meet, in all rounds each other once.

    One stays in its place, and the others go round (Brent and Luk, "The solution of
    singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985).
    """

    members: int

    @property
    def rounds(self) -> int:
        return self.members - 1

    @property
    def pairs(self) -> int:
        return self.members // 2

    def pair(self, round_: Scalar, number: Scalar) -> tuple[Scalar, Scalar]:
        """Who are the pair of some number in a round."""
        rounds = self.rounds
        ahead, behind = round_ + number, round_ - number
        return (
            where(ahead < rounds, ahead, ahead - rounds),
            where(eq(number, 0), rounds, where(behind < 0, behind + rounds, behind)),
        )


class Scale(NamedTuple):
    """Scaling of matrices to size 1, by powers of two: exact.

    Parameters
    ----------
    power, reciprocal : Scalar
        About the largest absolute value of an element, and what it is multiplied by. If there is an
        infinity, as LAPACK has it, everything is NaN.
    finite : Scalar
        Whether there is none.
    """

    power: Scalar
    reciprocal: Scalar
    finite: Scalar

    @classmethod
    def of(cls, largest: Scalar) -> Scale:
        about = np.finfo(largest.dtype)
        integer = np.dtype(f"i{largest.dtype.itemsize}")
        fraction, bias = int(about.nmant), int(about.maxexp) - 1
        # of both, the exponents are those of normal numbers, with room for sums of squares
        furthest = 2.0 ** (bias - fraction - 2)
        inside = minimum(maximum(largest, 1 / furthest), furthest)
        exponent = bitcast(inside, integer) & const(-1 << fraction, integer)
        opposite = bitcast(const(2 * bias << fraction, integer) - exponent, largest.dtype)
        finite = ne(largest, np.inf)
        return cls(bitcast(exponent, largest.dtype), where(finite, opposite, np.nan), finite)


def scale_of(size: Scalar, indices: Sequence[Scalar], lanes: int) -> tuple[Scale, Body]:
    """The scale of matrices with elements of this size."""
    largest = local(size.dtype, "largest")
    loops = tuple((each, ZERO, as_index(each.attribute[2])) for each in indices)
    made = Scale.of(largest)
    names = Scale(*(local(x.dtype, name) for name, x in made._asdict().items()))
    return names, (
        Reduce((largest,), ("max",), (size,), loops, lanes=lanes),
        Let(tuple(names), tuple(made)),
    )

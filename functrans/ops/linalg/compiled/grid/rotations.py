"""Jacobi rotations of disjoint pairs of rows in parallel, in the order of a tournament.

A number is a tuple of its parts: one for a real number, two for a complex one. So rules serve both
symmetric and Hermitian matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from functrans.loop.nodes import ZERO, as_index
from functrans.loop.scalar import Scalar, const, copysign, eq, maximum, minimum, sqrt, where
from functrans.loop.statements import Buffer, Let, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Position
from functrans.ops.linalg.compiled.scaling import Scale
from functrans.records import NamedTuple

SWEEPS = 60
"""The most sweeps over all pairs: six to ten usually suffice, 25 for rank 30 of 60 rows."""

THOROUGH = 8
"""The number of initial sweeps in which all pairs are rotated."""

NEGLECTED = 1e-3
"""In later sweeps, pairs are skipped whose element is less than this fraction of the largest."""

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
    """The absolute value, without overflow or underflow of squares."""
    if len(x) == 1:
        return abs(x[0])
    re, im = map(abs, x)
    largest, smallest = maximum(re, im), minimum(re, im)
    ratio = smallest / where(eq(largest, 0), 1, largest)
    return largest * sqrt(1 + ratio * ratio)


def named(label: str, values: Sequence[Number]) -> tuple[list[Number], Let]:
    """Bind numbers to locals."""
    names = [tuple(local(part.dtype, label) for part in value) for value in values]
    return names, Let(tuple(chain(*names)), tuple(chain(*values)))


class Matrix(NamedTuple):
    """A matrix in memory: a buffer for each part of its numbers."""

    parts: tuple[Buffer, ...]
    at: Position = ()  # the position of its rows in memory

    def load(self, row: Scalar, column: Scalar) -> Number:
        return tuple(load(part, (*self.at, row, column)) for part in self.parts)

    def store(self, row: Scalar, column: Scalar, value: Number) -> tuple[Store, ...]:
        return tuple(
            Store(part, (*self.at, row, column), x)
            for part, x in zip(self.parts, value, strict=True)
        )


class Limits(NamedTuple):
    """Tolerances below which numbers are negligible relative to 1."""

    rounding: float  # for the product of two vectors, relative to the product of their lengths
    tiny: float  # absolute: quotients of smaller numbers would be inexact
    short: float  # absolute: squares of smaller numbers would be inexact

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
        """Apply the rotation to two numbers of a row, from the right.

        By Rutishauser's formula, the update is small for small angles, like its rounding error.
        """
        less, sine = self
        first = plus(scaled(p, less), times(conjugate(sine), q))
        second = minus(times(sine, p), scaled(q, less))
        return minus(p, first), plus(q, second)

    @property
    def from_left(self) -> Rotation:
        """The rotation to be applied to two numbers of a column, from the left."""
        return Rotation(self.less, conjugate(self.sine))


def rotation(first: Scalar, second: Scalar, between: Number) -> tuple[Rotation, Scalar]:
    """The rotation that annihilates the element between two diagonal ones, and their change.

    The angle is at most 45 degrees (Golub and Van Loan, Matrix Computations, 8.5.2). The change is
    subtracted from the first diagonal element, and added to the second.
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
    """The threshold of a sweep: pairs with smaller elements are skipped.

    Eigenvectors of equal eigenvalues are arbitrary, and change with rounding in each sweep.
    Rotating them among each other would delay convergence of the elements between them and others.
    """
    zero = const(0, largest.dtype)
    return where(sweep < THOROUGH, zero, largest * NEGLECTED)


class Tournament(NamedTuple):
    """Round-robin ordering: each round pairs all of an even number of rows, all rounds all pairs.

    One row keeps its position, and the others rotate (Brent and Luk, "The solution of
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
        """The rows of a pair in a round."""
        rounds = self.rounds
        ahead, behind = round_ + number, round_ - number
        return (
            where(ahead < rounds, ahead, ahead - rounds),
            where(eq(number, 0), rounds, where(behind < 0, behind + rounds, behind)),
        )


def scale_of(size: Scalar, indices: Sequence[Scalar], lanes: int) -> tuple[Scale, Body]:
    """The scale of matrices with elements of a size."""
    largest = local(size.dtype, "largest")
    loops = tuple((each, ZERO, as_index(each.attribute[2])) for each in indices)
    made = Scale.of(largest)
    names = Scale(*(local(x.dtype, name) for name, x in made._asdict().items()))
    return names, (
        Reduce((largest,), ("max",), (size,), loops, lanes=lanes),
        Let(tuple(names), tuple(made)),
    )

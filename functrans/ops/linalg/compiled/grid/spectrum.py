"""Common parts of both forms of Jacobi's method: elements and tolerances."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, const, eq, maximum, minimum, sqrt, where
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.grid.rotations import Limits, Matrix, Number, size
from functrans.ops.linalg.compiled.grid.teams import Team


class Spectrum(Team):
    """The Hermitian matrix at an index of the leading axes, given by a triangle."""

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.given = tuple(emission.operand(i) for i in range(len(emission.eqn.inputs)))
        self.lower = emission.eqn.params["lower"]
        self.limits = Limits.of(self.dtype)

    def element(self, row: Scalar, column: Scalar) -> Number:
        """An element of the matrix."""
        above, below = minimum(row, column), maximum(row, column)
        place = (below, above) if self.lower else (above, below)
        re, *im = Matrix(self.given, self.at).load(*place)
        if not im:
            return (re,)
        turned = column > row if self.lower else column < row
        part = where(turned, -im[0], im[0])
        return re, where(eq(row, column), const(0, self.dtype), part)

    def share(self, first: Scalar, second: Scalar, value: Number) -> Scalar:
        """The size of an element relative to the diagonal; 0 if it is negligible."""
        length, among = size(value), between(first, second)
        tiny, one = const(self.limits.tiny, self.dtype), const(1, self.dtype)
        nothing = length <= maximum(among * self.limits.rounding, tiny)
        share = minimum(length / maximum(among, tiny), one)
        return where(nothing, const(0, self.dtype), share)


def between(first: Scalar, second: Scalar) -> Scalar:
    """The geometric mean of the absolute values of two diagonal elements."""
    return sqrt(abs(first)) * sqrt(abs(second))


def rotated_or_kept(
    first: Scalar, second: Scalar, value: Number, least: Scalar
) -> tuple[Number, Number]:
    """The part of an element that a rotation annihilates, and the kept part: one is zero."""
    stays, zero = size(value) <= least * between(first, second), const(0, first.dtype)
    given = tuple(where(stays, zero, part) for part in value)
    return given, tuple(where(stays, part, zero) for part in value)

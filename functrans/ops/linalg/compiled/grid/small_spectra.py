"""Spectra of small Hermitian matrices by Jacobi's method, unrolled in one thread's registers.

Pairs are rotated in row order (Golub and Van Loan, Matrix Computations, 8.5.3), with the tolerances
and convergence test of `functrans.ops.linalg.compiled.grid.jacobi`. Finally values and vectors are
sorted by exchanging neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations

from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const, eq, maximum, where
from functrans.loop.statements import Assign, Buffer, Let, Store, While
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import ensure, let
from functrans.ops.linalg.compiled.grid.rotations import (
    SWEEPS,
    Matrix,
    Number,
    conjugate,
    named,
    rotation,
    scaled,
    threshold,
)
from functrans.ops.linalg.compiled.grid.spectrum import Spectrum, rotated_or_kept
from functrans.ops.linalg.compiled.grid.teams import Teams
from functrans.ops.linalg.compiled.scaling import Scale
from functrans.ops.linalg.matrices import Matrices


def fits(at: Emission) -> bool:
    """Whether a thread has registers for a matrix, and for its eigenvectors if requested."""
    n, dtype = at.eqn.inputs[0].aval.shape[-1], at.eqn.inputs[0].aval.dtype
    numbers = n * (n + 1) // 2 * len(at.eqn.inputs) + n * n * (len(at.eqn.outputs) - 1)
    room = at.target[Teams].most_in_registers
    return n <= at.target[Matrices].largest and numbers * dtype.itemsize <= room


def spectrum(at: Emission) -> None:
    """Eigenvalues, and eigenvectors if these are asked for, of symmetric or Hermitian matrices."""
    values, *vectors = (at.result(number) for number in range(len(at.eqn.outputs)))
    _Unrolled(at, values, Matrix(tuple(vectors)))


class _Unrolled(Spectrum):
    """The statements for the matrix at an index of the leading axes."""

    def __init__(self, at: Emission, values: Buffer, vectors: Matrix) -> None:
        super().__init__(at)
        self.places = [const(i, INDEX) for i in range(self.n)]
        self.pairs = list(combinations(range(self.n), 2))
        self.body: list[Let | Assign | While | Store] = []
        one, zero = const(1, self.dtype), const(0, self.dtype)
        scale = self._scaled()
        units = ((one if i == j else zero, zero) for i in range(self.n) for j in range(self.n))
        parts = len(vectors.parts)
        self.turned = self._let("v", [unit[:parts] for unit in units]) if parts else []
        if self.pairs:
            self._rotate(scale)
        self._sort()
        values_of = (x[0] * scale.power for x in self._diagonal())
        for i, value in zip(self.places, values_of, strict=True):
            self.body.append(Store(values, (*self.at, i), value))
        placed = Matrix(vectors.parts, self.at)
        for number, vector in enumerate(self.turned):
            row, column = divmod(number, self.n)
            self.body += placed.store(self.places[row], self.places[column], vector)
        self.call(tuple(self.body))

    def _let(self, label: str, values: Sequence[Number]) -> list[Number]:
        """Locals with initial values."""
        names, declared = named(label, values)
        self.body.append(declared)
        return names

    def _scaled(self) -> Scale:
        """The upper triangle in locals, scaled to size 1, except for 1 x 1 matrices."""
        triangle = [(i, j) for i in range(self.n) for j in range(i, self.n)]
        given = [self.element(self.places[i], self.places[j]) for i, j in triangle]
        elements = self._let("a", [tuple(map(self.emission.simplify, x)) for x in given])
        if self.n == 1:
            self.elements = dict(zip(triangle, elements, strict=True))
            one = const(1, self.dtype)
            return Scale(one, one, eq(one, one))
        largest = reduce(maximum, (abs(part) for x in elements for part in x))
        (scale,) = (Scale(*each) for each in self._let("scale", [tuple(Scale.of(largest))]))
        made = self._let("a", [scaled(x, scale.reciprocal) for x in elements])
        self.elements = dict(zip(triangle, made, strict=True))
        return scale

    def _element(self, row: int, column: int) -> Number:
        found = self.elements[min(row, column), max(row, column)]
        return found if row <= column else conjugate(found)

    def _diagonal(self) -> list[Number]:
        return [self.elements[i, i] for i in range(self.n)]

    def _rotate(self, scale: Scale) -> None:
        (sweep,), (rest,), (least,) = self._let(
            "sweep", [(ZERO,), (const(0, self.dtype),), (const(0, self.dtype),)]
        )
        shares = [self.share(*self._pair(p, q)) for p, q in self.pairs]
        turns: Body = (Assign((least,), (threshold(sweep, rest),)),)
        for p, q in self.pairs:
            turns = (*turns, *self._turn(p, q, least))
        well = eq(rest, 0) | ~scale.finite
        self.body += [
            While(
                (Assign((rest,), (reduce(maximum, shares),)),),
                (rest > 0) & (sweep < SWEEPS),
                (*turns, Assign((sweep,), (sweep + 1,))),
            ),
            ensure(well, EIGENVALUES_NOT_CONVERGED),
        ]

    def _pair(self, p: int, q: int) -> tuple[Scalar, Scalar, Number]:
        return self.elements[p, p][0], self.elements[q, q][0], self.elements[p, q]

    def _turn(self, p: int, q: int, least: Scalar) -> Body:
        first, second, value = self._pair(p, q)
        given, rest = rotated_or_kept(first, second, value, least)
        made, change = rotation(first, second, given)
        names, declared = let(made.less, *made.sine, change)
        own = made._replace(less=names[0], sine=tuple(names[1:-1]))
        changed: list[tuple[Number, Number]] = [
            (self.elements[p, p][:1], (first - names[-1],)),
            (self.elements[q, q][:1], (second + names[-1],)),
            (value, rest),
        ]
        for k in set(range(self.n)) - {p, q}:
            both = own(self._element(k, p), self._element(k, q))
            for column, new in zip((p, q), both, strict=True):
                place = self.elements[min(k, column), max(k, column)]
                changed.append((place, new if k < column else conjugate(new)))
        if self.turned:
            for k in range(self.n):
                places = [self.turned[k * self.n + column] for column in (p, q)]
                changed += zip(places, own(*places), strict=True)
        targets = tuple(x for place, _ in changed for x in place)
        return declared, Assign(targets, tuple(x for _, new in changed for x in new))

    def _sort(self) -> None:
        """Sort by exchanges of neighbours."""
        values = [(x[0],) for x in self._diagonal()]
        for turn in range(self.n):
            for i in range(turn % 2, self.n - 1, 2):
                ((swap,),) = self._let("swap", [(values[i + 1][0] < values[i][0],)])
                columns = [(self.turned[k * self.n + i], self.turned[k * self.n + i + 1])
                           for k in range(self.n) if self.turned]  # fmt: skip
                pairs = [
                    pair
                    for x, y in [(values[i], values[i + 1]), *columns]
                    for pair in zip(x, y, strict=True)
                ]
                targets = tuple(x for pair in pairs for x in pair)
                new = tuple(
                    where(swap, other, own)
                    for x, y in pairs
                    for own, other in ((x, y), (y, x))
                )  # fmt: skip
                self.body.append(Assign(targets, new))

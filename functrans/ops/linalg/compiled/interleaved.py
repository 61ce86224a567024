"""Small matrices across vector lanes: each lane of a vector computes a matrix of its own.

The matrices of a stack are processed in groups of as many as vectors have lanes. They are copied
to an interleaved layout, in which an element of all matrices of a group is one vector. A group with
fewer matrices than lanes has copies of the last one in the others. No arithmetic combines lanes, so
results depend neither on the other matrices of a stack, nor on a matrix's position in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from functrans.loop.failures import NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, as_index, index, separated
from functrans.loop.scalar import Scalar, const, convert, eq, maximum, minimum, where
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import ensure, let
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.scaling import Scale
from functrans.records import NamedTuple


class Interleaving(NamedTuple):
    """Thresholds for spectra and singular values of small matrices across vector lanes.

    Measured: all of them (2 to 32 rows, 1 to 1000 matrices).
    """

    fewest_matrices: int = 2
    """The fewest matrices of a stack: for a single one, LAPACK takes 0.7 to 1.4 times as long, and
    its call compiles in 0.02 s instead of 0.15 s."""
    most_rows: int = 32
    """The most rows of matrices whose eigenvalues are computed across lanes."""
    most_rows_with_vectors: int = 25
    """The same with eigenvectors: for larger matrices LAPACK uses another algorithm (divide and
    conquer), which chooses other signs."""
    most_rotated: int = 8
    """The most rows and columns of matrices whose singular values are computed across lanes."""
    many: int = 16
    """The fewest matrices of a stack with which nearly all lanes are used."""
    most_rotated_of_many: int = 16
    """The most rows and columns of matrices of such a stack."""
    most_bytes_of_two: int = 1 << 15
    """The most bytes of a group that fills two vectors, whose operations are independent of each
    other: larger groups exceed the first-level cache."""


class Interleaved:
    """The statements for a group of matrices, in double precision as in NumPy."""

    def __init__(self, at: Emission) -> None:
        self.emission = at
        self.given = at.operand(0)
        *leading, self.rows, self.columns = self.given.extents
        self.leading = tuple(leading)
        self.count = prod(leading)
        self.lanes = _lanes(at, self.count, self.rows * self.columns)
        self.group = index("group", -(-self.count // self.lanes))
        self.lane = index("lane", self.lanes)
        self.stack: list[Buffer] = []

    def memory(self, name: str, *shape: int, dtype: np.dtype[np.generic] = DOUBLE) -> Buffer:
        """Memory for a group: an array of vectors."""
        self.stack.append(buffer(name, dtype, (*shape, self.lanes)))
        return self.stack[-1]

    def of(self, memory: Buffer, *position: Scalar | int) -> Scalar:
        """An element, in all lanes."""
        return load(memory, self._place(position))

    def store(self, memory: Buffer, value: Scalar, *position: Scalar | int) -> Store:
        """Store an element, in all lanes."""
        return Store(memory, self._place(position), value)

    def _place(self, position: Sequence[Scalar | int]) -> Position:
        return (*map(self._number, position), self.lane)

    def _number(self, x: Scalar | int) -> Scalar:
        return self.emission.simplify(as_index(x))

    def in_lanes(self, *body: Statement) -> For:
        """Execute statements in all lanes at once."""
        return For(self.lane, ZERO, as_index(self.lanes), body, self.lanes, whole=True)

    def over_lanes(self, op: str, value: Scalar) -> tuple[Scalar, Reduce]:
        """A number that combines those of all lanes."""
        target = local(value.dtype, op)
        loop = (self.lane, ZERO, as_index(self.lanes))
        return target, Reduce((target,), (op,), (value,), (loop,), lanes=self.lanes, whole=True)

    def loop(self, i: Scalar, start: Scalar | int, stop: Scalar | int, *body: Statement) -> For:
        """A loop over rows or columns, the same in all lanes."""
        return For(i, self._number(start), self._number(stop), body)

    def folded(
        self, op: str, value: Scalar, i: Scalar, start: Scalar | int, stop: Scalar | int
    ) -> tuple[Scalar, Reduce]:
        """A number that combines those of a loop, in each lane."""
        (target,), fold = self.all_folded(op, (value,), i, start, stop)
        return target, fold

    def all_folded(
        self, op: str, values: tuple[Scalar, ...], i: Scalar, start: Scalar | int,
        stop: Scalar | int,
    ) -> tuple[tuple[Scalar, ...], Reduce]:  # fmt: skip
        """The same for several numbers."""
        targets = tuple(local(value.dtype, op) for value in values)
        loop = (i, self._number(start), self._number(stop))
        return targets, Reduce(targets, (op,) * len(values), values, (loop,))

    def in_turn(self, *body: Statement, only_given: bool = False) -> For:
        """Execute statements lane by lane, for all lanes or for those with a given matrix."""
        stop = as_index(self.lanes)
        if only_given:
            stop = self._number(minimum(self.count - self.group * self.lanes, stop))
        return For(self.lane, ZERO, stop, body)

    def at(self) -> Position:
        """The position of a lane's matrix in the stack."""
        number = self.group * self.lanes + self.lane
        if self.count % self.lanes:
            number = minimum(number, as_index(self.count - 1))
        return tuple(map(self._number, separated(number, self.leading)))

    def copied(self, memory: Buffer, i: Scalar, j: Scalar, row: Scalar, column: Scalar) -> Store:
        """Copy an element of a lane's matrix."""
        element = load(self.given, (*self.at(), row, column))
        return Store(memory, (i, j, self.lane), convert(element, DOUBLE))

    def scaled(self, memory: Buffer, rows: int, stop: Callable[[Scalar], Scalar | int],
               power: Buffer, status: int) -> Body:  # fmt: skip
        """Scale matrices to size 1 by powers of two; returns the factor of results.

        ``stop`` gives the number of elements in each row. As in LAPACK, infinities make everything
        NaN, and NaN is a failure with a ``status``, unless that is 0. Both would never converge, so
        such matrices become zeros.
        """
        i, j = index("i", rows), index("j", max(self.rows, self.columns))
        a, zero = self.of(memory, i, j), const(0, DOUBLE)
        largest = local(DOUBLE, "largest")
        maximised = Assign((largest,), (maximum(largest, abs(a)),))
        scale, finite, well = Scale.of(largest), largest < np.inf, eq(largest, largest)
        (exponent, factor), named = let(
            where(finite, scale.power, np.nan), where(finite, scale.reciprocal, 0)
        )
        check = ensure(well, status or NOT_CONVERGED)
        return (
            Let((largest,), (zero,)),
            self.loop(i, 0, rows, self.loop(j, 0, stop(i), maximised)),
            *((check,) if status else ()),
            named,
            self.store(power, exponent),
            self.loop(
                i, 0, rows,
                self.loop(j, 0, stop(i), self.store(memory, where(finite, a * factor, 0), i, j)),
            ),
        )  # fmt: skip

    def ordered(self, values: Buffer, *, descending: bool = False) -> tuple[Buffer, Body]:
        """Rank sort in each lane: the position of the first value, of the second, and so on."""
        n = values.extents[0]
        ranks, order = self.memory("ranks", n, dtype=INDEX), self.memory("order", n, dtype=INDEX)
        i, j, k = (index(label, n) for label in "ijk")
        value, other = self.of(values, i), self.of(values, j)
        before = value < other if descending else other < value
        before = before | (eq(other, value) & (j < i))
        rank, ranked = self.folded("add", where(before, as_index(1), ZERO), j, 0, n)
        is_here = eq(self.of(ranks, j), k)
        found, placed = self.folded("add", where(is_here, j, ZERO), j, 0, n)
        return order, (
            self.loop(i, 0, n, ranked, self.store(ranks, rank, i)),
            self.loop(k, 0, n, placed, self.store(order, found, k)),
        )

    def call(self, body: Body, *, uncounted: int = 0) -> None:
        """Execute statements for each group; threads share the groups."""
        stop = as_index(self.group.attribute[2])
        loop = For(self.group, ZERO, stop, body, parallel=True)
        largest = max(self.rows, self.columns, self.lanes)
        self.emission.call(
            (loop,), uncounted=uncounted * self.count, stack=self.stack, largest_constant=largest
        )


def _lanes(at: Emission, matrices: int, elements: int) -> int:
    """The number of matrices in a group, as many as fill one vector or two, and at least two."""
    full, lanes = at.target.lanes(DOUBLE.itemsize), 2
    if 2 * full * elements * DOUBLE.itemsize <= at.target[Interleaving].most_bytes_of_two:
        full *= 2
    while lanes < min(full, matrices):
        lanes *= 2
    return lanes

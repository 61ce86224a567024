"""Linear algebra by teams of threads: on a GPU, one team factors one matrix, in its shared memory.

Cholesky factors are computed by columns (Cholesky-Banachiewicz), and LU factors in Crout's order:
each element is an inner product of earlier elements, computed by one thread, so that threads wait
for each other only between columns. Rows in shared memory are padded by one number, so that
neighbours in a column are in different banks. Matrices that do not fit are in the device's memory
instead, which is slower.
"""

from __future__ import annotations

from collections.abc import Callable

from functrans.loop.failures import NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, index, required
from functrans.loop.scalar import BOOL, Scalar, const, convert, eq, ne, sqrt, where
from functrans.loop.statements import (
    Buffer,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import dealt, ensure, ensure_regular, nest
from functrans.ops.linalg.compiled import lapack
from functrans.ops.linalg.compiled.grid.views import Columns, Triangle
from functrans.ops.linalg.compiled.lapack import INT, Factors
from functrans.records import NamedTuple


class Teams(NamedTuple):
    """Thresholds for matrices of a team of threads, or of one thread's registers. Not measured."""

    largest_of_team: int = 128
    """The most rows of matrices that a team of threads factorises although there is a library,
    whose several launches, which wait for the host, take longer."""
    largest_rotated: int = 64
    """The same for eigenvalues and singular values: rotations traverse a matrix some eight times,
    and larger ones do not fit into shared memory."""
    most_in_registers: int = 256
    """The most bytes of a matrix and its eigenvectors that one thread holds in its registers: a
    quarter of them."""
    most_in_turn: int = 32
    """The most larger matrices of a stack that the library factorises one after the other; for
    more, as many teams as there are multiprocessors work at once."""


def cholesky(at: Emission) -> None:
    """Triangular factors of positive definite matrices."""
    team = Team(at)
    factor, n, dtype = at.result(), team.n, team.dtype
    rows, diagonal = team.rows("rows", n), buffer("diagonal", dtype, (n,))
    i, j, k = (index(label, n) for label in "ijk")

    square, product = local(dtype, "square"), local(dtype, "product")
    sums = Reduce(
        (square, product),
        ("add", "add"),
        (_square(load(rows, (j, k))), load(rows, (i, k)) * load(rows, (j, k))),
        ((k, ZERO, j),),
    )
    rest = load(rows, (j, j)) - square
    # NaN does not count as a failure, as in LAPACK
    root = required(~(rest <= 0), sqrt(rest), NOT_POSITIVE_DEFINITE)
    below = Store(rows, (i, j), (load(rows, (i, j)) - product) / root)
    # the other threads still read the diagonal element
    element = If(eq(i, j), (Store(diagonal, (j,), root),), (below,))
    column = team.shared(i, j, n, (sums, element))

    row, place = index("i", n), index("j", n)
    value = where(eq(row, place), load(diagonal, (row,)), load(rows, (row, place)))
    zero = const(0, dtype)
    done = Store(factor, (*team.at, row, place), where(place > row, zero, value))
    body = (
        team.copied(rows, n, lambda i, j: load(team.a, (*team.at, i, j))),
        For(j, ZERO, as_index(n), (column,)),
        *team.dealt((row, place), (done,)),
    )
    team.call(body, (rows, diagonal))


def triangular_solve(at: Emission) -> None:
    """Solutions with triangular matrices, by substitution."""
    params = at.eqn.params
    lower, turned = params["lower"], params["transpose_a"]
    team = Team(at)

    def element(row: Scalar, column: Scalar) -> Scalar:
        return load(team.a, (*team.at, *((column, row) if turned else (row, column))))

    triangle = Triangle(element, lower != turned, params["unit_diagonal"])
    b = at.operand(1)
    before = () if triangle.unit_diagonal else ensure_regular(team.a, team.at)
    team.solve(before, lambda x: team.substituted(triangle, x), b.extents[-1], team.column_of(b))


def solve(at: Emission) -> None:
    """Solutions, from the factors of the matrices."""
    team = Team(at)
    b = at.operand(1)
    _solve(team, b.extents[-1], team.column_of(b), at.eqn.params["transpose_a"])


def inv(at: Emission) -> None:
    """Inverses, from the factors of the matrices: solutions for the identity matrix."""
    team = Team(at)
    one = const(1, team.dtype)
    _solve(team, team.n, lambda i, j: where(eq(i, j), one, const(0, team.dtype)), False)


def lu(at: Emission) -> None:
    """Both factors in one matrix, the row exchanges, and the resulting permutation."""
    team = Team(at)
    factors, pivots, order = (at.result(number) for number in range(3))
    rows = team.rows("rows", team.columns)
    i, j, member = index("i", team.n), index("j", team.columns), index("i", team.n)

    def exchanged(step: Scalar) -> Scalar:
        return convert(load(pivots, (*team.at, step)), INDEX)

    place, undo = lapack.undone(member, team.steps, exchanged)
    found = (*undo, Store(order, (*team.at, member), convert(place, INT)))
    body = (
        team.copied(rows, team.columns, team.column_of(team.a)),
        team.eliminated(rows, pivots, first=0),
        *team.dealt((i, j), (Store(factors, (*team.at, i, j), load(rows, (i, j))),)),
        team.shared(member, 0, team.n, found),
    )
    team.call(body, (rows,))


def det(at: Emission) -> None:
    """Determinants, from the factors of the matrices."""
    lapack.det(at, Team(at).factors())


def slogdet(at: Emission) -> None:
    """Signs and logarithms of determinants, from the factors of the matrices."""
    lapack.slogdet(at, Team(at).factors())


def _solve(
    team: Team, columns: int, right: Callable[[Scalar, Scalar], Scalar], transpose_a: bool
) -> None:
    factors = team.factors()

    def element(row: Scalar, column: Scalar) -> Scalar:
        return load(factors.lower_upper, (*team.at, row, column))

    def turned(row: Scalar, column: Scalar) -> Scalar:
        return element(column, row)

    regular = eq(load(factors.info, (*team.at, ZERO)), 0)
    before = (ensure(regular, SINGULAR),)

    def steps(x: Columns) -> Body:
        if transpose_a:
            return (
                *team.substituted(Triangle(turned, True, False), x),
                *team.substituted(Triangle(turned, False, True), x),
                *team.exchanged(factors, x, backwards=True),
            )
        return (
            *team.exchanged(factors, x, backwards=False),
            *team.substituted(Triangle(element, True, True), x),
            *team.substituted(Triangle(element, False, False), x),
        )

    team.solve(before, steps, columns, right)


class Team:
    """The statements for the matrix at an index of the leading axes."""

    def __init__(self, emission: Emission) -> None:
        self.emission = emission
        self.a = emission.operand(0)
        *leading, self.n, self.columns = self.a.extents
        self.steps = min(self.n, self.columns)
        self.dtype = self.a.dtype
        self.at = tuple(index("b", extent) for extent in leading)
        self.count = self.a.count // max(self.n * self.a.extents[-1], 1)

    # -- building blocks ----------------------------------------------------------------------

    def shared(self, i: Scalar, start: Scalar | int, stop: Scalar | int, body: Body) -> For:
        """A loop whose iterations are divided among threads."""
        lanes = min(self.emission.target.lanes(1), int(i.attribute[2]))
        return For(i, as_index(start), as_index(stop), body, lanes=max(lanes, 2))

    def dealt(self, loops: tuple[Scalar, ...], body: Body) -> Body:
        """Loops all of whose iterations are divided among threads."""
        return dealt(loops, body, self.emission.target)

    def rows(self, name: str, columns: int) -> Buffer:
        """The team's memory for a matrix with a number of columns."""
        return buffer(name, self.dtype, (self.n, columns + 1))

    def copied(
        self, target: Buffer, columns: int, value: Callable[[Scalar, Scalar], Scalar]
    ) -> Statement:
        """Copy elements into a matrix in the team's memory."""
        i, j = index("i", self.n), index("j", columns)
        (loop,) = self.dealt((i, j), (Store(target, (i, j), value(i, j)),))
        return loop

    def column_of(self, b: Buffer) -> Callable[[Scalar, Scalar], Scalar]:
        """The elements of right-hand sides."""
        return lambda i, j: load(b, (*self.at, i, j))

    def call(
        self, body: Body, stack: tuple[Buffer, ...] = (), writes: tuple[Buffer, ...] | None = None
    ) -> None:
        """Execute statements for each matrix."""
        self.emission.call(nest(self.at, body, parallel=True), stack=stack, writes=writes)

    def ordered(
        self, is_before: Scalar, pair: tuple[Scalar, Scalar], ranks: Buffer, order: Buffer
    ) -> Body:
        """Rank sort: the position of each element, given the comparison of a pair."""
        (first, second), n = pair, order.extents[0]
        before, found = local(INDEX, "before"), local(INDEX, "found")
        count = where(is_before, const(1, INDEX), ZERO)
        ranked = (
            Reduce((before,), ("add",), (count,), ((second, ZERO, as_index(n)),)),
            Store(ranks, (first,), before),
        )
        place, member = index("k", n), index("i", n)
        own = where(eq(load(ranks, (member,)), place), member, as_index(n))
        placed = (
            Reduce((found,), ("min",), (own,), ((member, ZERO, as_index(n)),)),
            Store(order, (place,), found),
        )
        return self.shared(first, 0, n, ranked), self.shared(place, 0, n, placed)

    # -- elimination --------------------------------------------------------------------------

    def factors(self) -> Factors:
        """The factors of the matrices, shared by all operations that need them."""

        def make() -> Factors:
            factors = Factors.scratch(self.emission, self.a)
            rows = self.rows("rows", self.n)
            self.call(self._factored(rows, factors), (rows,), factors)
            return factors

        return self.emission.shared((Team, self.a), make)

    def eliminated(self, rows: Buffer, pivots: Buffer, *, first: int) -> For:
        """Factorise a matrix in place; rows are counted from a first number on."""
        i, j = index("i", self.n), index("j", self.columns)
        k = index("k", self.steps)
        whole = (
            self._minus_products(rows, i, k, (i, k, self.n), k),
            *self._pivot(rows, pivots, k, first),
            self._minus_products(rows, k, j, (j, k + 1, self.columns), k),
            self._divided(rows, k),
        )
        return For(k, ZERO, as_index(self.steps), whole)

    def _factored(self, rows: Buffer, factors: Factors) -> Body:
        n = self.n
        row, column = index("i", n), index("j", n)
        store = Store(factors.lower_upper, (*self.at, row, column), load(rows, (row, column)))
        diagonal, regular = index("i", n), local(BOOL, "regular")
        is_regular = Reduce(
            (regular,),
            ("and",),
            (ne(load(rows, (diagonal, diagonal)), 0),),
            ((diagonal, ZERO, as_index(n)),),
            lanes=self.emission.target.lanes(1),
        )
        info = where(regular, const(0, INT), const(1, INT))
        return (
            self.copied(rows, n, lambda i, j: load(self.a, (*self.at, i, j))),
            self.eliminated(rows, factors.pivots, first=1),
            is_regular,
            Store(factors.info, (*self.at, ZERO), info),
            *self.dealt((row, column), (store,)),
        )

    def _minus_products(
        self, rows: Buffer, row: Scalar, column: Scalar, loop: tuple[Scalar, Scalar, int],
        step: Scalar,
    ) -> For:  # fmt: skip
        """An element minus the inner product of the elements to its left and those above it."""
        k, product = index("k", self.steps), local(self.dtype, "product")
        value = load(rows, (row, k)) * load(rows, (k, column))
        fold = Reduce((product,), ("add",), (value,), ((k, ZERO, step),))
        rest = load(rows, (row, column)) - product
        return self.shared(*loop, (fold, Store(rows, (row, column), rest)))

    def _pivot(self, rows: Buffer, pivots: Buffer, k: Scalar, first_row: int) -> Body:
        """Exchange row k with the row of a column's largest element from the diagonal on."""
        n, lanes = self.n, self.emission.target.lanes(1)
        i, j = index("i", n), index("i", n)
        largest, first = local(self.dtype, "largest"), local(INDEX, "first")
        size, other = abs(load(rows, (i, k))), abs(load(rows, (j, k)))
        found = where(eq(other, largest), j, as_index(n))
        loop = (k, as_index(n))
        # a column with a NaN has no largest element
        pivot = bounded(where(first < n, first, k), n, "clip")
        column = index("j", self.columns)
        here, there = local(self.dtype, "here"), local(self.dtype, "there")
        place = local(INDEX, "pivot")
        exchange = (
            Let((here, there), (load(rows, (k, column)), load(rows, (place, column)))),
            Store(rows, (k, column), there),
            Store(rows, (place, column), here),
        )
        return (
            Reduce((largest,), ("max",), (size,), ((i, *loop),), lanes=lanes),
            Reduce((first,), ("min",), (found,), ((j, *loop),), lanes=lanes),
            Let((place,), (pivot,)),
            Store(pivots, (*self.at, k), convert(place + first_row, INT)),
            self.shared(column, 0, self.columns, exchange),
        )

    def _divided(self, rows: Buffer, k: Scalar) -> For:
        """Divide the elements below the diagonal by the pivot; if that is 0, all of them are 0."""
        i, pivot = index("i", self.n), load(rows, (k, k))
        value = load(rows, (i, k)) / where(eq(pivot, 0), 1, pivot)
        return self.shared(i, k + 1, self.n, (Store(rows, (i, k), value),))

    # -- substitution -------------------------------------------------------------------------

    def solve(
        self, before: Body, steps: Callable[[Columns], Body], columns: int,
        right: Callable[[Scalar, Scalar], Scalar],
    ) -> None:  # fmt: skip
        """The solutions for right-hand sides.

        Of many columns, each thread solves one. If there are few, all threads share each row.
        """
        result, n = self.emission.result(), self.n
        c = index("c", columns)
        if columns >= self.emission.target.lanes(1):
            i = index("i", n)
            x = Columns(result, self.at, c, True)
            given = For(i, ZERO, as_index(n), (x.store(i, c, right(i, c)),))
            body: Body = (For(c, ZERO, as_index(columns), (given, *steps(x)), parallel=True),)
            self.call((*before, *body))
            return
        rows = buffer("columns", self.dtype, (n, columns))
        x = Columns(rows, (), c, False)
        row = index("i", n)
        done = self.dealt((row, c), (Store(result, (*self.at, row, c), x.load(row, c)),))
        body = (*before, self.copied(rows, columns, right), *steps(x), *done)
        self.call(body, (rows,))

    def substituted(self, triangle: Triangle, x: Columns) -> Body:
        """Solve with a triangle, in place of the right-hand sides."""
        return self._by_columns(triangle, x) if x.apart else self._by_rows(triangle, x)

    def _by_columns(self, triangle: Triangle, x: Columns) -> Body:
        """Substitution by inner products with the earlier elements of a solution."""
        n, lower = self.n, triangle.lower
        i, k = index("i", n), index("k", n)
        row = i if lower else n - 1 - i
        product = local(self.dtype, "product")
        loop = (k, ZERO, row) if lower else (k, row + 1, as_index(n))
        value = triangle.element(row, k) * x.load(k, x.column)
        rest = x.load(row, x.column) - product
        if not triangle.unit_diagonal:
            rest = rest / triangle.element(row, row)
        fold = Reduce((product,), ("add",), (value,), (loop,))
        return (For(i, ZERO, as_index(n), (fold, x.store(row, x.column, rest))),)

    def _by_rows(self, triangle: Triangle, x: Columns) -> Body:
        """Substitution by subtracting the multiples of each element from all later ones."""
        n = self.n
        step, i, c = index("k", n), index("i", n), index("j", x.extent)
        row = step if triangle.lower else n - 1 - step
        known, divided = x.load(row, c), x.load(i, c)
        if not triangle.unit_diagonal:
            known = known / triangle.element(row, row)
            divided = divided / triangle.element(i, i)
        rest = x.load(i, c) - triangle.element(i, row) * known
        after = i > row if triangle.lower else i < row
        store = If(after, (x.store(i, c, rest),))
        loop = For(step, ZERO, as_index(n), self.dealt((i, c), (store,)))
        if triangle.unit_diagonal:
            return (loop,)
        return (loop, *self.dealt((i, c), (x.store(i, c, divided),)))

    def exchanged(self, factors: Factors, x: Columns, *, backwards: bool) -> Body:
        """Permute the rows to the order of the pivots, or back."""
        n, c = self.n, x.column
        i = index("i", n)
        row = n - 1 - i if backwards else i
        pivot = convert(load(factors.pivots, (*self.at, row)), INDEX) - 1
        place = local(INDEX, "pivot")
        here, there = local(self.dtype, "here"), local(self.dtype, "there")
        body = (
            Let((place,), (bounded(pivot, n, "clip"),)),
            Let((here, there), (x.load(row, c), x.load(place, c))),
            x.store(row, c, there),
            x.store(place, c, here),
        )
        loop = For(i, ZERO, as_index(n), body)
        return (loop,) if x.apart else (self.shared(c, 0, x.extent, (loop,)),)


def _square(x: Scalar) -> Scalar:
    return x * x

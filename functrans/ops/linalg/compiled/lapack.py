"""LAPACK and BLAS calls: linear algebra on larger matrices.

The routines see row-major matrices as their transposes: a lower triangle as an upper one. With the
factors of the transpose, they solve for the original matrix by their flag for transposition.
Workspaces have the leading axes, too: threads share the matrices of a stack.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans import vecmath
from functrans.loop.failures import NOT_CONVERGED, NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert, eq, where
from functrans.loop.statements import (
    Address,
    Assign,
    Buffer,
    Call,
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
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import ensure, ensure_regular
from functrans.ops.linalg.compiled import pivoting
from functrans.ops.linalg.compiled.written_out import logarithm
from functrans.records import NamedTuple

INT = np.dtype(np.int32)

PREFIXES = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}

BLOCK = 64
"""The block size for which ``getri`` has workspace."""

Statements = tuple[Statement, ...]


class Factors(NamedTuple):
    """Triangular factors in memory, of the transposes of matrices."""

    lower_upper: Buffer  # both factors of each matrix in one matrix, as ``getrf`` returns them
    pivots: Buffer  # the row with which each row was exchanged, counted from 1
    info: Buffer  # not 0 where a matrix is singular

    @classmethod
    def scratch(cls, at: Emission, a: Buffer) -> Factors:
        """Memory for the factors of a stack of matrices."""
        *leading, n, _ = a.extents
        return cls(
            at.scratch("lu", a.dtype, (*leading, n, n)),
            at.scratch("pivots", INT, (*leading, n)),
            at.scratch("info", INT, (*leading, 1)),
        )


def solve(at: Emission) -> None:
    """Solutions, from the factors of the matrices."""
    a, b = at.operand(0), at.operand(1)
    factors = _factors(at, a)
    x, calls = at.result(), Calls(a)
    _call(at, calls, calls.solve(factors, b, x, **at.eqn.params), x)


def inv(at: Emission) -> None:
    """Inverses, from the factors of the matrices."""
    a = at.operand(0)
    factors = _factors(at, a)
    inverse, calls = at.result(), Calls(a)
    _call(at, calls, calls.inv(factors, inverse), inverse)


def det(at: Emission, factors: Factors | None = None) -> None:
    """Determinants, from the factors of the matrices."""
    calls = Calls(at.operand(0))
    at.call(calls.for_each(calls.det(factors or _factors(at, calls.a), at.result())))


def slogdet(at: Emission, factors: Factors | None = None) -> None:
    """Signs and logarithms of determinants, from the factors of the matrices."""
    calls = Calls(at.operand(0))
    factors = factors or _factors(at, calls.a)
    at.call(calls.for_each(calls.slogdet(factors, at.result(0), at.result(1))))


def cholesky(at: Emission) -> None:
    """Triangular factors of positive definite matrices."""
    a, factor = at.operand(0), at.result()
    calls = Calls(a)
    _call(at, calls, calls.cholesky(factor), factor)


def triangular_solve(at: Emission) -> None:
    """Solutions with triangular matrices."""
    a, b = at.operand(0), at.operand(1)
    x, calls = at.result(), Calls(a)
    _call(at, calls, calls.solve_triangular(b, x, **at.eqn.params), x)


def cofactor(at: Emission) -> None:
    """Cofactors, from the singular values."""
    a, target = at.operand(0), at.result()
    calls = Calls(a)
    if calls.count:
        _call(at, calls, calls.cofactor(target), target, times=20)


def _call(at: Emission, calls: Calls, body: Statements, result: Buffer, times: int = 1) -> None:
    """Execute statements for each matrix; they take about the time of a matrix product."""
    columns = result.extents[-1]
    at.call(calls.for_each(body), uncounted=2 * times * calls.count * columns)


def _factors(at: Emission, a: Buffer) -> Factors:
    """The factors of the transposes of matrices, shared by all operations that need them."""

    def make() -> Factors:
        factors = Factors.scratch(at, a)
        if pivoting.is_profitable(at, a):
            pivoting.factorise(at, a, *factors)
        else:
            calls = Calls(a)
            statements = calls.for_each(calls.factorise(factors))
            at.call(statements, uncounted=2 * calls.count * calls.n // 3, writes=factors)
        return factors

    return at.shared((_factors, a), make)


def undone(
    position: Scalar, steps: int, exchanged: Callable[[Scalar], Scalar]
) -> tuple[Scalar, Statements]:
    """The row that arrives at a position after row exchanges, from the last one back.

    In each step, that row changes places with the row ``exchanged(step)``.
    """
    row, step = local(INDEX, "place"), index("k", steps)
    last = steps - 1 - step
    other = exchanged(last)
    before = where(eq(row, last), other, where(eq(row, other), last, row))
    loop = For(step, ZERO, const(steps, INDEX), (Assign((row,), (before,)),))
    return row, (Let((row,), (position,)), loop)


class LibraryCalls:
    """Common statements for the matrix at an index of the leading axes."""

    def __init__(self, a: Buffer) -> None:
        *leading, self.n = a.extents[:-1]
        self.a = a
        self.dtype = a.dtype
        self.leading = tuple(leading)
        self.count = a.count
        self.at = tuple(index("b", extent) for extent in leading)

    def for_each(self, body: Statements) -> Statements:
        """Loops over the leading axes."""
        for depth in reversed(range(len(self.at))):
            stop = const(self.leading[depth], INDEX)
            body = (For(self.at[depth], ZERO, stop, body, parallel=depth == 0),)
        return body

    @property
    def prefix(self) -> str:
        """The first letter of the names of routines."""
        return PREFIXES[self.dtype]

    def _regular(self, factors: Factors) -> Scalar:
        """Whether the matrix is not singular."""
        return eq(load(factors.info, (*self.at, ZERO)), 0)

    def _getrf(self, factors: Factors) -> Call:
        """Factorise the matrix that is in the memory for its factors."""
        n = self.n
        return self._call(
            "getrf", n, n, factors.lower_upper, n, factors.pivots, factors.info,
            reads=(factors.lower_upper,), writes=factors,
        )  # fmt: skip

    def _stayed(self, factors: Factors, i: Scalar) -> Scalar:
        """Whether a row was not exchanged; each exchange changes the determinant's sign."""
        return eq(convert(load(factors.pivots, (*self.at, i)), INDEX), i + 1)

    def _copy(self, uplo: bytes, source: Buffer, target: Buffer, columns: int) -> Statement:
        """Copy a matrix, or a triangle of it."""
        return self._call(
            "lacpy", uplo, columns, self.n, source, columns, target, columns,
            reads=(source,), writes=(target,),
        )  # fmt: skip

    def _transpose(self, source: Buffer, target: Buffer, rows: int, columns: int) -> Statement:
        """Loops that copy a matrix with its axes exchanged."""
        i, j = index("i", rows), index("j", columns)
        value = convert(load(source, (*self._place(source), i, j)), target.dtype)
        store = Store(target, (*self._place(target), j, i), value)
        inner = For(j, ZERO, const(columns, INDEX), (store,))
        return For(i, ZERO, const(rows, INDEX), (inner,))

    def _place(self, memory: Buffer) -> Position:
        """The position of the matrix's data in a buffer with leading axes."""
        return self.at

    def _work(self, result: Buffer, name: str, dtype: np.dtype[np.generic], *shape: int) -> Buffer:
        """Working memory for a result."""
        return buffer(f"{result.name}_{name}", dtype, (*self.leading, *shape))

    def _call(
        self, routine: str, *arguments: Buffer | Scalar | bytes | int,
        reads: tuple[Buffer, ...] = (), writes: tuple[Buffer, ...] = (),
    ) -> Call:  # fmt: skip
        """The call of a routine on the matrices at the current index."""
        passed = tuple(map(self._argument, arguments))
        return Call(self.prefix + routine, passed, reads, writes)

    def _argument(self, argument: Buffer | Scalar | bytes | int) -> Address | Scalar | bytes:
        if isinstance(argument, Buffer):
            place = self._place(argument)
            inner = (ZERO,) * (len(argument.shape) - len(place))
            return Address(argument, (*place, *inner))
        return convert(const(argument, INDEX), INT) if isinstance(argument, int) else argument


class Calls(LibraryCalls):
    """The statements for the matrix at an index of the leading axes.

    The names of the routines and of their arguments are those of LAPACK's documentation.
    """

    def factorise(self, factors: Factors) -> Statements:
        return self._copy(b"A", self.a, factors.lower_upper, self.n), self._getrf(factors)

    def solve(self, factors: Factors, b: Buffer, x: Buffer, *, transpose_a: bool) -> Statements:
        n, columns = b.extents[-2:]
        turned = self._work(x, "turned", self.dtype, columns, n)
        info = self._work(x, "info", INT, 1)
        trans = b"N" if transpose_a else b"T"
        getrs = self._call(
            "getrs", trans, n, columns, factors.lower_upper, n, factors.pivots, turned, n, info,
            reads=(factors.lower_upper, factors.pivots, turned), writes=(turned, info),
        )  # fmt: skip
        return (
            ensure(self._regular(factors), SINGULAR),
            self._transpose(b, turned, n, columns),
            getrs,
            self._transpose(turned, x, columns, n),
        )

    def inv(self, factors: Factors, inverse: Buffer) -> Statements:
        n, info = self.n, self._work(inverse, "info", INT, 1)
        room = self._work(inverse, "room", self.dtype, BLOCK, n)
        getri = self._call(
            "getri", n, inverse, n, factors.pivots, room, BLOCK * n, info,
            reads=(inverse, factors.pivots), writes=(inverse, room, info),
        )  # fmt: skip
        return (
            ensure(self._regular(factors), SINGULAR),
            self._copy(b"A", factors.lower_upper, inverse, n),
            getri,
        )

    def cholesky(self, factor: Buffer) -> Statements:
        n, zero = self.n, const(0, self.dtype)
        info = self._work(factor, "info", INT, 1)
        return (
            self._call("laset", b"L", n, n, zero, zero, factor, n, writes=(factor,)),
            self._copy(b"U", self.a, factor, n),
            self._call("potrf", b"U", n, factor, n, info, reads=(factor,), writes=(factor, info)),
            ensure(eq(load(info, (*self.at, ZERO)), 0), NOT_POSITIVE_DEFINITE),
        )

    def solve_triangular(
        self, b: Buffer, x: Buffer, *, lower: bool, transpose_a: bool, unit_diagonal: bool
    ) -> Statements:
        n, columns = b.extents[-2:]
        uplo, diag = b"U" if lower else b"L", b"U" if unit_diagonal else b"N"
        # a matrix on the left is its transpose on the right to BLAS
        left, right = (b"N", b"T") if transpose_a else (b"T", b"N")
        if columns == 1:
            solve = self._call(
                "trsv", uplo, left, diag, n, self.a, n, x, 1, reads=(self.a, x), writes=(x,)
            )
        else:
            solve = self._call(
                "trsm", b"R", uplo, right, diag, columns, n, const(1, self.dtype), self.a, n,
                x, columns, reads=(self.a, x), writes=(x,),
            )  # fmt: skip
        check = () if unit_diagonal else ensure_regular(self.a, self.at)
        return (*check, self._copy(b"A", b, x, columns), solve)

    def det(self, factors: Factors, target: Buffer) -> Statements:
        before, sign, total = self._sign_and_logarithm(factors)
        return (before, Store(target, self.at, sign * vecmath.exp(total)))

    def slogdet(self, factors: Factors, sign: Buffer, logarithm: Buffer) -> Statements:
        before, *values = self._sign_and_logarithm(factors)
        return (before, Store(sign, self.at, values[0]), Store(logarithm, self.at, values[1]))

    def cofactor(self, target: Buffer) -> Statements:
        """Cofactors from the inverse, if that is accurate enough; otherwise from singular values.

        The latter work for singular matrices, and take ten times as long.
        """
        before, is_exact = self._from_inverse(target)
        return (*before, If(is_exact, (), self._from_singular_values(target)))

    def _from_inverse(self, target: Buffer) -> tuple[Statements, Scalar]:
        """Determinants times transposed inverses, and whether that is accurate.

        It is if the condition number of the matrix leaves three quarters of the digits.
        """
        n, dtype = self.n, self.dtype
        factors, info = self._factors_of(target, "own"), self._work(target, "solved", INT, 1)
        one, zero = const(1, dtype), const(0, dtype)
        i, j = index("i", n), index("j", n)
        place, stop = (*self.at, i, j), const(n, INDEX)
        loops = tuple((each, ZERO, stop) for each in (i, j))
        pivot = load(factors.lower_upper, (*self.at, i, i))
        det, largest, inverse = (local(dtype, label) for label in ("det", "largest", "inverse"))
        most = float(np.finfo(dtype).eps) ** -0.25
        is_exact = (largest * inverse * n < most) & (abs(det) > 0) & (abs(det) < np.inf)
        scale = Store(target, place, det, "mul")
        return (
            *self.factorise(factors),
            Reduce((det,), ("mul",), (where(self._stayed(factors, i), pivot, -pivot),), loops[:1]),
            self._call("laset", b"A", n, n, zero, one, target, n, writes=(target,)),
            self._call(
                "getrs", b"T", n, n, factors.lower_upper, n, factors.pivots, target, n, info,
                reads=(factors.lower_upper, factors.pivots, target), writes=(target, info),
            ),
            Reduce((largest,), ("max",), (abs(load(self.a, place)),), loops),
            Reduce((inverse,), ("max",), (abs(load(target, place)),), loops),
            For(i, ZERO, stop, (For(j, ZERO, stop, (scale,)),)),
        ), self._regular(factors) & is_exact  # fmt: skip

    def _from_singular_values(self, target: Buffer) -> Statements:
        """Cofactors from singular values, by calls of LAPACK and BLAS.

        Composed of operations, as on a grid, they take 1.3 to 1.6 times as long in float32.
        """
        n, dtype = self.n, self.dtype
        copied, u, vt = (self._work(target, name, dtype, n, n) for name in ("copy", "u", "vt"))
        s, info = self._work(target, "s", dtype, n), self._work(target, "info", INT, 1)
        columns = 4 * n + 128
        room = self._work(target, "room", dtype, columns, n)
        integers = self._work(target, "integers", INT, 8, n)
        gesdd = self._call(
            "gesdd", b"A", n, n, copied, n, s, u, n, vt, n, room, columns * n, integers, info,
            reads=(copied,), writes=(copied, s, u, vt, room, integers, info),
        )  # fmt: skip
        one, zero = const(1, dtype), const(0, dtype)
        gemm = self._call(
            "gemm", b"N", b"N", n, n, n, one, u, n, vt, n, zero, target, n,
            reads=(u, vt), writes=(target,),
        )  # fmt: skip
        before_u, sign_u = self._sign_of(u)
        before_vt, sign_vt = self._sign_of(vt)
        return (
            self._copy(b"A", self.a, copied, n),
            gesdd,
            ensure(eq(load(info, (*self.at, ZERO)), 0), NOT_CONVERGED),
            *before_u,
            *before_vt,
            self._times_others(u, s, sign_u * sign_vt),
            gemm,
        )

    def _sign_of(self, a: Buffer) -> tuple[Statements, Scalar]:
        """The determinant of an orthogonal matrix in working memory."""
        calls = Calls(a)
        calls.at = self.at
        factors = self._factors_of(a)
        fold, sign, _ = calls._sign_and_logarithm(factors)
        return (*calls.factorise(factors), fold), sign

    def _factors_of(self, a: Buffer, name: str = "factor") -> Factors:
        """Working memory for the factors of a matrix in working memory."""
        return Factors(
            self._work(a, f"{name}_lu", a.dtype, self.n, self.n),
            self._work(a, f"{name}_pivots", INT, self.n),
            self._work(a, f"{name}_info", INT, 1),
        )

    def _times_others(self, u: Buffer, s: Buffer, sign: Scalar) -> Statement:
        """Multiply each row by all other singular values."""
        i, j, k = (index(label, self.n) for label in "ijk")
        factor = local(self.dtype, "others")
        one, stop = const(1, self.dtype), const(self.n, INDEX)
        other = where(eq(i, j), one, load(s, (*self.at, j)))
        fold = Reduce((factor,), ("mul",), (other,), ((j, ZERO, stop),))
        store = Store(u, (*self.at, i, k), sign * factor, "mul")
        return For(i, ZERO, stop, (fold, For(k, ZERO, stop, (store,))))

    def _sign_and_logarithm(self, factors: Factors) -> tuple[Statement, Scalar, Scalar]:
        """Sign and logarithm of the determinant: the product of the pivots might overflow."""
        i = index("i", self.n)
        pivot = load(factors.lower_upper, (*self.at, i, i))
        one, minus = const(1, self.dtype), const(-1, self.dtype)
        turn = where(self._stayed(factors, i), one, minus) * where(pivot < 0, minus, one)
        sign, total = local(self.dtype, "sign"), local(self.dtype, "logarithm")
        loop = (i, ZERO, const(self.n, INDEX))
        fold = Reduce((sign, total), ("mul", "add"), (turn, logarithm(abs(pivot))), (loop,))
        regular = self._regular(factors)
        return fold, where(regular, sign, 0), where(regular, total, -np.inf)

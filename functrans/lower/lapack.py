"""Linear algebra on larger matrices, as calls of LAPACK and BLAS.

Row-major matrices are what the routines take for their transposes: the lower triangle of ours is
the upper one of theirs, and ``solve`` asks them to transpose. Working copies have the leading axes,
too: threads share the matrices of a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from functrans.ir.failures import NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.ir.graph import Eqn
from functrans.ir.nodes import INDEX, index, required
from functrans.ir.primitive import registry
from functrans.ir.scalar import BOOL, Scalar, const, convert, eq, ne, where
from functrans.lower.loops import (
    Address,
    Buffer,
    Call,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.lower.matrices import logarithm
from functrans.lower.pull import ZERO

INT = np.dtype(np.int32)

PREFIXES = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}

BLOCK = 64
"""Columns that ``getri`` has room to treat at once."""

Position = tuple[Scalar, ...]
Statements = tuple[Statement, ...]


def call(eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer]) -> Statements:
    """The statements that compute the results of an equation into buffers."""
    if any(0 in x.aval.shape for x in eqn.outputs):
        return ()
    return _Calls(eqn, operands, targets).run()


def work(eqn: Eqn) -> int:
    """Roughly as many operations of a loop as take the time of an equation."""
    *leading, n, _ = eqn.inputs[0].aval.shape
    columns = eqn.inputs[1].aval.shape[-1] if len(eqn.inputs) == 2 else n
    return prod(leading) * n * n * (n + columns) // 8


class _Calls:
    """The statements for one matrix, in loops over the leading axes.

    The names of the routines' arguments are those of LAPACK's documentation.
    """

    def __init__(self, eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer]) -> None:
        *leading, _, self.n = eqn.inputs[0].aval.shape
        self.leading = tuple(leading)
        self.eqn = eqn
        self.operands = operands
        self.targets = targets
        self.dtype = operands[0].dtype
        self.at = tuple(index("b", extent) for extent in leading)

    def run(self) -> Statements:
        makers: dict[str, Callable[[], Statements]] = {
            "solve": self._solve,
            "triangular_solve": self._solve_triangular,
            "inv": self._inv,
            "cholesky": self._cholesky,
            "det": self._det,
            "slogdet": self._slogdet,
        }
        body = makers[self.eqn.primitive.name]()
        for depth in reversed(range(len(self.at))):
            stop = const(self.leading[depth], INDEX)
            body = (For(self.at[depth], ZERO, stop, body, parallel=depth == 0),)
        return body

    # -- the functions ------------------------------------------------------------------------

    def _solve(self) -> Statements:
        a, b = self.operands
        (x,) = self.targets
        columns = self.eqn.inputs[1].aval.shape[-1]
        factors, pivots, info = self._own("lu", self.n, self.n), self._pivots(), self._info()
        turned = self._own("turned", columns, self.n)
        solve = self._call(
            "getrs", b"T", self.n, columns, factors, self.n, pivots, turned, self.n, info,
            reads=(factors, pivots, turned), writes=(turned, info),
        )  # fmt: skip
        return (
            *self._factorise(a, factors, pivots, info),
            self._demand(eq(self._first(info), 0), SINGULAR),
            self._transposed(b, turned, self.n, columns),
            solve,
            self._transposed(turned, x, columns, self.n),
        )

    def _inv(self) -> Statements:
        (a,), (inverse,) = self.operands, self.targets
        pivots, info = self._pivots(), self._info()
        room = self._own("room", BLOCK, self.n)
        invert = self._call(
            "getri", self.n, inverse, self.n, pivots, room, BLOCK * self.n, info,
            reads=(inverse, pivots), writes=(inverse, room, info),
        )  # fmt: skip
        return (
            *self._factorise(a, inverse, pivots, info),
            # getri does nothing with a singular matrix
            invert,
            self._demand(eq(self._first(info), 0), SINGULAR),
        )

    def _cholesky(self) -> Statements:
        (a,), (factor,) = self.operands, self.targets
        n, info, zero = self.n, self._info(), const(0, self.dtype)
        zeros = self._call("laset", b"L", n, n, zero, zero, factor, n, writes=(factor,))
        factorise = self._call(
            "potrf", b"U", self.n, factor, self.n, info, reads=(factor,), writes=(factor, info)
        )
        return (
            zeros,
            self._copy(b"U", a, factor, self.n),
            factorise,
            self._demand(eq(self._first(info), 0), NOT_POSITIVE_DEFINITE),
        )

    def _solve_triangular(self) -> Statements:
        a, b = self.operands
        (x,) = self.targets
        columns = self.eqn.inputs[1].aval.shape[-1]
        params = self.eqn.params
        part = b"U" if params["lower"] else b"L"
        diag = b"U" if params["unit_diagonal"] else b"N"
        # from the left with our matrix is from the right with theirs, which is its transpose
        left, right = (b"N", b"T") if params["transpose_a"] else (b"T", b"N")
        if columns == 1:
            solve = self._call(
                "trsv", part, left, diag, self.n, a, self.n, x, 1, reads=(a, x), writes=(x,)
            )
        else:
            solve = self._call(
                "trsm", b"R", part, right, diag, columns, self.n, const(1, self.dtype),
                a, self.n, x, columns, reads=(a, x), writes=(x,),
            )  # fmt: skip
        check = () if params["unit_diagonal"] else self._demand_diagonal(a)
        return (*check, self._copy(b"A", b, x, columns), solve)

    def _det(self) -> Statements:
        before, sign, logarithm = self._sign_and_logarithm()
        exponential = registry["exp"].scalar
        assert exponential is not None
        (target,) = self.targets
        return (*before, Store(target, self.at, sign * exponential(logarithm)))

    def _slogdet(self) -> Statements:
        before, *values = self._sign_and_logarithm()
        stores = [Store(x, self.at, value) for x, value in zip(self.targets, values, strict=True)]
        return (*before, *stores)

    def _sign_and_logarithm(self) -> tuple[Statements, Scalar, Scalar]:
        """As NumPy has them: the product of the pivots might overflow on the way."""
        (a,) = self.operands
        factors, pivots, info = self._own("lu", self.n, self.n), self._pivots(), self._info()
        i = index("i", self.n)
        pivot = load(factors, (*self.at, i, i))
        stayed = eq(convert(load(pivots, (*self.at, i)), INDEX), i + 1)
        one, minus = const(1, self.dtype), const(-1, self.dtype)
        turn = where(stayed, one, minus) * where(pivot < 0, minus, one)
        sign, total = local(self.dtype, "sign"), local(self.dtype, "logarithm")
        loop = (i, ZERO, const(self.n, INDEX))
        fold = Reduce((sign, total), ("mul", "add"), (turn, logarithm(abs(pivot))), (loop,))
        regular = eq(self._first(info), 0)
        before = (*self._factorise(a, factors, pivots, info), fold)
        return before, where(regular, sign, 0), where(regular, total, -np.inf)

    # -- their parts --------------------------------------------------------------------------

    def _factorise(self, a: Buffer, factors: Buffer, pivots: Buffer, info: Buffer) -> Statements:
        """The factors of the transposed matrix, with partial pivoting."""
        n = self.n
        factorise = self._call(
            "getrf", n, n, factors, n, pivots, info,
            reads=(factors,), writes=(factors, pivots, info),
        )  # fmt: skip
        return self._copy(b"A", a, factors, n), factorise

    def _copy(self, part: bytes, source: Buffer, target: Buffer, columns: int) -> Statement:
        """Copy a matrix, or a triangle of it."""
        return self._call(
            "lacpy", part, columns, self.n, source, columns, target, columns,
            reads=(source,), writes=(target,),
        )  # fmt: skip

    def _transposed(self, source: Buffer, target: Buffer, rows: int, columns: int) -> Statement:
        """Loops that copy a matrix of so many rows and columns with its axes exchanged."""
        i, j = index("i", rows), index("j", columns)
        store = Store(target, (*self.at, j, i), load(source, (*self.at, i, j)))
        inner = For(j, ZERO, const(columns, INDEX), (store,))
        return For(i, ZERO, const(rows, INDEX), (inner,))

    def _demand_diagonal(self, a: Buffer) -> Statements:
        """Fail if there is a zero on the diagonal."""
        i = index("i", self.n)
        regular = local(BOOL, "regular")
        loop = (i, ZERO, const(self.n, INDEX))
        fold = Reduce((regular,), ("and",), (ne(load(a, (*self.at, i, i)), 0),), (loop,))
        return fold, self._demand(regular, SINGULAR)

    def _demand(self, condition: Scalar, status: int) -> Statement:
        """Fail unless a condition holds."""
        return Let((local(BOOL, "well"),), (required(condition, condition, status),))

    def _call(
        self,
        routine: str,
        *arguments: Buffer | Scalar | bytes | int,
        reads: tuple[Buffer, ...] = (),
        writes: tuple[Buffer, ...] = (),
    ) -> Call:
        """The call of a routine on the matrices at the current index."""
        passed = tuple(map(self._argument, arguments))
        return Call(PREFIXES[self.dtype] + routine, passed, reads, writes)

    def _argument(self, argument: Buffer | Scalar | bytes | int) -> Address | Scalar | bytes:
        if isinstance(argument, Buffer):
            inner = (ZERO,) * (len(argument.shape) - len(self.at))
            return Address(argument, (*self.at, *inner))
        return convert(const(argument, INDEX), INT) if isinstance(argument, int) else argument

    # -- working memory -----------------------------------------------------------------------

    def _own(self, name: str, *shape: int) -> Buffer:
        return buffer(f"{self.targets[0].name}_{name}", self.dtype, (*self.leading, *shape))

    def _pivots(self) -> Buffer:
        return buffer(f"{self.targets[0].name}_pivots", INT, (*self.leading, self.n))

    def _info(self) -> Buffer:
        return buffer(f"{self.targets[0].name}_info", INT, (*self.leading, 1))

    def _first(self, info: Buffer) -> Scalar:
        return load(info, (*self.at, ZERO))

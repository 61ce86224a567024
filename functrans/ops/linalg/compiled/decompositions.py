"""LAPACK calls: eigenvalues, singular values and QR factors of stacks of matrices.

The signs of vectors are LAPACK's choice. To agree with NumPy's, the routines receive column-major
matrices, as in NumPy. Only for QR they receive the transposes, as in
`functrans.ops.linalg.compiled.lapack`: LAPACK's LQ decomposition of the transpose is the QR
decomposition, by the same reflections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED, NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, convert, eq
from functrans.loop.statements import Buffer, For, Statement, Store, buffer, load
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.linalg.compiled.lapack import BLOCK, INT, LibraryCalls, Statements


def eigh(at: Emission) -> None:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors, lower = at.result(0), at.result(1), at.eqn.params["lower"]
    _emit(at, _InDouble, lambda calls: calls.eigh(values, vectors, lower=lower), 2)


def eigvalsh(at: Emission) -> None:
    """Eigenvalues of symmetric matrices."""
    values, lower = at.result(), at.eqn.params["lower"]
    _emit(at, _InDouble, lambda calls: calls.eigh(values, None, lower=lower), 1)


def svd(at: Emission) -> None:
    """Singular values and vectors."""
    u, s, vh = at.result(0), at.result(1), at.result(2)
    _emit(at, _InDouble, lambda calls: calls.svd(u, s, vh), 4)


def svdvals(at: Emission) -> None:
    """Singular values."""
    values = at.result()
    _emit(at, _InDouble, lambda calls: calls.svd(None, values, None), 1)


def qr(at: Emission) -> None:
    """Orthonormal columns and upper triangles."""
    q, r = at.result(0), at.result(1)
    _emit(at, _Reflections, lambda calls: calls.qr(q, r), 0.5)


def r(at: Emission) -> None:
    """Only the upper triangles."""
    factor = at.result()
    _emit(at, _Reflections, lambda calls: calls.qr(None, factor), 0.25)


def _emit(at: Emission, kind: Any, make: Callable[[Any], Statements], times: float) -> None:
    a = at.operand(0)
    emit_for_each(at, lambda on_stack: kind(a, on_stack), make, times)


def emit_for_each(
    at: Emission, kind: Callable[[bool], Any], make: Callable[[Any], Statements], times: float
) -> None:
    """Execute statements for each matrix; the time is given in operations for each multiplication.

    Workspace is on the stack of each thread if it fits: otherwise there would be one for each
    matrix of a stack, several times as much memory as the matrices.
    """
    calls = kind(True)
    body = make(calls)
    if sum(memory.nbytes for memory in calls.stack) > at.target.largest_scratch:
        calls = kind(False)
        body = make(calls)
    a = calls.a
    work = int(times * a.count * min(a.extents[-2:]))
    at.call(calls.for_each(body), work=work, stack=calls.stack)


DOUBLE = np.dtype(np.float64)


def block(n: int) -> int:
    """The block size for which workspace is provided; smaller matrices are not blocked."""
    return BLOCK if n > BLOCK // 2 else 1


class Decompositions(LibraryCalls):
    """The statements for the matrix at an index of the leading axes, with its number of columns."""

    def __init__(self, a: Buffer, on_stack: bool) -> None:
        super().__init__(a)
        self.columns = a.extents[-1]
        self.on_stack = on_stack
        self.stack: list[Buffer] = []

    def _work(self, result: Buffer, name: str, dtype: np.dtype[np.generic], *shape: int) -> Buffer:
        if not self.on_stack:
            return super()._work(result, name, dtype, *shape)
        memory = buffer(f"{result.name}_{name}", dtype, shape)
        self.stack.append(memory)
        return memory

    def _place(self, memory: Buffer) -> Position:
        return () if memory in self.stack else self.at


class _InDouble(Decompositions):
    """Spectra and singular values, always in double precision, as in NumPy."""

    def __init__(self, a: Buffer, on_stack: bool) -> None:
        super().__init__(a, on_stack)
        self.dtype = DOUBLE

    def eigh(self, values: Buffer, vectors: Buffer | None, *, lower: bool) -> Statements:
        n, info = self.n, self._work(values, "info", INT, 1)
        turned, found = (
            self._work(values, "turned", DOUBLE, n, n),
            self._work(values, "w", DOUBLE, n),
        )
        least = (2 * n + 6) * n if vectors is not None else 6 * n
        size = least + block(n) * n + 1
        room, integers = self._work(values, "room", DOUBLE, size), 5 * n + 3
        numbers = self._work(values, "integers", INT, integers)
        job, uplo = b"N" if vectors is None else b"V", b"L" if lower else b"U"
        syevd = self._call(
            "syevd", job, uplo, n, turned, n, found, room, size, numbers, integers, info,
            reads=(turned,), writes=(turned, found, room, numbers, info),
        )  # fmt: skip
        return (
            self._transpose(self.a, turned, n, n),
            syevd,
            self._require(eq(load(info, (*self._place(info), ZERO)), 0), EIGENVALUES_NOT_CONVERGED),
            self._converted(found, values, n),
            *(() if vectors is None else (self._transpose(turned, vectors, n, n),)),
        )

    def svd(self, u: Buffer | None, s: Buffer, vh: Buffer | None) -> Statements:
        m, n = self.n, self.columns
        k = min(m, n)
        turned, found = self._work(s, "turned", DOUBLE, n, m), self._work(s, "s", DOUBLE, k)
        size, info = (4 * k + 7) * k + block(k) * (m + n), self._work(s, "info", INT, 1)
        room = self._work(s, "room", DOUBLE, size)
        numbers = self._work(s, "integers", INT, 8 * k)
        job, left, right, wide, high = b"N", turned, turned, m, k
        vectors: tuple[Buffer, ...] = ()
        back: Statements = ()
        if u is not None and vh is not None:
            wide, high = u.extents[-1], vh.extents[-2]
            job = b"S" if wide == high == k else b"A"
            left = self._work(s, "left", DOUBLE, wide, m)
            right = self._work(s, "right", DOUBLE, n, high)
            vectors = (left, right)
            back = (self._transpose(left, u, wide, m), self._transpose(right, vh, n, high))
        gesdd = self._call(
            "gesdd", job, m, n, turned, m, found, left, m, right, high, room, size, numbers, info,
            reads=(turned,), writes=(turned, found, *vectors, room, numbers, info),
        )  # fmt: skip
        return (
            self._transpose(self.a, turned, m, n),
            gesdd,
            self._require(eq(load(info, (*self._place(info), ZERO)), 0), NOT_CONVERGED),
            self._converted(found, s, k),
            *back,
        )

    def _converted(self, source: Buffer, target: Buffer, size: int) -> Statement:
        """A loop that copies a vector."""
        i = index("i", size)
        value = convert(load(source, (*self._place(source), i)), target.dtype)
        store = Store(target, (*self._place(target), i), value)
        return For(i, ZERO, const(size, INDEX), (store,))


class _Reflections(Decompositions):
    """QR factors."""

    def qr(self, q: Buffer | None, r: Buffer) -> Statements:
        m, n, rows = self.n, self.columns, r.extents[-2]
        k = min(m, n)
        size = block(k) * max(m, n)
        factors = self._work(r, "factors", self.dtype, m, n)
        scales, info = self._work(r, "scales", self.dtype, k), self._work(r, "info", INT, 1)
        room, zero = self._work(r, "room", self.dtype, size), const(0, self.dtype)
        gelqf = self._call(
            "gelqf", n, m, factors, n, scales, room, size, info,
            reads=(factors,), writes=(factors, scales, room, info),
        )  # fmt: skip
        triangle = (
            self._call("laset", b"A", n, rows, zero, zero, r, n, writes=(r,)),
            self._call("lacpy", b"L", n, k, factors, n, r, n, reads=(factors,), writes=(r,)),
        )
        before = (self._copy(b"A", self.a, factors, n), gelqf, *triangle)
        if q is None:
            return before
        wide = q.extents[-1]
        rows_of_q = self._call(
            "lacpy", b"A", k, m, factors, n, q, wide, reads=(factors,), writes=(q,)
        )
        orglq = self._call(
            "orglq", wide, m, k, q, wide, scales, room, size, info,
            reads=(q, scales), writes=(q, room, info),
        )  # fmt: skip
        return (*before, rows_of_q, orglq)

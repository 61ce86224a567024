"""LAPACK calls for each matrix of a stack, with workspace, and QR factors of real matrices.

The signs of vectors are LAPACK's choice. To agree with NumPy's, most routines receive column-major
matrices (`functrans.ops.linalg.compiled.by_columns`). For QR of real ones they receive the
transposes, as in `functrans.ops.linalg.compiled.lapack`: LAPACK's LQ decomposition of the transpose
is the QR decomposition, by the same reflections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.loop.scalar import const
from functrans.loop.statements import Buffer, buffer
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.linalg.compiled.lapack import BLOCK, INT, LibraryCalls, Statements


def qr(at: Emission) -> None:
    """Orthonormal columns and upper triangles."""
    q, r = at.result(0), at.result(1)
    _emit(at, lambda calls: calls.qr(q, r), 0.5)


def r(at: Emission) -> None:
    """Only the upper triangles."""
    factor = at.result()
    _emit(at, lambda calls: calls.qr(None, factor), 0.25)


def _emit(at: Emission, make: Callable[[Any], Statements], times: float) -> None:
    a = at.operand(0)
    emit_for_each(at, lambda on_stack: _Reflections(a, on_stack), make, times)


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

"""Footprints of library routines: which elements of their operands they read and write.

The arguments of BLAS and LAPACK are those of the routines' documentation, in its order; matrices
lie column by column. Those of messages are in `functrans.loop.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrans.loop.access import Region
from functrans.loop.messages import message_of
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Call

Values = Sequence[Any]

ONE = np.asarray(1)


def footprint(call: Call, values: Values) -> Iterable[Region]:
    """The matrices that a call reads and writes; for an unknown routine, a `KeyError`."""
    message = message_of(call.symbol)
    if message is not None:
        return _MESSAGES[message.kind](values)
    return _ROUTINES[call.symbol[1:]](values)


def _vector(argument: int, count: Any, *, reads: bool = False, writes: bool = False) -> Region:
    count = np.asarray(count)
    return Region(argument, count, ONE, count, reads, writes)


def _matrix(
    argument: int,
    rows: Any,
    columns: Any,
    leading: Any,
    *,
    reads: bool = False,
    writes: bool = False,
    triangle: Any = b"A",
    offset: Any = 0,
) -> Region:
    """A matrix; ``triangle`` is an argument of LAPACK that says which part of it."""
    part = triangle.decode("ascii")
    rows, columns, leading, offset = map(np.asarray, (rows, columns, leading, offset))
    return Region(argument, rows, columns, leading, reads, writes, part, offset)


def _gemm(x: Values) -> Iterable[Region]:
    flag_a, flag_b, m, n, k, _, _, lda, _, ldb, beta, _, ldc = x
    yield _matrix(6, *((m, k) if flag_a == b"N" else (k, m)), lda, reads=True)
    yield _matrix(8, *((k, n) if flag_b == b"N" else (n, k)), ldb, reads=True)
    adds = not (isinstance(beta, Scalar) and beta.op in ("const", "zero") and not beta.attribute)
    yield _matrix(11, m, n, ldc, reads=adds, writes=True)


def _gemm_batch_strided(x: Values) -> Iterable[Region]:
    flag_a, flag_b, m, n, k, _, _, lda, apart_a, _, ldb, apart_b, beta, _, ldc, apart_c, count = x
    adds = not (isinstance(beta, Scalar) and beta.op in ("const", "zero") and not beta.attribute)
    a = (m, k) if flag_a == b"N" else (k, m)
    b = (k, n) if flag_b == b"N" else (n, k)
    for number in range(int(np.max(count))):
        yield _matrix(6, *a, lda, reads=True, offset=number * apart_a)
        yield _matrix(9, *b, ldb, reads=True, offset=number * apart_b)
        yield _matrix(13, m, n, ldc, reads=adds, writes=True, offset=number * apart_c)


def _syrk(x: Values) -> Iterable[Region]:
    uplo, flag, n, k, _, _, lda, beta, _, ldc = x
    yield _matrix(5, *((n, k) if flag == b"N" else (k, n)), lda, reads=True)
    adds = not (isinstance(beta, Scalar) and beta.op in ("const", "zero") and not beta.attribute)
    yield _matrix(8, n, n, ldc, reads=adds, writes=True, triangle=uplo)


def _getrf(x: Values) -> Iterable[Region]:
    m, n, _, lda, _, _ = x
    yield _matrix(2, m, n, lda, reads=True, writes=True)
    yield _vector(4, np.minimum(m, n), writes=True)
    yield _vector(5, 1, writes=True)


def _getrs(x: Values) -> Iterable[Region]:
    _, n, columns, _, lda, _, _, ldb, _ = x
    yield _matrix(3, n, n, lda, reads=True)
    yield _vector(5, n, reads=True)
    yield _matrix(6, n, columns, ldb, reads=True, writes=True)
    yield _vector(8, 1, writes=True)


def _getri(x: Values) -> Iterable[Region]:
    n, _, lda, _, _, room, _ = x
    yield _matrix(1, n, n, lda, reads=True, writes=True)
    yield _vector(3, n, reads=True)
    yield _vector(4, room, writes=True)
    yield _vector(6, 1, writes=True)


def _potrf(x: Values) -> Iterable[Region]:
    uplo, n, _, lda, _ = x
    yield _matrix(2, n, n, lda, reads=True, writes=True, triangle=uplo)
    yield _vector(4, 1, writes=True)


def _laset(x: Values) -> Iterable[Region]:
    uplo, m, n, _, _, _, lda = x
    yield _matrix(5, m, n, lda, writes=True, triangle=uplo)


def _lacpy(x: Values) -> Iterable[Region]:
    uplo, m, n, _, lda, _, ldb = x
    yield _matrix(3, m, n, lda, reads=True, triangle=uplo)
    yield _matrix(5, m, n, ldb, writes=True, triangle=uplo)


def _trsv(x: Values) -> Iterable[Region]:
    uplo, _, _, n, _, lda, _, _ = x
    yield _matrix(4, n, n, lda, reads=True, triangle=uplo)
    yield _vector(6, n, reads=True, writes=True)


def _trsm(x: Values) -> Iterable[Region]:
    side, uplo, _, _, m, n, _, _, lda, _, ldb = x
    order = m if side == b"L" else n
    yield _matrix(7, order, order, lda, reads=True, triangle=uplo)
    yield _matrix(9, m, n, ldb, reads=True, writes=True)


def _gesdd(x: Values) -> Iterable[Region]:
    job, m, n, _, lda, _, _, ldu, _, ldvt, _, room, _, _ = x
    shortest = np.minimum(m, n)
    yield _matrix(3, m, n, lda, reads=True, writes=True)
    yield _vector(5, shortest, writes=True)
    if job != b"N":
        yield _matrix(6, m, m if job == b"A" else shortest, ldu, writes=True)
        yield _matrix(8, n if job == b"A" else shortest, n, ldvt, writes=True)
    yield _vector(10, room, writes=True)
    yield _vector(12, 8 * np.minimum(m, n), writes=True)
    yield _vector(13, 1, writes=True)


def _syevd(x: Values) -> Iterable[Region]:
    _, _, n, _, lda, _, _, room, _, integers, _ = x
    yield _matrix(3, n, n, lda, reads=True, writes=True)
    yield _vector(5, n, writes=True)
    yield _vector(6, room, writes=True)
    yield _vector(8, integers, writes=True)
    yield _vector(10, 1, writes=True)


def _gelqf(x: Values) -> Iterable[Region]:
    m, n, _, lda, _, _, room, _ = x
    yield _matrix(2, m, n, lda, reads=True, writes=True)
    yield _vector(4, np.minimum(m, n), writes=True)
    yield _vector(5, room, writes=True)
    yield _vector(7, 1, writes=True)


def _orglq(x: Values) -> Iterable[Region]:
    m, n, k, _, lda, _, _, room, _ = x
    # only the first rows, which hold the reflectors, need be there before
    yield _matrix(3, k, n, lda, reads=True)
    yield _matrix(3, m, n, lda, writes=True)
    yield _vector(5, k, reads=True)
    yield _vector(6, room, writes=True)
    yield _vector(8, 1, writes=True)


def _fft(x: Values) -> Iterable[Region]:
    _, outer, points, inner, _, _ = x
    yield _vector(4, 2 * outer * points * inner, reads=True)
    yield _vector(5, 2 * outer * points * inner, writes=True)


def _rfft(x: Values) -> Iterable[Region]:
    outer, points, inner, _, _ = x
    yield _vector(3, outer * points * inner, reads=True)
    yield _vector(4, 2 * outer * (points // 2 + 1) * inner, writes=True)


def _irfft(x: Values) -> Iterable[Region]:
    outer, points, inner, _, _ = x
    yield _vector(3, 2 * outer * (points // 2 + 1) * inner, reads=True)
    yield _vector(4, outer * points * inner, writes=True)


_ROUTINES: dict[str, Callable[[Values], Iterable[Region]]] = {
    "gemm": _gemm,
    "gemm_batch_strided": _gemm_batch_strided,
    "bgemm_batch_strided": _gemm_batch_strided,
    "hgemm_batch_strided": _gemm_batch_strided,
    "syrk": _syrk,
    "getrf": _getrf,
    "getrs": _getrs,
    "getri": _getri,
    "potrf": _potrf,
    "laset": _laset,
    "lacpy": _lacpy,
    "trsv": _trsv,
    "trsm": _trsm,
    "gesdd": _gesdd,
    "syevd": _syevd,
    "gelqf": _gelqf,
    "orglq": _orglq,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
}
"""By their names without the letter for the dtype; another one is for that of operands alone."""


def _exchange(sent: int, received: int) -> Callable[[Values], Iterable[Region]]:
    """A message that is read from one array and written to another."""

    def regions(x: Values) -> Iterable[Region]:
        yield _vector(SENT, x[sent], reads=True)
        yield _vector(RECEIVED, x[received], writes=True)
        yield _vector(len(x) - 1, 1, writes=True)

    return regions


SENT, RECEIVED = 2, 3
"""Which arguments of a message are the addresses of what is sent, and of what is received."""

_MESSAGES: dict[str, Callable[[Values], Iterable[Region]]] = {
    "allreduce": _exchange(0, 0),
    "allgather": _exchange(0, 1),
    "reducescatter": _exchange(1, 0),
    "alltoall": _exchange(1, 1),
    "sendrecv": _exchange(0, 0),
    "rank": lambda x: [_vector(0, 1, writes=True)],
}
"""Messages by what they do. Their first argument counts the elements of a part, their second one
the elements of the parts of all processes."""

"""Footprints of library routines: which elements of their operands they read and write.

The arguments of BLAS and LAPACK are those of the routines' documentation, in its order; matrices
are in column-major order. The arguments of messages are defined in `functrans.loop.messages`.
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
    if call.symbol in OF_CORES:
        regions, complex_ones = OF_CORES[call.symbol]
        return (
            _of_pairs(region) if region.argument in complex_ones else region
            for region in regions(values)
        )
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
    """A matrix; ``triangle`` is LAPACK's argument that selects a part of it."""
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


def _reflectors(x: Values) -> Iterable[Region]:
    m, n, _, lda, _, _, room, _ = x
    yield _matrix(2, m, n, lda, reads=True, writes=True)
    yield _vector(4, np.minimum(m, n), writes=True)
    yield _vector(5, room, writes=True)
    yield _vector(7, 1, writes=True)


def _of_reflectors(x: Values) -> Iterable[Region]:
    """The columns of Q from k reflectors, which are in the first columns."""
    m, n, k, _, lda, _, _, room, _ = x
    yield _matrix(3, m, k, lda, reads=True)
    yield _matrix(3, m, n, lda, writes=True)
    yield _vector(5, k, reads=True)
    yield _vector(6, room, writes=True)
    yield _vector(8, 1, writes=True)


def _of_pairs(region: Region) -> Region:
    """A region of complex numbers in interleaved memory: all of it, not a triangle."""
    rows, leading, offset = 2 * region.rows, 2 * region.leading, 2 * region.offset
    return region._replace(rows=rows, leading=leading, offset=offset, triangle="A")


def _trtrs(x: Values) -> Iterable[Region]:
    uplo, _, _, n, columns, _, lda, _, ldb, _ = x
    yield _matrix(5, n, n, lda, reads=True, triangle=uplo)
    yield _matrix(7, n, columns, ldb, reads=True, writes=True)
    yield _vector(9, 1, writes=True)


def _heevd(x: Values) -> Iterable[Region]:
    _, _, n, _, lda, _, _, room, _, reals, _, integers, _ = x
    yield _matrix(3, n, n, lda, reads=True, writes=True)
    yield _vector(5, n, writes=True)
    for argument, count in ((6, room), (8, reals), (10, integers), (12, 1)):
        yield _vector(argument, count, writes=True)


def _gesdd_of_complex(x: Values) -> Iterable[Region]:
    *before, room, _, _, _ = x
    for region in _gesdd((*before, room, None, None)):
        # the integers and the status are one argument later, after the real workspace
        yield region._replace(argument=region.argument + (region.argument > 10))
    _, m, n, *_ = x
    yield _vector(12, reals_of_gesdd(np.minimum(m, n), np.maximum(m, n)), writes=True)


def reals_of_gesdd(shortest: Any, longest: Any) -> Any:
    """The length of the real workspace for singular values of complex matrices."""
    square = shortest * shortest
    return np.maximum(5 * square + 7 * shortest, 2 * (longest * shortest + square) + shortest)


def _dgeev(x: Values) -> Iterable[Region]:
    _, right, n, _, lda, _, _, _, _, _, ldvr, _, room, _ = x
    yield from _spectrum(3, n, lda, values=(5, 6), room=(11, room), info=13)
    if right == b"V":
        yield _matrix(9, n, n, ldvr, writes=True)


def _zgeev(x: Values) -> Iterable[Region]:
    _, right, n, _, lda, _, _, _, _, ldvr, _, room, _, _ = x
    yield from _spectrum(3, n, lda, values=(5,), room=(10, room), info=13)
    yield _vector(12, 2 * n, writes=True)
    if right == b"V":
        yield _matrix(8, n, n, ldvr, writes=True)


def _real_gees(x: Values) -> Iterable[Region]:
    _, _, _, n, _, lda, _, _, _, _, ldvs, _, room, _, _ = x
    yield from _spectrum(4, n, lda, values=(7, 8), room=(11, room), info=14)
    yield _vector(6, 1, writes=True)
    yield _matrix(9, n, n, ldvs, writes=True)


def _complex_gees(x: Values) -> Iterable[Region]:
    _, _, _, n, _, lda, _, _, _, ldvs, _, room, _, _, _ = x
    yield from _spectrum(4, n, lda, values=(7,), room=(10, room), info=14)
    yield _vector(6, 1, writes=True)
    yield _vector(12, n, writes=True)
    yield _matrix(8, n, n, ldvs, writes=True)


def _spectrum(
    matrix: int, n: Any, leading: Any, *, values: Sequence[int], room: tuple[int, Any], info: int
) -> Iterable[Region]:
    """A matrix that is overwritten, its eigenvalues, the workspace, and the status."""
    yield _matrix(matrix, n, n, leading, reads=True, writes=True)
    for argument, count in (*((each, n) for each in values), room, (info, 1)):
        yield _vector(argument, count, writes=True)


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
    "geqrf": _reflectors,
    "orgqr": _of_reflectors,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
}
"""By the names without the dtype's letter; a second letter is for the dtype of the operands."""

OF_CORES: dict[str, tuple[Callable[[Values], Iterable[Region]], frozenset[int]]] = {
    "zgetrf": (_getrf, frozenset({2})),
    "zgetrs": (_getrs, frozenset({3, 6})),
    "zpotrf": (_potrf, frozenset({2})),
    "ztrtrs": (_trtrs, frozenset({5, 7})),
    "zheevd": (_heevd, frozenset({3, 6})),
    "zgesdd": (_gesdd_of_complex, frozenset({3, 6, 8, 10})),
    "zgeqrf": (_reflectors, frozenset({2, 4, 5})),
    "zungqr": (_of_reflectors, frozenset({3, 5, 6})),
    "dgeev": (_dgeev, frozenset()),
    "zgeev": (_zgeev, frozenset({3, 5, 8, 10})),
    **dict.fromkeys(("sgees", "dgees"), (_real_gees, frozenset())),
    **dict.fromkeys(("cgees", "zgees"), (_complex_gees, frozenset({4, 7, 8, 10}))),
}
"""Routines that only CPUs have, by their full names, and which of their arguments are the
addresses of complex numbers, whose parts alternate in memory."""


def _exchange(sent: int, received: int) -> Callable[[Values], Iterable[Region]]:
    """A message that is read from one array and written to another."""

    def regions(x: Values) -> Iterable[Region]:
        yield _vector(SENT, x[sent], reads=True)
        yield _vector(RECEIVED, x[received], writes=True)
        yield _vector(len(x) - 1, 1, writes=True)

    return regions


SENT, RECEIVED = 2, 3
"""The arguments of a message that are the addresses of the sent and the received elements."""

_MESSAGES: dict[str, Callable[[Values], Iterable[Region]]] = {
    "allreduce": _exchange(0, 0),
    "allgather": _exchange(0, 1),
    "reducescatter": _exchange(1, 0),
    "alltoall": _exchange(1, 1),
    "sendrecv": _exchange(0, 0),
    "rank": lambda x: [_vector(0, 1, writes=True)],
}
"""Messages by kind. Their first argument is the number of elements of a part, their second that
of all processes' parts together."""

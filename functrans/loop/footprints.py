"""Footprints of library routines: which elements of their operands they read and write.

The arguments of BLAS and LAPACK are those of the routines' documentation, in its order; matrices
are in column-major order. The arguments of messages are defined in `functrans.loop.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.loop.access import Region
from functrans.loop.messages import message_of
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Call

Values = Sequence[Any]

Regions = Callable[[Values], Iterable[Region]]
"""The regions of a routine, given the values of its arguments."""


def footprint(call: Call, values: Values) -> Iterable[Region]:
    """The matrices that a call reads and writes; for an unknown routine, a `KeyError`."""
    message = message_of(call.symbol)
    if message is not None:
        return _MESSAGES[message.kind](values)
    routine = OF_CORES.get(call.symbol) or _ROUTINES[call.symbol[1:]]
    return routine(values)


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


def _routine(arguments: str, of_pairs: str = "") -> Regions:
    """The footprint of a routine with such arguments, of which some say what is read and written.

    In ``a:rw=m,n/uplo lda``, a matrix of m rows and n columns is read and written, but only the
    triangle that ``uplo`` selects; its leading dimension is the next argument. A vector has one
    extent. An extent is a product of arguments, of numbers and of what is `_DERIVED`. What comes
    after ``?`` is an argument that is "N" if nothing is accessed. Arguments ``of_pairs`` are of
    complex numbers, whose parts alternate in memory.
    """
    words = [word.split(":") for word in arguments.split()]

    def regions(x: Values) -> Iterable[Region]:
        given = {name: value for (name, *_), value in zip(words, x, strict=True)}
        for number, (name, *accesses) in enumerate(words):
            for access in accesses:
                mode, _, extents = access.partition("=")
                extents, _, wanted = extents.partition("?")
                extents, _, triangle = extents.partition("/")
                if given.get(wanted) == b"N":
                    continue
                kind = {"reads": "r" in mode, "writes": "w" in mode}
                rows, *columns = (_extent(each, given) for each in extents.split(","))
                # a vector is a matrix of one column
                shape = (rows, *columns, x[number + 1]) if columns else (rows, 1, rows)
                part = given.get(triangle, b"A")
                region = _matrix(number, *shape, triangle=part, **kind)
                yield _of_pairs(region) if name in of_pairs.split() else region

    return regions


def _extent(product: str, given: Mapping[str, Any]) -> Any:
    return prod(
        int(x) if x.isdecimal() else _DERIVED[x](given) if x in _DERIVED else given[x]
        for x in product.split("*")
    )


def reals_of_gesdd(shortest: Any, longest: Any) -> Any:
    """The length of the real workspace for singular values of complex matrices."""
    square = shortest * shortest
    return np.maximum(5 * square + 7 * shortest, 2 * (longest * shortest + square) + shortest)


_DERIVED: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "min": lambda x: np.minimum(x["m"], x["n"]),
    "order": lambda x: x["m"] if x["side"] == b"L" else x["n"],
    "bins": lambda x: x["points"] // 2 + 1,
    "of_u": lambda x: x["m"] if x["jobz"] == b"A" else _DERIVED["min"](x),
    "of_vt": lambda x: x["n"] if x["jobz"] == b"A" else _DERIVED["min"](x),
    "reals": lambda x: reals_of_gesdd(_DERIVED["min"](x), np.maximum(x["m"], x["n"])),
}
"""Extents that depend on several arguments, or on a letter."""


def _adds(beta: Any) -> bool:
    """Whether a product is added to what is there."""
    return not (isinstance(beta, Scalar) and beta.op in ("const", "zero") and not beta.attribute)


def _gemm(x: Values) -> Iterable[Region]:
    flag_a, flag_b, m, n, k, _, _, lda, _, ldb, beta, _, ldc = x
    yield _matrix(6, *((m, k) if flag_a == b"N" else (k, m)), lda, reads=True)
    yield _matrix(8, *((k, n) if flag_b == b"N" else (n, k)), ldb, reads=True)
    yield _matrix(11, m, n, ldc, reads=_adds(beta), writes=True)


def _gemm_batch_strided(x: Values) -> Iterable[Region]:
    flag_a, flag_b, m, n, k, _, _, lda, apart_a, _, ldb, apart_b, beta, _, ldc, apart_c, count = x
    a = (m, k) if flag_a == b"N" else (k, m)
    b = (k, n) if flag_b == b"N" else (n, k)
    for number in range(int(np.max(count))):
        yield _matrix(6, *a, lda, reads=True, offset=number * apart_a)
        yield _matrix(9, *b, ldb, reads=True, offset=number * apart_b)
        yield _matrix(13, m, n, ldc, reads=_adds(beta), writes=True, offset=number * apart_c)


_GETRF = "m n a:rw=m,n lda ipiv:w=min info:w=1"
_GETRS = "trans n nrhs a:r=n,n lda ipiv:r=n b:rw=n,nrhs ldb info:w=1"
_POTRF = "uplo n a:rw=n,n/uplo lda info:w=1"
_GEQRF = "m n a:rw=m,n lda tau:w=min work:w=lwork lwork info:w=1"
_ORGQR = "m n k a:r=m,k:w=m,n lda tau:r=k work:w=lwork lwork info:w=1"
_GESDD = (
    "jobz m n a:rw=m,n lda s:w=min u:w=m,of_u?jobz ldu vt:w=of_vt,n?jobz ldvt work:w=lwork lwork"
)
_EIGH = "jobz uplo n a:rw=n,n lda w:w=n work:w=lwork lwork"
_GEEV = "jobvl jobvr n a:rw=n,n lda"
_GEES = "jobvs sort select n a:rw=n,n lda sdim:w=1"

_ROUTINES: dict[str, Regions] = {
    "gemm": _gemm,
    "gemm_batch_strided": _gemm_batch_strided,
    "bgemm_batch_strided": _gemm_batch_strided,
    "hgemm_batch_strided": _gemm_batch_strided,
    "getrf": _routine(_GETRF),
    "getrs": _routine(_GETRS),
    "getri": _routine("n a:rw=n,n lda ipiv:r=n work:w=lwork lwork info:w=1"),
    "potrf": _routine(_POTRF),
    "laset": _routine("uplo m n alpha beta a:w=m,n/uplo lda"),
    "lacpy": _routine("uplo m n a:r=m,n/uplo lda b:w=m,n/uplo ldb"),
    "trsv": _routine("uplo trans diag n a:r=n,n/uplo lda x:rw=n incx"),
    "trsm": _routine("side uplo trans diag m n alpha a:r=order,order/uplo lda b:rw=m,n ldb"),
    "gesdd": _routine(f"{_GESDD} iwork:w=8*min info:w=1"),
    "syevd": _routine(f"{_EIGH} iwork:w=liwork liwork info:w=1"),
    "geqrf": _routine(_GEQRF),
    "orgqr": _routine(_ORGQR),
    "fft": _routine("sign outer points inner x:r=2*outer*points*inner y:w=2*outer*points*inner"),
    "rfft": _routine("outer points inner x:r=outer*points*inner y:w=2*outer*bins*inner"),
    "irfft": _routine("outer points inner x:r=2*outer*bins*inner y:w=outer*points*inner"),
}
"""By the names without the dtype's letter; a second letter is for the dtype of the operands."""

_REAL_GEES = _routine(f"{_GEES} wr:w=n wi:w=n vs:w=n,n ldvs work:w=lwork lwork bwork info:w=1")
_COMPLEX_GEES = _routine(
    f"{_GEES} w:w=n vs:w=n,n ldvs work:w=lwork lwork rwork:w=n bwork info:w=1", "a w vs work"
)

OF_CORES: dict[str, Regions] = {
    "zgetrf": _routine(_GETRF, "a"),
    "zgetrs": _routine(_GETRS, "a b"),
    "zpotrf": _routine(_POTRF, "a"),
    "ztrtrs": _routine("uplo trans diag n nrhs a:r=n,n/uplo lda b:rw=n,nrhs ldb info:w=1", "a b"),
    "zheevd": _routine(f"{_EIGH} rwork:w=lrwork lrwork iwork:w=liwork liwork info:w=1", "a work"),
    "zgesdd": _routine(f"{_GESDD} rwork:w=reals iwork:w=8*min info:w=1", "a u vt work"),
    "zgeqrf": _routine(_GEQRF, "a tau work"),
    "zungqr": _routine(_ORGQR, "a tau work"),
    "dgeev": _routine(
        f"{_GEEV} wr:w=n wi:w=n vl ldvl vr:w=n,n?jobvr ldvr work:w=lwork lwork info:w=1"
    ),
    "zgeev": _routine(
        f"{_GEEV} w:w=n vl ldvl vr:w=n,n?jobvr ldvr work:w=lwork lwork rwork:w=2*n info:w=1",
        "a w vr work",
    ),
    "sgees": _REAL_GEES,
    "dgees": _REAL_GEES,
    "cgees": _COMPLEX_GEES,
    "zgees": _COMPLEX_GEES,
}
"""Routines that only CPUs have, by their full names."""


def _of_pairs(region: Region) -> Region:
    """A region of complex numbers in interleaved memory: all of it, not a triangle."""
    rows, leading, offset = 2 * region.rows, 2 * region.leading, 2 * region.offset
    return region._replace(rows=rows, leading=leading, offset=offset, triangle="A")


_MESSAGES: dict[str, Regions] = {
    "allreduce": _routine("part all sent:r=part received:w=part status:w=1"),
    "allgather": _routine("part all sent:r=part received:w=all status:w=1"),
    "reducescatter": _routine("part all sent:r=all received:w=part status:w=1"),
    "alltoall": _routine("part all sent:r=all received:w=all status:w=1"),
    "sendrecv": _routine("part all sent:r=part received:w=part to from status:w=1"),
    "rank": _routine("rank:w=1"),
}
"""Messages by kind. Their first argument is the number of elements of a part, their second that
of all processes' parts together."""

"""Eigenvalues and singular values by cuSOLVER, with the arguments and the ``info`` of LAPACK.

Eigenvectors and singular vectors have cuSOLVER's signs, which need not be LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.run.cuda.libraries.factors import of_extents, solved
from functrans.run.cuda.libraries.handles import Work
from functrans.run.cuda.libraries.moves import fill_mode, transpose


@of_extents(2)
def syevd(on: Work, arguments: Sequence[Any]) -> None:
    """Eigenvalues of a symmetric matrix, which eigenvectors replace if they are requested."""
    job, uplo, n, a, lda, values, _, _, _, _, info = arguments
    modes, kind = on.handles.libraries.cusolver.EigMode, on.kind
    mode = modes.VECTOR if job == b"V" else modes.NOVECTOR
    problem = mode, fill_mode(on.handles, uplo), n, kind, a, lda, kind, values, kind
    solved(on, "xsyevd", problem, info)


@of_extents(1, 2)
def gesdd(on: Work, arguments: Sequence[Any]) -> None:
    """Singular values, and all singular vectors, the first ones, or none.

    cuSOLVER takes matrices with at least as many rows as columns; others are transposed.
    """
    job, m, n, a, lda, values, u, ldu, vt, ldvt, _, _, _, info = arguments
    if m >= n:
        _tall(on, job, (m, n, a, lda, values, u, ldu, vt, ldvt), info)
        return
    turned = on.room(m * n)
    transpose(on, m, n, a, lda, turned, n)
    if job == b"N":
        _tall(on, job, (n, m, turned, n, values, turned, n, turned, m), info)
        return
    wide = n if job == b"A" else m
    left, right = on.room(n * wide), on.room(m * m)
    _tall(on, job, (n, m, turned, n, values, left, n, right, m), info)
    transpose(on, m, m, right, m, u, ldu)
    transpose(on, n, wide, left, n, vt, ldvt)


def _tall(on: Work, job: bytes, whole: Sequence[int], info: int) -> None:
    m, n, a, lda, values, u, ldu, vt, ldvt = whole
    mode, kind = ord(job), on.kind
    problem = (
        mode, mode, m, n, kind, a, lda, kind, values, kind, u, ldu, kind, vt, ldvt, kind,
    )  # fmt: skip
    solved(on, "xgesvd", problem, info)

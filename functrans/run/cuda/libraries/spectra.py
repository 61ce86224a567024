"""Eigenvalues and singular values by cuSOLVER, with the arguments and the ``info`` of LAPACK.

Eigenvectors and singular vectors have cuSOLVER's signs, which need not be LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.run.cuda.libraries.factors import rooms
from functrans.run.cuda.libraries.handles import Handles, Numbers, Workspace
from functrans.run.cuda.libraries.moves import fill_mode, succeed, transpose


def syevd(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Eigenvalues of a symmetric matrix, which eigenvectors replace if they are requested."""
    job, uplo, n, a, lda, values, _, _, _, _, info = arguments
    if n == 0:
        succeed(handles, info)
        return
    library, kind = handles.libraries.cusolver_dn, handles.kind(numbers)
    modes = handles.libraries.cusolver.EigMode
    problem = (
        handles.solver, handles.parameters, modes.VECTOR if job == b"V" else modes.NOVECTOR,
        fill_mode(handles, uplo), n, kind, a, lda, kind, values, kind,
    )  # fmt: skip
    sizes = library.xsyevd_buffer_size(*problem)
    library.xsyevd(*problem, *rooms(handles, workspace, sizes), info)


def gesdd(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Singular values, and all singular vectors, the first ones, or none.

    cuSOLVER takes matrices with at least as many rows as columns; others are transposed.
    """
    job, m, n, a, lda, values, u, ldu, vt, ldvt, _, _, _, info = arguments
    if m == 0 or n == 0:
        succeed(handles, info)
        return
    if m >= n:
        whole = m, n, a, lda, values, u, ldu, vt, ldvt
        _tall(numbers, handles, workspace, job, whole, info)
        return
    size = numbers.itemsize
    turned = workspace(m * n * size)
    transpose(numbers, handles, m, n, a, lda, turned, n)
    if job == b"N":
        whole = n, m, turned, n, values, turned, n, turned, m
        _tall(numbers, handles, workspace, job, whole, info)
        return
    wide = n if job == b"A" else m
    left, right = workspace(n * wide * size), workspace(m * m * size)
    whole = n, m, turned, n, values, left, n, right, m
    _tall(numbers, handles, workspace, job, whole, info)
    transpose(numbers, handles, m, m, right, m, u, ldu)
    transpose(numbers, handles, n, wide, left, n, vt, ldvt)


def _tall(
    numbers: Numbers, handles: Handles, workspace: Workspace, job: bytes, whole: Sequence[int],
    info: int,
) -> None:  # fmt: skip
    m, n, a, lda, values, u, ldu, vt, ldvt = whole
    library, kind = handles.libraries.cusolver_dn, handles.kind(numbers)
    problem = (
        handles.solver, handles.parameters, ord(job), ord(job), m, n, kind, a, lda, kind, values,
        kind, u, ldu, kind, vt, ldvt, kind,
    )  # fmt: skip
    sizes = library.xgesvd_buffer_size(*problem)
    library.xgesvd(*problem, *rooms(handles, workspace, sizes), info)

"""Triangular solves of BLAS, by cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.run.cuda.libraries.handles import Handles, Numbers, Workspace
from functrans.run.cuda.libraries.moves import fill_mode


def trsm(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """``B = alpha inv(op(A)) B``, or with the inverse on the right."""
    side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb = arguments
    if m == 0 or n == 0:
        return
    library = handles.libraries.cublas
    solve = getattr(library, f"{numbers.letter}trsm_64")
    scale = np.array([alpha], numbers.dtype)
    solve(
        handles.blas, library.SideMode.LEFT if side == b"L" else library.SideMode.RIGHT,
        fill_mode(handles, uplo), operation(handles, trans), _diagonal(handles, diag),
        m, n, scale.ctypes.data, a, lda, b, ldb,
    )  # fmt: skip


def trsv(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """``x = inv(op(A)) x``."""
    uplo, trans, diag, n, a, lda, x, step = arguments
    if n == 0:
        return
    solve = getattr(handles.libraries.cublas, f"{numbers.letter}trsv_64")
    solve(
        handles.blas, fill_mode(handles, uplo), operation(handles, trans),
        _diagonal(handles, diag), n, a, lda, x, step,
    )  # fmt: skip


def operation(handles: Handles, flag: bytes) -> Any:
    """The operation of a flag: the matrix itself, or its transpose."""
    operations = handles.libraries.cublas.Operation
    return operations.N if flag == b"N" else operations.T


def _diagonal(handles: Handles, flag: bytes) -> Any:
    kinds = handles.libraries.cublas.DiagType
    return kinds.UNIT if flag == b"U" else kinds.NON_UNIT

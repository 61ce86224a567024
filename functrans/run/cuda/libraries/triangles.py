"""Triangular solves of BLAS, by cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.run.cuda.libraries.handles import Handles, Work
from functrans.run.cuda.libraries.moves import fill_mode


def trsm(on: Work, arguments: Sequence[Any]) -> None:
    """``B = alpha inv(op(A)) B``, or with the inverse on the right."""
    side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb = arguments
    if m == 0 or n == 0:
        return
    library = on.handles.libraries.cublas
    solve = on.routine(library, "trsm_64")
    scale = np.array([alpha], on.numbers.dtype)
    solve(
        on.handles.blas, library.SideMode.LEFT if side == b"L" else library.SideMode.RIGHT,
        fill_mode(on.handles, uplo), operation(on.handles, trans), _diagonal(on.handles, diag),
        m, n, scale.ctypes.data, a, lda, b, ldb,
    )  # fmt: skip


def trsv(on: Work, arguments: Sequence[Any]) -> None:
    """``x = inv(op(A)) x``."""
    uplo, trans, diag, n, a, lda, x, step = arguments
    if n == 0:
        return
    solve = on.routine(on.handles.libraries.cublas, "trsv_64")
    solve(
        on.handles.blas, fill_mode(on.handles, uplo), operation(on.handles, trans),
        _diagonal(on.handles, diag), n, a, lda, x, step,
    )  # fmt: skip


def operation(handles: Handles, flag: bytes) -> Any:
    """The operation of a flag: the matrix itself, or its transpose."""
    operations = handles.libraries.cublas.Operation
    return operations.N if flag == b"N" else operations.T


def _diagonal(handles: Handles, flag: bytes) -> Any:
    kinds = handles.libraries.cublas.DiagType
    return kinds.UNIT if flag == b"U" else kinds.NON_UNIT

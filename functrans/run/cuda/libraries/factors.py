"""LAPACK's factorisations by cuSOLVER: Cholesky, LU with its solutions and inverses, and QR.

The arguments are those of LAPACK's documentation. The working memory that they pass (``work``,
``lwork``) is not used: cuSOLVER reports how much it needs, and this comes from the pool. The word
``info`` is written on the device, with LAPACK's meaning, and no function here waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.run.cuda.libraries.handles import Handles, Numbers, Workspace
from functrans.run.cuda.libraries.moves import copy, fill, fill_mode, succeed, transpose
from functrans.run.cuda.libraries.triangles import operation


def potrf(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace a triangle of a positive definite matrix by its Cholesky factor."""
    uplo, n, a, lda, info = arguments
    if n == 0:
        succeed(handles, info)
        return
    library, kind = handles.libraries.cusolver_dn, handles.kind(numbers)
    problem = (handles.solver, handles.parameters, fill_mode(handles, uplo), n, kind, a, lda, kind)
    sizes = library.xpotrf_buffer_size(*problem)
    library.xpotrf(*problem, *rooms(handles, workspace, sizes), info)


def getrf(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace a matrix by its triangular factors, with pivots of 32 bits."""
    m, n, a, lda, pivots, info = arguments
    if m == 0 or n == 0:
        succeed(handles, info)
        return
    factorise, size_of = _routine(numbers, handles, "getrf")
    problem = handles.solver, m, n, a, lda
    room = workspace(size_of(*problem) * numbers.itemsize)
    factorise(*problem, room, pivots, info)


def getrs(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace right-hand sides by the solutions, given the factors of `getrf`."""
    trans, n, columns, a, lda, pivots, b, ldb, info = arguments
    if n == 0 or columns == 0:
        succeed(handles, info)
        return
    solve = getattr(handles.libraries.cusolver_dn, f"{numbers.letter}getrs")
    flag = operation(handles, trans)
    solve(handles.solver, flag, n, columns, a, lda, pivots, b, ldb, info)


def getri(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace the factors of `getrf` by the inverse: solutions for the identity matrix.

    ``info`` is 0 for a singular matrix, too; that of `getrf` says so.
    """
    n, a, lda, pivots, _, _, info = arguments
    if n == 0:
        succeed(handles, info)
        return
    inverse = workspace(n * n * numbers.itemsize)
    fill(numbers, handles, n, n, 0, inverse, n)
    fill(numbers, handles, 1, n, 1, inverse, n + 1)
    getrs(numbers, handles, workspace, (b"N", n, n, a, lda, pivots, inverse, n, info))
    copy(numbers, handles, n, n, inverse, n, a, lda)


def geqrf(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace a matrix by its factor R, and below the diagonal the reflections of Q."""
    m, n, a, lda, tau, _, _, info = arguments
    if m == 0 or n == 0:
        succeed(handles, info)
        return
    library, kind = handles.libraries.cusolver_dn, handles.kind(numbers)
    problem = (handles.solver, handles.parameters, m, n, kind, a, lda, kind, tau, kind)
    sizes = library.xgeqrf_buffer_size(*problem)
    library.xgeqrf(*problem, *rooms(handles, workspace, sizes), info)


def orgqr(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace ``k`` reflections of `geqrf` by the first columns of their product."""
    m, n, k, a, lda, tau, _, _, info = arguments
    if m == 0 or n == 0:
        succeed(handles, info)
        return
    multiply, size_of = _routine(numbers, handles, "orgqr")
    problem = handles.solver, m, n, k, a, lda, tau
    size = size_of(*problem)
    multiply(*problem, workspace(size * numbers.itemsize), size, info)


def gelqf(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """LQ factors: the QR factors of the transpose, by the same reflections."""
    m, n, a, lda, tau, work, size, info = arguments
    turned = workspace(m * n * numbers.itemsize) if m * n else 0
    transpose(numbers, handles, m, n, a, lda, turned, n)
    geqrf(numbers, handles, workspace, (n, m, turned, n, tau, work, size, info))
    transpose(numbers, handles, n, m, turned, n, a, lda)


def orglq(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """Replace the reflections of `gelqf` by the first rows of their product."""
    m, n, k, a, lda, tau, work, size, info = arguments
    turned = workspace(m * n * numbers.itemsize) if m * n else 0
    transpose(numbers, handles, k, n, a, lda, turned, n)
    orgqr(numbers, handles, workspace, (n, m, k, turned, n, tau, work, size, info))
    transpose(numbers, handles, n, m, turned, n, a, lda)


def rooms(
    handles: Handles, workspace: Workspace, sizes: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Working memory on the device and on the host, each as an address and a number of bytes."""
    on_device, on_host = sizes
    device = workspace(on_device) if on_device else 0
    return device, on_device, handles.on_host(on_host), on_host


def _routine(numbers: Numbers, handles: Handles, name: str) -> tuple[Callable[..., Any], ...]:
    """A routine of cuSOLVER's older interface, and the query for its number of work elements."""
    library, full = handles.libraries.cusolver_dn, numbers.letter + name
    return getattr(library, full), getattr(library, f"{full}_buffer_size")

"""LAPACK's factorisations by cuSOLVER: Cholesky, LU with its solutions and inverses, and QR.

The arguments are those of LAPACK's documentation. The working memory that they pass (``work``,
``lwork``) is not used: cuSOLVER reports how much it needs, and this comes from the pool. The word
``info`` is written on the device, with LAPACK's meaning, and no function here waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from functrans.run.cuda.libraries.handles import Work
from functrans.run.cuda.libraries.moves import copy, fill, fill_mode, succeed
from functrans.run.cuda.libraries.triangles import operation

Routine = Callable[[Work, Sequence[Any]], None]


def of_extents(*places: int) -> Callable[[Routine], Routine]:
    """A routine whose arguments at ``places`` are extents: without elements, it only succeeds."""

    def decorate(routine: Routine) -> Routine:
        @wraps(routine)
        def checked(on: Work, arguments: Sequence[Any]) -> None:
            if all(arguments[place] for place in places):
                routine(on, arguments)
            else:
                succeed(on.handles, arguments[-1])

        return checked

    return decorate


def solved(on: Work, name: str, problem: Sequence[Any], info: int) -> None:
    """Call a function of cuSOLVER's generic interface, with as much memory as it asks for."""
    handles, library = on.handles, on.handles.libraries.cusolver_dn
    given = (handles.solver, handles.parameters, *problem)
    device, host = getattr(library, f"{name}_buffer_size")(*given)
    rooms = on.workspace(device) if device else 0, device, handles.on_host(host), host
    getattr(library, name)(*given, *rooms, info)


@of_extents(1)
def potrf(on: Work, arguments: Sequence[Any]) -> None:
    """Replace a triangle of a positive definite matrix by its Cholesky factor."""
    uplo, n, a, lda, info = arguments
    problem = fill_mode(on.handles, uplo), n, on.kind, a, lda, on.kind
    solved(on, "xpotrf", problem, info)


@of_extents(0, 1)
def getrf(on: Work, arguments: Sequence[Any]) -> None:
    """Replace a matrix by its triangular factors, with pivots of 32 bits."""
    m, n, a, lda, pivots, info = arguments
    factorise, size_of = _routine(on, "getrf")
    problem = on.handles.solver, m, n, a, lda
    factorise(*problem, on.room(size_of(*problem)), pivots, info)


@of_extents(1, 2)
def getrs(on: Work, arguments: Sequence[Any]) -> None:
    """Replace right-hand sides by the solutions, given the factors of `getrf`."""
    trans, *problem = arguments
    solve = on.routine(on.handles.libraries.cusolver_dn, "getrs")
    solve(on.handles.solver, operation(on.handles, trans), *problem)


@of_extents(0)
def getri(on: Work, arguments: Sequence[Any]) -> None:
    """Replace the factors of `getrf` by the inverse: solutions for the identity matrix.

    ``info`` is 0 for a singular matrix, too; that of `getrf` says so.
    """
    n, a, lda, pivots, _, _, info = arguments
    inverse = on.room(n * n)
    fill(on, n, n, 0, inverse, n)
    fill(on, 1, n, 1, inverse, n + 1)
    getrs(on, (b"N", n, n, a, lda, pivots, inverse, n, info))
    copy(on, n, n, inverse, n, a, lda)


@of_extents(0, 1)
def geqrf(on: Work, arguments: Sequence[Any]) -> None:
    """Replace a matrix by its factor R, and below the diagonal the reflections of Q."""
    m, n, a, lda, tau, _, _, info = arguments
    solved(on, "xgeqrf", (m, n, on.kind, a, lda, on.kind, tau, on.kind), info)


@of_extents(0, 1)
def orgqr(on: Work, arguments: Sequence[Any]) -> None:
    """Replace ``k`` reflections of `geqrf` by the first columns of their product."""
    m, n, k, a, lda, tau, _, _, info = arguments
    multiply, size_of = _routine(on, "orgqr")
    problem = on.handles.solver, m, n, k, a, lda, tau
    size = size_of(*problem)
    multiply(*problem, on.room(size), size, info)


def _routine(on: Work, name: str) -> tuple[Callable[..., Any], ...]:
    """A routine of cuSOLVER's older interface, and the query for its number of work elements."""
    library = on.handles.libraries.cusolver_dn
    return on.routine(library, name), on.routine(library, f"{name}_buffer_size")

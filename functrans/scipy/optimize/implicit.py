"""Implicit differentiation of the solutions of any solver, with SciPy's solvers unchanged.

Only the equation that defines a solution is differentiated, not the solver. Source: Krantz and
Parks, The Implicit Function Theorem (2002); as in Blondel and others, "Efficient and modular
implicit differentiation" (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from inspect import getclosurevars, ismethod
from types import FunctionType
from typing import Any

import numpy as np

from functrans.api.arguments import aval_of_leaf, check_callable, name_of
from functrans.api.derivatives import grad
from functrans.api.host import callback
from functrans.api.jacobians import jacobian
from functrans.api.recompute import stop_gradient
from functrans.errors import NotConvergedError, ShapeError, TracerConversionError
from functrans.ir.types import Aval, describe
from functrans.numpy.arrays import inexact
from functrans.scipy.along_a_path import custom_root, on_a_path_if_needed
from functrans.scipy.optimize.scalar import dense_solve
from functrans.scipy.optimize.vectors import Function
from functrans.scipy.sparse.linalg import bicgstab, cg, gmres, lgmres, minres, spsolve
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree

_ITERATIVE = {"bicgstab": bicgstab, "cg": cg, "gmres": gmres, "lgmres": lgmres, "minres": minres}


@boundary
def implicit(
    solver: Function, /, *, equation: Function | None = None, objective: Function | None = None,
    residuals: Function | None = None, linear_solve: str | Function = "dense",
    require_success: bool = True,
) -> Callable[..., Any]:  # fmt: skip
    """A solver's solution as a function of the parameters, by implicit differentiation.

    The solver may be any function of `scipy.optimize`, with any options. It is called with plain
    arrays, when values are known, and is not differentiated. Instead, give one of three conditions
    that define a solution, as a function of the unknown and the parameters.

    Parameters
    ----------
    solver : callable
        ``solver(start, *parameters)`` returns the solution: an array, or a result of SciPy with
        ``x`` or ``root``.
    equation : callable
        ``equation(x, *parameters)`` is zero at the solution, and has as many elements as ``x``.
    objective : callable
        ``objective(x, *parameters)`` is a number whose gradient is zero at the solution, a minimum.
    residuals : callable
        The objective is half the sum of the squares of ``residuals(x, *parameters)``.
    linear_solve : str or callable, optional
        The method for the linear system of the derivative: ``"dense"``; ``"sparse"``, with the
        sparse Jacobian of the equation; an iterative method of SciPy, ``"cg"`` or ``"minres"`` (for
        symmetric systems, such as that of an objective), ``"gmres"``, ``"lgmres"`` or
        ``"bicgstab"``; or a function ``linear_solve(g, y)`` that solves ``g(x) = y``.
    require_success : bool, optional
        Whether a result of SciPy without ``success`` raises an error.

    Returns
    -------
    callable
        ``solution(start, *parameters)``, an array in the shape of ``start``: a float array, on
        which the solution does not depend. The parameters are pytrees of arrays. The function can
        be differentiated with respect to them, any number of times, batched and compiled.

    Raises
    ------
    NotConvergedError
        If the solver reports that it failed.
    ShapeError
        If a solution has another shape than the start, or the equation another size.
    TracerConversionError
        If the solver reads traced values from its closure.

    Notes
    -----
    The derivative is as accurate as the solution, so choose small tolerances. You can also call the
    functions of `scipy.optimize` in a function that is differentiated, with bounds and constraints;
    most solutions are then found by functrans's own loops.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from functrans import grad, implicit, jacobian
    >>> def cost(x, a):
    ...     return np.sum((x - a) ** 2) + np.sum(x) ** 2
    >>> def lowest(start, a):
    ...     return minimize(cost, start, args=(a,), jac=grad(cost), tol=1e-8)
    >>> solution = implicit(lowest, objective=cost)
    >>> solution(np.zeros(2), np.array([1.0, 2.0])).round(6) + 0
    array([0., 1.])
    >>> jacobian(solution, argnums=1)(np.zeros(2), np.array([1.0, 2.0])).round(6)
    array([[ 0.666667, -0.333333],
           [-0.333333,  0.666667]])
    """
    check_callable(solver, "implicit")
    condition = _condition(equation, objective, residuals)
    tangent_solve = _linear_solver(linear_solve)

    @on_a_path_if_needed
    def solution(start: Any, *parameters: Any) -> Any:
        _check_closure(solver)
        guess = inexact(start)
        aval = aval_of_leaf(guess)
        run = partial(_run, solver, aval.shape, aval.dtype, require_success)
        fixed = tree.map(stop_gradient, parameters)
        found = callback(run, out_types=Aval(aval.shape, aval.dtype))(stop_gradient(guess), *fixed)

        def flat(x: Any) -> Any:
            return condition(x.reshape(aval.shape), *parameters)

        root = custom_root(flat, found.reshape(-1), lambda f, x: x, tangent_solve)
        return root.reshape(aval.shape)

    solution.__name__ = solution.__qualname__ = f"implicit({name_of(solver)})"
    return solution


def _condition(
    equation: Function | None, objective: Function | None, residuals: Function | None
) -> Function:
    """The residual, which is zero at a solution, as a vector."""
    given = [f for f in (equation, objective, residuals) if f is not None]
    if len(given) != 1:
        raise TypeError(
            "implicit takes one thing that says what a solution is, equation=, objective= or "
            f"residuals=, not {len(given)}"
        )
    check_callable(given[0], "implicit")
    if equation is not None:
        return partial(_of_equation, equation)
    if residuals is not None:
        objective = partial(_half_square, residuals)
    return partial(_slope, objective)


def _of_equation(equation: Function, x: Any, *parameters: Any) -> Any:
    value = inexact(equation(x, *parameters))
    if value.size != x.size:
        raise ShapeError(
            f"the equation of implicit has as many elements as the solution, {x.size}, but "
            f"{name_of(equation)} gives {value.size}: if they are residuals whose squares are "
            "least, say residuals="
        )
    return value.reshape(-1).astype(x.dtype)


def _half_square(residuals: Function, x: Any, *parameters: Any) -> Any:
    return 0.5 * np.sum(inexact(residuals(x, *parameters)) ** 2)


def _slope(objective: Any, x: Any, *parameters: Any) -> Any:
    return grad(lambda x: inexact(objective(x, *parameters)).reshape(()))(x).reshape(-1)


# -- the solver, on plain arrays -------------------------------------------------------------------


def _run(
    solver: Function, shape: Any, dtype: Any, require_success: bool, start: Any, *parameters: Any
) -> Any:
    result = solver(start, *parameters)
    if isinstance(result, tuple):
        raise TypeError(
            f"{name_of(solver)} returned {describe(result)}, but implicit takes a solution, or a "
            "result of SciPy's with one: return the solution alone"
        )
    success = getattr(result, "success", getattr(result, "converged", True))
    if require_success and not success:
        said = " ".join(str(getattr(result, "message", getattr(result, "flag", ""))).split())
        raise NotConvergedError(
            f"{name_of(solver)} has found no solution ({said.rstrip('.')}), and the derivative "
            "would be that of another point: let it run longer, or from another start; "
            "require_success=False takes what it found"
        )
    found = np.asarray(getattr(result, "x", getattr(result, "root", result)), dtype)
    if found.shape != shape:
        raise ShapeError(
            f"{name_of(solver)} gave a solution of shape {found.shape} for a start of shape "
            f"{shape}: implicit needs a start in the shape of the solution"
        )
    return found


def _check_closure(solver: Function) -> None:
    for name, value in _around(solver):
        if any(isinstance(leaf, Tracer) for leaf in tree.leaves(value)):
            raise TracerConversionError(
                f"{name_of(solver)} takes {name} from around it, which is traced, but it is called "
                f"with plain arrays: let {name} be a parameter, "
                f"implicit({name_of(solver)}, ...)(start, {name})"
            )


def _around(function: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a function's closure variables."""
    if isinstance(function, partial):
        yield from ((f"argument {i}", x) for i, x in enumerate(function.args))
        yield from function.keywords.items()
        yield from _around(function.func)
    if ismethod(function):
        function = function.__func__
    if isinstance(function, FunctionType):
        yield from getclosurevars(function).nonlocals.items()


# -- the linear system of the derivative -----------------------------------------------------------


def _linear_solver(how: str | Function) -> Function:
    if callable(how):
        return how
    if how == "dense":
        return dense_solve
    if how == "sparse":
        return _sparse_solve
    if how in _ITERATIVE:
        return partial(_iterate, _ITERATIVE[how])
    raise ValueError(
        f"linear_solve of implicit is 'dense', 'sparse', {', '.join(map(repr, _ITERATIVE))}, or a "
        f"function, not {how!r}"
    )


def _sparse_solve(g: Function, y: Any) -> Any:
    return spsolve(jacobian(g, sparse=True)(y), y)


def _iterate(method: Function, g: Function, y: Any) -> Any:
    x, _ = method(g, y, rtol=1e-10)
    return x

"""Roots of systems of equations: Newton's method with a line search, differentiated implicitly.

`lax.custom_root` differentiates the equations at the root, not the iteration. Source: Nocedal and
Wright, Numerical Optimization (2006), chapter 11.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.jacobians import jacfwd
from functrans.scipy.along_a_path import custom_root, while_loop
from functrans.scipy.define import double
from functrans.scipy.inside import arguments, check_one_of, refuse_options, within_traces
from functrans.scipy.optimize.scalar import dense_solve, said_of
from functrans.scipy.optimize.vectors import (
    Function,
    halved,
    largest,
    result_of,
    value_alone,
    vector,
)


def _newton(f: Function, x: Any, tol: Any, maxiter: int) -> tuple[Any, Any, Any]:
    """Newton's method, with steps halved until the residual decreases."""

    def step(state: Any) -> Any:
        x, value, _, count = state
        slopes = jacfwd(f)(x)
        singular = np.linalg.slogdet(slopes)[0] == 0
        direction = np.linalg.solve(slopes + np.where(singular, 1e-8, 0.0) * np.eye(x.size), value)
        size = np.sum(value**2)

        def smaller(length: Any, trial: Any) -> Any:
            return np.sum(trial**2) < size

        length, following = halved(lambda length: f(x - length * direction), 1.0, smaller, 1e-10)
        small = largest(length * direction) <= tol * (1 + largest(x))
        return x - length * direction, following, small, count + 1

    def goes_on(state: Any) -> Any:
        _, value, small, count = state
        return ~small & (largest(value) > 0) & (count < maxiter)

    x, value, small, count = while_loop(goes_on, step, (x, f(x), np.zeros((), bool), 0))
    # check the residual, since steps may become small at a point that is no root
    return x, (small | (largest(value) == 0)) & (largest(value) < 1e-5), count


_METHODS = (
    "hybr", "lm", "broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden",
    "excitingmixing", "krylov", "df-sane",
)  # fmt: skip


@within_traces("scipy.optimize:root")
def root(
    fun: Function, x0: Any, args: Any = (), method: str = "hybr", jac: Any = None, tol: Any = None,
    callback: Any = None, options: Any = None,
) -> Any:  # fmt: skip
    """A root of a vector function, from an initial guess.

    The method is Newton's with a line search, whichever ``method`` is given, with the automatic
    derivative of ``fun``, whether or not ``jac`` is given.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns as many numbers as ``x`` has; with ``jac=True``, a pair of these
        and the Jacobian.
    x0 : array of shape (n,)
    args : tuple
    tol : float, optional
        The tolerance of the steps; by default 1.5e-8.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun``, ``success`` and ``nit``. If no root is found, ``x`` is the point of the
        smallest residual, and ``success`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import root
    >>> def crossing(a):            # of a circle and a diagonal
    ...     return root(lambda x: np.stack([x @ x - a, x[0] - x[1]]), [1.0, 0.5]).x
    >>> jacrev(crossing)(2.0)
    array([0.25, 0.25])
    """
    refuse_options("scipy.optimize.root", [("callback", callback, "leave it out")])
    check_one_of("method", str(method).lower(), _METHODS)
    given = arguments(args)
    guess = vector(x0)

    def equation(x: Any) -> Any:
        return np.atleast_1d(double(value_alone(fun(x, *given), jac))).reshape(-1)

    found = {"maxiter": 200, **(options or {})}
    tolerance = found.get("xtol", 1.49012e-08) if tol is None else tol

    def solve(f: Function, x: Any) -> Any:
        x, *about = _newton(f, x, tolerance, found["maxiter"])
        return x, about

    x, (success, count) = custom_root(equation, guess, solve, dense_solve, has_aux=True)
    return result_of(
        x=x, fun=equation(x), success=success, status=np.where(success, 1, 5), nit=count,
        message=said_of(
            success, "The solution converged.", "The iteration is not making progress."
        ),
        method=method,
    )  # fmt: skip


@within_traces("scipy.optimize:fsolve")
def fsolve(
    func: Function, x0: Any, args: Any = (), fprime: Any = None, full_output: int = 0,
    col_deriv: int = 0, xtol: float = 1.49012e-08, maxfev: int = 0, band: Any = None,
    epsfcn: Any = None, factor: float = 100, diag: Any = None,
) -> Any:  # fmt: skip
    """A root of a vector function, from an initial guess: the ``x`` of `root`.

    With ``full_output``, also a dictionary with ``fvec``, 1 if the root was found, and a message.

    Examples
    --------
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import fsolve
    >>> jacrev(lambda a: fsolve(lambda x: x * x - a, 1.0))(4.0)
    array([0.25])
    """
    found = root(func, x0, args, tol=xtol)
    if not full_output:
        return found.x
    return found.x, {"fvec": found.fun}, found.status, found.message

"""Sums of squares and fits: the method of Levenberg and Marquardt.

The derivative is that of the equation that holds at the minimum, by `lax.custom_root`, and not of
the loop. Source: Nocedal and Wright, Numerical Optimization (2006), chapter 10.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from functrans.api.derivatives import grad
from functrans.api.jacobians import jacfwd
from functrans.api.recompute import stop_gradient
from functrans.lax.implicit import custom_root
from functrans.lax.loops import while_loop
from functrans.numpy.arrays import inexact
from functrans.scipy.inside import refuse, refuse_options, within_traces
from functrans.scipy.optimize.scalar import dense_solve, said_of
from functrans.scipy.optimize.vectors import (
    BOUNDS,
    Function,
    arguments,
    bounded,
    largest,
    result_of,
    vector,
)


def _levenberg_marquardt(r: Function, x: Any, tol: Any, maxiter: int) -> tuple[Any, Any, Any]:
    """Steps between Gauss's and the gradient's, as far as the last one was any good."""

    def cost(x: Any) -> Any:
        return np.sum(r(x) ** 2)

    def step(state: Any) -> Any:
        x, value, damping, _, count = state
        slopes = jacfwd(r)(x)
        normal, right = slopes.T @ slopes, slopes.T @ r(x)
        scale = np.diag(normal) + 1e-300
        moved = np.linalg.solve(normal + np.diag(damping * scale), -right)
        following = cost(x + moved)
        better = following < value
        small = largest(moved) <= tol * (tol + largest(x))
        nothing = better & (value - following <= tol**2 * value)
        done = small | (largest(right) == 0) | nothing | (damping > 1e20)
        return (
            np.where(better, x + moved, x),
            np.where(better, following, value),
            np.where(better, damping / 10, damping * 10),
            done,
            count + 1,
        )

    def goes_on(state: Any) -> Any:
        return ~state[3] & (state[4] < maxiter)

    x, _, _, done, count = while_loop(
        goes_on, step, (x, cost(x), np.asarray(1e-3), np.zeros((), bool), 0)
    )
    return x, done, count


def _least_squares(residuals: Function, guess: Any, tol: Any, most: int) -> tuple[Any, Any, Any]:
    """The minimum of a sum of squares, whether it was found, and after how many steps."""

    def gradient(x: Any) -> Any:
        return grad(lambda x: np.sum(residuals(x) ** 2) / 2)(x)

    def found(x: Any) -> Any:
        return _levenberg_marquardt(residuals, x, tol, most)

    x = custom_root(gradient, guess, lambda f, x: found(x)[0], dense_solve)
    _, success, count = map(stop_gradient, found(guess))
    return x, success, count


@within_traces("scipy.optimize:least_squares")
def least_squares(
    fun: Function,
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = None,
    method: str = "trf",
    ftol: Any = 1e-8,
    xtol: Any = 1e-8,
    gtol: Any = 1e-8,
    x_scale: Any = None,
    loss: Any = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: Any = None,
    tr_options: Any = None,
    jac_sparsity: Any = None,
    max_nfev: Any = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: Any = None,
    callback: Any = None,
    workers: Any = None,
) -> Any:
    """The minimum of half the sum of squares of residuals, near a guess.

    By the method of Levenberg and Marquardt, with the derivatives of ``fun``.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args, **kwargs)`` gives the residuals, of shape (m,).
    x0 : array of shape (n,)
    xtol : float
        How small, to ``x``, steps are at the end.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``cost``, ``fun``, ``jac``, ``grad`` and ``success``.

    Raises
    ------
    UnsupportedNumPyError
        For ``bounds`` and a ``loss`` that is not linear.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import least_squares
    >>> fit = lambda d: least_squares(lambda x: x[0] + x[1] * np.arange(3.0) - d, np.zeros(2)).x
    >>> jacrev(fit)(np.array([1.0, 2.0, 4.0]))[0]
    array([ 0.833333,  0.333333, -0.166667])
    """
    name = "scipy.optimize.least_squares"
    if bounded(bounds):
        refuse(f"{name}(..., bounds=...)", BOUNDS)
    if loss != "linear":
        refuse(f"{name}(..., loss={loss!r})", "minimise the sum of the losses by minimize")
    given = arguments(args)
    guess = vector(x0)

    def residuals(x: Any) -> Any:
        return np.atleast_1d(inexact(fun(x, *given, **(kwargs or {})))).reshape(-1)

    most = 100 * guess.size if max_nfev is None else max_nfev
    x, success, count = _least_squares(residuals, guess, xtol, most)
    value, slopes = residuals(x), jacfwd(residuals)(x)
    return result_of(
        x=x, cost=np.sum(value**2) / 2, fun=value, jac=slopes, grad=slopes.T @ value,
        success=success, status=np.where(success, 3, 0), nfev=count,
        message=said_of(success, "`xtol` termination condition is satisfied.",
                        "The maximum number of function evaluations is exceeded."),
    )  # fmt: skip


@within_traces("scipy.optimize:curve_fit")
def curve_fit(
    f: Function,
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: Any = None,
    bounds: Any = None,
    method: Any = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: Any = None,
    **options: Any,
) -> Any:
    """Parameters with which a function comes closest to data, and their covariances.

    Parameters
    ----------
    f : callable
        ``f(xdata, *parameters)``, of the shape of ``ydata``.
    xdata, ydata : array
    p0 : array, optional
        Where to start; ones, as many as ``f`` has parameters, if nothing is said.
    sigma : array, optional
        The errors of ``ydata``, or their covariances.
    absolute_sigma : bool
        Whether they are errors, and not only in proportion to them.

    Returns
    -------
    popt : array of shape (n,)
    pcov : array of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import curve_fit
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> fit = lambda y: curve_fit(lambda x, a, b: a + b * x, x, y)[0]
    >>> jacrev(fit)(np.array([1.0, 2.0, 4.0]))[0]
    array([ 0.833333,  0.333333, -0.166667])
    """
    name = "scipy.optimize.curve_fit"
    refuse_options(name, [("full_output", full_output, "leave it out")])
    if bounded(bounds):
        refuse(f"{name}(..., bounds=...)", BOUNDS)
    xs = xdata if callable(getattr(xdata, "keys", None)) else inexact(xdata)
    ys = inexact(ydata).reshape(-1)
    if p0 is None:
        p0 = np.ones(len(inspect.signature(f).parameters) - 1)
    errors = None if sigma is None else inexact(sigma)
    lower = np.linalg.cholesky(errors) if errors is not None and errors.ndim == 2 else None
    guess = vector(p0)

    def residuals(p: Any) -> Any:
        rest = inexact(f(xs, *(p[i] for i in range(guess.size)))).reshape(-1) - ys
        if lower is not None:
            return np.linalg.solve(lower, rest)
        return rest if errors is None else rest / errors

    p, _, _ = _least_squares(residuals, guess, 1e-9, 200 * (guess.size + 1))
    slopes = jacfwd(residuals)(p)
    covariance = np.linalg.inv(slopes.T @ slopes)
    if not absolute_sigma:
        spare = ys.size - guess.size
        scale = np.sum(residuals(p) ** 2) / spare if spare > 0 else np.inf
        covariance = covariance * scale
    return p, covariance

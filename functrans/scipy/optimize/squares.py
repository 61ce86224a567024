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
from functrans.ir.types import Aval
from functrans.lax.implicit import custom_root
from functrans.lax.loops import while_loop
from functrans.numpy.arrays import inexact
from functrans.ops.define import lazy
from functrans.scipy.inside import refuse, refuse_options, within_traces
from functrans.scipy.optimize.constrained import implicit_minimum, within
from functrans.scipy.optimize.host import on_the_host
from functrans.scipy.optimize.scalar import dense_solve, said_of
from functrans.scipy.optimize.vectors import (
    Function,
    arguments,
    bounded,
    largest,
    result_of,
    vector,
)

_scipys = lazy("scipy.optimize:least_squares")


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


_LOSSES: dict[str, Function] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""What stands for the square of a residual, of the square."""


def _cost(residuals: Function, loss: str, f_scale: Any) -> Function:
    if loss == "linear":
        return lambda x: np.sum(residuals(x) ** 2) / 2
    of_square = _LOSSES[loss]
    return lambda x: f_scale**2 * np.sum(of_square((residuals(x) / f_scale) ** 2)) / 2


def _by_scipy(residuals: Function, guess: Any, bounds: Any, options: dict[str, Any]) -> Any:
    """The minimum that SciPy finds within bounds, or for a loss of its own."""
    pair: Any = (-np.inf, np.inf) if bounds is None else bounds
    pair = (pair.lb, pair.ub) if hasattr(pair, "lb") else pair
    low, high = (np.broadcast_to(inexact(end), guess.shape) for end in pair)

    def solver(functions: Any, start: Any) -> Any:
        f, lower, upper, scale = functions
        options["f_scale"] = float(scale(start))
        ends = lower(start), upper(start)
        found = _scipys(f, start, jac=jacfwd(f), bounds=ends, **options)
        return found.x, np.asarray(found.success), np.asarray(found.nfev)

    f_scale = inexact(options["f_scale"])
    functions = [residuals, lambda x: low, lambda x: high, lambda x: f_scale]
    types = Aval(guess.shape, guess.dtype), Aval((), bool), Aval((), np.int64)
    x, success, count = on_the_host(solver, functions, guess, types)
    cost = _cost(residuals, options["loss"], f_scale)
    return implicit_minimum(cost, x, within(low, high)), success, count


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

    By the method of Levenberg and Marquardt, with the derivatives of ``fun``. Within bounds, and
    for a ``loss`` that is not linear, SciPy finds it, and the derivative is that of the conditions
    of a minimum there.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args, **kwargs)`` gives the residuals, of shape (m,).
    x0 : array of shape (n,)
    bounds : pair of arrays, or scipy.optimize.Bounds
    xtol : float
        How small, to ``x``, steps are at the end.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}
    f_scale : float
        Where the loss begins to differ from the square.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``cost``, ``fun``, ``jac``, ``grad`` and ``success``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import least_squares
    >>> fit = lambda d: least_squares(lambda x: x[0] + x[1] * np.arange(3.0) - d, np.zeros(2)).x
    >>> jacrev(fit)(np.array([1.0, 2.0, 4.0]))[0]
    array([ 0.833333,  0.333333, -0.166667])
    """
    if not isinstance(loss, str):
        refuse("scipy.optimize.least_squares(..., loss=function)", f"use one of {list(_LOSSES)}")
    if loss not in _LOSSES:
        raise ValueError(f"`loss` must be one of {list(_LOSSES)}")
    given = arguments(args)
    guess = vector(x0)

    def residuals(x: Any) -> Any:
        return np.atleast_1d(inexact(fun(x, *given, **(kwargs or {})))).reshape(-1)

    if bounded(bounds) or loss != "linear":
        scipys = {"ftol": ftol, "xtol": xtol, "gtol": gtol, "max_nfev": max_nfev, "loss": loss,
                  "method": method, "f_scale": f_scale}  # fmt: skip
        x, success, count = _by_scipy(residuals, guess, bounds, scipys)
    else:
        most = 100 * guess.size if max_nfev is None else max_nfev
        x, success, count = _least_squares(residuals, guess, xtol, most)
    value, slopes = residuals(x), jacfwd(residuals)(x)
    cost = _cost(residuals, loss, f_scale)
    return result_of(
        x=x, cost=cost(x), fun=value, jac=slopes, grad=grad(cost)(x),
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
    bounds : pair of arrays, or scipy.optimize.Bounds
        The fit within them is that of `least_squares`.
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
    refuse_options("scipy.optimize.curve_fit", [("full_output", full_output, "leave it out")])
    xs = xdata if callable(getattr(xdata, "keys", None)) else inexact(xdata)
    ys = inexact(ydata).reshape(-1)
    if p0 is None:
        p0 = _start(len(inspect.signature(f).parameters) - 1, bounds)
    errors = None if sigma is None else inexact(sigma)
    lower = np.linalg.cholesky(errors) if errors is not None and errors.ndim == 2 else None
    guess = vector(p0)

    def residuals(p: Any) -> Any:
        rest = inexact(f(xs, *(p[i] for i in range(guess.size)))).reshape(-1) - ys
        if lower is not None:
            return np.linalg.solve(lower, rest)
        return rest if errors is None else rest / errors

    if bounded(bounds):
        p = least_squares(residuals, guess, bounds=bounds, **options).x
    else:
        p, _, _ = _least_squares(residuals, guess, 1e-9, 200 * (guess.size + 1))
    slopes = jacfwd(residuals)(p)
    covariance = np.linalg.inv(slopes.T @ slopes)
    if not absolute_sigma:
        spare = ys.size - guess.size
        scale = np.sum(residuals(p) ** 2) / spare if spare > 0 else np.inf
        covariance = covariance * scale
    return p, covariance


def _start(size: int, bounds: Any) -> Any:
    """Where a fit starts if nothing is said: ones, or within bounds."""
    if not bounded(bounds):
        return np.ones(size)
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    low, high = (np.broadcast_to(np.asarray(end, float), (size,)) for end in pair)
    first, last = np.isfinite(low), np.isfinite(high)
    inside = np.where(first & last, 0.5 * (low + high), np.where(first, low + 1, high - 1))
    return np.where(first | last, inside, 1.0)


@within_traces("scipy.optimize:leastsq")
def leastsq(
    func: Function,
    x0: Any,
    args: Any = (),
    Dfun: Any = None,
    full_output: Any = False,
    col_deriv: Any = False,
    ftol: Any = 1.49012e-08,
    xtol: Any = 1.49012e-08,
    gtol: Any = 0.0,
    maxfev: int = 0,
    epsfcn: Any = None,
    factor: float = 100,
    diag: Any = None,
) -> Any:
    """The ``x`` of `least_squares`, and a number from 1 to 4 if it was found.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import leastsq
    >>> fit = lambda d: leastsq(lambda x: x[0] + x[1] * np.arange(3.0) - d, np.zeros(2))[0]
    >>> jacrev(fit)(np.array([1.0, 2.0, 4.0]))[0]
    array([ 0.833333,  0.333333, -0.166667])
    """
    given = [("full_output", full_output or None, "use least_squares")]
    refuse_options("scipy.optimize.leastsq", given)
    found = least_squares(func, x0, xtol=xtol, args=args, max_nfev=maxfev or None)
    return found.x, np.where(found.success, 1, 5)

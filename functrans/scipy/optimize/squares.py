"""Nonlinear least squares and curve fitting, by the Levenberg-Marquardt method or by SciPy.

`lax.custom_root` differentiates the stationarity condition at the minimum, not the iteration.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from functrans.api.derivatives import grad, jvp
from functrans.api.jacobians import jacfwd
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.text import asarray_chkfinite
from functrans.ops.control.provided import provided
from functrans.scipy.along_a_path import custom_root
from functrans.scipy.define import double
from functrans.scipy.inside import (
    check_one_of,
    check_tolerance,
    refuse_options,
    within_traces,
)
from functrans.scipy.optimize.constrained import implicit_minimum, within
from functrans.scipy.optimize.host import on_the_host
from functrans.scipy.optimize.levenberg_marquardt import (
    MESSAGES,
    STEPS_EXCEEDED,
    Tolerances,
    levenberg_marquardt,
)
from functrans.scipy.optimize.scalar import UNTIL_IT_RUNS, dense_solve
from functrans.scipy.optimize.vectors import (
    Function,
    bounded,
    ends_of,
    result_of,
    vector,
)

_scipys = lazy("scipy.optimize:least_squares")


def _least_squares(
    residuals: Function, guess: Any, tolerances: Tolerances, most: int
) -> tuple[Any, Any, Any]:
    """The minimum of a sum of squares, the status, and the number of steps."""

    def gradient(x: Any) -> Any:
        return grad(lambda x: np.sum(residuals(x) ** 2) / 2)(x)

    def found(x: Any) -> Any:
        x, status, count = levenberg_marquardt(residuals, x, tolerances, most)
        return x, (status, count)

    x, about = custom_root(gradient, guess, lambda f, x: found(x), dense_solve, has_aux=True)
    status, count = map(stop_gradient, about)
    return x, status, count


_LOSSES: dict[str, Function] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""The robust loss functions, applied to the squared residuals."""


def _cost(residuals: Function, loss: str, f_scale: Any) -> Function:
    if loss == "linear":
        return lambda x: np.sum(residuals(x) ** 2) / 2
    of_square = _LOSSES[loss]
    return lambda x: f_scale**2 * np.sum(of_square((residuals(x) / f_scale) ** 2)) / 2


def _weighted(slopes: Any, value: Any, loss: str, f_scale: Any) -> Any:
    """Scale the Jacobian for a robust loss, so that its Gram matrix is the Gauss-Newton Hessian.

    As in SciPy, each row is multiplied by the square root of the second derivative of the loss with
    respect to its residual.
    """
    if loss == "linear":
        return slopes
    pull = grad(_cost(lambda r: r, loss, f_scale))
    _, bends = jvp(pull, (value,), (np.ones_like(value),))
    return slopes * np.sqrt(np.maximum(bends, np.finfo(bends.dtype).eps))[:, None]


def _by_scipy(residuals: Function, guess: Any, bounds: Any, options: dict[str, Any]) -> Any:
    """The minimum within bounds, or for a robust loss, found by SciPy."""
    low, high = ends_of(bounds, guess.shape)

    def solver(functions: Any, start: Any) -> Any:
        f, lower, upper, scale = functions
        options["f_scale"] = float(scale(start))
        ends = lower(start), upper(start)
        found = _scipys(f, start, jac=jacfwd(f), bounds=ends, **options)
        return found.x, np.asarray(found.status), np.asarray(found.nfev)

    f_scale = inexact(options["f_scale"])
    functions = [residuals, lambda x: low, lambda x: high, lambda x: f_scale]
    types = Aval(guess.shape, guess.dtype), Aval((), np.int64), Aval((), np.int64)
    x, status, count = on_the_host(solver, functions, guess, types)
    cost = _cost(residuals, options["loss"], f_scale)
    return implicit_minimum(cost, x, within(low, high)), status, count


@within_traces("scipy.optimize:least_squares")
def least_squares(
    fun: Function, x0: Any, jac: Any = "2-point", bounds: Any = None, method: str = "trf",
    ftol: Any = 1e-8, xtol: Any = 1e-8, gtol: Any = 1e-8, x_scale: Any = None, loss: Any = "linear",
    f_scale: float = 1.0, diff_step: Any = None, tr_solver: Any = None, tr_options: Any = None,
    jac_sparsity: Any = None, max_nfev: Any = None, verbose: int = 0, args: Any = (),
    kwargs: Any = None, callback: Any = None, workers: Any = None,
) -> Any:  # fmt: skip
    """Nonlinear least squares: minimise half the sum of squared residuals, from an initial guess.

    The method is Levenberg-Marquardt, with automatic derivatives of ``fun``. With bounds, or with a
    ``loss`` other than "linear", SciPy finds the minimum, which is differentiated by its KKT
    conditions.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args, **kwargs)`` gives the residuals, of shape (m,).
    x0 : array of shape (n,)
    bounds : pair of arrays, or scipy.optimize.Bounds
    xtol : float
        Iteration ends when steps are this small relative to ``x``, or no step reduces the cost.
    ftol, gtol : float
        Tolerances of the cost and its gradient; unless SciPy is the solver, they only determine the
        ``status``.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}
    f_scale : float
        The size of residuals beyond which the loss differs from the square.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``cost``, ``fun``, ``jac``, ``grad``, ``success`` and SciPy's ``status``: 1 for
        ``gtol``, 2 for ``ftol``, 3 for ``xtol``, 4 for both of these, 0 (no success) if
        ``max_nfev`` was reached.

    Raises
    ------
    ValueError
        If residuals are known not to be finite at the start.
    UnsupportedNumPyError
        For ``callback``, and for a ``loss`` that is a function.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import least_squares
    >>> fit = lambda d: least_squares(lambda x: x[0] + x[1] * np.arange(3.0) - d, np.zeros(2)).x
    >>> jacrev(fit)(np.array([1.0, 2.0, 4.0]))[0]
    array([ 0.833333,  0.333333, -0.166667])
    """
    refuse_options("scipy.optimize.least_squares", [("callback", callback, "leave it out")])
    if not isinstance(loss, str):
        refuse("scipy.optimize.least_squares(..., loss=function)", f"use one of {list(_LOSSES)}")
    if loss not in _LOSSES:
        raise ValueError(f"`loss` must be one of {list(_LOSSES)}")
    check_one_of("`method`", method, ("trf", "dogbox", "lm"))
    check_one_of("`tr_solver`", tr_solver, (None, "exact", "lsmr"))
    if not callable(jac):
        check_one_of("`jac`", jac, ("2-point", "3-point", "cs"))
    if max_nfev is not None:
        check_tolerance("max_nfev", max_nfev)
    given = tuple(args)  # SciPy takes a list for a sequence of arguments
    guess = vector(x0, one_axis=True)

    def residuals(x: Any) -> Any:
        return np.atleast_1d(inexact(fun(x, *given, **(kwargs or {})))).reshape(-1)

    if bounded(bounds) or loss != "linear":
        scipys = {"ftol": ftol, "xtol": xtol, "gtol": gtol, "max_nfev": max_nfev, "loss": loss,
                  "method": method, "f_scale": f_scale}  # fmt: skip
        x, status, count = _by_scipy(residuals, guess, bounds, scipys)
    else:
        most = 100 * guess.size if max_nfev is None else max_nfev
        if known(np.all(np.isfinite(residuals(guess)))) == np.False_:
            raise ValueError("Residuals are not finite in the initial point.")
        x, status, count = _least_squares(residuals, guess, Tolerances(ftol, xtol, gtol), most)
    value, slopes = residuals(x), jacfwd(residuals)(x)
    cost = _cost(residuals, loss, f_scale)
    slopes = _weighted(slopes, value, loss, f_scale)
    return result_of(
        x=x, cost=cost(x), fun=value, jac=slopes, grad=grad(cost)(x),
        success=status > STEPS_EXCEEDED, status=status, nfev=count,
        message=UNTIL_IT_RUNS if known(status) is None else MESSAGES[int(known(status))],
    )  # fmt: skip


@within_traces("scipy.optimize:curve_fit")
def curve_fit(
    f: Function, xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None,
    absolute_sigma: bool = False, check_finite: Any = None, bounds: Any = None, method: Any = None,
    jac: Any = None, *, full_output: bool = False, nan_policy: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Fit the parameters of a function to data by least squares, and estimate their covariances.

    Parameters
    ----------
    f : callable
        ``f(xdata, *parameters)`` returns an array of the shape of ``ydata``.
    xdata, ydata : array
    p0 : array, optional
        The initial guess; by default a one for each parameter of ``f``.
    bounds : pair of arrays, or scipy.optimize.Bounds
        With bounds, the fit is that of `least_squares`.
    sigma : array, optional
        The standard deviations of ``ydata``, or their covariance matrix.
    absolute_sigma : bool
        Whether ``sigma`` is absolute, rather than relative.
    check_finite : bool, optional
        Whether to raise for infinities and NaN in data that are known (they are not under `jit` and
        `vmap`); by default True unless ``nan_policy`` is given.
    nan_policy : {"raise", "omit"}, optional
        The treatment of NaN in known data.
    method : {"lm", "trf", "dogbox"}, optional
        "lm" without bounds, else "trf".
    **options
        The options of `leastsq` for "lm", and of `least_squares` for other methods.

    Returns
    -------
    popt : array of shape (n,)
    pcov : array of shape (n, n)

    Raises
    ------
    ValueError
        For data with infinities, or with NaN unless they are omitted.
    RuntimeError
        If the fit did not converge, also in compiled code.
    UnsupportedNumPyError
        For ``full_output``, and for ``nan_policy`` if the data are not known.

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
    by_steps = _by_levenberg_marquardt(method, bounds, options)
    xs = xdata if _is_table(xdata) else double(xdata)
    errors = None if sigma is None else inexact(sigma)
    xs, ys, errors = _looked_at(xs, double(ydata).reshape(-1), errors, check_finite, nan_policy)
    if p0 is None:
        p0 = _start(len(inspect.signature(f).parameters) - 1, bounds)
    guess = vector(p0)
    _check_sizes(ys, errors, guess, by_steps, options)
    lower = np.linalg.cholesky(errors) if errors is not None and errors.ndim == 2 else None

    def residuals(p: Any) -> Any:
        rest = inexact(f(xs, *(p[i] for i in range(guess.size)))).reshape(-1) - ys
        if lower is not None:
            return np.linalg.solve(lower, rest)
        return rest if errors is None else rest / errors

    if by_steps:
        most = {"max_nfev": options.get("maxfev") or 200 * (guess.size + 1), "xtol": 1e-9}
        fit = least_squares(residuals, guess, **most)
        failure = f"Number of calls to function has reached maxfev = {most['max_nfev']}."
    else:
        most = {"max_nfev": options.pop("maxfev", None), **options}
        fit = least_squares(residuals, guess, bounds=bounds, method=method or "trf", **most)
        failure = MESSAGES[STEPS_EXCEEDED]
    covariance = _covariance(fit.jac, by_steps)
    if not absolute_sigma:
        spare = fit.fun.size - guess.size
        unknown = np.full(covariance.shape, np.inf)
        covariance = covariance * (2 * fit.cost / spare) if spare > 0 else unknown
    said = f"Optimal parameters not found: {failure}"
    x, covariance = (provided(fit.success, each, message=said) for each in (fit.x, covariance))
    return x, covariance


def _covariance(slopes: Any, by_steps: bool) -> Any:
    """The inverse of ``slopes.T @ slopes`` by a decomposition of ``slopes``.

    Forming the product would lose half of the digits. If it is singular, the result is infinite for
    the Levenberg-Marquardt method, as in `leastsq`, and the pseudo-inverse otherwise.
    """
    m, n = slopes.shape
    if not by_steps:
        inverse = np.linalg.pinv(slopes, rcond=np.finfo(slopes.dtype).eps * max(m, n))
        return inverse @ inverse.T
    if m < n:
        return np.full((n, n), np.inf)
    upper = np.linalg.qr(slopes)[1]
    least = np.finfo(slopes.dtype).eps * m * np.sqrt(np.sum(slopes**2, axis=0))
    determined = np.all(np.abs(np.diag(upper)) > least)
    inverse = np.linalg.inv(np.where(determined, upper, np.eye(n)))
    return np.where(determined, inverse @ inverse.T, np.inf)


def _check_sizes(ys: Any, errors: Any, guess: Any, by_steps: bool, options: Any) -> None:
    """Raise, as SciPy does, for arguments of inconsistent sizes."""
    if ys.size == 0:
        raise ValueError("`ydata` must not be empty!")
    if errors is not None and errors.shape not in ((), (1,), (ys.size,), (ys.size, ys.size)):
        raise ValueError("`sigma` has incorrect shape.")
    if "args" in options:
        raise ValueError("'args' is not a supported keyword argument.")
    if by_steps and ys.size != 1 and guess.size > ys.size:
        raise TypeError(
            f"The number of func parameters={guess.size} must not exceed the number of data "
            f"points={ys.size}"
        )


def _is_table(x: Any) -> bool:
    return callable(getattr(x, "keys", None))


def _by_levenberg_marquardt(method: Any, bounds: Any, options: dict[str, Any]) -> bool:
    """Whether the fit uses `leastsq`, whose options differ from those of `least_squares`."""
    if method not in (None, "lm", "trf", "dogbox"):
        raise ValueError(f"`method` must be 'trf', 'dogbox' or 'lm', not {method!r}")
    if method == "lm" and bounded(bounds):
        raise ValueError(
            "Method 'lm' only works for unconstrained problems. Use 'trf' or 'dogbox' instead."
        )
    if method in ("trf", "dogbox") or bounded(bounds):
        return False
    unknown = [name for name in options if name not in inspect.signature(leastsq).parameters]
    if unknown:
        raise TypeError(
            f"curve_fit by method='lm' takes no {unknown[0]!r}: options of least_squares ask for "
            "method='trf'"
        )
    return True


def _looked_at(xs: Any, ys: Any, sigma: Any, check_finite: Any, nan_policy: Any) -> Any:
    """The data after checks for infinities and NaN, or after NaN have been omitted."""
    if check_finite or (check_finite is None and nan_policy is None):
        for data in (ys,) if _is_table(xs) else (xs, ys):
            asarray_chkfinite(data)
        return xs, ys, sigma
    if nan_policy is None:
        return xs, ys, sigma
    if nan_policy == "propagate":
        raise ValueError("`nan_policy='propagate'` is not supported by this function.")
    if nan_policy not in ("raise", "omit"):
        raise ValueError("nan_policy must be one of {None, 'raise', 'omit'}")
    absent_x, absent_y = known(np.isnan(xs)), known(np.isnan(ys))
    if absent_x is None or absent_y is None:
        refuse(
            f"scipy.optimize.curve_fit(..., nan_policy={nan_policy!r}) of data that are not known",
            "look for NaN in the plain arrays, before they are traced",
        )
    absent = absent_x.any(axis=tuple(range(absent_x.ndim - 1))) | absent_y
    if not absent.any():
        return xs, ys, sigma
    if nan_policy == "raise":
        raise ValueError("The input contains nan values")
    kept = np.flatnonzero(~absent)
    for axis in range(0 if sigma is None else sigma.ndim):
        sigma = np.take(sigma, kept, axis=axis)
    return np.take(xs, kept, axis=-1), np.take(ys, kept), sigma


def _start(size: int, bounds: Any) -> Any:
    """The default initial guess: ones, or points within the bounds."""
    if not bounded(bounds):
        return np.ones(size)
    low, high = ends_of(bounds, (size,))
    first, last = np.isfinite(low), np.isfinite(high)
    inside = np.where(first & last, 0.5 * (low + high), np.where(first, low + 1, high - 1))
    return np.where(first | last, inside, 1.0)


@within_traces("scipy.optimize:leastsq")
def leastsq(
    func: Function, x0: Any, args: Any = (), Dfun: Any = None, full_output: Any = False,
    col_deriv: Any = False, ftol: Any = 1.49012e-08, xtol: Any = 1.49012e-08, gtol: Any = 0.0,
    maxfev: int = 0, epsfcn: Any = None, factor: float = 100, diag: Any = None,
) -> Any:  # fmt: skip
    """The ``x`` of `least_squares`, and its status: 1 to 4 for success.

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
    if found.x.size > found.fun.size:
        raise TypeError(
            f"Improper input: func input vector length N={found.x.size} must not exceed func "
            f"output vector length M={found.fun.size}"
        )
    return found.x, np.where(found.success, 1, 5)

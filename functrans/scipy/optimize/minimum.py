"""Minimisation: BFGS and golden-section search, with implicit differentiation.

`lax.custom_root` differentiates the stationarity condition at the minimum, not the iteration.
Source: Nocedal and Wright, Numerical Optimization (2006), chapters 3 and 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.derivatives import grad, value_and_grad
from functrans.api.jacobians import jacfwd
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import known
from functrans.numpy.define import refuse
from functrans.scipy.along_a_path import custom_root, while_loop
from functrans.scipy.define import double
from functrans.scipy.inside import arguments, check_one_of, refuse_options, within_traces
from functrans.scipy.optimize.constrained import Region, implicit_minimum, region_of
from functrans.scipy.optimize.host import on_the_host
from functrans.scipy.optimize.scalar import dense_solve, said_of
from functrans.scipy.optimize.vectors import (
    Function,
    halved,
    largest,
    result_of,
    value_alone,
    vector,
)

_scipys_minimize = lazy("scipy.optimize:minimize")
_scipys_bounds = lazy("scipy.optimize:Bounds")

_METHODS = ("Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "dogleg",
            "trust-ncg", "trust-krylov", "trust-exact", "SLSQP", "COBYLA", "COBYQA",
            "trust-constr")  # fmt: skip
_WITHOUT_GRADIENT = ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")


def _descended(f: Function, x: Any, gtol: Any, maxiter: int) -> tuple[Any, Any, Any]:
    """BFGS with a backtracking line search that halves the step."""
    slope_of = value_and_grad(f)
    value, slope = slope_of(x)
    identity = np.eye(x.size)

    def goes_on(state: Any) -> Any:
        _, _, slope, _, stuck, count = state
        return (largest(slope) > gtol) & ~stuck & (count < maxiter)

    def step(state: Any) -> Any:
        x, value, slope, inverse, _, count = state
        direction = -inverse @ slope
        along = slope @ direction
        # restart from the identity if the approximation is no longer positive definite
        uphill = ~(along < 0)
        inverse = np.where(uphill, identity, inverse)
        direction = np.where(uphill, -slope, direction)
        along = np.where(uphill, -(slope @ slope), along)
        first = np.where(count == 0, np.minimum(1.0, 1.0 / np.sum(np.abs(slope))), 1.0)

        def lower(length: Any, trial: Any) -> Any:
            return trial <= value + 1e-4 * length * along

        length, _ = halved(lambda length: f(x + length * direction), first, lower, 1e-14)
        moved = length * direction
        following, following_slope = slope_of(x + moved)
        turned = following_slope - slope
        curvature = turned @ moved
        curved = curvature > 1e-10 * np.sqrt((turned @ turned) * (moved @ moved))
        safe = np.where(curved, curvature, 1.0)
        scaled = np.where(count == 0, safe / np.where(curved, turned @ turned, 1.0), 1.0) * inverse
        left = identity - np.outer(moved, turned) / safe
        updated = left @ scaled @ left.T + np.outer(moved, moved) / safe
        # no shorter step reduces the function, because of rounding: stop
        stuck = ~(following < value) & (largest(moved) <= 1e-12 * (1 + largest(x)))
        return (x + moved, following, following_slope, np.where(curved, updated, inverse), stuck,
                count + 1)  # fmt: skip

    start = (x, value, slope, identity, np.zeros((), bool), 0)
    x, _, slope, _, _, count = while_loop(goes_on, step, start)
    return x, largest(slope) <= gtol, count


@within_traces("scipy.optimize:minimize")
def minimize(
    fun: Function, x0: Any, args: Any = (), method: Any = None, jac: Any = None, hess: Any = None,
    hessp: Any = None, bounds: Any = None, constraints: Any = (), tol: Any = None,
    callback: Any = None, options: Any = None,
) -> Any:  # fmt: skip
    """A local minimum of a smooth function of a vector, from an initial guess.

    The method is BFGS, whichever ``method`` is given, with the gradient of ``fun`` by reverse mode,
    whether or not ``jac`` is given. With bounds or constraints, SciPy finds the minimum by
    ``method`` with that gradient.

    The minimum is differentiated implicitly by the condition that the gradient is 0, so the Hessian
    must not be singular there; with bounds or constraints, by the conditions of Karush, Kuhn and
    Tucker for the constraints that are active at the minimum.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a number; with ``jac=True``, the number and the gradient.
    x0 : array of shape (n,)
    args : tuple
    bounds : sequence of pairs, or scipy.optimize.Bounds
    constraints : dict, scipy.optimize.LinearConstraint, NonlinearConstraint, or list of these
        The functions may close over traced values.
    tol : float, optional
        Bound on the largest component of the gradient at the end; by default 1e-5.
    options : dict, optional
        ``gtol`` and ``maxiter``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun``, ``jac``, ``nit`` and ``success``.

    Raises
    ------
    UnsupportedNumPyError
        For ``callback``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import minimize
    >>> def lowest(a):
    ...     return minimize(lambda x: np.sum((x - a) ** 2 + x**4), np.zeros(2), tol=1e-9).x
    >>> x = lowest(np.array([1.0, 2.0]))
    >>> np.allclose(jacrev(lowest)(np.array([1.0, 2.0])), np.diag(1 / (1 + 6 * x**2)))
    True
    """
    name = "scipy.optimize.minimize"
    refuse_options(name, [("callback", callback, "leave it out")])
    if method is not None and method not in _METHODS:
        refuse(f"{name}(..., method={method!r})", f"use one of {', '.join(_METHODS[:6])}")
    given = arguments(args)
    guess = vector(x0, one_axis=True)

    def function(x: Any) -> Any:
        value = double(value_alone(fun(x, *given), jac))
        if value.size != 1:
            raise ValueError("The user-provided objective function must return a scalar value.")
        return value.reshape(())

    if bounds is not None or not isinstance(constraints, (list, tuple)) or constraints:
        return _constrained(
            function, guess, region_of(bounds, constraints, guess.size), method, tol, options
        )
    found = {"gtol": 1e-5 if tol is None else tol, "maxiter": 200 * guess.size, **(options or {})}

    def solve(_: Function, x: Any) -> Any:
        x, *about = _descended(function, x, found["gtol"], found["maxiter"])
        return x, about

    x, about = custom_root(grad(function), guess, solve, dense_solve, has_aux=True)
    return _found(function, x, *about)


def _found(function: Function, x: Any, success: Any, count: Any) -> Any:
    """The result for a minimum."""
    value, slope = value_and_grad(function)(x)
    return result_of(
        x=x, fun=value, jac=slope, success=success, status=np.where(success, 0, 2), nit=count,
        message=said_of(
            success, "Optimization terminated successfully.", "Desired error not achieved."
        ),
    )  # fmt: skip


def _constrained(
    function: Function, guess: Any, region: Region, method: Any, tol: Any, options: Any
) -> Any:
    """The minimum within a region, found by SciPy."""
    size = guess.size
    with_gradient = method not in _WITHOUT_GRADIENT
    ends = [lambda x: region.low, lambda x: region.high]
    sides = [region.equal, region.positive]
    kinds = [
        (kind, side)
        for kind, side in zip(("eq", "ineq"), sides, strict=True)
        if side(guess).shape[0]
    ]

    def solver(functions: Any, start: Any) -> Any:
        value, low, high, *rest = functions
        constraints = [
            {"type": kind, "fun": f, "jac": jacfwd(f)}
            if with_gradient
            else {"type": kind, "fun": f}
            for (kind, _), f in zip(kinds, rest, strict=True)
        ]
        bounds = _scipys_bounds(low(start), high(start))
        unbounded = np.all(np.isinf(bounds.lb)) and np.all(np.isinf(bounds.ub))
        found = _scipys_minimize(
            lambda x: float(value(x)), start, method=method, tol=tol, options=options,
            jac=grad(value) if with_gradient else None,
            bounds=None if unbounded else bounds, constraints=constraints,
        )  # fmt: skip
        return found.x, np.asarray(found.success), np.asarray(found.nit if "nit" in found else 0)

    types = Aval((size,), guess.dtype), Aval((), bool), Aval((), np.int64)
    functions = [function, *ends, *(side for _, side in kinds)]
    x, success, count = on_the_host(solver, functions, guess, types)
    x = implicit_minimum(function, x, region)
    return _found(function, x, success, count)


_GOLDEN, _GROWTH = (3 - 5**0.5) / 2, (1 + 5**0.5) / 2
_MOST_STEPS = 100


@within_traces("scipy.optimize:minimize_scalar")
def minimize_scalar(
    fun: Function, bracket: Any = None, bounds: Any = None, args: Any = (), method: Any = None,
    tol: Any = None, options: Any = None,
) -> Any:  # fmt: skip
    """A local minimum of a smooth function of one variable, optionally within ``bounds``.

    The method is golden-section search, within the bounds or the bracket. The minimum is
    differentiated implicitly by the condition that the slope is 0; at a bound, it has the
    derivative of the bound.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a number.
    bracket : sequence of 2 or 3 numbers, optional
        Without bounds: three numbers, of which the middle one has the least value, or two, from
        which such three are searched for downhill; by default 0 and 1.
    bounds : pair of numbers, optional
    args : tuple
    tol : float, optional
        By default 1e-8.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun`` and ``success``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import minimize_scalar
    >>> grad(lambda a: minimize_scalar(lambda x: np.cosh(x - 2 * a), bounds=(-9, 9)).x)(1.0)
    np.float64(2.0)
    """
    given = arguments(args)
    if not callable(method):
        check_one_of("method", str(method).lower(), ("none", "brent", "bounded", "golden"))

    def function(x: Any) -> Any:
        return double(fun(x, *given)).reshape(())

    if bounds is None:
        points = [stop_gradient(double(x)) for x in ((0, 1) if bracket is None else bracket)]
        low, inner, high, success = _bracketed(function, *points)
    else:
        low, high = (double(x) for x in bounds)
        success = np.ones((), bool)
        inner = stop_gradient(low + _GOLDEN * (high - low))

    def sectioned(low: Any, inner: Any, high: Any) -> Any:
        """Golden-section search, until the function values differ only by rounding errors."""

        def step(state: Any) -> Any:
            a, b, c, value = state
            trial = b + _GOLDEN * np.where(c - b > b - a, c - b, a - b)
            at_trial = function(trial)
            better, above = at_trial < value, trial > b
            return (
                np.where(better == above, np.where(better, b, trial), a),
                np.where(better, trial, b),
                np.where(better == above, c, np.where(better, b, trial)),
                np.where(better, at_trial, value),
            )

        def wide(state: Any) -> Any:
            a, _, c, _ = state
            return np.abs(c - a) > (tol or 1e-8) * (1 + np.abs(a) + np.abs(c))

        a, _, c, _ = while_loop(wide, step, (low, inner, high, function(inner)))
        return (a + c) / 2

    found = stop_gradient(sectioned(stop_gradient(low), inner, stop_gradient(high)))
    width = 1e-6 * np.abs(stop_gradient(high - low))
    at_low, at_high = found - low < width, high - found < width

    def condition(x: Any) -> Any:
        slope = grad(function)(x)
        at_an_end = np.where(at_low, x - low, x - high)
        return np.where((at_low & (slope > 0)) | (at_high & (slope < 0)), at_an_end, slope)

    def improved(condition: Function, x: Any) -> Any:
        """A step of Newton's method, since function values determine only half of the digits."""
        value, slope = value_and_grad(condition)(x)
        step = value / np.where(slope > 0, slope, np.inf)
        return x - np.where(np.abs(step) < width, step, 0.0)

    x = custom_root(condition, found, improved, lambda g, y: y / g(1.0))
    return result_of(
        x=x, fun=function(x), success=success, status=np.where(success, 0, 1),
        message=said_of(success, "Solution found.", "No bracket of a minimum was found."),
    )  # fmt: skip


def _bracketed(f: Function, a: Any, b: Any, c: Any = None) -> tuple[Any, Any, Any, Any]:
    """A downhill search for a point between two with larger values; and whether one was found."""
    searched = c is None
    if searched:
        turned = f(a) < f(b)
        a, b = np.where(turned, b, a), np.where(turned, a, b)
        c = b + _GROWTH * (b - a)

        def onwards(state: Any) -> Any:
            _, b, c, count = state
            return b, c, c + _GROWTH * (c - b), count + 1

        def downhill(state: Any) -> Any:
            _, b, c, count = state
            return (f(c) < f(b)) & (count < _MOST_STEPS)

        a, b, c, _ = while_loop(downhill, onwards, (a, b, c, 0))
    found = (f(b) <= f(a)) & (f(b) <= f(c))
    if not searched and known(found) == np.False_:
        raise ValueError("the middle one of the points of bracket must have the least value")
    return np.minimum(a, c), b, np.maximum(a, c), found

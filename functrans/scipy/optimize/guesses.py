"""Roots of functions of one variable from an initial guess: Newton's method, secants, fixed points.

Each root is found by a loop, with SciPy's steps, and differentiated by the implicit function
theorem. Source: SciPy's documentation, for the steps and tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.derivatives import grad
from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import array
from functrans.numpy.define import refuse
from functrans.scipy.along_a_path import custom_root, while_loop
from functrans.scipy.define import double, quotient
from functrans.scipy.inside import check_tolerance, within_traces
from functrans.scipy.optimize.scalar import (
    bisect,
    brenth,
    brentq,
    dense_solve,
    implicit,
    report,
    ridder,
    toms748,
)

Function = Callable[..., Any]

_EPS = float(np.finfo(np.float64).eps)


def _newton(slope: Function, curvature: Function | None = None) -> Function:
    """Steps by Newton's method, or by Halley's, from point to point."""

    def rule(equation: Function, x: Any) -> tuple[Any, Function]:
        def following(point: Any) -> Any:
            (x,) = point
            value, along = equation(x), slope(x)
            length = np.where(value == 0, 0.0, quotient(value, along, np.inf))
            if curvature is not None:
                bend = length * quotient(curvature(x), along, np.inf) / 2
                length = np.where(np.abs(bend) < 1, length / (1 - bend), length)
            return (x - length,)

        return (x,), following

    return rule


def _secant(x1: Any) -> Function:
    """Steps by the secant method, from SciPy's two points on."""

    def rule(equation: Function, x: Any) -> tuple[Any, Function]:
        apart = _EPS**0.33 if x.size > 1 else 1e-4
        beside = x * (1 + apart) + np.where(np.real(x) >= 0, apart, -apart)
        now = beside if x1 is None or x.size > 1 else stop_gradient(double(x1))
        f_now, f_before = equation(now), equation(x)
        ends = now, f_now, x, f_before
        if x.size == 1:  # SciPy begins with the better point
            is_better = np.abs(f_now) < np.abs(f_before)
            swapped = x, f_before, now, f_now
            ends = tuple(np.where(is_better, *pair) for pair in zip(swapped, ends, strict=True))

        def following(point: Any) -> Any:
            now, f_now, before, f_before = point
            found = now - f_now * quotient(now - before, f_now - f_before, np.inf)
            found = np.where(f_now == 0, now, found)
            return found, equation(found), now, f_now

        return ends, following

    return rule


@within_traces("scipy.optimize:newton")
def newton(
    func: Function, x0: Any, fprime: Function | None = None, args: Any = (), tol: float = 1.48e-08,
    maxiter: int = 50, fprime2: Function | None = None, x1: Any = None, rtol: float = 0.0,
    full_output: bool = False, disp: bool = True,
) -> Any:  # fmt: skip
    """A root by Newton's method, by Halley's, or by the secant method, from an initial guess.

    The method depends on the derivatives that are given, as in SciPy. If ``x0`` is an array, each
    element is a separate problem.

    Parameters
    ----------
    func : callable
        ``func(x, *args)``
    x0 : float or array
    fprime : callable, optional
        ``fprime(x, *args)``, the derivative, for Newton's method.
    args : tuple
    tol, rtol : float
    maxiter : int
    fprime2 : callable, optional
        The second derivative, for Halley's method.
    x1 : float, optional
        A second guess, for the secant method.

    Returns
    -------
    root : float or array
        NaN if the iteration did not converge within ``maxiter`` steps.
    report : scipy.optimize.OptimizeResult
        With ``full_output``; for an array ``x0``, the boolean arrays ``converged`` and
        ``zero_der``.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import newton
    >>> grad(lambda a: newton(lambda x: x * x - a, 1.0))(2.0)
    np.float64(0.353553391)
    """
    args = tuple(args)  # here, SciPy takes lists for sequences of arguments
    check_tolerance("tol", tol)
    if maxiter < 1:
        raise ValueError("maxiter must be greater than 0")

    def equation(x: Any) -> Any:
        return double(func(x, *args))

    def derivative(f: Function) -> Function:
        return lambda x: stop_gradient(array(f(x, *args)))

    derivatives = [derivative(f) for f in (fprime, fprime2) if f is not None]
    rule = _secant(x1) if fprime is None else _newton(*derivatives)

    def solve(equation: Function, x: Any) -> Any:
        start, following = rule(equation, x)

        def step(state: Any) -> Any:
            point, done, count = state
            found = following(point)
            arrived = np.abs(found[0] - point[0]) <= tol + rtol * np.abs(point[0])
            kept = tuple(np.where(done, old, new) for old, new in zip(point, found, strict=True))
            return kept, done | arrived, count + 1

        def goes_on(state: Any) -> Any:
            return ~np.all(state[1]) & (state[2] < maxiter)

        point, done, _ = while_loop(goes_on, step, (start, np.zeros(x.shape, bool), 0))
        return np.where(done, point[0], np.nan)

    root = implicit(equation, stop_gradient(double(x0)), solve)
    if not full_output:
        return root
    found = ~np.isnan(stop_gradient(root))
    if root.ndim:
        return root, found, ~found
    return root, report(root, found, None, None, "newton")


@within_traces("scipy.optimize:fixed_point")
def fixed_point(
    func: Function, x0: Any, args: Any = (), xtol: float = 1e-8, maxiter: int = 500,
    method: str = "del2",
) -> Any:  # fmt: skip
    """A fixed point ``func(x) = x``, differentiated by the implicit function theorem.

    With Aitken's acceleration (``method="del2"``), each element is a separate problem, as in SciPy;
    with ``method="iteration"``, ``func`` is a function of a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import fixed_point
    >>> x = fixed_point(lambda x: np.cos(0.5 * x), 1.0)
    >>> d = grad(lambda a: fixed_point(lambda x: np.cos(a * x), 1.0))(0.5)
    >>> np.isclose(d, -x * np.sin(0.5 * x) / (1 + 0.5 * np.sin(0.5 * x)))
    np.True_
    """
    args = tuple(args)
    if method not in ("del2", "iteration"):
        raise ValueError(f"method must be 'del2' or 'iteration', not {method!r}")

    def equation(x: Any) -> Any:
        return double(func(x, *args)) - x

    def solve(equation: Function, x: Any) -> Any:
        def step(state: Any) -> Any:
            x, _, count = state
            once = x + equation(x)
            following = once
            if method == "del2":
                twice = once + equation(once)
                bend = twice - 2.0 * once + x
                smooth = bend == 0
                jump = (once - x) ** 2 / np.where(smooth, 1.0, bend)
                following = np.where(smooth, twice, x - jump)
            relative = np.where(x == 0, following, (following - x) / np.where(x == 0, 1.0, x))
            return following, np.all(np.abs(relative) < xtol), count + 1

        start = (x, np.zeros((), bool), 0)
        x, found, _ = while_loop(lambda s: ~s[1] & (s[2] < maxiter), step, start)
        return np.where(found, x, np.nan)

    guess = stop_gradient(double(x0))
    if method == "del2" or guess.ndim == 0:
        return implicit(equation, guess, solve)
    return custom_root(equation, guess, solve, dense_solve)


_METHODS = {
    "bisect": bisect, "brentq": brentq, "brenth": brenth, "ridder": ridder, "toms748": toms748,
}  # fmt: skip


@within_traces("scipy.optimize:root_scalar")
def root_scalar(
    f: Function, args: Any = (), method: str | None = None, bracket: Any = None, fprime: Any = None,
    fprime2: Any = None, x0: Any = None, x1: Any = None, xtol: Any = None, rtol: Any = None,
    maxiter: Any = None, options: Any = None,
) -> Any:  # fmt: skip
    """A root of a function of one variable, in a ``bracket`` or from an initial guess ``x0``.

    "ridder" and "toms748" are computed by Brent's method. Newton's method without ``fprime``
    differentiates ``f``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``root`` and ``converged``; iterations of Newton's method are not counted.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import root_scalar
    >>> grad(lambda a: root_scalar(lambda x: x * x - a, bracket=(0.0, 2.0)).root)(2.0)
    np.float64(0.353553391)
    """
    if fprime is True or fprime2 is True:
        refuse("scipy.optimize.root_scalar(..., fprime=True)", "let f return its value alone")
    if method is None:
        of_guess = "halley" if fprime and fprime2 else "newton"
        of_guess = "secant" if x1 is not None and not fprime else of_guess
        method = "brentq" if bracket is not None else of_guess
    method = method.lower()
    if method not in (*_METHODS, "newton", "secant", "halley"):
        raise ValueError(f"Unknown solver {method}")
    given = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
    given = {name: value for name, value in given.items() if value is not None} | (options or {})
    if method in _METHODS:
        if bracket is None:
            raise ValueError(f"Bracket needed for {method}")
        _, found = _METHODS[method](f, *bracket[:2], args, full_output=True, **given)
        found.method = method
        return found
    if x0 is None:
        raise ValueError(f"x0 must not be None for {method}")
    for name, derivative in (("fprime", fprime), ("fprime2", fprime2)):
        if method == "halley" and not derivative:
            raise ValueError(f"{name} must be specified for halley")

    def slope(x: Any, *args: Any) -> Any:
        return grad(lambda x: np.sum(double(f(x, *args))))(x)

    tolerance = {"tol" if name == "xtol" else name: value for name, value in given.items()}
    root = newton(
        f, x0, None if method == "secant" else fprime or slope, args,
        fprime2=fprime2 if method == "halley" else None, x1=x1, **tolerance,
    )  # fmt: skip
    return report(root, ~np.isnan(root), None, None, method)

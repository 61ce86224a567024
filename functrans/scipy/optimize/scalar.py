"""Roots of functions of one variable: bisection, Brent's method, Newton's method, fixed points.

Each root is found by a loop, and differentiated by the implicit function theorem, with
`lax.custom_root`. Sources: Brent, Algorithms for Minimization Without Derivatives (1973); SciPy's
documentation for the tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.derivatives import grad
from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.lax.branches import cond
from functrans.lax.implicit import custom_root
from functrans.lax.loops import while_loop
from functrans.lazily import lazy
from functrans.numpy.arrays import array, known
from functrans.numpy.define import refuse
from functrans.scipy.define import double
from functrans.scipy.inside import within_traces

Function = Callable[..., Any]

_result = lazy("scipy.optimize:OptimizeResult")
_EPS = float(np.finfo(np.float64).eps)


def implicit(f: Function, guess: Any, find: Function) -> Any:
    """A root found by ``find(f, guess)``, with implicit differentiation of the equation."""
    return custom_root(f, guess, find, lambda g, y: y / g(np.ones_like(y)))


# -- bracketing methods ----------------------------------------------------------------------------


def _bisect(f: Function, a: Any, b: Any, xtol: Any, rtol: Any, maxiter: int) -> tuple[Any, Any]:
    fa, fb = f(a), f(b)
    # bisect from `a` with halved steps, which gives the same points as SciPy
    start = (a, b - a, np.where(fa == 0, a, b), (fa == 0) | (fb == 0), 0)

    def goes_on(state: Any) -> Any:
        return ~state[3] & (state[4] < maxiter)

    def step(state: Any) -> Any:
        left, length, _, _, count = state
        length = length / 2
        middle = left + length
        value = f(middle)
        left = np.where(value * fa >= 0, middle, left)
        found = (value == 0) | (np.abs(length) < xtol + rtol * np.abs(middle))
        return left, length, middle, found, count + 1

    _, _, root, found, count = while_loop(goes_on, step, start)
    return root, (found, count, count + 2)


def _brent(extrapolation: Function) -> Function:
    """Brent's method with inverse quadratic, or hyperbolic, extrapolation."""

    def find(f: Function, a: Any, b: Any, xtol: Any, rtol: Any, maxiter: int) -> tuple[Any, Any]:
        fa, fb = f(a), f(b)
        start = (a, fa, b, fb, a, fa, b - a, b - a, np.where(fa == 0, a, b),
                 (fa == 0) | (fb == 0), 0)  # fmt: skip

        def goes_on(state: Any) -> Any:
            return ~state[9] & (state[10] < maxiter)

        def step(state: Any) -> Any:
            before, f_before, now, f_now, block, f_block, previous, current, _, _, count = state
            opposite = (f_before != 0) & (f_now != 0) & (np.signbit(f_before) != np.signbit(f_now))
            block = np.where(opposite, before, block)
            f_block = np.where(opposite, f_before, f_block)
            previous = np.where(opposite, now - before, previous)
            current = np.where(opposite, now - before, current)
            swapped = np.abs(f_block) < np.abs(f_now)
            before, f_before, now, f_now, block, f_block = (
                np.where(swapped, x, y)
                for x, y in ((now, before), (f_now, f_before), (block, now), (f_block, f_now),
                             (now, block), (f_now, f_block))
            )  # fmt: skip
            delta = (xtol + rtol * np.abs(now)) / 2
            half = (block - now) / 2
            found = (f_now == 0) | (np.abs(half) < delta)
            trial = extrapolation(before, f_before, now, f_now, block, f_block)
            short = 2 * np.abs(trial) < np.minimum(np.abs(previous), 3 * np.abs(half) - delta)
            good = (np.abs(previous) > delta) & (np.abs(f_now) < np.abs(f_before)) & short
            previous, current = np.where(good, current, half), np.where(good, trial, half)
            least = np.where(half > 0, delta, -delta)
            following = now + np.where(np.abs(current) > delta, current, least)
            return (now, f_now, following, cond(found, lambda x: x, f, following), block, f_block,
                    previous, current, now, found, count + 1)  # fmt: skip

        *_, root, found, count = while_loop(goes_on, step, start)
        return root, (found, count, count + 1)

    return find


def _quotient(a: Any, b: Any) -> Any:
    nothing = b == 0
    return np.where(nothing, np.inf, a / np.where(nothing, 1.0, b))


def _inverse_quadratic(
    before: Any, f_before: Any, now: Any, f_now: Any, block: Any, f_block: Any
) -> Any:
    secant = _quotient(-f_now * (now - before), f_now - f_before)
    slope = _quotient(f_before - f_now, before - now)
    further = _quotient(f_block - f_now, block - now)
    both = further * slope * (f_block - f_before)
    return np.where(
        before == block, secant, _quotient(-f_now * (f_block * further - f_before * slope), both)
    )


def _hyperbolic(before: Any, f_before: Any, now: Any, f_now: Any, block: Any, f_block: Any) -> Any:
    secant = _quotient(-f_now * (now - before), f_now - f_before)
    slope = _quotient(f_before - f_now, before - now)
    further = _quotient(f_block - f_now, block - now)
    trial = _quotient(-f_now * (f_block - f_before), f_block * slope - f_before * further)
    return np.where(before == block, secant, trial)


_BRACKETED = {
    "bisect": _bisect,
    "brentq": _brent(_inverse_quadratic),
    "brenth": _brent(_hyperbolic),
    # other methods that find the same root
    "ridder": _brent(_inverse_quadratic),
    "toms748": _brent(_inverse_quadratic),
}


def _bracketed(name: str, summary: str, example: str) -> Function:
    """The public function of a bracketing method."""
    find = _BRACKETED[name]

    def public(
        f: Function,
        a: Any,
        b: Any,
        args: Any = (),
        xtol: Any = 2e-12,
        rtol: Any = 4 * _EPS,
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
        k: int = 1,
    ) -> Any:
        args = args if isinstance(args, tuple) else (args,)
        a, b = (stop_gradient(double(x)) for x in (a, b))

        def equation(x: Any) -> Any:
            return double(f(x, *args))

        opposite = np.sign(stop_gradient(equation(a))) * np.sign(stop_gradient(equation(b))) <= 0
        if known(opposite) is not None and not known(opposite):
            raise ValueError("f(a) and f(b) must have different signs")

        def solve(equation: Function, guess: Any) -> Any:
            root, (found, *_) = find(equation, a, b, xtol, rtol, maxiter)
            return np.where(opposite & (found | (not disp)), root, np.nan)

        root = implicit(equation, b, solve)
        if not full_output:
            return root
        _, counts = find(lambda x: stop_gradient(equation(x)), a, b, xtol, rtol, maxiter)
        found, iterations, calls = counts
        return root, report(root, found & opposite, iterations, calls, name)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""{summary}

    The derivative is that of the root of the equation, by the implicit function theorem; of ``a``
    and ``b`` it does not depend.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` gives one number.
    a, b : float
        Where the signs of ``f`` differ.
    args : tuple
    xtol, rtol : float
    maxiter : int
    full_output : bool
        Whether to give a report, too.

    Returns
    -------
    root : float
        NaN where it was not found within ``maxiter`` steps (the last of them if not ``disp``), or
        if the signs at ``a`` and ``b`` turn out to be the same when a compiled program runs.
    report : scipy.optimize.OptimizeResult
        With ``full_output``.

    Raises
    ------
    ValueError
        If the signs at ``a`` and ``b`` are known to be the same.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import {name}
    >>> {example}
    np.float64(0.353553391)
    """
    return within_traces(f"scipy.optimize:{name}")(public)


def report(root: Any, found: Any, iterations: Any, calls: Any, method: str) -> Any:
    return _result(
        root=root, converged=found, iterations=iterations, function_calls=calls, method=method,
        flag=said_of(found, "converged", "convergence error"),
    )  # fmt: skip


UNTIL_IT_RUNS = "it is known when the compiled program runs"
"""The message of a result under `jit`."""


def said_of(found: Any, yes: str, no: str) -> str:
    """The message for a condition, if its value is known."""
    value = known(found)
    if value is None:
        return UNTIL_IT_RUNS
    return yes if value else no


_EXAMPLE = "grad(lambda a: {}(lambda x: x * x - a, 0.0, 2.0))(2.0)"
bisect = _bracketed("bisect", "A root in an interval, by bisection.", _EXAMPLE.format("bisect"))
brentq = _bracketed(
    "brentq", "A root in an interval, by Brent's method.", _EXAMPLE.format("brentq")
)
brenth = _bracketed(
    "brenth",
    "A root in an interval, by Brent's method with hyperbolic extrapolation.",
    _EXAMPLE.format("brenth"),
)

ridder = _bracketed(
    "ridder",
    "A root in an interval: that of Ridder's method, by Brent's.",
    _EXAMPLE.format("ridder"),
)
toms748 = _bracketed(
    "toms748",
    "A root in an interval: that of Alefeld, Potra and Shi's method, by Brent's.",
    _EXAMPLE.format("toms748"),
)

# -- methods from an initial guess -----------------------------------------------------------------


def _newton(slope: Function, curvature: Function | None = None) -> Function:
    """Steps by Newton's method, or by Halley's, from point to point."""

    def rule(equation: Function, x: Any) -> tuple[Any, Function]:
        def following(point: Any) -> Any:
            (x,) = point
            value, along = equation(x), slope(x)
            length = np.where(value == 0, 0.0, _quotient(value, along))
            if curvature is not None:
                bend = length * _quotient(curvature(x), along) / 2
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
            found = now - f_now * _quotient(now - before, f_now - f_before)
            found = np.where(f_now == 0, now, found)
            return found, equation(found), now, f_now

        return ends, following

    return rule


@within_traces("scipy.optimize:newton")
def newton(
    func: Function,
    x0: Any,
    fprime: Function | None = None,
    args: Any = (),
    tol: float = 1.48e-08,
    maxiter: int = 50,
    fprime2: Function | None = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
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
    args = args if isinstance(args, tuple) else (args,)

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
    func: Function,
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
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
    args = args if isinstance(args, tuple) else (args,)
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


def dense_solve(g: Function, y: Any) -> Any:
    """Solve ``g(x) = y`` for a linear function g by its dense matrix."""
    return np.linalg.solve(columns(g, y), y.reshape(-1)).reshape(y.shape)


def columns(g: Function, like: Any) -> Any:
    """The matrix of a linear function of arrays."""
    basis = np.eye(like.size, dtype=like.dtype).reshape(like.size, *like.shape)
    return vmap(g)(basis).reshape(like.size, -1).T


_METHODS = {
    "bisect": bisect, "brentq": brentq, "brenth": brenth, "ridder": ridder, "toms748": toms748,
}  # fmt: skip


@within_traces("scipy.optimize:root_scalar")
def root_scalar(
    f: Function,
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: Any = None,
    rtol: Any = None,
    maxiter: Any = None,
    options: Any = None,
) -> Any:
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

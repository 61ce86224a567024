"""Roots of functions of one variable in intervals: bisection and Brent's method.

Each root is found by a loop, and differentiated by the implicit function theorem, with
`lax.custom_root`. Sources: Brent, Algorithms for Minimization Without Derivatives (1973); SciPy's
documentation for the tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.numpy.arrays import known
from functrans.scipy.along_a_path import cond, custom_root, while_loop
from functrans.scipy.define import double, quotient
from functrans.scipy.inside import arguments, check_tolerance, within_traces

Function = Callable[..., Any]

_result = lazy("scipy.optimize:OptimizeResult")
_EPS = float(np.finfo(np.float64).eps)


def implicit(f: Function, guess: Any, find: Function, has_aux: bool = False) -> Any:
    """A root found by ``find(f, guess)``, with implicit differentiation of the equation."""
    return custom_root(f, guess, find, lambda g, y: y / g(np.ones_like(y)), has_aux)


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
            slope = quotient(f_before - f_now, before - now, np.inf)
            further = quotient(f_block - f_now, block - now, np.inf)
            secant = quotient(-f_now * (now - before), f_now - f_before, np.inf)
            trial = extrapolation(slope, further, f_before, f_now, f_block)
            trial = np.where(before == block, secant, trial)
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


def _inverse_quadratic(slope: Any, further: Any, f_before: Any, f_now: Any, f_block: Any) -> Any:
    both = further * slope * (f_block - f_before)
    return quotient(-f_now * (f_block * further - f_before * slope), both, np.inf)


def _hyperbolic(slope: Any, further: Any, f_before: Any, f_now: Any, f_block: Any) -> Any:
    return quotient(-f_now * (f_block - f_before), f_block * slope - f_before * further, np.inf)


_BRACKETED = {
    "bisect": _bisect,
    "brentq": _brent(_inverse_quadratic),
    "brenth": _brent(_hyperbolic),
    # other methods that find the same root
    "ridder": _brent(_inverse_quadratic),
    "toms748": _brent(_inverse_quadratic),
}


def _bracketed(name: str, summary: str) -> Function:
    """The public function of a bracketing method."""
    find = _BRACKETED[name]

    def public(
        f: Function, a: Any, b: Any, args: Any = (), xtol: Any = 2e-12, rtol: Any = 4 * _EPS,
        maxiter: int = 100, full_output: bool = False, disp: bool = True,
    ) -> Any:  # fmt: skip
        args = arguments(args)
        check_tolerance("xtol", xtol)
        check_tolerance("rtol", rtol, _EPS if name == "toms748" else 4 * _EPS)
        if maxiter < 0:
            raise ValueError("maxiter must be >= 0")
        a, b = (stop_gradient(double(x)) for x in (a, b))

        def equation(x: Any) -> Any:
            return double(f(x, *args))

        if name == "toms748" and known(a >= b):
            raise ValueError(f"a and b are not an interval [{a}, {b}]")
        opposite = np.sign(stop_gradient(equation(a))) * np.sign(stop_gradient(equation(b))) <= 0
        if known(opposite) == np.False_:
            raise ValueError("f(a) and f(b) must have different signs")

        def solve(equation: Function, guess: Any) -> Any:
            root, (found, *counts) = find(equation, a, b, xtol, rtol, maxiter)
            return np.where(opposite & (found | (not disp)), root, np.nan), (found, *counts)

        root, (found, iterations, calls) = implicit(equation, b, solve, has_aux=True)
        if not full_output:
            return root
        return root, report(root, found & opposite, iterations, calls, name)

    if name == "toms748":
        public = _with_k(public)
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
    >>> grad(lambda a: {name}(lambda x: x * x - a, 0.0, 2.0))(2.0)
    np.float64(0.353553391)
    """
    return within_traces(f"scipy.optimize:{name}")(public)


def _with_k(find: Function) -> Function:
    """A bracketing method with the parameter ``k`` of SciPy's `toms748`, where SciPy has it."""

    def public(
        f: Function, a: Any, b: Any, args: Any = (), k: int = 1, xtol: Any = 2e-12,
        rtol: Any = 4 * _EPS, maxiter: int = 100, full_output: bool = False, disp: bool = True,
    ) -> Any:  # fmt: skip
        check_tolerance("k", k)
        return find(f, a, b, args, xtol, rtol, maxiter, full_output, disp)

    return public


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


bisect = _bracketed("bisect", "A root in an interval, by bisection.")
brentq = _bracketed("brentq", "A root in an interval, by Brent's method.")
brenth = _bracketed(
    "brenth", "A root in an interval, by Brent's method with hyperbolic extrapolation."
)
ridder = _bracketed("ridder", "A root in an interval: that of Ridder's method, by Brent's.")
toms748 = _bracketed(
    "toms748", "A root in an interval: that of Alefeld, Potra and Shi's method, by Brent's."
)


# -- linear equations ------------------------------------------------------------------------------


def dense_solve(g: Function, y: Any) -> Any:
    """Solve ``g(x) = y`` for a linear function g by its dense matrix."""
    return np.linalg.solve(columns(g, y), y.reshape(-1)).reshape(y.shape)


def columns(g: Function, like: Any) -> Any:
    """The matrix of a linear function of arrays."""
    basis = np.eye(like.size, dtype=like.dtype).reshape(like.size, *like.shape)
    return vmap(g)(basis).reshape(like.size, like.size).T

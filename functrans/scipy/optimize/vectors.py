"""Conversions of arguments and results shared by the multivariate solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.along_a_path import while_loop
from functrans.scipy.define import double

Function = Callable[..., Any]

result_of = lazy("scipy.optimize:OptimizeResult")


def vector(x0: Any, one_axis: bool = False) -> Any:
    """An initial guess as a vector of floats, without derivatives; `one_axis`: it has no more."""
    guess = np.atleast_1d(double(x0))
    if one_axis and guess.ndim > 1:
        raise ValueError("'x0' must only have one dimension.")
    return stop_gradient(guess).reshape(-1)


def largest(x: Any) -> Any:
    """The largest absolute value of an element."""
    return np.max(np.abs(x))


def halved(
    at: Function, length: Any, accepted: Callable[[Any, Any], Any], least: float
) -> tuple[Any, Any]:
    """The first accepted one of repeatedly halved steps, at least a length, and the value there."""

    def too_long(trial: Any) -> Any:
        return ~accepted(*trial) & (trial[0] > least)

    def shorter(trial: Any) -> Any:
        return trial[0] / 2, at(trial[0] / 2)

    return while_loop(too_long, shorter, (length, at(length)))


def value_alone(out: Any, jac: Any) -> Any:
    """A function's value alone, if it may return its derivative as well."""
    return out[0] if jac is True else out


def _pair(bounds: Any) -> Any:
    if bounds is None:
        return -np.inf, np.inf
    return (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds


def ends_of(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Lower and upper bounds as arrays of a shape, from a pair, SciPy's object, or None."""
    low, high = (np.broadcast_to(inexact(end), shape) for end in _pair(bounds))
    return low, high


def bounded(bounds: Any) -> bool:
    """Whether a pair of lower and upper bounds has finite or traced elements."""
    return any(holds_tracer(end) or bool(np.any(np.isfinite(end))) for end in _pair(bounds))

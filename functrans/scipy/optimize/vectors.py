"""Conversions of arguments and results shared by the multivariate solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.define import double

Function = Callable[..., Any]

result_of = lazy("scipy.optimize:OptimizeResult")


def arguments(args: Any) -> tuple[Any, ...]:
    """The additional arguments (``args``) of a user's function, as a tuple."""
    return args if isinstance(args, tuple) else (args,)


def vector(x0: Any) -> Any:
    """An initial guess as a vector of floats, without derivatives."""
    return stop_gradient(np.atleast_1d(double(x0))).reshape(-1)


def largest(x: Any) -> Any:
    """The largest absolute value of an element."""
    return np.max(np.abs(x))


def value_alone(out: Any, jac: Any) -> Any:
    """A function's value alone, if it may return its derivative as well."""
    return out[0] if jac is True else out


def bounded(bounds: Any) -> bool:
    """Whether a pair of lower and upper bounds has finite or traced elements."""
    if bounds is None:
        return False
    ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    return any(holds_tracer(end) or bool(np.any(np.isfinite(end))) for end in ends)

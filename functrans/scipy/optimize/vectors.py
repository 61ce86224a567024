"""Common arguments and results of the solvers for several variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.ops.arrays.shape import holds_tracer

Function = Callable[..., Any]

result_of = lazy("scipy.optimize:OptimizeResult")


def arguments(args: Any) -> tuple[Any, ...]:
    """The further arguments of a user's function."""
    return args if isinstance(args, tuple) else (args,)


def vector(x0: Any) -> Any:
    """A start, which the solution does not depend on, as a vector of floats."""
    return stop_gradient(np.atleast_1d(inexact(x0))).reshape(-1)


def largest(x: Any) -> Any:
    """The greatest size of an element."""
    return np.max(np.abs(x))


def value_alone(out: Any, jac: Any) -> Any:
    """What a function gives that may give its derivative as well, without that."""
    return out[0] if jac is True else out


def bounded(bounds: Any) -> bool:
    """Whether a pair of lower and upper bounds says anything: a traced one does."""
    if bounds is None:
        return False
    ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    return any(holds_tracer(end) or bool(np.any(np.isfinite(end))) for end in ends)

"""What the solvers for several numbers share: their arguments and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import inexact
from functrans.ops.define import lazy

Function = Callable[..., Any]

result_of = lazy("scipy.optimize:OptimizeResult")

BOUNDS = "write the variable as a function of a free one, such as its exp or its logistic function"


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
    """Whether there is a finite one among pairs of lower and upper bounds."""
    return bounds is not None and bool(
        np.any(np.isfinite(np.concatenate(list(map(np.ravel, bounds)))))
    )

"""Functions that SciPy has in `scipy.special` and that are no ufuncs there.

SciPy's ufuncs (``scipy.special.erf``, ``expit``, ``gammaln``...) take traced values themselves.
SciPy's ``logsumexp`` and ``softmax`` do not; these take their places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axes_of, inexact
from functrans.numpy.reductions import max, restored, sum
from functrans.ops.arrays.stop import stop_gradient
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.exponential import exp, log
from functrans.ops.elementwise.logic import isfinite

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _highest(x: Any, axes: tuple[int, ...]) -> Any:
    """The maxima that exponents are taken relative to, 0 where they are infinite.

    The result does not depend on them, so they have no derivative.
    """
    top = max(x, axes, keepdims=True, initial=-np.inf)
    return stop_gradient(select(isfinite(top), top, 0))


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials along axes, without overflow.

    Parameters
    ----------
    a : array
    axis : int or tuple of int, optional
        All axes, if it is not given.
    b : array, optional
        What the exponentials are multiplied by.
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> import numpy as np
    >>> float(logsumexp(np.array([1000.0, 1000.0])))
    1000.69314718
    """
    x = inexact(a)
    axes = axes_of(axis, x.ndim)
    if b is not None:
        b = array(b)
        # what is multiplied by 0 does not count, however large
        x = select(b == 0, -np.inf, x)
    top = _highest(x, axes)
    terms = exp(x - top) if b is None else b * exp(x - top)
    total = log(sum(terms, axes)) + sum(top, axes)
    return restored(total, axes, keepdims)


def softmax(x: Any, axis: Any = None) -> Any:
    """Exponentials divided by their sum along axes.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    x = inexact(x)
    axes = axes_of(axis, x.ndim)
    # not `_highest`: as SciPy has it, an infinite element leaves nothing but NaN
    powers = exp(x - stop_gradient(max(x, axes, keepdims=True, initial=-np.inf)))
    return powers / sum(powers, axes, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of `softmax`, without overflow or underflow.

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    x = inexact(x)
    axes = axes_of(axis, x.ndim)
    shifted = x - _highest(x, axes)
    return shifted - log(sum(exp(shifted), axes, keepdims=True))

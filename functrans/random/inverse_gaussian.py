"""The inverse Gaussian distribution by roots of a chi-squared variable; implicit derivatives.

References
----------
J. R. Michael, W. R. Schucany and R. W. Haas, "Generating random variates using transformations with
multiple roots" (1976).
M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients" (2018).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.api.custom import custom_jvp
from functrans.api.recompute import stop_gradient
from functrans.ops.elementwise.special.errors import erfcx
from functrans.random import checks
from functrans.random.keys import new_keys
from functrans.random.reals import standard_normal, unit

__all__ = ["wald"]


@checks.distribution()
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats of the inverse Gaussian distribution with scale 1: times of first arrival.

    Parameters
    ----------
    mean : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.wald(random.key(0), 1.0).round(6)
    np.float64(0.187003)
    """
    mean = checks.parameter(mean, dtype, shape)
    return _moved(stop_gradient(_draw(key, mean)), mean)


def _draw(key: Any, mean: Any) -> Any:
    first, second = new_keys(key, 2)
    y = standard_normal(first, mean.shape, mean.dtype) ** 2
    # the lesser root, written so that nothing cancels
    t = mean * y
    ratio = 2 / (2 + t + np.sqrt(t * (4 + t)))
    lesser = unit(second, mean.shape, mean.dtype) * (1 + ratio) <= 1
    return mean * np.where(lesser, ratio, 1 / ratio)


@custom_jvp
def _moved(x: Any, mean: Any) -> Any:
    """A variable with its derivative at a fixed quantile: the root depends on the mean, too."""
    return x


@_moved.defjvp
def _moving(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x = _moved(*primals)
    return x, _slope(x, primals[1]) * tangents[1]


def _slope(x: Any, mean: Any) -> Any:
    """``dx / dmean``, which is ``-(dF / dmean) / p`` for the distribution function and density.

    All but one term of ``dF / dmean`` cancel: it is ``-2 e**(2 / mean) ndtr(-t) / mean**2`` for
    ``t = (x / mean + 1) / sqrt(x)``, and the density is ``e**(2 / mean) x**-1.5`` times the normal
    density at ``t``.
    """
    root, times = np.sqrt(x), x / mean
    hazard = erfcx((times + 1) / (math.sqrt(2) * root))
    return math.sqrt(2 * math.pi) * times * (root / mean) * hazard

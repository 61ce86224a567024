"""Relative entropies, Poisson probabilities and the pseudo-Huber loss, without cancellation.

For ``x`` and ``y`` within a factor of 2, ``log(x / y) = 2 atanh(s)`` with
``s = (x - y) / (x + y)``, where the difference is exact; the divergence of Kullback and Leibler is
then ``(x + y) s**2`` times a series.

The logarithm of a Poisson probability is such a divergence and Stirling's correction, as in
Loader's saddle-point expansion. It and the loss are computed in float64, also for float32.

References
----------
C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, copysign, eq, fma, unlikely, where
from functrans.vecmath.gamma_functions import HALF_LOG_2_PI, lgamma_positive
from functrans.vecmath.hyperbolic import ATANH_TO_A_THIRD
from functrans.vecmath.logarithm import log
from functrans.vecmath.polynomial import floating, format_of, in_float64, is_nan, polynomial
from functrans.vecmath.roots import hypot
from functrans.vecmath.stirling import correction


def _of_positive(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """``x log(x / y)`` and ``x log(x / y) - (x - y)``."""
    form = format_of(x)
    limit = 2.0 ** (form.bias - 23)
    huge = (x > limit) | (y > limit)
    one = const(1.0, x.dtype)
    unit = where(huge, one * 0.5, one)
    total = x * unit + y * unit
    difference = x * unit - y * unit
    s = difference / total
    rest = polynomial(s * s, ATANH_TO_A_THIRD[form])  # (2 atanh(s) - 2 s) / s**3
    # 2 s = f (1 - s) for f = x / y - 1, whose rounding is the only one that matters
    f = difference / (y * unit)
    near_entropy = x * fma(s, fma(s * s, rest, -f), f)
    divergence = fma((s + 1.0) * s * 0.5, rest, 1.0)
    near_divergence = (total * (s * s)) * divergence * where(huge, one * 2.0, one)
    ratio = x / y
    moderate = (ratio > 1 / limit) & (ratio < limit)
    logarithm = where(moderate, log(where(moderate, ratio, 1.0)), log(x) - log(y))
    far_entropy = x * logarithm
    near = abs(s) < 1 / 3
    entropy = where(near, near_entropy, far_entropy)
    return entropy, where(near, near_divergence, (far_entropy - x) + y)


def _guarded(x: Scalar, y: Scalar, inside: Scalar, at_zero: Scalar) -> Scalar:
    result = where((x > 0) & (y > 0), inside, where(eq(x, 0) & (y >= 0), at_zero, np.inf))
    return where(is_nan(x) | is_nan(y), np.nan, result)


@floating
def rel_entr(x: Scalar, y: Scalar) -> Scalar:
    """``x log(x / y)``; 0 for ``x`` zero, infinite for negative arguments."""
    entropy, _ = _of_positive(x, y)
    return _guarded(x, y, entropy, const(0.0, x.dtype))


@floating
def kl_div(x: Scalar, y: Scalar) -> Scalar:
    """``x log(x / y) - x + y``; infinite for negative arguments."""
    _, divergence = _of_positive(x, y)
    return _guarded(x, y, divergence, y)


@in_float64
def log_poisson(k: Scalar, mu: Scalar) -> Scalar:
    """``k log(mu) - mu - log(gamma(k + 1))`` for ``k > -1``; from 1 up as a divergence."""
    at_root, unity = eq(mu, 0) & (k < np.inf), const(1.0, k.dtype)
    n, rate = where(k >= 1, k, unity), where(mu > 0, mu, unity)
    _, divergence = _of_positive(n, rate)
    many = -(divergence + fma(log(n), 0.5, HALF_LOG_2_PI + correction(n)))
    few = where(eq(k, 0), 0.0, k * log(rate)) - mu - lgamma_positive(where(k > -1, k, 0) + 1.0)
    at_zero = where(eq(k, 0), 0.0, copysign(const(np.inf, k.dtype), -k))
    result = where(at_root, at_zero, unlikely(k < 1, few, many))
    return where((k > -1) & (mu >= 0), result, np.nan)


@in_float64
def pseudo_huber(delta: Scalar, r: Scalar) -> Scalar:
    """``delta**2 (sqrt(1 + (r / delta)**2) - 1)``, and infinite for a negative ``delta``."""
    ratio = abs(r / delta)
    # sqrt(1 + q) - 1 = q / (sqrt(1 + q) + 1)
    usual = r * (r / (hypot(const(1.0, r.dtype), ratio) + 1.0))
    value = where(ratio > 2.0**100, delta * abs(r), usual)
    nothing = eq(delta, 0) | eq(r, 0)
    return where(delta < 0, np.inf, where(nothing, 0.0, value))

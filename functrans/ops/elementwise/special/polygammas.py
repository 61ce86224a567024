"""Derivatives of the logarithm of the gamma function, and their differences; the zeta function's.

The derivatives of the Hurwitz zeta function are those in its exponent. All are computed by the
Euler-Maclaurin formula: some terms one by one, the rest by an asymptotic series.

References
----------
NIST Digital Library of Mathematical Functions, 5.11, 5.15, 25.11.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from functrans.lazily import lazy

_psi = lazy("scipy.special:psi")
_polygamma = lazy("scipy.special:polygamma")
_zeta = lazy("scipy.special:zeta")

BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
    43867 / 798, -174611 / 330,
)  # fmt: skip
"""The Bernoulli numbers of even index from 2."""

STEPS = 16
"""The number of terms that are summed one by one."""


NEAR_POLE = 0.15
"""Closer to a negative integer than this, SciPy's digamma loses digits of the distance."""


def digamma_of(x: Any) -> Any:
    """Digamma, reflected near the negative poles, the distance to which SciPy rounds."""
    value = _psi(x)
    offset = x - np.rint(x)
    near = (np.real(x) < 0) & (np.abs(offset) < NEAR_POLE) & (offset != 0)
    if value.dtype.kind == "c" or not np.any(near):
        return value
    inside, offset = np.where(near, x, -0.5).astype(float), np.where(near, offset, 0.5)
    reflected = _psi(1 - inside) - math.pi / np.tan(math.pi * offset.astype(float))
    return np.where(near, reflected, value).astype(value.dtype)[()]


def polygamma_of(x: Any, *, n: int) -> Any:
    """Polygamma functions in the dtype of the argument, NaN where they have no limit."""
    return np.where(x == -np.inf, np.nan, _polygamma(n, x)).astype(x.dtype)[()]


def polygamma_difference(x: Any, step: Any, *, n: int) -> Any:
    """``polygamma(n, x + step) - polygamma(n, x)``, accurate however small the step is."""
    dtype = np.result_type(x, step)
    x, step = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(step, np.float64))
    positive = (x > 0) & (x + step > 0)
    with np.errstate(all="ignore"):
        result = _between_positive(np.where(positive, x, 1), np.where(positive, step, 0), n)
        if not positive.all():
            of = digamma_of if n == 0 else partial(polygamma_of, n=n)
            direct = of(x + step) - of(x)
            result = np.where(positive, result, direct)
    return result.astype(dtype)[()]


def _between_positive(x: Any, step: Any, n: int) -> Any:
    sign, fact = (-1.0) ** n, float(math.factorial(n))
    total = np.zeros(x.shape)
    # the lowest argument is raised above STEPS
    for k in range(STEPS):
        total = total - sign * fact * _power_difference(x + k, step, n + 1)
    x = x + STEPS
    if n == 0:
        series = np.log1p(step / x) - _power_difference(x, step, 1) / 2
    else:
        series = -sign * (
            math.factorial(n - 1) * _power_difference(x, step, n)
            + fact / 2 * _power_difference(x, step, n + 1)
        )
    for k, number in enumerate(BERNOULLI, start=1):
        factor = number * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        series = series - sign * factor * _power_difference(x, step, 2 * k + n)
    return total + series


def log_gamma_difference(x: Any, step: Any) -> Any:
    """``gammaln(x + step) - gammaln(x)``, accurate however small the step is.

    NaN where an argument is not positive.
    """
    dtype = np.result_type(x, step)
    x, step = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(step, np.float64))
    with np.errstate(all="ignore"):
        start, size = np.minimum(x, x + step), np.abs(step)
        value = np.where(np.isinf(size), np.inf, _log_rise(start, size))
        value = np.where(
            (start > 0) & np.isfinite(start), np.where(step < 0, -value, value), np.nan
        )
    return value.astype(dtype)[()]


def _log_rise(x: Any, step: Any) -> Any:
    """The difference for positive arguments and steps."""
    low = x < STEPS
    # the product of the factors 1 + step / (x + k), without the first, minus 1; where it might
    # overflow, it is negligible
    growth, bounded = np.zeros(x.shape), np.minimum(step, 2.0**60)
    for k in range(1, STEPS):
        ratio = bounded / (x + k)
        growth = growth + ratio + growth * ratio
    steps = np.where(low, np.log1p(step / x) + np.log1p(growth), 0)
    x = np.where(low, x + STEPS, x)
    total = (x - 0.5) * np.log1p(step / x) - step + step * np.log(x + step)
    for k, number in enumerate(BERNOULLI, start=1):
        total = total + number / (2 * k * (2 * k - 1)) * _power_difference(x, step, 2 * k - 1)
    return total - steps


def _power_difference(x: Any, step: Any, m: int) -> Any:
    """``(x + step)**-m - x**-m``."""
    return x ** -float(m) * np.expm1(-m * np.log1p(step / x))


def zeta_derivative(s: Any, q: Any, *, n: int) -> Any:
    """The n-th derivative of the Hurwitz zeta function in its exponent ``s``."""
    dtype = np.result_type(s, q)
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    if n == 0:
        return np.asarray(_zeta(s, q)).astype(dtype)[()]
    with np.errstate(all="ignore"):
        total = np.zeros(s.shape)
        for k in range(STEPS):
            total = total + (-np.log(q + k)) ** n * (q + k) ** -s
        return (total + _zeta_rest(np.minimum(s, 1e300), q + STEPS, n)).astype(dtype)[()]


def _zeta_rest(s: Any, q: Any, n: int) -> Any:
    """The terms from ``q`` on, as Taylor coefficients in the exponent."""
    logarithm = np.log(q)
    # q**-(s + h) = q**-s sum (-log(q) h)**j / j!
    power = [q**-s]
    for j in range(1, n + 1):
        power.append(power[-1] * -logarithm / j)
    # divided by s - 1 + h, and by 2
    quotient: list[Any] = []
    for j in range(n + 1):
        before = quotient[-1] if quotient else 0
        quotient.append((power[j] * q - before) / (s - 1))
    total = [a + b / 2 for a, b in zip(quotient, power, strict=True)]
    # B_2k / (2k)! times (s + h) ... (s + h + 2k - 2) q**-(s + h + 2k - 1)
    term = [p / q for p in _times(power, s)]
    for k, number in enumerate(BERNOULLI, start=1):
        total = [t + number / math.factorial(2 * k) * c for t, c in zip(total, term, strict=True)]
        grown = _times(_times(term, s + (2 * k - 1)), s + 2 * k)
        term = [c / (q * q) for c in grown]
    return total[n] * math.factorial(n)


def _times(series: list[Any], constant: Any) -> list[Any]:
    """A Taylor series in ``h`` times ``constant + h``."""
    below = [0.0, *series[:-1]]
    return [c * constant + b for c, b in zip(series, below, strict=True)]

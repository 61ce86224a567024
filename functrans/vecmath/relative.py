"""Powers, exponentials and logarithms minus their values at 0 or 1, and quotients of these.

``(e**x - 1) / x`` and ``log(1 + x) / x`` are integrals from 0 to 1 of ``e**(t x)`` and
``1 / (1 + t x)``; their derivatives are power series near 0, and elsewhere follow from each other
by integration by parts.

References
----------
G. E. P. Box and D. R. Cox, "An analysis of transformations" (1964).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from functrans.loop.scalar import Scalar, const, copysign, eq, floor, fma, where
from functrans.vecmath.exponential import clamp, exp, exp_scaled, expm1
from functrans.vecmath.logarithm import log, log1p
from functrans.vecmath.polynomial import in_float64, is_nan
from functrans.vecmath.powers import power

NEAR_LOG1P = 0.5


def _series(x: Scalar, first: float, growth: Callable[[int], float], terms: int) -> Scalar:
    """A power series, by the ratios of its coefficients."""
    total = const(1.0, x.dtype)
    for k in range(terms, 0, -1):
        total = fma(total * x, growth(k), 1.0)
    return total * first


@in_float64
def exprel(x: Scalar) -> Scalar:
    """``(e**x - 1) / x``."""
    tiny = abs(x) < 2.0**-60
    usual = expm1(x) / where(tiny, 1.0, x)
    # e**x may overflow where the quotient does not
    large = (exp_scaled(x, -20) / x) * 2.0**20
    result = where(x > 700.0, where(x < 720.0, large, np.inf), usual)
    return where(tiny, 1.0, result)


@in_float64
def exprel_derivative(x: Scalar, *, n: int) -> Scalar:
    """The n-th derivative of ``(e**x - 1) / x``."""
    bound = 3.0 + n
    middle = clamp(x, -bound, bound)
    terms = 30 + 4 * n
    # positive terms on either side: on the left, e**x is factored out of the integral
    right = _series(middle, 1 / (n + 1), lambda k: (n + k) / (k * (n + k + 1)), terms)
    left = exp(middle) * _series(-middle, 1 / (n + 1), lambda k: 1 / (n + 1 + k), terms)
    near = where(x < 0, left, right)
    power, away = exp(x), where(abs(x) < bound, bound, x)
    far = exprel(away)
    for k in range(1, n + 1):
        far = (power - k * far) / away
    far = where(power < np.inf, far, np.inf)
    return where(abs(x) < bound, near, where(is_nan(x), x, far))


@in_float64
def log1prel_derivative(x: Scalar, *, n: int) -> Scalar:
    """The n-th derivative of ``log(1 + x) / x``."""
    if n == 0:
        quotient = log1p(x) / where(eq(x, 0), 1.0, x)
        return where(eq(x, 0), 1.0, where(eq(x, np.inf), 0.0, quotient))
    is_near = abs(x) <= NEAR_LOG1P
    middle, away = where(is_near, x, 0), where(is_near, 1.0, x)
    first = (-1.0) ** n * math.factorial(n) / (n + 1)
    near = _series(-middle, first, lambda k: (n + k) ** 2 / (k * (n + k + 1)), 56 + 8 * n)
    far = log1p(away) / away
    power = inverse = 1.0 / (away + 1.0)
    for k in range(1, n + 1):
        # x times the function is log(1 + x)
        far = fma(power, (-1.0) ** (k - 1) * math.factorial(k - 1), far * -float(k)) / away
        power = power * inverse
    far = where(eq(x, np.inf), 0.0, far)
    return where(is_near, near, far)


# -- Box and Cox -----------------------------------------------------------------------------------

_TINY = 1e-19
_LARGEST = 709.78


def _power_less_one(exponent: Scalar, lmbda: Scalar) -> Scalar:
    """``(e**exponent - 1) / lmbda``, where the exponential may overflow before the quotient."""
    beyond = exp(exponent - log(abs(lmbda)))
    large = copysign(beyond, lmbda) - 1.0 / lmbda
    return where(exponent >= _LARGEST, large, expm1(exponent) / lmbda)


@in_float64
def boxcox(x: Scalar, lmbda: Scalar) -> Scalar:
    """``(x**lmbda - 1) / lmbda``, the logarithm for ``lmbda`` zero."""
    logarithm = log(x)
    exponent = logarithm * lmbda
    # where the rounding error of the exponent would be visible
    direct = (power(x, lmbda) - 1.0) / lmbda
    usual = _power_less_one(exponent, lmbda)
    moderate = (abs(exponent) > 1.5) & (exponent < _LARGEST)
    return where(abs(lmbda) < _TINY, logarithm, where(moderate, direct, usual))


@in_float64
def boxcox1p(x: Scalar, lmbda: Scalar) -> Scalar:
    """``boxcox(1 + x, lmbda)``."""
    logarithm = log1p(x)
    exponent = logarithm * lmbda
    simple = (abs(exponent) < 2.0**-60) | eq(lmbda, 0)
    return where(simple, logarithm, _power_less_one(exponent, lmbda))


def _inverse_exponent(y: Scalar, lmbda: Scalar) -> Scalar:
    """``log(1 + lmbda y) / lmbda``, which is ``y`` for ``lmbda`` zero."""
    product = lmbda * y
    usual = log1p(product) / lmbda
    # log(lmbda y), where the product overflows
    large = (log(abs(lmbda)) + log(abs(y))) / lmbda
    huge = eq(product, np.inf) & (abs(lmbda) < np.inf) & (abs(y) < np.inf)
    return where((abs(product) < 2.0**-60) | eq(lmbda, 0), y, where(huge, large, usual))


@in_float64
def inv_boxcox(y: Scalar, lmbda: Scalar) -> Scalar:
    """The inverse of `boxcox`."""
    return exp(_inverse_exponent(y, lmbda))


@in_float64
def inv_boxcox1p(y: Scalar, lmbda: Scalar) -> Scalar:
    """The inverse of `boxcox1p`."""
    return expm1(_inverse_exponent(y, lmbda))


@in_float64
def powm1(x: Scalar, y: Scalar) -> Scalar:
    """``x**y - 1``, with no cancellation where the power is near 1."""
    half = y * 0.5
    even = eq(floor(half), half)
    exponent = log(abs(x)) * y
    near = (abs(exponent) < 0.5) & ((x > 0) | even)
    return where(near, expm1(exponent), power(x, y) - 1.0)

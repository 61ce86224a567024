"""The gamma function, its reciprocal and its sign, by Stirling's formula, corrected from 1 up.

``log(gamma(x)) = (x - 1/2) log(x) - x + log(2 pi) / 2 + correction(x)``, where ``x + 1`` times
the correction is a smooth function of ``t = (x - 3) / (x + 1)``, which maps the arguments from 1 up
to [-1, 1]. Smaller arguments are raised by one, negative ones reflected. The result is a power of
two whose exponent is a pair.

All are computed in float64, also for float32.

References
----------
NIST Digital Library of Mathematical Functions, 5.5, 5.11.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, copysign, eq, floor, fma, minimum, ne, rint, where
from functrans.vecmath.exponential import exp2_mantissa
from functrans.vecmath.polynomial import (
    FLOAT64,
    Pair,
    fast_two_sum,
    horner,
    in_float64,
    is_nan,
    round_with_integer,
    scale,
    two_product,
    two_sum,
)
from functrans.vecmath.powers import log2_pair
from functrans.vecmath.trigonometric import sinpi

# (x + 1) times the correction, in t
_CORRECTION = (
    0.11071170273999335, -0.035868887707620735, 0.010996216543566528, -0.003227733137507894,
    0.0009316039287515799, -0.00027158616866584625, 8.05683673903187e-05, -2.413719135289919e-05,
    7.286868614184127e-06, -2.2227544378943176e-06, 6.825069474087862e-07, -2.1054935131495606e-07,
    6.542636053103451e-08, -2.0363361637877174e-08, 6.369073075659445e-09, -2.0587127855630326e-09,
    6.483816991083317e-10, -1.6247516036531172e-10, 5.171413603202868e-11, -3.517441865458893e-11,
    1.1201105391376795e-11,
)  # fmt: skip

_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
# of sqrt(2 pi), to base 2
_LOG2_SQRT_2_PI = (1.3257480647361595, -7.153413670427599e-17)

_NOWHERE = 190.0
"""From here up, gamma is infinite and its reciprocal 0; arguments are limited to this number."""


def correction(x: Scalar) -> Scalar:
    """The correction to Stirling's formula, for ``x`` from 1 up."""
    reciprocal = 1.0 / (x + 1.0)
    return horner(fma(reciprocal, -4.0, 1.0), _CORRECTION) * reciprocal


def log2_gamma(x: Scalar) -> Pair:
    """``log2(gamma(x))`` for ``x`` from 1 up, to about 2**-60."""
    high, low = log2_pair(x)
    factor = x - 0.5
    product, product_low = two_product(factor, high)
    product_low = fma(factor, low, product_low)
    linear, linear_low = two_product(x, _LOG2_E[0])
    linear_low = fma(x, _LOG2_E[1], linear_low)
    total, total_low = two_sum(product, -linear)
    add = correction(x)
    constant = fma(add, _LOG2_E[0], _LOG2_SQRT_2_PI[0])
    constant_low = fma(add, _LOG2_E[0], _LOG2_SQRT_2_PI[0] - constant) + _LOG2_SQRT_2_PI[1]
    result, rest = two_sum(total, constant)
    return fast_two_sum(result, rest + (total_low + (product_low - linear_low) + constant_low))


def power_of_pair(exponent: Pair) -> Pair:
    """``2**exponent`` as a number near 1 and the exponent of a power of two, for `scale`."""
    k, _ = round_with_integer(exponent[0] + FLOAT64.rounder)
    return exp2_mantissa((exponent[0] - k) + exponent[1]), k


def _raised(a: Scalar) -> tuple[Scalar, Scalar]:
    """An argument from 1 up, and the divisor of the gamma function at that argument."""
    below = a < 1.0
    return minimum(where(below, a + 1.0, a), _NOWHERE), where(below, a, 1.0)


@in_float64
def gamma(x: Scalar) -> Scalar:
    """The gamma function; NaN at the negative integers, and an infinity of its sign at zero."""
    a = abs(x)
    negative = x < 0
    raised, divisor = _raised(a)
    high, low = log2_gamma(raised)
    # gamma(-a) a gamma(a) = -pi / sin(pi a)
    mantissa, exponent = power_of_pair((where(negative, -high, high), where(negative, -low, low)))
    reflected = sinpi(a) * where(a < 1.0, -1.0, -a)
    quotient = where(negative, mantissa * np.pi, mantissa) / where(negative, reflected, divisor)
    result = scale(quotient, exponent)
    result = where(a < 2.0**-60, 1.0 / x, result)
    result = where(eq(x, np.inf), x, result)
    # factorials are integers
    result = where((x < 19.0) & eq(floor(x), x), rint(result), result)
    return where(is_nan(x) | ((x < 0) & eq(floor(x), x)), np.nan, result)


@in_float64
def rgamma(x: Scalar) -> Scalar:
    """``1 / gamma(x)``, which is 0 at zero and at the negative integers."""
    a = abs(x)
    negative = x < 0
    raised, factor = _raised(a)
    high, low = log2_gamma(raised)
    mantissa, exponent = power_of_pair((where(negative, high, -high), where(negative, low, -low)))
    reflected = sinpi(a) * where(a < 1.0, -1 / np.pi, a * (-1 / np.pi))
    result = scale(mantissa * where(negative, reflected, factor), exponent)
    result = where(a < 2.0**-60, x, result)
    result = where((x < 0) & eq(floor(x), x), 0.0, result)
    return where(is_nan(x), x, where(eq(x, np.inf), 0.0, result))


@in_float64
def gammasgn(x: Scalar) -> Scalar:
    """The sign of the gamma function, that of ``x`` at zero; NaN at the negative integers."""
    one = const(1.0, x.dtype)
    below = floor(x)
    half = below * 0.5
    odd = ne(floor(half), half)
    sign = where(eq(x, 0), copysign(one, x), where((x < 0) & odd, -one, one))
    return where(is_nan(x) | ((x < 0) & eq(below, x)), np.nan, sign)

"""lgamma, the logarithm of the absolute value of the gamma function, and its derivative digamma.

Positive arguments below `_STIRLING` are brought to an interval around the root of the function
by ``gamma(x + 1) = x gamma(x)``, in steps that add numbers of one sign; there a polynomial is
multiplied by the factors of the roots, so that the result has full relative precision near them.
Larger arguments use Stirling's series. Negative arguments are reflected; near the roots on the
negative axis, the error is relative to 1.

Both are computed in float64, also for float32.

References
----------
NIST Digital Library of Mathematical Functions, 5.5, 5.11.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, copysign, eq, floor, fma, unlikely, where
from functrans.vecmath.logarithm import is_ordinary, log, log_pair
from functrans.vecmath.polynomial import horner, in_float64, polynomial
from functrans.vecmath.trigonometric import cotpi, sinpi

# lgamma(x) / ((x - 1) (x - 2)) in x - 1.625, between 0.75 and 2.5
LGAMMA = (
    0.46580963736232694, -0.13157899128683362, 0.052579426220432234, -0.02419443643075788,
    0.01199191595715525, -0.006215450410457927, 0.0033172708536139506, -0.0018070641019832957,
    0.0009992728712578242, -0.0005589485229278008, 0.0003154930060497211, -0.0001794005380838845,
    0.00010263709375249072, -5.895794316723798e-05, 3.402872944272304e-05, -1.9992287969304717e-05,
    1.1712218083666327e-05, -6.061844049227167e-06, 3.3653233431253857e-06,
    -3.6033293383821243e-06, 2.4057264748952264e-06, 1.014710151133407e-06, -9.109827682437691e-07,
    -1.9720537040516088e-06, 1.3892223019201716e-06, 8.812756319497638e-07, -6.158834405228533e-07,
    -3.190238862400846e-07, 2.0715599616265578e-07,
)  # fmt: skip

# digamma(x) / (x - root) in x - 1.75, between 1 and 2.5
_DIGAMMA = (
    0.8581832171262995, -0.3262546278681058, 0.15712011335203538, -0.08228558635576322,
    0.04479965445348672, -0.024890048489933866, 0.013985786156920952, -0.007910468750115304,
    0.0044918142417044275, -0.002556686922281384, 0.0014573683954421743, -0.0008314931376083792,
    0.0004747283699949481, -0.00027111693729972493, 0.00015458945999757303, -8.827303128732679e-05,
    5.1407719766818966e-05, -2.9482465432152173e-05, 1.4470191788402681e-05,
    -8.077012052357572e-06, 8.5269536669395e-06, -5.0862718868832425e-06, -1.2470633545786941e-06,
    8.508255874142374e-07, 2.081648050219969e-06, -1.2288287453937458e-06,
)  # fmt: skip
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)

# the coefficients of Stirling's series, B_2k / (2k (2k - 1)) and B_2k / 2k
_STIRLING_LGAMMA = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip
_STIRLING_DIGAMMA = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
)  # fmt: skip
_STIRLING = 8.5

HALF_LOG_2_PI = 0.9189385332046728
LOG_PI = 1.1447298858494002


def lgamma_positive(x: Scalar) -> Scalar:
    """``log(gamma(x))`` for positive float64."""
    large = x >= _STIRLING
    # y is x + 1 below 0.75; otherwise x minus an integer of at most 6, so that y < 2.5
    below = x < 0.75
    product = where(below, x, 1.0)
    y = where(below, x + 1.0, x)
    for _ in range(6):
        step = y > 2.5
        y = where(step, y - 1.0, y)
        product = where(step, product * y, product)
    argument = where(large, x, product)
    ordinary = is_ordinary(argument)
    logarithm, logarithm_low = log_pair(argument)
    logarithm = unlikely(~ordinary, log(argument), logarithm)
    logarithm_low = where(ordinary, logarithm_low, 0)
    # the two roots: (y - 1) (y - 2) with one rounding
    roots = fma(y - 1.0, y - 1.0, 1.0 - y)
    centre = roots * horner(y - 1.625, LGAMMA)
    small = centre + where(below, -logarithm_low, logarithm_low)
    small = small + where(below, -logarithm, logarithm)
    # x (log(x) - 1) may overflow only if the result does
    inverse = 1.0 / x
    series = fma(inverse, polynomial(inverse * inverse, _STIRLING_LGAMMA), HALF_LOG_2_PI)
    stirling = fma(logarithm - 1.0, x, fma(logarithm, -0.5, series))
    return where(large, where(x < np.inf, stirling, x), small)


@in_float64
def lgamma(x: Scalar) -> Scalar:
    """``log(abs(gamma(x)))``; infinite at zero and at the negative integers."""
    a = abs(x)
    negative = x < 0
    positive = lgamma_positive(where(negative, a + 1.0, a))
    # gamma(-a) gamma(1 + a) = -pi / sin(pi a)
    reflected = (LOG_PI - log(abs(sinpi(a)))) - positive
    reflected = where(eq(floor(a), a), np.inf, reflected)
    return unlikely(negative, reflected, positive)


def _digamma_positive(x: Scalar) -> Scalar:
    large = x >= _STIRLING
    # y is x + 1 below 1; otherwise x minus an integer of at most 6, so that y <= 2.5; the sum of
    # the 1 / (x - i) is a fraction of two products
    one = const(1.0, x.dtype)
    below = x < 1.0
    y = where(below, x + 1.0, x)
    numerator, denominator = where(below, -one, 0), where(below, x, one)
    for _ in range(6):
        step = y > 2.5
        y = where(step, y - 1.0, y)
        numerator = where(step, fma(numerator, y, denominator), numerator)
        denominator = where(step, denominator * y, denominator)
    root, root_low = _DIGAMMA_ROOT
    centre = ((y - root) - root_low) * horner(y - 1.75, _DIGAMMA)
    # one division for both cases; below 1, the rounding error of the quotient is corrected
    quotient = where(large, one, numerator) / where(large, x, denominator)
    corrected = fma(fma(quotient, x, 1.0), quotient, centre)
    centre = where(below & (x > 2.0**-60), corrected, centre)
    square = quotient * quotient
    series = fma(square, -polynomial(square, _STIRLING_DIGAMMA), quotient * -0.5)
    return where(large, log(x) + series, centre + quotient)


@in_float64
def digamma(x: Scalar) -> Scalar:
    """The derivative of lgamma; NaN at the negative integers."""
    a = abs(x)
    negative = x < 0
    positive = _digamma_positive(where(negative, a + 1.0, a))
    reflected = fma(cotpi(a), np.pi, positive)
    reflected = where(eq(floor(a), a), np.nan, reflected)
    result = unlikely(negative, reflected, positive)
    return where(eq(x, 0), copysign(const(np.inf, x.dtype), -x), result)

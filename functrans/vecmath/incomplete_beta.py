"""The regularised incomplete beta function: the parts without loops.

It is the front ``x**a y**b / B(a, b)``, where ``y = 1 - x``, divided by a continued fraction
(`functrans.ops.elementwise.compiled.incomplete_beta`). Small parameters are raised by ten steps of
the gamma function's recurrence, so that Stirling's formula holds for all; the rest are powers of
``x n / a`` and ``y n / b``, both about 1 where the front is large, by logarithms that are pairs.

References
----------
A. R. DiDonato and A. H. Morris, "Algorithm 708: significant digit computation of the incomplete
beta function ratios" (1992).
NIST Digital Library of Mathematical Functions, 8.17.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, eq, fma, maximum, sqrt, where
from functrans.vecmath.exponential import clamp, exp
from functrans.vecmath.polynomial import Pair, fast_two_sum, two_product, two_sum
from functrans.vecmath.powers import accurate_log
from functrans.vecmath.stirling import correction

STEPS = 10
"""Parameters below this number are raised by it."""


def _times_log(factor: Scalar, above: Pair, below: Scalar) -> Pair:
    """``factor log(above / below)``, about to twice the digits."""
    quotient = maximum(above[0] / below, 1e-307)
    high, low = accurate_log(quotient)
    # the rounding error of the quotient
    rest = (fma(-quotient, below, above[0]) + above[1]) / (quotient * below)
    product, product_low = two_product(factor, high)
    return product, fma(factor, low + rest, product_low)


def _raised(x: Scalar) -> Scalar:
    return where(x < STEPS, x + STEPS, x)


def _recurrence(first: Scalar, raised: Scalar, other: Scalar, total: Scalar) -> Scalar:
    """The factor of the front if its first parameter is raised."""
    above = below = const(1.0, first.dtype)
    inverse, share = 1.0 / total, 1.0 / raised
    for i in range(STEPS):
        above = above * ((first + float(i)) * share)
        below = below * (((first + other) + float(i)) * inverse)
    return where(first < STEPS, above / below, 1.0)


def front(a: Scalar, b: Scalar, x: Pair, y: Pair) -> Scalar:
    """``x**a y**b / B(a, b)`` for positive parameters and pairs with ``x + y = 1``."""
    first, second = _raised(a), _raised(b)
    total, total_low = two_sum(first, second)
    factor = _recurrence(a, first, b, total) * _recurrence(b, second, first, total)
    exponents = []
    for order, raised, (point, point_low) in ((a, first, x), (b, second, y)):
        above, low = two_product(point, total)
        low = fma(point, total_low, fma(point_low, total, low))
        exponents.append(_times_log(order, (above, low), raised))
    (high, low), (other, other_low) = exponents
    whole, rest = two_sum(high, other)
    whole, rest = fast_two_sum(whole, rest + (low + other_low))
    power = where(whole > -760.0, exp(whole) * (1.0 + where(whole > -760.0, rest, 0.0)), 0.0)
    terms = (correction(total) - correction(first)) - correction(second)
    scale = sqrt(first) * sqrt(second / (total * (2 * np.pi)))
    return (power * factor) * (scale * exp(terms))


def in_domain(a: Scalar, b: Scalar, x: Scalar, lower: Scalar, upper: Scalar) -> Pair:
    """The function and its complement, also at the ends of the domain and outside of it."""
    infinite_a, infinite_b = eq(a, np.inf), eq(b, np.inf)
    wrong = ~((a >= 0) & (b >= 0) & (x >= 0) & (x <= 1))
    wrong = wrong | (eq(a, 0) & eq(b, 0)) | (infinite_a & infinite_b)
    nothing = eq(x, 0) | ((eq(b, 0) | infinite_a) & (x < 1))
    everything = eq(x, 1) | eq(a, 0) | infinite_b
    results = []
    for value, at_everything in ((lower, 1.0), (upper, 0.0)):
        known = where(
            nothing, 1.0 - at_everything, where(everything, at_everything, clamp(value, 0.0, 1.0))
        )
        results.append(where(wrong, np.nan, known))
    return results[0], results[1]

"""The incomplete gamma and beta functions, differentiated in their parameters.

They are the power series of the lower and the continued fraction of the upper incomplete gamma
function, and the continued fraction of the incomplete beta function, each where it converges fast,
computed with Taylor series in the parameters, whose coefficients are the derivatives.

References
----------
NIST Digital Library of Mathematical Functions, 8.7, 8.9, 8.17.
A. R. DiDonato and A. H. Morris, "Algorithm 708: significant digit computation of the incomplete
beta function ratios" (1992).
W. J. Lentz, "Generating Bessel functions in Mie scattering calculations using continued fractions"
(1976).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.ops.elementwise.special import taylor
from functrans.ops.elementwise.special.polygammas import polygamma_difference
from functrans.ops.elementwise.special.taylor import Series

_betaln = lazy("scipy.special:betaln")
_gammaln = lazy("scipy.special:gammaln")
_polygamma = lazy("scipy.special:polygamma")

MOST_STEPS = 20_000
PRECISION = 2.0**-56


def gamma_derivative(a: Any, x: Any, *, n: int) -> Any:
    """The n-th derivative in ``a`` of the regularised lower incomplete gamma function.

    For ``n > 0``, that of the upper function is minus this one.
    """
    dtype = np.result_type(a, x)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    # where the function is the larger of the two, by the smaller one
    fraction = inside & (x > a + 1)
    series = inside & ~fraction
    result = np.where((a > 0) & ((x == 0) | np.isposinf(x)), 0.0, np.full(a.shape, np.nan))
    with np.errstate(all="ignore"):
        for where, method, sign in (
            (series, _lower_series, 1),
            (fraction, _upper_fraction, -1),
        ):
            if where.any():
                result[where] = sign * method(a[where], x[where], n)[n, 0] * math.factorial(n)
    return result.astype(dtype)[()]


def _log_gamma(a: Any, orders: tuple[int, int]) -> Series:
    """The series of ``gammaln(a + d)``."""
    series = taylor.constant(_gammaln(a), orders)
    for n in range(1, orders[0] + 1):
        series[n, 0] = _polygamma(n - 1, a) / math.factorial(n)
    return series


def _gamma_front(a: Any, x: Any, n: int) -> Series:
    """``x**a e**-x / gamma(a + 1)``."""
    orders = (n, 0)
    exponent = taylor.variable(a, orders, 0) * np.log(x) - _log_gamma(a + 1, orders)
    exponent[0, 0] -= x
    return taylor.exp(exponent)


def _lower_series(a: Any, x: Any, n: int) -> Series:
    term = total = _gamma_front(a, x, n)
    for k in range(1, MOST_STEPS):
        term = taylor.over(term * x, taylor.variable(a + k, (n, 0), 0))
        total = total + term
        if (np.abs(term) <= PRECISION * np.abs(total)).all():
            break
    return total


def _upper_fraction(a: Any, x: Any, n: int) -> Series:
    orders = (n, 0)
    order = taylor.variable(a, orders, 0)

    def coefficients(k: int) -> tuple[Series, Series]:
        number = taylor.constant(np.full(a.shape, float(k)), orders)
        return taylor.times(number, order - number), taylor.constant(x + 2 * k + 1, orders) - order

    # 1 / gamma(a), whose logarithm has a pole at 0, is a / gamma(a + 1)
    front = taylor.times(order, _gamma_front(a, x, n))
    return taylor.over(front, _continued(coefficients, orders, a.shape))


def _continued(
    coefficients: Callable[[int], tuple[Series, Series]], orders: tuple[int, int], shape: Any
) -> Series:
    """``b_0 + a_1 / (b_1 + a_2 / (b_2 + ...))``, by Lentz's method."""
    value = coefficients(0)[1]
    above, below = value, taylor.constant(np.zeros(shape), orders)
    one = taylor.constant(np.ones(shape), orders)
    for k in range(1, MOST_STEPS):
        numerator, denominator = coefficients(k)
        below = taylor.over(one, denominator + taylor.times(numerator, below))
        above = denominator + taylor.over(numerator, above)
        factor = taylor.times(above, below)
        value = taylor.times(value, factor)
        if (np.abs(factor - one) <= PRECISION * 4).all():
            break
    return value


def beta_derivative(a: Any, b: Any, x: Any, *, n: int, m: int) -> Any:
    """The n-th derivative in ``a``, m-th in ``b``, of the regularised incomplete beta function.

    For ``n + m > 0``, that of the complement is minus this one.
    """
    dtype = np.result_type(a, b, x)
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    proper = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    inside = proper & (x > 0) & (x < 1)
    turned = inside & (x > (a + 1) / (a + b + 2))
    result = np.where(proper & ((x == 0) | (x == 1)), 0.0, np.full(a.shape, np.nan))
    scale = math.factorial(n) * math.factorial(m)
    with np.errstate(all="ignore"):
        below = (x, np.log(x)), (1 - x, np.log1p(-x))
        for where, axis, numbers in (
            (inside & ~turned, 0, (a, b, *below[0], *below[1])),
            (turned, 1, (b, a, *below[1], *below[0])),
        ):
            if where.any():
                value = _beta_fraction((n, m), axis, *(each[where] for each in numbers))
                result[where] = (-1) ** axis * value[n, m] * scale
    return result.astype(dtype)[()]


def _beta_fraction(
    orders: tuple[int, int], axis: int, a: Any, b: Any, x: Any, log_x: Any, y: Any, log_y: Any
) -> Series:
    """The lower function, whose first parameter is the variable of the given axis; ``y = 1 - x``.

    The fraction is that of DiDonato and Morris, in which no large terms cancel, divided by the
    first parameter, as is the factor: their derivatives would nearly cancel for a small one.
    """
    first, second = taylor.variable(a, orders, axis), taylor.variable(b, orders, 1 - axis)
    both = first + second
    one = taylor.constant(np.ones(a.shape), orders)
    gap = first * y - second * x + one

    def coefficients(k: int) -> tuple[Series, Series]:
        if k == 0:
            return one, taylor.over(gap, first + one)
        before = first + (k - 1) * one if k > 1 else one
        place = first + (2 * k - 1) * one
        shared = taylor.over(k * x * (second - k * one), place)
        numerator = x * taylor.times(before, taylor.over(both + (k - 1) * one, place))
        rising = taylor.over(gap + k * (1 + y) * one, place + 2 * one)
        divisor = k * one + shared + taylor.times(first + k * one, rising)
        return taylor.times(shared, numerator), divisor

    # the derivatives of the greater share are those of the smaller, which has no cancelling terms
    share = taylor.over(np.where(a < b, first, second), both)
    front = taylor.times(
        np.where(a < b, one - share, share), _beta_front(a, b, log_x, log_y, orders, axis)
    )
    return taylor.over(front, _continued(coefficients, orders, a.shape))


def _beta_front(
    a: Any, b: Any, log_x: Any, log_y: Any, orders: tuple[int, int], axis: int
) -> Series:
    """``x**a y**b (a + b) / (a b beta(a, b))``, which has no poles or zeros at 0.

    The exponent's derivatives are differences, as a large parameter's terms nearly cancel.
    """
    at_0 = a * log_x + b * log_y - (_betaln(a, b) + np.log(a / (a + b) * b))
    exponent = taylor.constant(at_0, orders)
    for i in range(orders[axis] + 1):
        for j in range(orders[1 - axis] + 1):
            if i and j:
                slope = _polygamma(i + j - 1, a + b + 1)
            elif i:
                slope = polygamma_difference(a + 1, b, n=i - 1) + (log_x if i == 1 else 0)
            elif j:
                slope = polygamma_difference(b + 1, a, n=j - 1) + (log_y if j == 1 else 0)
            else:
                continue
            place = (i, j) if axis == 0 else (j, i)
            exponent[place] = slope / (math.factorial(i) * math.factorial(j))
    return taylor.exp(exponent)

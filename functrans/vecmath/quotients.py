"""The beta function, its logarithm, and differences of lgamma and of the polygamma functions.

With ``p <= q``, both from 1 up, the logarithm of the beta function is a sum of ``-log(q) / 2``,
``-(p - 1/2) log(1 + q / p)``, ``-q log(1 + p / q)`` and small corrections: the large terms have one
sign. Differences are taken term by term in Euler and Maclaurin's formula, with the step as a
factor, so that they are accurate however small it is.

All are computed in float64, also for float32.

References
----------
NIST Digital Library of Mathematical Functions, 5.11, 5.12, 5.15.
A. R. DiDonato and A. H. Morris, "Algorithm 708" (1992), for the order of the sums in betaln.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functrans.loop.scalar import Scalar, const, eq, floor, fma, maximum, minimum, unlikely, where
from functrans.records import NamedTuple
from functrans.vecmath.exponential import LOG2_E, exp
from functrans.vecmath.gamma_functions import HALF_LOG_2_PI, digamma
from functrans.vecmath.logarithm import log, log1p
from functrans.vecmath.polynomial import (
    Pair,
    fast_two_sum,
    horner,
    in_float64,
    is_nan,
    scale,
    two_sum,
)
from functrans.vecmath.stirling import correction, log2_gamma, power_of_pair
from functrans.vecmath.trigonometric import cotpi, sinpi

BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
    43867 / 798, -174611 / 330,
)  # fmt: skip
"""The Bernoulli numbers of even index from 2."""

STEPS = 10
"""The number of terms that are summed one by one."""

# -- the beta function -----------------------------------------------------------------------------


def _raised(p: Scalar) -> Scalar:
    return where(p < 1.0, p + 1.0, p)


def _betaln_of_positive(a: Scalar, b: Scalar) -> Scalar:
    p, q = minimum(a, b), maximum(a, b)
    raised_p, raised_q = _raised(p), _raised(q)
    total = p + q
    corrections = correction(raised_p) + (correction(raised_q) - correction(raised_p + raised_q))
    large = fma(raised_q, log1p(raised_p / raised_q), log(raised_q) * 0.5)
    both = q < 1.0
    exponent = where(both, p + 0.5, p - 0.5)
    result = fma(-exponent, log1p(raised_q / raised_p), HALF_LOG_2_PI + corrections) - large
    # the factors of the steps from p to p + 1, and from q to q + 1
    factor = where(both, (total / q) * (total + 1.0), raised_p * (total / (total + 1.0)))
    return where(p < 1.0, (log(factor) - log(p)) + result, result)


def _beta_of_positive(a: Scalar, b: Scalar) -> Scalar:
    p, q = minimum(a, b), maximum(a, b)
    moderate = minimum(q, 512.0)
    raised_p, raised_q = _raised(minimum(p, 512.0)), _raised(moderate)
    end, end_low = two_sum(raised_p, raised_q)
    (first, first_low), (second, second_low), (third, third_low) = map(
        log2_gamma, (raised_p, raised_q, end)
    )
    # corrects the rounding of the sum, by an approximate derivative
    third_low = fma(end_low, fma(1.0 / end, -0.5, log(end)) * LOG2_E, third_low)
    product, product_low = two_sum(first, second)
    quotient, quotient_low = two_sum(product, -third)
    low = (product_low + quotient_low) + (first_low + second_low - third_low)
    mantissa, exponent = power_of_pair(fast_two_sum(quotient, low))
    total = p + q
    factor = where(q < 1.0, (total / q) * (total + 1.0), total)
    raised = scale(mantissa, exponent)
    usual = where(p < 1.0, raised * factor / p, raised)
    return unlikely(q > 512.0, exp(_betaln_of_positive(p, q)), usual)


class _Positive(NamedTuple):
    """``beta(a, b)`` in terms of positive arguments: ``factor beta(p, q)``, or a quotient."""

    p: Scalar
    q: Scalar
    inverted: Scalar  # whether the factor is divided by ``beta(p, q)``
    factor: Scalar  # infinite at poles, of which there is none where the arguments are positive


def _positive(a: Scalar, b: Scalar) -> _Positive:
    """The reflection formula ``gamma(x) gamma(1 - x) = pi / sin(pi x)`` for negative arguments."""
    low, high = minimum(a, b), maximum(a, b)
    negative, both = low <= 0, high <= 0
    other = 1.0 - low - high
    reflected = negative & ~both & (other > 0)
    inverted = negative & ~reflected
    p = where(reflected, other, where(inverted, 1.0 - low, low))
    q = where(both, 1.0 - high, where(inverted, low + high, high))
    sine, sine_high, sine_sum = (_signed_sinpi(x) for x in (low, high, low + high))
    of_both = (sine_sum / sine) / sine_high * (np.pi / other)
    factor = where(reflected, sine_sum / sine, np.pi / (high * sine))
    factor = where(both, of_both, factor)
    # between integers the quotient of the sines is their sign
    whole = _is_integer(low) & _is_integer(high) & reflected & (low > -np.inf)
    half = high * 0.5
    parity = where(eq(floor(half), half), const(1.0, a.dtype), -1.0)
    pole = (negative & _is_integer(low) | both & _is_integer(high)) & ~whole
    factor = where(whole, parity, where(pole, np.inf, factor))
    return _Positive(p, q, inverted & ~pole, where(negative, factor, 1.0))


def _is_integer(x: Scalar) -> Scalar:
    return eq(floor(x), x)


def _signed_sinpi(x: Scalar) -> Scalar:
    sine = sinpi(abs(x))
    return where(x < 0, -sine, sine)


def _arguments(a: Scalar, b: Scalar, usual: Scalar, mirrored: _Positive) -> Pair:
    """Positive finite arguments, which are those of the function unless they are unusual."""
    p = unlikely(~usual, mirrored.p, minimum(a, b))
    q = unlikely(~usual, mirrored.q, maximum(a, b))
    inside = (p > 0) & (q > 0) & (q < np.inf) & (p < np.inf)
    return where(inside, p, 1.0), where(inside, q, 1.0)


@in_float64
def betaln(a: Scalar, b: Scalar) -> Scalar:
    """The logarithm of the absolute value of the beta function."""
    low, high = minimum(a, b), maximum(a, b)
    usual, mirrored = (low > 0) & (high < np.inf), _positive(a, b)
    value = _betaln_of_positive(*_arguments(a, b, usual, mirrored))
    signed = where(mirrored.inverted, -value, value)
    rare = where(eq(abs(mirrored.factor), np.inf), np.inf, signed + log(abs(mirrored.factor)))
    at_infinity = where(low > 0, const(-np.inf, a.dtype), np.inf)
    at_infinity = where(low < np.inf, at_infinity, np.nan)
    rare = where(eq(high, np.inf), at_infinity, rare)
    return where(is_nan(a) | is_nan(b), np.nan, unlikely(~usual, rare, value))


@in_float64
def beta(a: Scalar, b: Scalar) -> Scalar:
    """The beta function, ``gamma(a) gamma(b) / gamma(a + b)``."""
    low, high = minimum(a, b), maximum(a, b)
    usual, mirrored = (low > 0) & (high < np.inf), _positive(a, b)
    value = _beta_of_positive(*_arguments(a, b, usual, mirrored))
    factor = mirrored.factor
    rare = where(mirrored.inverted, factor / value, factor * value)
    # infinitely many times gamma(low), whose sign is that of the factor, a zero
    at_infinity = where(low > 0, const(0.0, a.dtype), 1.0 / factor)
    at_infinity = where(low < np.inf, at_infinity, np.nan)
    rare = where(eq(high, np.inf), at_infinity, rare)
    rare = where(eq(abs(factor), np.inf), np.inf, rare)
    return where(is_nan(a) | is_nan(b), np.nan, unlikely(~usual, rare, value))


# -- differences -----------------------------------------------------------------------------------


class _Step(NamedTuple):
    """The reciprocals of ``x`` and ``x + step``, and their difference."""

    before: Scalar
    after: Scalar
    difference: Scalar


def _step(x: Scalar, step: Scalar) -> _Step:
    before, after = 1.0 / x, 1.0 / (x + step)
    difference = where(abs(step) < np.inf, -step * (before * after), after - before)
    return _Step(before, after, difference)


def _power(x: Scalar, n: int) -> Scalar:
    return math.prod([x] * (n - 1), start=x) if n else const(1.0, x.dtype)


def _power_difference(step: _Step, n: int) -> Scalar:
    """``after**n - before**n``, for ``n`` from 1 up."""
    total, power = const(1.0, step.before.dtype), step.after
    for _ in range(n - 1):
        total = fma(total, step.before, power)
        power = power * step.after
    return total * step.difference


def _series_difference(step: _Step, coefficients: Sequence[float], n: int) -> Scalar:
    """The difference of ``sum coefficients[k] / x**(2 k + n)``, for ``n`` from 1 up."""
    total = const(1.0, step.before.dtype)
    power = step.after
    for _ in range(n - 1):
        total = fma(total, step.before, power)
        power = power * step.after
    square = step.before * step.before
    both = step.before + step.after
    result = total * coefficients[0]
    for coefficient in coefficients[1:]:
        # c[n + 2] = before**2 c[n] + after**n (before + after)
        total = fma(total, square, power * both)
        power = power * (step.after * step.after)
        result = fma(total, coefficient, result)
    return result * step.difference


@in_float64
def lgamma_difference(x: Scalar, step: Scalar) -> Scalar:
    """``lgamma(x + step) - lgamma(x)`` for positive arguments, relatively accurate for small steps.

    NaN where an argument is not positive.
    """
    start, size = minimum(x, x + step), abs(step)
    inside = (start > 0) & (start < np.inf)
    start = where(inside, start, 1.0)
    # the product of the factors 1 + step / (x + k), without the first, minus 1; where it might
    # overflow, it is negligible beside the other terms
    bounded = minimum(size, 2.0**100)
    growth = const(0.0, x.dtype)
    for k in range(1, STEPS):
        ratio = bounded / (start + float(k))
        growth = fma(growth, ratio, growth + ratio)
    raise_it = start < STEPS
    raised = where(raise_it, start + float(STEPS), start)
    steps = where(raise_it, log1p(size / start) + log1p(growth), 0)
    end = raised + size
    coefficients = [c / (2 * k * (2 * k - 1)) for k, c in enumerate(BERNOULLI, start=1)]
    series = _series_difference(_step(raised, size), coefficients, 1)
    stirling = fma(raised - 0.5, log1p(size / raised), -size) + fma(size, log(end), series)
    value = where(size < np.inf, stirling - steps, np.inf)
    return where(inside, where(step < 0, -value, value), np.nan)


@in_float64
def polygamma_difference(x: Scalar, step: Scalar, *, n: int) -> Scalar:
    """``polygamma(n, x + step) - polygamma(n, x)``, relatively accurate for positive arguments."""
    positive = (x > 0) & (x + step > 0)
    start, size = where(positive, x, 1.0), where(positive, step, 0)
    factor = float(math.factorial(n))
    terms = [_power_difference(_step(start + float(k), size), n + 1) for k in range(STEPS)]
    total = sum(reversed(terms[:-1]), start=terms[-1]) * factor
    raised = start + float(STEPS)
    coefficients = [
        number * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        for k, number in enumerate(BERNOULLI, start=1)
    ]
    at_end = _step(raised, size)
    series = _series_difference(at_end, coefficients, n + 2)
    series = fma(_power_difference(at_end, n + 1), factor / 2, series)
    if n:
        series = fma(_power_difference(at_end, n), float(math.factorial(n - 1)), series)
    else:
        series = series - log1p(size / raised)
    result = (total + series) * (-1.0) ** (n + 1)
    end, begin = (polygamma(y, n=n) if n else digamma(y) for y in (x + step, x))
    return unlikely(~positive, end - begin, result)


def _polygamma_of_positive(x: Scalar, n: int) -> Scalar:
    steps = STEPS + n
    factor = float(math.factorial(n))
    terms = [_power(1.0 / (x + float(k)), n + 1) for k in range(steps)]
    total = sum(reversed(terms[:-1]), start=terms[-1])
    inverse = 1.0 / (x + float(steps))
    coefficients = [
        number * math.factorial(2 * k + n - 1) / math.factorial(2 * k) / factor
        for k, number in enumerate(BERNOULLI, start=1)
    ]
    square = inverse * inverse
    series = fma(square, horner(square, coefficients), fma(inverse, 0.5, 1.0 / n))
    return fma(series, _power(inverse, n), total) * (factor * (-1.0) ** (n + 1))


def _cotangent_polynomial(n: int) -> list[float]:
    """The n-th derivative of the cotangent, as a polynomial of it: ``c' = -1 - c**2``."""
    coefficients = [0.0, 1.0]
    for _ in range(n):
        slopes = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [
            -(a + b) for a, b in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes], strict=True)
        ]
    return coefficients


@in_float64
def polygamma(x: Scalar, *, n: int) -> Scalar:
    """The n-th derivative of `digamma`, for ``n`` from 1 up; infinite at its poles."""
    negative = x < 0
    a = abs(x)
    positive = _polygamma_of_positive(where(negative, a + 1.0, a), n)
    turn = horner(cotpi(a), _cotangent_polynomial(n)) * math.pi ** (n + 1)
    reflected = turn + positive
    result = unlikely(negative, -reflected if n % 2 else reflected, positive)
    pole = (x <= 0) & eq(floor(x), x) & (x > -np.inf)
    result = where(pole, np.inf if n % 2 else -np.inf, result)
    return where(eq(x, -np.inf), np.nan, result)

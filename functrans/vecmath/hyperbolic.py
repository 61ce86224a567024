"""The hyperbolic functions and their inverses.

With ``x = k ln 2 + r`` as for exp, and ``sinh`` and ``cosh`` of ``k ln 2`` made of two powers of
two, the formulas for the functions of a sum need no division and cancel nowhere. The inverse
functions are logarithms of a ``w``, ``2 atanh(s)`` for ``s = (w - 1) / (w + 1)``; for ``w`` near 1,
``s`` is computed from the argument itself, so that nothing cancels there either.

References
----------
NIST Digital Library of Mathematical Functions, 4.35, 4.37.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    copysign,
    eq,
    fma,
    maximum,
    ratio,
    sqrt,
    where,
)
from functrans.records import NamedTuple
from functrans.vecmath.exponential import EXPM1, LOG2_E, at_most, divided_by_ln2
from functrans.vecmath.logarithm import LN2, split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    floating,
    format_of,
    polynomial,
    power_of_two,
    round_with_integer,
)


class _Table(NamedTuple):
    highest: float  # beyond this the hyperbolic sine is infinite
    normal: float  # up to this the exponential is a normal number, and so is its reciprocal
    sinh: tuple[float, ...]  # ``(sinh(r) - r) / r**3`` in ``r**2``, up to ln(2) / 2
    cosh: tuple[float, ...]  # ``(cosh(r) - 1) / r**2`` in ``r**2``, up to ln(2) / 2
    atanh: tuple[float, ...]  # ``(2 atanh(s) - 2 s) / s**3`` in ``s**2``, up to 1/3


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        highest=710.6,
        normal=708.0,
        sinh=(
            0.16666666666666677, 0.008333333333321376, 0.0001984126988686796,
            2.755724337424516e-06, 2.510935652291888e-08,
        ),
        cosh=(
            0.5000000000000012, 0.04166666666651929, 0.0013888888946095152,
            2.4801490823954232e-05, 2.763098584819221e-07,
        ),
        atanh=(
            0.6666666666666666, 0.4000000000001261, 0.2857142856735981, 0.22222222703353833,
            0.1818178984501752, 0.15385563590213588, 0.13314197461279223, 0.12000909035417812,
            0.08800335416603142, 0.16166817679017242,
        ),
    ),
    FLOAT32: _Table(
        highest=89.5,
        normal=87.0,
        sinh=(0.1666654348373413, 0.008366534486413002),
        cosh=(0.5, 0.041666459292173386, 0.0013935451861470938),
        atanh=(
            0.6666663885116577, 0.40007808804512024, 0.2823048532009125, 0.26889362931251526,
        ),
    ),
}  # fmt: skip

ATANH_TO_A_THIRD = {form: table.atanh for form, table in _TABLES.items()}


class _Reduced(NamedTuple):
    """``x = exponent ln 2 + r``, ``sinh(r) - r`` and ``cosh(r) - 1``."""

    exponent: Scalar
    r: Scalar
    sinh_rest: Scalar
    cosh_rest: Scalar

    def sum(self, sinh: Scalar, cosh: Scalar) -> Scalar:
        """``sinh cosh(r) + cosh sinh(r)``, the sinh of a sum, with the large terms added last."""
        rest = fma(self.cosh_rest, sinh, self.sinh_rest * cosh)
        return sinh + fma(cosh, self.r, rest)


def _reduce(x: Scalar) -> _Reduced:
    table = _TABLES[format_of(x)]
    _, exponent, r = divided_by_ln2(x)
    z = r * r
    return _Reduced(exponent, r, z * r * polynomial(z, table.sinh), z * polynomial(z, table.cosh))


def _reduced(x: Scalar) -> tuple[_Reduced, Scalar, Scalar]:
    """The size of ``x``, reduced, and a quarter of ``2**k`` and of ``2**-k``.

    ``2**k`` overflows for the largest exponent ``k``.
    """
    form = format_of(x)
    reduced = _reduce(at_most(abs(x), _TABLES[form].highest))
    up = (reduced.exponent + (form.bias - 2)) << form.fraction_bits
    down = ((2 * form.bias - 4) << form.fraction_bits) - up
    # a power that is too small is replaced by 0
    return reduced, bitcast(up, form.dtype), bitcast(maximum(down, 0), form.dtype)


@floating
def sinh(x: Scalar) -> Scalar:
    """The hyperbolic sine."""
    reduced, up, down = _reduced(x)
    half = reduced.sum(up - down, up + down)
    return copysign(half + half, x)


@floating
def cosh(x: Scalar) -> Scalar:
    """The hyperbolic cosine."""
    reduced, up, down = _reduced(x)
    half = reduced.sum(up + down, up - down)
    return half + half


@floating
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent: with ``h`` for ``(e**(2 a) - 1) / 2``, ``h / (h + 1)``."""
    h, reciprocal = _of_twice(abs(x))
    # the quotient is accurate where it is large; the remainder has the other digits of a small one
    quotient = 1.0 - reciprocal
    remainder = fma(h, reciprocal, -quotient)
    return copysign(fma(remainder, reciprocal, quotient), x)


@floating
def sech_squared(x: Scalar) -> Scalar:
    """``1 / cosh(x)**2``, the derivative of tanh: with ``d`` for ``1 - tanh(x)``, ``d (2 - d)``.

    Most of the computation is shared with tanh. Results that are not normal numbers are 0.
    """
    a = abs(x)
    _, distance = _of_twice(a)
    return where(a + a > _TABLES[format_of(x)].normal, 0.0, distance * (2.0 - distance))


def _of_twice(a: Scalar) -> Pair:
    """``h = (e**(2 a) - 1) / 2`` and ``1 / (h + 1)``, which is ``1 - tanh(a)``, for ``a >= 0``.

    Larger arguments are replaced by the largest one for which both are normal numbers.
    """
    form = format_of(a)
    high, low = LN2[form]
    b = at_most(a + a, _TABLES[form].normal)
    k, exponent = round_with_integer(fma(b, LOG2_E, form.rounder))
    half = power_of_two(exponent - 1, form)
    # exact where k is 0 or 1: the sum of a small result is rounded only once
    r_high = fma(-k, high, b)
    r = fma(-k, low, r_high)
    less_one = r_high + fma(r * r, polynomial(r, EXPM1[form]), k * -low)
    return fma(less_one, half, half - 0.5), ratio(1.0, fma(less_one, half, half + 0.5))


def _log_of_sum(sinh: Scalar, cosh: Scalar) -> Scalar:
    """``log(sinh + cosh)``, given both functions of one positive number."""
    form = format_of(sinh)
    near, large = sinh < 0.75, cosh > 2.0**60
    f, e, field = split(where(large, cosh, sinh + cosh))
    # (sinh + cosh) / 2**e - 1, rounded once; if it is large, it is 2 cosh, which is not rounded
    unit = bitcast((form.bias << form.fraction_bits) - field, form.dtype)
    f = where(large, f, fma(sinh, unit, fma(cosh, unit, -1.0)))
    e = where(large, e + 1.0, e)
    # Near 1, where e is left at zero, 2 s is sinh (1 - s**2), and elsewhere f (1 - s): the rounding
    # of s matters little.
    f, e = where(near, sinh, f), where(near, 0, e)
    s = f / (where(near, cosh, f + 1.0) + 1.0)
    z = s * s
    rest = fma(-z, polynomial(z, _TABLES[form].atanh), where(near, s * f, f))
    high, low = LN2[form]
    return fma(e, high, f - fma(s, rest, e * -low))


@floating
def asinh(x: Scalar) -> Scalar:
    """The inverse hyperbolic sine."""
    a = abs(x)
    cosh = where(a > 2.0**60, a, sqrt(fma(a, a, 1.0)))
    return copysign(where((a > 2.0**-30) & (a < np.inf), _log_of_sum(a, cosh), a), x)


@floating
def acosh(x: Scalar) -> Scalar:
    """The inverse hyperbolic cosine; NaN below 1."""
    b = x - 1.0
    result = _log_of_sum(sqrt(fma(b, b, b + b)), x)
    return where((x >= 1) & (x < np.inf), result, where(x < 1, np.nan, x))


@floating
def atanh(x: Scalar) -> Scalar:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    form = format_of(x)
    a = abs(x)
    # 1 - a without rounding
    rest = 1.0 - a
    rest_low = (1.0 - rest) - a
    # The logarithm of (1 + a) / (1 - a) = 2**e (1 + s) / (1 - s), where the difference of the bits
    # is about that of the logarithms
    one = form.bias << form.fraction_bits
    half = 1 << (form.fraction_bits - 1)
    ratio = bitcast(1.0 + a, form.integer) - bitcast(rest, form.integer)
    power = bitcast((ratio + (one + half)) & -(1 << form.fraction_bits), form.dtype)
    more = power + 1.0
    s = fma(-more, rest_low, fma(-more, rest, 2.0)) / fma(power - 1.0, rest, 2.0)
    e = split(power).e
    z = s * s
    high, low = LN2[form]
    tail = fma((z * 0.5) * s, polynomial(z, _TABLES[form].atanh), e * (0.5 * low))
    result = fma(e, 0.5 * high, s + tail)
    beyond = where(eq(a, 1), const(np.inf, x.dtype), np.nan)
    return copysign(where(a < 1, result, beyond), x)

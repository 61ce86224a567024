"""Elementary functions of complex numbers, as formulas on their parts.

Roots, inverse functions and branch cuts are those of Kahan, "Branch cuts for complex elementary
functions, or much ado about nothing's sign bit" (1987).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.arrays.structural import cast
from functrans.ops.compiled.pairs import Pair
from functrans.ops.elementwise import exponential, hyperbolic, trigonometric
from functrans.ops.elementwise import power as powers
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compiled.complex_arithmetic import divide, multiply
from functrans.ops.elementwise.floats import copysign
from functrans.ops.elementwise.logic import isfinite, isinf, isnan

LN2 = math.log(2)
LN10 = math.log(10)


def _times(x: Pair, factor: float) -> Pair:
    return Pair(x.re * factor, x.im * factor)


def _number(like: Pair, x: Any) -> Any:
    """Cast a selection of constants to the dtype of the parts."""
    return cast(x, dtype=like.dtype)


def _turned(x: Pair) -> Pair:
    """``1j * x``."""
    return Pair(-x.im, x.re)


def _turned_back(x: Pair) -> Pair:
    """``-1j * x``."""
    return Pair(x.im, -x.re)


def _largest_exponent(x: Any) -> float:
    """A number beyond which the exponential overflows, or nearly does."""
    return math.floor(math.log(float(np.finfo(x.dtype).max)))


# -- exponentials ----------------------------------------------------------------------------------


def exp(x: Pair) -> Pair:
    limit = _largest_exponent(x)
    beyond = x.re > limit
    size = exponential.exp(select(beyond, x.re - limit, x.re))
    rest = _number(x, select(beyond, math.exp(limit), 1.0))
    # for absolute value 0 or infinity the angle is arbitrary
    angle = select(isinf(x.re) & ~isfinite(x.im), 0, x.im)
    across = size * trigonometric.sin(angle) * rest
    known = ~((x.re == np.inf) & ~isfinite(x.im))
    return Pair(
        size * trigonometric.cos(angle) * rest,
        select(known, select(x.im == 0, x.im, across), np.nan),
    )


def exp2(x: Pair) -> Pair:
    return exp(_times(x, LN2))


def expm1(x: Pair) -> Pair:
    half = trigonometric.sin(0.5 * x.im)
    return Pair(
        exponential.expm1(x.re) * trigonometric.cos(x.im) - 2 * half * half,
        exponential.exp(x.re) * trigonometric.sin(x.im),
    )


# -- logarithms ------------------------------------------------------------------------------------


def _log_of_size(x: Pair, excess: Any) -> Any:
    """The logarithm of the absolute value, given also the ``excess`` of its square over 1.

    The excess is used where the absolute value is nearly 1; elsewhere no large number is squared.
    """
    a, b = abs(x.re), abs(x.im)
    larger, smaller = select(a >= b, a, b), select(a >= b, b, a)
    ratio = select((larger == 0) | isinf(larger), 0, smaller / larger)
    near = (larger > 0.5) & (larger < 1.5)
    size = select(near, 0, exponential.log(larger))
    found = size + 0.5 * exponential.log1p(select(near, excess, ratio * ratio))
    infinite = isinf(a) | isinf(b)
    return select(infinite, np.inf, select(isnan(a) | isnan(b), np.nan, found))


def log(x: Pair) -> Pair:
    a, b = abs(x.re), abs(x.im)
    larger, smaller = select(a >= b, a, b), select(a >= b, b, a)
    excess = (larger - 1) * (larger + 1) + smaller * smaller
    return Pair(_log_of_size(x, excess), trigonometric.arctan2(x.im, x.re))


def log2(x: Pair) -> Pair:
    return _times(log(x), 1 / LN2)


def log10(x: Pair) -> Pair:
    return _times(log(x), 1 / LN10)


def log1p(x: Pair) -> Pair:
    moved = Pair(x.re + 1, x.im)
    excess = x.re * (x.re + 2) + x.im * x.im
    size = _log_of_size(moved, excess)
    return Pair(size, trigonometric.arctan2(moved.im, moved.re))


# -- powers ----------------------------------------------------------------------------------------


def sqrt(x: Pair) -> Pair:
    """The square root with nonnegative real part."""
    huge, tiny = _scales(x)
    by = _number(x, select(huge, 0.25, select(tiny, 4.0**27, 1.0)))
    back = _number(x, select(huge, 2.0, select(tiny, 2.0**-27, 1.0)))
    size = powers.hypot(x.re * by, x.im * by)
    root = powers.sqrt(0.5 * (abs(x.re) * by + size)) * back
    other = select(root == 0, 0, abs(x.im) / (2 * select(root == 0, 1, root)))
    other = select(isinf(x.im), abs(x.im), other)
    root = select(isinf(x.im), np.inf, root)
    ahead = x.re >= 0
    real = select(ahead, root, other)
    imag = copysign(select(ahead, other, root), x.im)
    undefined = isnan(x.re) & ~isinf(x.im)
    return Pair(
        select(isinf(x.im), np.inf, select(undefined, np.nan, real)),
        select(undefined, np.nan, imag),
    )


def _scales(x: Pair) -> tuple[Any, Any]:
    """Whether the absolute value might overflow, and whether it might lose digits."""
    limits = np.finfo(x.dtype)
    a, b = abs(x.re), abs(x.im)
    larger = select(a >= b, a, b)
    return larger > float(limits.max) / 4, larger < float(limits.tiny) / float(limits.eps)


def power(x: Pair, y: Pair) -> Pair:
    """``exp(y log(x))``; ``0**y`` is 0 if the real part of y is positive, and ``x**0`` is 1."""
    nothing = (x.re == 0) & (x.im == 0)
    safe = Pair(select(nothing, 1, x.re), x.im)
    found = exp(multiply(y, log(safe)))
    of_nothing = _number(x, select(y.re > 0, 0.0, np.nan))
    found = Pair(select(nothing, of_nothing, found.re), select(nothing, of_nothing, found.im))
    is_one = (y.re == 0) & (y.im == 0)
    return Pair(select(is_one, 1, found.re), select(is_one, 0, found.im))


# -- hyperbolic functions, and sines by them -------------------------------------------------------


def _hyperbolic(x: Any) -> tuple[Any, Any, Any]:
    """Scaled hyperbolic sine and cosine of a real number, and the factor that both lack."""
    limit = _largest_exponent(x)
    inside = select(x > limit, limit, select(x < -limit, -limit, x))
    rest = exponential.exp(abs(x) - abs(inside))
    return hyperbolic.sinh(inside), hyperbolic.cosh(inside), select(abs(x) > limit, rest, 1)


def _angle(x: Pair) -> Any:
    """The imaginary part, with an arbitrary number in place of a NaN that does not matter."""
    return select((isinf(x.re) | (x.re == 0)) & ~isfinite(x.im), 0, x.im)


def _sinh(x: Pair) -> Pair:
    s, c, rest = _hyperbolic(x.re)
    across = c * trigonometric.sin(x.im) * rest
    along = s * trigonometric.cos(_angle(x)) * rest
    return Pair(along, select(x.im == 0, x.im, across))


def sinh(x: Pair) -> Pair:
    found = _sinh(x)
    return Pair(_infinite_without_angle(found.re, x.re, x.im), found.im)


def _infinite_without_angle(found: Any, size: Any, angle: Any) -> Any:
    """An infinity with an unknown angle: as in C's libraries, with positive sign."""
    return select(isinf(size) & ~isfinite(angle), np.inf, found)


def cosh(x: Pair) -> Pair:
    s, c, rest = _hyperbolic(x.re)
    angle = _angle(x)
    across = s * trigonometric.sin(select(x.re == 0, angle, x.im)) * rest
    flat = x.im * copysign(1.0, x.re)
    along = c * trigonometric.cos(select(x.re == 0, x.im, angle)) * rest
    return Pair(along, select(x.im == 0, flat, across))


def tanh(x: Pair) -> Pair:
    """``(sinh cosh + 1j sin cos) / (sinh**2 + cos**2)``, where nothing cancels."""
    limit = _largest_exponent(x) / 4
    far = abs(x.re) > limit
    inside = select(far, 0, x.re)
    s, c = hyperbolic.sinh(inside), hyperbolic.cosh(inside)
    sine, cosine = trigonometric.sin(x.im), trigonometric.cos(x.im)
    size = s * s + cosine * cosine
    across = sine * cosine
    along_far = select(isfinite(x.im) | isinf(x.re), copysign(1.0, x.re), np.nan)
    across_far = select(isinf(x.re), copysign(0.0, across), 0.0 * across)
    return Pair(
        select(far, along_far, select(x.re == 0, x.re, s * c / size)),
        select(x.im == 0, x.im, select(far, across_far, across / size)),
    )


def sech_squared(x: Pair) -> Pair:
    """``4 e / (1 + e)**2`` with ``abs(e) <= 1``."""
    ahead = x.re >= 0
    e = exp(Pair(-2 * abs(x.re), select(ahead, -2 * x.im, 2 * x.im)))
    size = Pair(1 + e.re, e.im)
    return divide(_times(e, 4.0), multiply(size, size))


def sin(x: Pair) -> Pair:
    found = _turned_back(_sinh(_turned(x)))
    return Pair(found.re, _infinite_without_angle(found.im, x.im, x.re))


def cos(x: Pair) -> Pair:
    return cosh(_turned(x))


def tan(x: Pair) -> Pair:
    return _turned_back(tanh(_turned(x)))


# -- inverse functions -----------------------------------------------------------------------------


def _roots(x: Pair) -> tuple[Pair, Pair]:
    """The roots of ``1 - x`` and of ``1 + x``."""
    return sqrt(Pair(1 - x.re, -x.im)), sqrt(Pair(1 + x.re, x.im))


def arcsin(x: Pair) -> Pair:
    below, above = _roots(x)
    infinite = isinf(x.re) | isinf(x.im)
    run = select(infinite, abs(x.im), below.re * above.re - below.im * above.im)
    rise = hyperbolic.arcsinh(below.re * above.im - below.im * above.re)
    return Pair(
        select(x.re == 0, x.re, trigonometric.arctan2(x.re, run)),
        select(infinite, copysign(np.inf, x.im), rise),
    )


def arccos(x: Pair) -> Pair:
    below, above = _roots(x)
    infinite = isinf(x.re) | isinf(x.im)
    half = trigonometric.arctan2(below.re, above.re)
    turn = select(infinite, trigonometric.arctan2(abs(x.im), x.re), 2 * half)
    rise = hyperbolic.arcsinh(above.re * below.im - above.im * below.re)
    return Pair(
        select(x.re == 0, math.pi / 2, turn), select(infinite, copysign(np.inf, -x.im), rise)
    )


def arccosh(x: Pair) -> Pair:
    below, above = sqrt(Pair(x.re - 1, x.im)), sqrt(Pair(x.re + 1, x.im))
    infinite = isinf(x.re) | isinf(x.im)
    rise = hyperbolic.arcsinh(below.re * above.re + below.im * above.im)
    turn = 2 * trigonometric.arctan2(below.im, above.re)
    turn = select(x.re == 0, copysign(math.pi / 2, x.im), turn)
    return Pair(
        select(infinite, np.inf, rise), select(infinite, trigonometric.arctan2(x.im, x.re), turn)
    )


def arctanh(x: Pair) -> Pair:
    a = abs(x.re)
    far = 1 - a
    # multiples of such numbers overflow: their results are those of infinity
    most = float(np.finfo(x.dtype).max) / 4
    infinite = (a > most) | (abs(x.im) > most)
    # near 1, the square of a small distance underflows to 0
    at_one = (far == 0) & (abs(x.im) < math.sqrt(float(np.finfo(x.dtype).tiny)))
    along = 0.25 * exponential.log1p(4 * a / (far * far + x.im * x.im))
    along = select(at_one, 0.5 * (LN2 - exponential.log(abs(x.im))), along)
    turn = 0.5 * trigonometric.arctan2(2 * x.im, far * (1 + a) - x.im * x.im)
    return Pair(
        copysign(select(infinite | (x.re == 0), 0, along), x.re),
        select(infinite & ~isnan(x.im), copysign(math.pi / 2, x.im), turn),
    )


def arcsinh(x: Pair) -> Pair:
    return _turned_back(arcsin(_turned(x)))


def arctan(x: Pair) -> Pair:
    return _turned_back(arctanh(_turned(x)))

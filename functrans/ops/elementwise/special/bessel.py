"""Bessel functions and related functions: modified ones, integrals, Airy, Kelvin, Struve.

The derivative of a Bessel function is half a difference (or sum) of those of adjacent orders, which
is smooth at 0, unlike the form with a quotient. There is no closed form of the derivative in the
order.

References
----------
NIST Digital Library of Mathematical Functions, chapters 9, 10 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from functrans import vecmath
from functrans.ir.primitive import Primitive, bind, not_differentiable
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import absolute, masked, or_one, select, sign
from functrans.ops.elementwise.compare import equal, greater, less
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.rounding import trunc
from functrans.ops.elementwise.special.gamma import rgamma
from functrans.ops.elementwise.special.scipy import (
    NO_CLOSED_FORM,
    composed,
    computed,
    of_reals,
    over,
    part,
    parts,
    ratio,
    special,
)
from functrans.ops.samples import Domain, reals

ORDER = not_differentiable(
    "the derivative of a Bessel function in its order has no closed form; hold the order fixed"
)

_ORDER_AND_POINT = [reals(0.5, 3), reals(0.5, 5)]

# The scaled functions have no complex derivative, because their factor has none.


def _lesser(x: Any, term: Any) -> Any:
    """One of two terms with poles at 0 of opposite signs, which is the lesser there: left out."""
    return select(equal(x, 0), 0, term)


# -- first and second kind -------------------------------------------------------------------------


def _cylinder(name: str, **slots: Any) -> Primitive:
    """A function whose slope is half the difference of its neighbours in the order."""
    function: Any  # of numbers; as an equation, it would be one of variables

    def slope(v: Any, x: Any) -> Any:
        return 0.5 * (function(v - 1, x) - function(v + 1, x))

    made = function = special(name, _ORDER_AND_POINT, ORDER, slope, **slots)
    return made


jv, yv = _cylinder("jv"), _cylinder("yv")
jve, yve = (_cylinder(name, promotion=of_reals(name)) for name in ("jve", "yve"))

# -- modified --------------------------------------------------------------------------------------


def _scaled_slope(x: Any, out: Any, near: Any, v: Any, of_second_kind: bool = False) -> Any:
    """The slope of a scaled function of order ``v``: a difference, and far from 0 a series.

    There, the difference would cancel. The slope ``u`` of ``log(I_v)`` satisfies ``u' + u**2 + u /
    x == 1 + (v / x)**2``, which gives its series in ``1 / x``; that of ``-log(K_v)`` is the same
    series in ``-1 / x``.
    """
    if is_complex(x.dtype):
        return near
    far = greater(absolute(x), (12.0 if x.dtype.itemsize <= 4 else 250.0) * (1 + v * v))
    turn = -1.0 if of_second_kind else 1.0
    inverse = turn / select(far, absolute(x), math.inf)
    series = [1.0, -0.5]
    for k in range(2, 7):
        products = sum(series[i] * series[k - i] for i in range(1, k))
        series.append(0.5 * ((k - 2) * series[-1] - products + (v * v if k == 2 else 0.0)))
    ratio = 0.0
    for coefficient in reversed(series[1:]):
        ratio = (ratio + coefficient) * inverse
    return select(far, sign(x) * out * ratio * turn, near)


iv: Primitive = special(
    "iv", _ORDER_AND_POINT, ORDER, lambda v, x: 0.5 * (iv(v - 1, x) + iv(v + 1, x))
)


def _second_kind_slope(v: Any, x: Any, out: Any) -> Any:
    """By the order below: SciPy rounds that above to 0 where the function itself is not yet 0."""
    v = absolute(v)
    return -(kv(v - 1, x) + masked(~equal(v, 0), v * out / x))


kv: Primitive = special("kv", _ORDER_AND_POINT, ORDER, _second_kind_slope)

ive: Primitive = special(
    "ive", _ORDER_AND_POINT, ORDER,
    lambda v, x, out: _scaled_slope(
        x, out, 0.5 * (ive(v - 1, x) + ive(v + 1, x)) - sign(x) * out, v
    ),
    promotion=of_reals("ive"),
)  # fmt: skip

kve: Primitive = special(
    "kve", _ORDER_AND_POINT, ORDER,
    lambda v, x, out: _scaled_slope(
        x, out, _lesser(x, out) - 0.5 * (kve(v - 1, x) + kve(v + 1, x)), v, True
    ),
)  # fmt: skip

# SciPy has recurrences of their own for these, and truncates the order


@composed("yn")
def _yn(order: Any, x: Any) -> Any:
    return yv(trunc(order), x)


@composed("kn")
def _kn(order: Any, x: Any) -> Any:
    return kv(trunc(order), x)


# -- integer orders that are known ----------------------------------------------------------------

Function = Callable[[Any], Any]


def _of_known_order(
    name: str,
    low: tuple[str, str],  # SciPy's functions of the orders 0 and 1
    domain: Domain,
    slope: Callable[..., Any],  # ``slope(family, x, out, n)``
    scalar: Any,
) -> tuple[Primitive, Function, Function]:
    """The functions of integer orders from 0 up, and those of the orders 0 and 1."""
    ufunc, *of_low = (lazy(f"scipy.special:{each}") for each in (name, *low))

    def numpy(x: Any, *, n: int) -> Any:
        return of_low[n](x) if n < len(low) else ufunc(n, x)

    family: Primitive = computed(
        f"{name}_whole", numpy, domain, lambda x, out, *, n: slope(family, x, out, n),
        scalar=scalar, params=[{"n": 2}, {"n": 0}, {"n": 1}],
    )  # fmt: skip

    def named(n: int) -> Function:
        @composed(low[n])
        def function(x: Any) -> Any:
            return bind(family, (x,), {"n": n})

        return function

    return family, named(0), named(1)


def _half_difference(family: Any, x: Any, out: Any, n: int) -> Any:
    """Of the neighbours in the order; the function of order -1 is minus that of order 1."""
    return 0.5 * (family(x, n=n - 1) - family(x, n=n + 1)) if n else -family(x, n=1)


def _difference_at_pole(family: Any, x: Any, out: Any, n: int) -> Any:
    """`_half_difference` of the second kind, whose greater orders have the greater poles at 0."""
    return 0.5 * (_lesser(x, family(x, n=n - 1)) - family(x, n=n + 1)) if n else -family(x, n=1)


def _mean(family: Any, x: Any, n: int) -> Any:
    """Of the neighbours in the order; the functions of the orders -1 and 1 are equal."""
    return 0.5 * (family(x, n=n - 1) + family(x, n=n + 1)) if n else family(x, n=1)


jv_whole, j0, j1 = _of_known_order(
    "jv", ("j0", "j1"), reals(-5, 5), _half_difference, vecmath.bessel_j
)
yv_whole, y0, y1 = _of_known_order(
    "yv", ("y0", "y1"), reals(0.5, 5), _difference_at_pole, vecmath.bessel_y
)
iv_whole, i0, i1 = _of_known_order(
    "iv", ("i0", "i1"), reals(-3, 3), lambda family, x, out, n: _mean(family, x, n),
    partial(vecmath.bessel_i, scaled=False),
)  # fmt: skip
ive_whole, i0e, i1e = _of_known_order(
    "ive", ("i0e", "i1e"), reals(0.1, 3),
    lambda family, x, out, n: _scaled_slope(x, out, _mean(family, x, n) - sign(x) * out, n),
    partial(vecmath.bessel_i, scaled=True),
)  # fmt: skip
kv_whole, k0, k1 = _of_known_order(
    "kv", ("k0", "k1"), reals(0.5, 5),
    # by the order below, as above
    lambda family, x, out, n: -(family(x, n=n - 1) + n * out / x) if n else -family(x, n=1),
    partial(vecmath.bessel_k, scaled=False),
)  # fmt: skip
kve_whole, k0e, k1e = _of_known_order(
    "kve", ("k0e", "k1e"), reals(0.5, 5),
    lambda family, x, out, n: _scaled_slope(
        x, out, _lesser(x, out) - _mean(family, x, n), n, True
    ),
    partial(vecmath.bessel_k, scaled=True),
)  # fmt: skip

# -- integrals -------------------------------------------------------------------------------------


itj0: Primitive = part("itj0", "itj0y0", 0, reals(0.5, 5), lambda x: j0(x))
ity0: Primitive = part("ity0", "itj0y0", 1, reals(0.5, 5), lambda x: y0(x))
parts("itj0y0", itj0, ity0)

iti0: Primitive = part("iti0", "iti0k0", 0, reals(0.5, 5), lambda x: i0(x))
itk0: Primitive = part("itk0", "iti0k0", 1, reals(0.5, 5), lambda x: k0(x))
parts("iti0k0", iti0, itk0)

it2j0: Primitive = part(
    "it2j0", "it2j0y0", 0, reals(0.5, 5),
    lambda x: -over(j0(x) - 1, x, -0.25 * x, -0.25 * x * x, lambda k: (k + 1) ** 2),
)  # fmt: skip
it2y0: Primitive = part("it2y0", "it2j0y0", 1, reals(0.5, 5), lambda x: -y0(x) / x)
parts("it2j0y0", it2j0, it2y0)

it2i0: Primitive = part(
    "it2i0", "it2i0k0", 0, reals(0.5, 5),
    lambda x: over(i0(x) - 1, x, 0.25 * x, 0.25 * x * x, lambda k: (k + 1) ** 2),
)  # fmt: skip
it2k0: Primitive = part("it2k0", "it2i0k0", 1, reals(0.5, 5), lambda x: -k0(x) / x)
parts("it2i0k0", it2i0, it2k0)

besselpoly: Primitive = special(
    "besselpoly", [reals(0.5, 3), reals(0.5, 3), reals(1.5, 3)],
    lambda a, lmbda, nu: besselpoly(a, lmbda + 1, nu - 1) - besselpoly(a, lmbda + 1, nu + 1),
    NO_CLOSED_FORM, ORDER,
)  # fmt: skip

# -- Struve ----------------------------------------------------------------------------------------


def _slope_of_struve(function: Any, sign: int, v: Any, x: Any, out: Any) -> Any:
    """The derivative in x: by the order below and ``out / x``; near 0 by both adjacent orders.

    Far from 0 these grow faster than the slope, and cancel.
    """
    near = less(absolute(x), 1) & less(absolute(v), 100)
    turned = equal(v, -1)  # that of the order 1, whose slope has no poles, and a constant
    w, y = select(near, select(turned, 1, v), 0), select(near, x, 0)
    inhomogeneous = power(0.5 * y, w) * rgamma(w + 1.5) / math.sqrt(math.pi)
    smooth = 0.5 * (function(w - 1, y) + sign * function(w + 1, y) + inhomogeneous)
    away = function(v - 1, x) - v * (out / or_one(x))
    return select(near, select(turned, sign * smooth, smooth), away)


struve: Primitive = special(
    "struve", _ORDER_AND_POINT, ORDER, lambda v, x, out: _slope_of_struve(struve, -1, v, x, out)
)

modstruve: Primitive = special(
    "modstruve", _ORDER_AND_POINT, ORDER,
    lambda v, x, out: _slope_of_struve(modstruve, 1, v, x, out),
)  # fmt: skip

itstruve0: Primitive = special("itstruve0", reals(0.5, 5), lambda x: struve(0.0, x))

itmodstruve0: Primitive = special("itmodstruve0", reals(0.5, 5), lambda x: modstruve(0.0, x))

it2struve0: Primitive = special(
    "it2struve0",
    reals(0.5, 5),
    lambda x: -over(struve(0.0, x), x, 2 / math.pi, -x * x, lambda k: (2 * k + 1) ** 2),
)

# -- Airy ------------------------------------------------------------------------------------------

airy_ai: Primitive = part("airy_ai", "airy", 0, reals(-3, 3), lambda x: airy_aip(x))
airy_aip: Primitive = part("airy_aip", "airy", 1, reals(-3, 3), lambda x: x * airy_ai(x))
airy_bi: Primitive = part("airy_bi", "airy", 2, reals(-3, 3), lambda x: airy_bip(x))
airy_bip: Primitive = part("airy_bip", "airy", 3, reals(-3, 3), lambda x: x * airy_bi(x))
parts("airy", airy_ai, airy_aip, airy_bi, airy_bip)


def _root(x: Any) -> Any:
    """The derivative of the exponent in the factor of the scaled functions."""
    right = greater(x, 0)
    return select(right, sqrt(select(right, x, 1)), 0)


def _excess_of_airy(x: Any, turn: float) -> tuple[Any, Any]:
    """A mask of large ``x``, and ``|u| / sqrt(x) - 1`` there; ``u`` is the slope of a logarithm.

    ``u' + u**2 == x`` gives its series in ``x**-1.5`` for Bi, and in ``-x**-1.5`` for Ai.
    """
    far = greater(x, 8.0 if x.dtype.itemsize <= 4 else 25.0)
    series = [1.0]
    for k in range(1, 11):
        products = sum(series[i] * series[k - i] for i in range(1, k))
        series.append(0.5 * ((1.5 * k - 2.0) * series[-1] - products))
    y = select(far, x, math.inf)
    inverse = turn / (y * sqrt(y))
    excess = 0.0
    for coefficient in reversed(series[1:]):
        excess = (excess + coefficient) * inverse
    return far, excess


def _scaled_airy(x: Any, out: Any, derivative: Any, turn: float) -> Any:
    """The slope of scaled Ai (``turn`` is -1) or Bi (1): a sum, which cancels far from 0."""
    far, excess = _excess_of_airy(x, turn)
    root = _root(x)
    return select(far, turn * out * root * excess, derivative - turn * root * out)


def _scaled_airy_slope(x: Any, out: Any, function: Any, turn: float) -> Any:
    """The slope of scaled Ai' or Bi', alike."""
    far, excess = _excess_of_airy(x, turn)
    root = _root(x)
    return select(far, -turn * out * root * excess / (1 + excess), x * function - turn * root * out)


_SCALED = reals(0.5, 3)

airye_ai: Primitive = part(
    "airye_ai", "airye", 0, _SCALED, lambda x, out: _scaled_airy(x, out, airye_aip(x), -1.0)
)
airye_aip: Primitive = part(
    "airye_aip", "airye", 1, _SCALED, lambda x, out: _scaled_airy_slope(x, out, airye_ai(x), -1.0)
)
airye_bi: Primitive = part(
    "airye_bi", "airye", 2, _SCALED, lambda x, out: _scaled_airy(x, out, airye_bip(x), 1.0)
)
airye_bip: Primitive = part(
    "airye_bip", "airye", 3, _SCALED, lambda x, out: _scaled_airy_slope(x, out, airye_bi(x), 1.0)
)
parts("airye", airye_ai, airye_aip, airye_bi, airye_bip)

itairy_ai: Primitive = part("itairy_ai", "itairy", 0, _SCALED, lambda x: airy_ai(x))
itairy_bi: Primitive = part("itairy_bi", "itairy", 1, _SCALED, lambda x: airy_bi(x))
itairy_left_ai: Primitive = part("itairy_left_ai", "itairy", 2, _SCALED, lambda x: airy_ai(-x))
itairy_left_bi: Primitive = part("itairy_left_bi", "itairy", 3, _SCALED, lambda x: airy_bi(-x))
parts("itairy", itairy_ai, itairy_bi, itairy_left_ai, itairy_left_bi)

# -- Kelvin ----------------------------------------------------------------------------------------


def _slope_of_beip(x: Any, out: Any) -> Any:
    fourth = -((0.5 * x) ** 4)
    return ber(x) - over(out, x, 0.5, fourth, lambda k: (2 * k - 1) * (2 * k) ** 2 * (2 * k + 1))


_KELVIN = reals(0.5, 5)

ber: Primitive = special("ber", _KELVIN, lambda x: berp(x))
bei: Primitive = special("bei", _KELVIN, lambda x: beip(x))
ker: Primitive = special("ker", _KELVIN, lambda x: kerp(x))
kei: Primitive = special("kei", _KELVIN, lambda x: keip(x))
berp: Primitive = special("berp", _KELVIN, lambda x, out: -(bei(x) + ratio(out, x)))
beip: Primitive = special("beip", _KELVIN, _slope_of_beip)
kerp: Primitive = special("kerp", _KELVIN, lambda x, out: -(kei(x) + out / x))
keip: Primitive = special("keip", _KELVIN, lambda x, out: ker(x) - ratio(out, x))

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
from typing import Any

from functrans import vecmath
from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import absolute, or_one, select, sign
from functrans.ops.elementwise.compare import equal, greater, less
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.rounding import trunc
from functrans.ops.elementwise.special.gamma import rgamma
from functrans.ops.elementwise.special.scipy import (
    NO_CLOSED_FORM,
    by_slopes,
    composed,
    computed,
    over,
    part,
    parts,
    ratio,
    real,
    special,
)
from functrans.ops.samples import reals

ORDER = not_differentiable(
    "the derivative of a Bessel function in its order has no closed form; hold the order fixed"
)

_jv, _yv = lazy("scipy.special:jv"), lazy("scipy.special:yv")
_iv, _ive = lazy("scipy.special:iv"), lazy("scipy.special:ive")
_kv, _kve = lazy("scipy.special:kv"), lazy("scipy.special:kve")

_ORDER_AND_POINT = [reals(0.5, 3), reals(0.5, 5)]

# The scaled functions have no complex derivative, because their factor has none.

# -- first and second kind -------------------------------------------------------------------------


def _cylinder(name: str, **slots: Any) -> Primitive:
    """A function whose slope is half the difference of its neighbours in the order."""
    function: Any  # of numbers; as an equation, it would be one of variables

    def slope(v: Any, x: Any) -> Any:
        return 0.5 * (function(v - 1, x) - function(v + 1, x))

    made = function = special(name, _ORDER_AND_POINT, by_slopes(ORDER, slope), **slots)
    return made


jv, yv = _cylinder("jv"), _cylinder("yv")
jve, yve = (_cylinder(name, promotion=real(name)) for name in ("jve", "yve"))

# integer orders, which are known when a program is compiled


def _fall(family: Any, x: Any, n: int) -> Any:
    """The difference of adjacent orders; the function of order -1 is minus that of order 1."""
    return family(x, n=n - 1) - family(x, n=n + 1) if n else -2 * family(x, n=1)


jv_whole: Primitive = computed(
    "jv_whole", numpy=lambda x, *, n: _jv(n, x), scalar=vecmath.bessel_j,
    jvp=lambda x, out, dx, *, n: dx * (0.5 * _fall(jv_whole, x, n)),
    samples=reals(-5, 5), params={"n": 2},
)  # fmt: skip

yv_whole: Primitive = computed(
    "yv_whole", numpy=lambda x, *, n: _yv(n, x), scalar=vecmath.bessel_y,
    jvp=lambda x, out, dx, *, n: dx * (0.5 * _fall(yv_whole, x, n)),
    samples=reals(0.5, 5), params={"n": 2},
)  # fmt: skip

j1: Primitive = special(
    "j1", reals(-5, 5), by_slopes(lambda x: 0.5 * (j0(x) - jv_whole(x, n=2))), scalar=vecmath.j1
)

j0: Primitive = special("j0", reals(-5, 5), by_slopes(lambda x: -j1(x)), scalar=vecmath.j0)

y1: Primitive = special(
    "y1", reals(0.5, 5), by_slopes(lambda x: 0.5 * (y0(x) - yv_whole(x, n=2))), scalar=vecmath.y1
)

y0: Primitive = special("y0", reals(0.5, 5), by_slopes(lambda x: -y1(x)), scalar=vecmath.y0)

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
    "iv", _ORDER_AND_POINT, by_slopes(ORDER, lambda v, x: 0.5 * (iv(v - 1, x) + iv(v + 1, x)))
)

kv: Primitive = special(
    "kv", _ORDER_AND_POINT, by_slopes(ORDER, lambda v, x: -0.5 * (kv(v - 1, x) + kv(v + 1, x)))
)

ive: Primitive = special(
    "ive", _ORDER_AND_POINT, promotion=real("ive"),
    jvp=[
        ORDER,
        lambda v, x, out, dx: dx * _scaled_slope(
            x, out, 0.5 * (ive(v - 1, x) + ive(v + 1, x)) - sign(x) * out, v
        ),
    ],
)  # fmt: skip

kve: Primitive = special(
    "kve", _ORDER_AND_POINT,
    jvp=[
        ORDER,
        lambda v, x, out, dx: dx * _scaled_slope(
            x, out, out - 0.5 * (kve(v - 1, x) + kve(v + 1, x)), v, True
        ),
    ],
)  # fmt: skip

iv_whole: Primitive = computed(
    "iv_whole", numpy=lambda x, *, n: _iv(n, x),
    scalar=lambda x, *, n: vecmath.bessel_i(x, n, scaled=False),
    jvp=by_slopes(lambda x, *, n: 0.5 * (iv_whole(x, n=abs(n - 1)) + iv_whole(x, n=n + 1))),
    samples=reals(-3, 3), params={"n": 2},
)  # fmt: skip

ive_whole: Primitive = computed(
    "ive_whole", numpy=lambda x, *, n: _ive(n, x),
    scalar=lambda x, *, n: vecmath.bessel_i(x, n, scaled=True),
    jvp=lambda x, out, dx, *, n: (
        dx * _scaled_slope(
            x, out, 0.5 * (ive_whole(x, n=abs(n - 1)) + ive_whole(x, n=n + 1)) - sign(x) * out, n
        )
    ),
    samples=reals(0.1, 3), params={"n": 2},
)  # fmt: skip

kv_whole: Primitive = computed(
    "kv_whole", numpy=lambda x, *, n: _kv(n, x),
    scalar=lambda x, *, n: vecmath.bessel_k(x, n, scaled=False),
    jvp=by_slopes(lambda x, *, n: -0.5 * (kv_whole(x, n=abs(n - 1)) + kv_whole(x, n=n + 1))),
    samples=reals(0.5, 5), params={"n": 2},
)  # fmt: skip

kve_whole: Primitive = computed(
    "kve_whole", numpy=lambda x, *, n: _kve(n, x),
    scalar=lambda x, *, n: vecmath.bessel_k(x, n, scaled=True),
    jvp=lambda x, out, dx, *, n: (
        dx * _scaled_slope(
            x, out, out - 0.5 * (kve_whole(x, n=abs(n - 1)) + kve_whole(x, n=n + 1)), n, True
        )
    ),
    samples=reals(0.5, 5), params={"n": 2},
)  # fmt: skip

i0: Primitive = special("i0", reals(-3, 3), by_slopes(lambda x: i1(x)), scalar=vecmath.i0)

# in LLVM's texts, i1 is a type
i1: Primitive = special(
    "bessel_i1", ufunc="i1", scalar=vecmath.i1,
    jvp=by_slopes(lambda x: 0.5 * (i0(x) + iv_whole(x, n=2))), samples=reals(-3, 3),
)  # fmt: skip

i0e: Primitive = special(
    "i0e", reals(0.1, 3), scalar=vecmath.i0e,
    jvp=lambda x, out, dx: dx * _scaled_slope(x, out, i1e(x) - sign(x) * out, 0),
)  # fmt: skip

i1e: Primitive = special(
    "i1e", reals(0.1, 3), scalar=vecmath.i1e,
    jvp=lambda x, out, dx: dx * _scaled_slope(
        x, out, 0.5 * (i0e(x) + ive_whole(x, n=2)) - sign(x) * out, 1
    ),
)  # fmt: skip

k0: Primitive = special("k0", reals(0.5, 5), by_slopes(lambda x: -k1(x)), scalar=vecmath.k0)

k1: Primitive = special(
    "k1", reals(0.5, 5), by_slopes(lambda x: -0.5 * (k0(x) + kv_whole(x, n=2))), scalar=vecmath.k1
)

k0e: Primitive = special(
    "k0e", reals(0.5, 5), scalar=vecmath.k0e,
    jvp=lambda x, out, dx: dx * _scaled_slope(x, out, out - k1e(x), 0, True),
)  # fmt: skip

k1e: Primitive = special(
    "k1e", reals(0.5, 5), scalar=vecmath.k1e,
    jvp=lambda x, out, dx: dx * _scaled_slope(
        x, out, out - 0.5 * (k0e(x) + kve_whole(x, n=2)), 1, True
    ),
)  # fmt: skip

# SciPy has recurrences of their own for these, and truncates the order


@composed("yn")
def _yn(order: Any, x: Any) -> Any:
    return yv(trunc(order), x)


@composed("kn")
def _kn(order: Any, x: Any) -> Any:
    return kv(trunc(order), x)


# -- integrals -------------------------------------------------------------------------------------


itj0: Primitive = part("itj0", "itj0y0", 0, reals(0.5, 5), by_slopes(lambda x: j0(x)))
ity0: Primitive = part("ity0", "itj0y0", 1, reals(0.5, 5), by_slopes(lambda x: y0(x)))
parts("itj0y0", itj0, ity0)

iti0: Primitive = part("iti0", "iti0k0", 0, reals(0.5, 5), by_slopes(lambda x: i0(x)))
itk0: Primitive = part("itk0", "iti0k0", 1, reals(0.5, 5), by_slopes(lambda x: k0(x)))
parts("iti0k0", iti0, itk0)

it2j0: Primitive = part(
    "it2j0", "it2j0y0", 0, reals(0.5, 5),
    by_slopes(lambda x: -over(j0(x) - 1, x, -0.25 * x, -0.25 * x * x, lambda k: (k + 1) ** 2)),
)  # fmt: skip
it2y0: Primitive = part("it2y0", "it2j0y0", 1, reals(0.5, 5), by_slopes(lambda x: -y0(x) / x))
parts("it2j0y0", it2j0, it2y0)

it2i0: Primitive = part(
    "it2i0", "it2i0k0", 0, reals(0.5, 5),
    by_slopes(lambda x: over(i0(x) - 1, x, 0.25 * x, 0.25 * x * x, lambda k: (k + 1) ** 2)),
)  # fmt: skip
it2k0: Primitive = part("it2k0", "it2i0k0", 1, reals(0.5, 5), by_slopes(lambda x: -k0(x) / x))
parts("it2i0k0", it2i0, it2k0)

besselpoly: Primitive = special(
    "besselpoly", [reals(0.5, 3), reals(0.5, 3), reals(1.5, 3)],
    by_slopes(
        lambda a, lmbda, nu: besselpoly(a, lmbda + 1, nu - 1) - besselpoly(a, lmbda + 1, nu + 1),
        NO_CLOSED_FORM, ORDER,
    ),
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
    "struve", _ORDER_AND_POINT,
    by_slopes(ORDER, lambda v, x, out: _slope_of_struve(struve, -1, v, x, out)),
)  # fmt: skip

modstruve: Primitive = special(
    "modstruve", _ORDER_AND_POINT,
    by_slopes(ORDER, lambda v, x, out: _slope_of_struve(modstruve, 1, v, x, out)),
)  # fmt: skip

itstruve0: Primitive = special("itstruve0", reals(0.5, 5), by_slopes(lambda x: struve(0.0, x)))

itmodstruve0: Primitive = special(
    "itmodstruve0", reals(0.5, 5), lambda x, out, dx: dx * modstruve(0.0, x)
)

it2struve0: Primitive = special(
    "it2struve0",
    reals(0.5, 5),
    by_slopes(lambda x: -over(struve(0.0, x), x, 2 / math.pi, -x * x, lambda k: (2 * k + 1) ** 2)),
)

# -- Airy ------------------------------------------------------------------------------------------

airy_ai: Primitive = part("airy_ai", "airy", 0, reals(-3, 3), by_slopes(lambda x: airy_aip(x)))
airy_aip: Primitive = part("airy_aip", "airy", 1, reals(-3, 3), by_slopes(lambda x: x * airy_ai(x)))
airy_bi: Primitive = part("airy_bi", "airy", 2, reals(-3, 3), by_slopes(lambda x: airy_bip(x)))
airy_bip: Primitive = part("airy_bip", "airy", 3, reals(-3, 3), by_slopes(lambda x: x * airy_bi(x)))
parts("airy", airy_ai, airy_aip, airy_bi, airy_bip)


def _root(x: Any) -> Any:
    """The derivative of the exponent in the factor of the scaled functions."""
    right = greater(x, 0)
    return select(right, sqrt(select(right, x, 1)), 0)


_SCALED = reals(0.5, 3)

airye_ai: Primitive = part(
    "airye_ai", "airye", 0, _SCALED, lambda x, out, dx: dx * (airye_aip(x) + _root(x) * out)
)
airye_aip: Primitive = part(
    "airye_aip", "airye", 1, _SCALED, by_slopes(lambda x, out: x * airye_ai(x) + _root(x) * out)
)
airye_bi: Primitive = part(
    "airye_bi", "airye", 2, _SCALED, lambda x, out, dx: dx * (airye_bip(x) - _root(x) * out)
)
airye_bip: Primitive = part(
    "airye_bip", "airye", 3, _SCALED, by_slopes(lambda x, out: x * airye_bi(x) - _root(x) * out)
)
parts("airye", airye_ai, airye_aip, airye_bi, airye_bip)

itairy_ai: Primitive = part("itairy_ai", "itairy", 0, _SCALED, by_slopes(lambda x: airy_ai(x)))
itairy_bi: Primitive = part("itairy_bi", "itairy", 1, _SCALED, by_slopes(lambda x: airy_bi(x)))
itairy_left_ai: Primitive = part(
    "itairy_left_ai", "itairy", 2, _SCALED, lambda x, out, dx: dx * airy_ai(-x)
)
itairy_left_bi: Primitive = part(
    "itairy_left_bi", "itairy", 3, _SCALED, lambda x, out, dx: dx * airy_bi(-x)
)
parts("itairy", itairy_ai, itairy_bi, itairy_left_ai, itairy_left_bi)

# -- Kelvin ----------------------------------------------------------------------------------------


def _slope_of_beip(x: Any, out: Any) -> Any:
    fourth = -((0.5 * x) ** 4)
    return ber(x) - over(out, x, 0.5, fourth, lambda k: (2 * k - 1) * (2 * k) ** 2 * (2 * k + 1))


_KELVIN = reals(0.5, 5)

ber: Primitive = special("ber", _KELVIN, by_slopes(lambda x: berp(x)))
bei: Primitive = special("bei", _KELVIN, by_slopes(lambda x: beip(x)))
ker: Primitive = special("ker", _KELVIN, by_slopes(lambda x: kerp(x)))
kei: Primitive = special("kei", _KELVIN, by_slopes(lambda x: keip(x)))
berp: Primitive = special("berp", _KELVIN, by_slopes(lambda x, out: -(bei(x) + ratio(out, x))))
beip: Primitive = special("beip", _KELVIN, by_slopes(lambda x, out: _slope_of_beip(x, out)))
kerp: Primitive = special("kerp", _KELVIN, by_slopes(lambda x, out: -(kei(x) + out / x)))
keip: Primitive = special("keip", _KELVIN, by_slopes(lambda x, out: ker(x) - ratio(out, x)))

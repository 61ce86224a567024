"""Exponential, trigonometric and hyperbolic integrals, and Lambert's function.

References
----------
NIST Digital Library of Mathematical Functions, 4.13, chapters 6 and 8.19.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive, not_differentiable
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.elementwise.choice import select, sign
from functrans.ops.elementwise.compare import greater_equal
from functrans.ops.elementwise.exponential import LN10, exp
from functrans.ops.elementwise.hyperbolic import cosh, sinh
from functrans.ops.elementwise.logic import isinf
from functrans.ops.elementwise.rounding import trunc
from functrans.ops.elementwise.sinc import sinc_derivative
from functrans.ops.elementwise.special.scipy import (
    computed,
    ordered,
    over,
    part,
    parts,
    special,
)
from functrans.ops.elementwise.trigonometric import cos, sin
from functrans.ops.samples import reals, whole
from functrans.trace import protocols

exp1: Primitive = special("exp1", reals(0.1, 5), lambda x: -exp(-x) / x, scalar=vecmath.exp1)

expi: Primitive = special("expi", reals(0.1, 5), lambda x: exp(x) / _finite(x), scalar=vecmath.expi)


def _finite(x: Any) -> Any:
    """A divisor, with the sign in place of infinity, by which an infinite dividend stays one."""
    return select(isinf(x), sign(x), x)


def _order_below(n: Any, x: Any, out: Any) -> Any:
    recurrence = (exp(-x) - (n - 1) * out) / x
    regular = greater_equal(n, 1)
    return select(regular, expn(select(regular, n - 1, 1), x), recurrence)


expn: Primitive = ordered(
    "expn", [whole(0, 5), reals(0.1, 5)],
    not_differentiable("the order of an exponential integral is an integer"),
    lambda n, x, out: -_order_below(trunc(n), x, out),
)  # fmt: skip


def _sinhc(x: Any) -> Any:
    return over(sinh(x), _finite(x), 1.0, x * x, lambda k: 2 * k * (2 * k + 1))


def _decaying(x: Any, slope: Any) -> Any:
    """A slope whose oscillations end at infinity, where sine and cosine are NaN."""
    return select(isinf(x), 0.0, slope)


sine_integral: Primitive = part(
    "si", "sici", 0, reals(0.1, 5), lambda x: _decaying(x, sinc_derivative(x, n=0))
)
cosine_integral: Primitive = part(
    "ci", "sici", 1, reals(0.1, 5), lambda x: _decaying(x, cos(x) / x)
)
parts("sici", sine_integral, cosine_integral)

sinh_integral: Primitive = part("shi", "shichi", 0, reals(0.1, 5), _sinhc)
cosh_integral: Primitive = part("chi", "shichi", 1, reals(0.1, 5), lambda x: cosh(x) / _finite(x))
parts("shichi", sinh_integral, cosh_integral)

# -- Lambert ---------------------------------------------------------------------------------------


def _real_branch(x: Any, *, k: int) -> Any:
    value = _lambertw(x, k)
    real = np.where(value.imag == 0, value.real, np.nan)
    return real.astype(np.result_type(x))[()]


_lambertw = lazy("scipy.special:lambertw")

lambert_w: Primitive = computed(
    "lambertw", _real_branch, reals(-0.3, -0.1), lambda x, out, *, k: exp(-out) / (1 + out),
    params=[{"k": -1}],
)  # fmt: skip


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The real branches 0 and -1, as real numbers; NaN where the function is not real."""
    return lambert_w(z, k=int(k))


protocols.ufuncs["_lambertw"] = lambertw

wrightomega: Primitive = special(
    "wrightomega", reals(-3, 5), lambda x, out: select(isinf(out), 1.0, out / (1 + out))
)

# -- elementary functions under SciPy's names ------------------------------------------------------


def _exp10(x: Scalar) -> Scalar:
    return vecmath.power(scalar.const(10.0, x.dtype), x)


def _cosm1(x: Scalar) -> Scalar:
    half: Scalar = vecmath.sin(x * 0.5)
    return half * half * -2.0


exp10: Primitive = special(
    "exp10", reals(-3, 3), lambda x, out: out * LN10, scalar=_exp10, steep=False
)

cosm1: Primitive = special("cosm1", reals(-3, 3), lambda x: -sin(x), scalar=_cosm1, steep=False)

DEGREE = math.pi / 180

sindg: Primitive = special("sindg", reals(-180, 180), lambda x: DEGREE * cosdg(x))
cosdg: Primitive = special("cosdg", reals(-180, 180), lambda x: -DEGREE * sindg(x))
tandg: Primitive = special("tandg", reals(-60, 60), lambda x: DEGREE / cosdg(x) ** 2)
cotdg: Primitive = special("cotdg", reals(30, 150), lambda x: -DEGREE / sindg(x) ** 2)

radian: Primitive = special(
    "radian", [reals(0, 90), reals(0, 60), reals(0, 60)],
    lambda d, m, s: DEGREE,
    lambda d, m, s: DEGREE / 60,
    lambda d, m, s: DEGREE / 3600,
)  # fmt: skip

special("round", reals(-0.4, 0.4), ZERO_DERIVATIVE, scalar=scalar.rint)

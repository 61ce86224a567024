"""Trigonometric functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import is_complex
from functrans.ops.arrays.promotion import floating
from functrans.ops.elementwise.hyperbolic import (
    over_one_less_square,
    root_beside_one,
    sech_squared,
    turned,
)
from functrans.ops.elementwise.pointwise import analytic, elementwise
from functrans.ops.samples import reals
from functrans.trace import protocols

sin = analytic(np.sin, vecmath.sin, lambda x, out, dx: dx * cos(x), reals(-3, 3))
cos: Primitive = analytic(np.cos, vecmath.cos, lambda x, out, dx: dx * -sin(x), reals(-3, 3))


def _slope_of_tan(x: Any, out: Any) -> Any:
    """1 + out * out, which cancels where the value is near i, far from the real axis."""
    return sech_squared(1j * x) if is_complex(x.dtype) else 1 + out * out


tan = analytic(np.tan, vecmath.tan, lambda x, out, dx: dx * _slope_of_tan(x, out), reals(-1.4, 1.4))
arcsin = analytic(
    np.arcsin,
    vecmath.asin,
    lambda x, out, dx: dx / root_beside_one(x),
    reals(-0.9, 0.9),
    steep=True,
)
arccos = analytic(
    np.arccos,
    vecmath.acos,
    lambda x, out, dx: -dx / root_beside_one(x),
    reals(-0.9, 0.9),
    steep=True,
)


def _tangent_of_arctan(x: Any, out: Any, dx: Any) -> Any:
    return over_one_less_square(dx, turned(x)) if is_complex(x.dtype) else dx / (1 + x * x)


arctan = analytic(np.arctan, vecmath.atan, _tangent_of_arctan, reals(-3, 3))


def _arctan2_derivative(y: Any, x: Any, n: int) -> Any:
    """``x / (x**2 + y**2)``, or ``-y / (x**2 + y**2)``, without overflow; 0 at 0 and infinity."""
    radius, part = np.hypot(x, y), -y if n else x
    if (infinite := np.isinf(radius)).any():
        part = np.where(infinite, np.copysign(radius.dtype.type(0), part), part)
    radius = np.where(radius == 0, radius.dtype.type(1), radius)
    return part / radius / radius


arctan2_derivative: Primitive = elementwise(
    "arctan2_derivative", numpy=_arctan2_derivative, scalar=vecmath.atan2_derivative,
    # u = x / r**2 and v = -y / r**2 satisfy the equations of Cauchy and Riemann
    jvp=[
        lambda y, x, out, dy, n: dy * (_slope if n else _shear)(y, x),
        lambda y, x, out, dx, n: dx * (-_shear(y, x) if n else _slope(y, x)),
    ],
    promotion=floating, samples=[reals(-3, 3), reals(0.5, 3)], params=[{"n": 1}],
)  # fmt: skip


def _shear(y: Any, x: Any) -> Any:
    """``-2 x y / (x**2 + y**2)**2``."""
    return 2 * arctan2_derivative(y, x, n=0) * arctan2_derivative(y, x, n=1)


def _slope(y: Any, x: Any) -> Any:
    """``(y**2 - x**2) / (x**2 + y**2)**2``."""
    u, v = arctan2_derivative(y, x, n=0), arctan2_derivative(y, x, n=1)
    return (v - u) * (v + u)


arctan2 = elementwise(
    "arctan2", numpy=np.arctan2, scalar=vecmath.atan2,
    jvp=[
        lambda y, x, out, dy: dy * arctan2_derivative(y, x, n=0),
        lambda y, x, out, dx: dx * arctan2_derivative(y, x, n=1),
    ],
    samples=[reals(-3, 3), reals(0.5, 3)],
)  # fmt: skip

deg2rad = elementwise(
    "deg2rad", numpy=np.deg2rad, scalar=vecmath.deg2rad,
    linear=LINEAR,
    samples=reals(-180, 180),
)  # fmt: skip

rad2deg = elementwise(
    "rad2deg", numpy=np.rad2deg, scalar=vecmath.rad2deg,
    linear=LINEAR,
    samples=reals(-3, 3),
)  # fmt: skip

# aliases: ufuncs of other names that compute the same numbers
protocols.ufuncs["radians"] = deg2rad
protocols.ufuncs["degrees"] = rad2deg

"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.ops.arrays.promotion import floating, real_floats
from functrans.ops.define import on_parts
from functrans.ops.elementwise.choice import where_of_numbers
from functrans.ops.elementwise.complex_numbers import complex_p, imag, real
from functrans.ops.elementwise.pointwise import analytic, elementwise
from functrans.ops.elementwise.power import hypot, sqrt
from functrans.ops.samples import reals

sinh = analytic(np.sinh, vecmath.sinh, lambda x, out, dx: dx * cosh(x), reals(-3, 3))
cosh: Primitive = analytic(np.cosh, vecmath.cosh, lambda x, out, dx: dx * sinh(x), reals(-3, 3))


def _square_of_sech(x: Any) -> Any:
    """``1 / cosh(x)**2`` without overflow."""
    e = np.exp(-2 * (where_of_numbers(x.real < 0, -x, x) if is_complex(x.dtype) else abs(x)))
    return 4 * e / ((1 + e) * (1 + e))


sech_squared: Primitive = elementwise(
    "sech_squared", numpy=_square_of_sech, scalar=vecmath.sech_squared,
    jvp=lambda x, out, dx: dx * (-2 * tanh(x) * out),
    parts=on_parts("complex_functions:sech_squared"),
    promotion=floating, samples=reals(-3, 3),
)  # fmt: skip

# not 1 - out * out, which is 0 where out rounds to 1
tanh: Primitive = analytic(
    np.tanh, vecmath.tanh, lambda x, out, dx: dx * sech_squared(x), reals(-3, 3)
)


def _moved(x: Any, by: int) -> Any:
    """``x + by`` with the sign of an imaginary part of 0, which tells the sides of a cut apart."""
    return complex_p(real(x) + by, imag(x)) if is_complex(x.dtype) else x + by


# 1 - x * x would lose half of the digits near 1, and the slope of the product those of a small x
one_less_square: Primitive = elementwise(
    "one_less_square", numpy=lambda x: (1 - x) * (1 + x), scalar=lambda x: (1 - x) * (1 + x),
    jvp=lambda x, out, dx: dx * (-2 * x),
    promotion=real_floats, samples=reals(-0.9, 0.9),
)  # fmt: skip


def root_beside_one(x: Any) -> Any:
    """The root of ``1 - x**2``."""
    if not is_complex(x.dtype):
        return sqrt(one_less_square(x))
    return sqrt(-_moved(x, -1)) * sqrt(_moved(x, 1))


def turned(x: Any) -> Any:
    """A complex number times i, with the signs of its zeros."""
    return complex_p(-imag(x), real(x))


def _root_above_one(x: Any) -> Any:
    """The root of ``1 + x**2``."""
    return root_beside_one(turned(x)) if is_complex(x.dtype) else hypot(x, 1)


arcsinh = analytic(
    np.arcsinh, vecmath.asinh, lambda x, out, dx: dx / _root_above_one(x), reals(-3, 3)
)
# two roots: the root of the product has the other sign for half of the complex numbers
arccosh: Primitive = analytic(
    np.arccosh,
    vecmath.acosh,
    lambda x, out, dx: dx / (sqrt(_moved(x, -1)) * sqrt(_moved(x, 1))),
    reals(1.2, 5),
    steep=True,
)


def over_one_less_square(dx: Any, x: Any) -> Any:
    """``dx / (1 - x**2)``, without the square of a large complex number."""
    return dx / (1 - x) / (1 + x) if is_complex(x.dtype) else dx / one_less_square(x)


arctanh = analytic(
    np.arctanh,
    vecmath.atanh,
    lambda x, out, dx: over_one_less_square(dx, x),
    reals(-0.9, 0.9),
    steep=True,
)

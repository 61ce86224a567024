"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.ops.arrays.promotion import floating
from functrans.ops.define import on_parts
from functrans.ops.elementwise.choice import where_of_numbers
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.elementwise.power import sqrt
from functrans.ops.samples import reals

sinh = elementwise(
    "sinh", numpy=np.sinh, scalar=vecmath.sinh,
    jvp=lambda x, out, dx: dx * cosh(x),
    parts=on_parts("complex_functions:sinh"),
    samples=reals(-3, 3),
)  # fmt: skip

cosh: Primitive = elementwise(
    "cosh", numpy=np.cosh, scalar=vecmath.cosh,
    jvp=lambda x, out, dx: dx * sinh(x),
    parts=on_parts("complex_functions:cosh"),
    samples=reals(-3, 3),
)  # fmt: skip


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

tanh: Primitive = elementwise(
    "tanh", numpy=np.tanh, scalar=vecmath.tanh,
    # not 1 - out * out, which is 0 where out rounds to 1
    jvp=lambda x, out, dx: dx * sech_squared(x),
    parts=on_parts("complex_functions:tanh"),
    samples=reals(-3, 3),
)  # fmt: skip

arcsinh = elementwise(
    "arcsinh", numpy=np.arcsinh, scalar=vecmath.asinh,
    jvp=lambda x, out, dx: dx / sqrt(x * x + 1),
    parts=on_parts("complex_functions:arcsinh"),
    samples=reals(-3, 3),
)  # fmt: skip

arccosh: Primitive = elementwise(
    "arccosh", numpy=np.arccosh, scalar=vecmath.acosh,
    # two roots: the root of the product has the other sign for half of the complex numbers
    jvp=lambda x, out, dx: dx / (sqrt(x - 1) * sqrt(x + 1)),
    parts=on_parts("complex_functions:arccosh"),
    steep=True, samples=reals(1.2, 5),
)  # fmt: skip

arctanh = elementwise(
    "arctanh", numpy=np.arctanh, scalar=vecmath.atanh,
    jvp=lambda x, out, dx: dx / ((1 - x) * (1 + x)),
    parts=on_parts("complex_functions:arctanh"),
    steep=True, samples=reals(-0.9, 0.9),
)  # fmt: skip

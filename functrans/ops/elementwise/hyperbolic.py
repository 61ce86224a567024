"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.elementwise.power import sqrt
from functrans.ops.samples import reals

sinh = elementwise(
    "sinh", numpy=np.sinh, scalar=vecmath.sinh,
    jvp=lambda x, out, dx: dx * cosh(x),
    samples=reals(-3, 3),
)  # fmt: skip

cosh: Primitive = elementwise(
    "cosh", numpy=np.cosh, scalar=vecmath.cosh,
    jvp=lambda x, out, dx: dx * sinh(x),
    samples=reals(-3, 3),
)  # fmt: skip

tanh = elementwise(
    "tanh", numpy=np.tanh, scalar=vecmath.tanh,
    jvp=lambda x, out, dx: dx * (1 - out * out),
    samples=reals(-3, 3),
)  # fmt: skip

arcsinh = elementwise(
    "arcsinh", numpy=np.arcsinh, scalar=vecmath.asinh,
    jvp=lambda x, out, dx: dx / sqrt(x * x + 1),
    samples=reals(-3, 3),
)  # fmt: skip

arccosh: Primitive = elementwise(
    "arccosh", numpy=np.arccosh, scalar=vecmath.acosh,
    # two roots: the product's would be that of the other side for half of the complex numbers
    jvp=lambda x, out, dx: dx / (sqrt(x - 1) * sqrt(x + 1)),
    samples=reals(1.2, 5),
)  # fmt: skip

arctanh = elementwise(
    "arctanh", numpy=np.arctanh, scalar=vecmath.atanh,
    jvp=lambda x, out, dx: dx / ((1 - x) * (1 + x)),
    samples=reals(-0.9, 0.9),
)  # fmt: skip

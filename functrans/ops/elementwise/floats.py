"""What floating-point numbers are made of: sign, exponent, neighbours, steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.choice import masked, sign
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.promotion import promote, ufunc_promotion
from functrans.ops.samples import integers, reals
from functrans.trace import protocols

copysign: Primitive = elementwise(
    "copysign", numpy=np.copysign, scalar=scalar.copysign,
    # it is abs(x) with a sign, so its derivative is 0 at 0 as that of abs is
    jvp=[lambda x, y, out, dx: dx * (sign(x) * copysign(1, y)), None],
    samples=[reals(0.5, 3), reals(-3, -0.5)],
)  # fmt: skip

# the neighbours of a number are a matter of its dtype: none is taken for another
nextafter = elementwise(
    "nextafter", numpy=np.nextafter,
    jvp=[lambda x, y, out, dx: dx, None],
    stores=True, samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip

spacing = elementwise(
    "spacing", numpy=np.spacing,
    jvp=ZERO_DERIVATIVE,
    stores=True, samples=reals(0.5, 0.9),
)  # fmt: skip


def _heaviside(x: Scalar, at_zero: Scalar) -> Scalar:
    step = scalar.where(x < 0, 0, scalar.where(scalar.eq(x, 0), at_zero, 1))
    return scalar.where(scalar.ne(x, x), x, step)


heaviside = elementwise(
    "heaviside", numpy=np.heaviside, scalar=_heaviside,
    jvp=[None, lambda x, y, out, dy: masked(equal(x, 0), dy)],
    samples=[reals(-3, -0.5), reals(-3, 3)],
)  # fmt: skip

ldexp = elementwise(
    "ldexp", numpy=np.ldexp,
    linear=LINEAR,
    result="first", samples=[reals(-3, 3), integers(-4, 5)],
)  # fmt: skip

_as_frexp = ufunc_promotion(lambda: np.frexp)

binary_exponent = elementwise(
    "binary_exponent", numpy=lambda x: np.frexp(x)[1],
    jvp=ZERO_DERIVATIVE,
    promotion=_as_frexp, result="int32", samples=reals(0.5, 9),
)  # fmt: skip


def frexp(x: Any) -> tuple[Any, Any]:
    """The mantissa, 0 or at least 0.5 and below 1, and the exponent of 2 that belong to ``x``."""
    exponent = binary_exponent(x)
    (x,) = promote(_as_frexp, (x,))
    return ldexp(astype(x, x.dtype), -exponent), exponent


protocols.ufuncs["frexp"] = frexp

"""Arithmetic, number by number."""

from __future__ import annotations

import numpy as np

from functrans.ir.primitive import BILINEAR, LINEAR
from functrans.ops.pointwise import elementwise
from functrans.ops.samples import reals

any_real = reals(-3, 3)
nonzero = reals(0.5, 3)
BOTH = ((0, 1),)

add = elementwise(
    "add", numpy=np.add, scalar=lambda x, y: x + y,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: dy],
    linear=BOTH, transpose=[lambda ct, x, y: ct, lambda ct, x, y: ct],
    samples=[any_real, any_real],
)  # fmt: skip

subtract = elementwise(
    "subtract", numpy=np.subtract, scalar=lambda x, y: x - y,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: -dy],
    linear=BOTH, transpose=[lambda ct, x, y: ct, lambda ct, x, y: -ct],
    samples=[any_real, any_real],
)  # fmt: skip

multiply = elementwise(
    "multiply", numpy=np.multiply, scalar=lambda x, y: x * y,
    linear=BILINEAR,
    samples=[any_real, any_real],
)  # fmt: skip

divide = elementwise(
    "divide", numpy=np.divide, scalar=lambda x, y: x / y,
    jvp=[lambda x, y, out, dx: dx / y, lambda x, y, out, dy: -(out / y) * dy],
    linear=LINEAR,
    samples=[any_real, nonzero],
)  # fmt: skip

negative = elementwise(
    "negative", numpy=np.negative, scalar=lambda x: -x,
    linear=LINEAR,
    samples=any_real,
)  # fmt: skip

"""Fused multiply-add: a product and a sum with a single rounding."""

from __future__ import annotations

from functrans.loop import scalar
from functrans.ops.arrays.promotion import real_floats
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import reals

fma = elementwise(
    "fma", numpy=scalar.OPERATIONS["fma"].meaning, scalar=scalar.fma,
    jvp=[
        lambda x, y, z, out, dx: dx * y,
        lambda x, y, z, out, dy: x * dy,
        lambda x, y, z, out, dz: dz,
    ],
    promotion=real_floats, samples=[reals(-3, 3)] * 3,
)  # fmt: skip
"""``x * y + z`` with one rounding, for results that must agree in every bit."""

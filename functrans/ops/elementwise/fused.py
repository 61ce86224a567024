"""A product and a sum with one rounding."""

from __future__ import annotations

from functrans.loop import scalar
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.promotion import floating
from functrans.ops.samples import reals

fma = elementwise(
    "fma", numpy=scalar.OPERATIONS["fma"].meaning, scalar=scalar.fma,
    jvp=[
        lambda x, y, z, out, dx: dx * y,
        lambda x, y, z, out, dy: x * dy,
        lambda x, y, z, out, dz: dz,
    ],
    promotion=floating, samples=[reals(-3, 3)] * 3,
)  # fmt: skip
"""``x * y + z`` with one rounding, which results that must agree in every bit are made of."""

"""Fused multiply-add: a product and a sum with a single rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_complex
from functrans.loop import scalar
from functrans.ops.arrays.promotion import DtypeKey, floating
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import reals


def real_floats(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """All operands in their common dtype, or in float64 if that is an integer; none is complex."""
    dtypes = floating(keys)
    if is_complex(dtypes[0]):
        raise DtypeError("a rounded product or quantile is not defined for complex numbers")
    return dtypes


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

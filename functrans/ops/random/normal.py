"""Normal random numbers from uniform ones, by the inverse error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.ops.arrays.promotion import real_floats
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import reals
from functrans.vecmath.inverse_error import normal_of_uniform

_erfinv = lazy("scipy.special:erfinv")


def _evaluate(u: Any) -> Any:
    quantile = math.sqrt(2) * np.asarray(_erfinv(u), np.float64)
    return np.copysign(quantile, u).astype(u.dtype)[()]  # SciPy returns no negative zero


normal_quantile = elementwise(
    "normal_quantile", numpy=_evaluate, scalar=normal_of_uniform,
    jvp=lambda u, out, du: du * (math.sqrt(math.pi / 2) * exp(0.5 * out * out)),
    promotion=real_floats, samples=reals(-0.99, 0.99),
)  # fmt: skip
"""``sqrt(2) erfinv(u)``: normally distributed for a uniform ``u`` between -1 and 1."""

"""Exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from functrans import vecmath
from functrans.ops.pointwise import elementwise
from functrans.ops.samples import reals

exp = elementwise(
    "exp", numpy=np.exp, scalar=vecmath.exp,
    jvp=lambda x, out, dx: dx * out,
    samples=reals(-3, 3),
)  # fmt: skip

log = elementwise(
    "log", numpy=np.log, scalar=vecmath.log,
    jvp=lambda x, out, dx: dx / x,
    samples=reals(0.1, 10),
)  # fmt: skip

log1p = elementwise(
    "log1p", numpy=np.log1p, scalar=vecmath.log1p,
    jvp=lambda x, out, dx: dx / (1 + x),
    samples=reals(-0.9, 10),
)  # fmt: skip

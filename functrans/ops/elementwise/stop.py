"""Identities: one that derivatives do not pass, one that the optimiser does not look behind."""

from __future__ import annotations

from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.ops.arrays.promotion import unchanged
from functrans.ops.compiled.pairs import Pair
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import reals

stop_gradient: Primitive = elementwise(
    "stop_gradient", numpy=lambda x: x, scalar=lambda x: x,
    jvp=ZERO_DERIVATIVE, promotion=unchanged, stores=True,
    parts=lambda x: Pair(stop_gradient(x.re), stop_gradient(x.im)),
    samples=reals(-3, 3),
)  # fmt: skip

barrier = elementwise(
    "barrier", numpy=lambda x: x, scalar=lambda x: x,
    linear=LINEAR, promotion=unchanged, stores=True,
    samples=reals(-3, 3),
)  # fmt: skip

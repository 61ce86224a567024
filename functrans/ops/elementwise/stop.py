"""Identities that stop derivatives, that the optimiser does not look behind, that give a name."""

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

named = elementwise(
    "named", numpy=lambda x, name: x, scalar=lambda x, name: x,
    linear=LINEAR, promotion=unchanged, stores=True,
    params={"name": "x"}, samples=reals(-3, 3),
)  # fmt: skip

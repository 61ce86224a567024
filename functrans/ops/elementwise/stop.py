"""Identities that stop derivatives, hide a value from the optimiser, name it, or refuse some."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.failures import ALL_NAN, FAILURES, NOT_FINITE
from functrans.loop.nodes import required
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.promotion import unchanged
from functrans.ops.compiled.pairs import Pair
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import integers, reals

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
    params=[{"name": "x"}], samples=reals(-3, 3),
)  # fmt: skip


def _refuse(x: Any, kind: str) -> Any:
    bad = np.isnan(x) if kind == "nan" else ~np.isfinite(x)
    if np.any(bad):
        raise FAILURES[NOT_FINITE].error()
    return x


def _required_good(x: Scalar, kind: str) -> Scalar:
    good = scalar.eq(x, x) if kind == "nan" else abs(x) < np.inf
    return required(good, x, NOT_FINITE)


required_good: Primitive = elementwise(
    "required_good", numpy=_refuse, scalar=_required_good,
    linear=LINEAR, promotion=unchanged,
    parts=lambda x, kind: Pair(required_good(x.re, kind=kind), required_good(x.im, kind=kind)),
    params=[{"kind": "nan"}], samples=reals(-3, 3),
)  # fmt: skip
"""The operand; the call fails with `NOT_FINITE` on a NaN (kind "finite": or an infinity)."""


def _refuse_negative(x: Any, failure: int) -> Any:
    if np.any(x < 0):
        raise FAILURES[failure].error()
    return x


required_index = elementwise(
    "required_index", numpy=_refuse_negative,
    scalar=lambda x, failure: required(x >= 0, x, failure),
    jvp=ZERO_DERIVATIVE, promotion=unchanged,
    params=[{"failure": ALL_NAN}], samples=integers(0, 5),
)  # fmt: skip
"""The operand, an index that is negative where there is none: the call fails then."""

"""Rounding to integers; the derivative is 0, between the jumps and at them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.define import on_parts
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import away_from_integers


def _rounding(numpy: np.ufunc, on_scalars: Callable[[Scalar], Scalar]) -> Primitive:
    return elementwise(
        numpy.__name__,
        numpy=numpy,
        scalar=lambda x: on_scalars(x) if x.dtype.kind == "f" else x,
        jvp=ZERO_DERIVATIVE,
        parts=on_parts("complex_arithmetic:rint") if numpy is np.rint else None,
        samples=away_from_integers(-3, 3),
    )


floor = _rounding(np.floor, scalar.floor)
ceil = _rounding(np.ceil, scalar.ceil)
trunc = _rounding(np.trunc, scalar.trunc)
rint = _rounding(np.rint, scalar.rint)

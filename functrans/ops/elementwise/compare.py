"""Comparisons, number by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.define import on_parts
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import integers


def _comparison(name: str, numpy: np.ufunc, on_scalars: Callable[..., Any]) -> Primitive:
    def exactly(x: Scalar, y: Scalar) -> Any:
        if x.dtype == y.dtype:
            return on_scalars(x, y)
        # int64 and uint64, which have no common dtype: a negative number decides by itself
        if x.dtype.kind == "i":
            if_not = on_scalars(scalar.convert(x, y.dtype), y)
            return scalar.where(x < 0, bool(numpy(-1, 0)), if_not)
        return scalar.where(y < 0, bool(numpy(0, -1)), on_scalars(x, scalar.convert(y, x.dtype)))

    return elementwise(
        name,
        numpy=numpy,
        scalar=exactly,
        jvp=ZERO_DERIVATIVE,
        parts=on_parts(f"complex_arithmetic:{name}"),
        result="bool",
        samples=[integers(-3, 3), integers(-3, 3)],
    )


equal = _comparison("equal", np.equal, scalar.eq)
not_equal = _comparison("not_equal", np.not_equal, scalar.ne)
less = _comparison("less", np.less, lambda x, y: x < y)
less_equal = _comparison("less_equal", np.less_equal, lambda x, y: x <= y)
greater = _comparison("greater", np.greater, lambda x, y: x > y)
greater_equal = _comparison("greater_equal", np.greater_equal, lambda x, y: x >= y)

"""Comparisons, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.define import on_parts
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import integers
from functrans.trace.protocols import strengthened
from functrans.trace.tracer import Tracer

_HELD = {np.dtype(code): range(np.iinfo(code).min, np.iinfo(code).max + 1) for code in "bhilBHIL"}
"""The range of integers of each dtype."""

_INT64 = np.dtype(np.int64)


def _widened(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands; a Python integer that is out of range of the other's dtype is made strong."""
    return _beside(x, y), _beside(y, x)


def _beside(x: Any, other: Any) -> Any:
    dtype = _integer_dtype(other)
    if dtype is None:
        return x
    if isinstance(x, Tracer):
        may_be_wider = x._variable.aval.promotes_as is int and dtype != _INT64
        return strengthened(x) if may_be_wider else x
    if type(x) is not int or x in _HELD[dtype]:
        return x
    if x in _HELD[_INT64]:
        return np.int64(x)
    return np.inf if x > 0 else -np.inf


def _integer_dtype(x: Any) -> Any:
    if isinstance(x, Tracer):
        dtype: Any = x._variable.aval.promotes_as
    else:
        dtype = x.dtype if isinstance(x, (np.ndarray, np.generic, OnDevice)) else None
    return dtype if dtype in _HELD else None


def _comparison(name: str, numpy: np.ufunc, on_scalars: Callable[..., Any]) -> Primitive:
    def exactly(x: Scalar, y: Scalar) -> Any:
        if x.dtype == y.dtype:
            return on_scalars(x, y)
        # int64 and uint64 have no common integer dtype: negative numbers are compared separately
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
        widen=_widened,
        result="bool",
        samples=[integers(-3, 3), integers(-3, 3)],
    )


equal = _comparison("equal", np.equal, scalar.eq)
not_equal = _comparison("not_equal", np.not_equal, scalar.ne)
less = _comparison("less", np.less, lambda x, y: x < y)
less_equal = _comparison("less_equal", np.less_equal, lambda x, y: x <= y)
greater = _comparison("greater", np.greater, lambda x, y: x > y)
greater_equal = _comparison("greater_equal", np.greater_equal, lambda x, y: x >= y)

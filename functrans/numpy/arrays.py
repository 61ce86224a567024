"""Common helpers of the namespace: array-likes, axes, copies, new arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functrans.errors import ShapeError
from functrans.ir.graph import Literal
from functrans.ir.primitive import current
from functrans.ir.types import Shape, is_inexact
from functrans.ops.arrays.promotion import dtype_key, result_type
from functrans.ops.arrays.shape import asarray, in_dtype
from functrans.ops.arrays.structural import astype, full_p, iota, made, reshape
from functrans.ops.indexing.views import axes_in_order, copy
from functrans.trace import protocols
from functrans.trace.absent import UNKNOWN
from functrans.trace.dtypes import dtype_of
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer

__all__ = [
    "INDEX", "Axes", "along", "array", "asked", "astype", "axes_of", "axis_of", "check_castable",
    "common_dtype", "constant",
    "counting", "duplicate", "filled", "flat", "in_dtype", "inexact", "inexact_pair", "known",
    "made", "operand", "shape_of", "starting", "traced_copy", "vector", "with_axes",
]  # fmt: skip

Axes = tuple[int, ...]
INDEX = np.dtype(np.int64)

# -- arguments -------------------------------------------------------------------------------------


def array(x: Any) -> Any:
    """Convert as `np.asarray` does: Python numbers, traced or not, have a dtype then."""
    x = asarray(x)
    return astype(x, x.dtype) if isinstance(x, Tracer) and x._variable.aval.weak else x


def with_axes(x: Any) -> Any:
    """Convert to an array that has at least one axis."""
    x = array(x)
    return x if x.ndim else reshape(x, shape=(1,))


def vector(x: Any, name: str) -> Any:
    """Convert to an array that must have one axis."""
    x = array(x)
    if x.ndim != 1:
        depth = "too deep" if x.ndim else "of too small depth"
        raise ShapeError(
            f"object {depth} for desired array: {name} must be a vector, and has shape {x.shape}"
        )
    return x


def operand(x: Any) -> Any:
    """Convert to an array, except for Python numbers, which stay weakly typed."""
    return x if isinstance(x, (bool, int, float, complex)) else asarray(x)


def common_dtype(*operands: Any) -> np.dtype[Any]:
    """The result dtype of arrays and weak numbers by type promotion."""
    return result_type(tuple(dtype_key(x) for x in operands))


def inexact(x: Any) -> Any:
    """Convert to an array of floats or complex numbers.

    Integers, bools and bfloat16, which NumPy does not know as a float dtype, become float64.
    """
    x = array(x)
    if x.dtype.kind in "fc":
        return x
    dtype_of(x.dtype)  # raises for objects: None would become NaN
    return astype(x, np.float64)


def inexact_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert two array-likes to their common inexact dtype; Python numbers are weakly typed."""
    x, y = operand(x), operand(y)
    dtype = common_dtype(x, y, 0.0)
    return astype(array(x), dtype), astype(array(y), dtype)


def starting(initial: Any, dtype: Any) -> Any:
    """The number with which a reduction starts; NumPy's reduction of nothing converts it."""
    if isinstance(initial, Tracer):
        return in_dtype(initial, dtype)
    return np.add.reduce(np.empty(0, dtype), dtype=dtype, initial=initial)


def asked(
    function: Callable[..., Any], x: Any, axis: Any, where: Any = True, **keywords: Any
) -> Any:
    """NumPy's own reduction of ones, which raises what NumPy raises for such arguments.

    No axis has more than one element. The result has NumPy's dtype.
    """
    ones = np.ones([min(extent, 1) for extent in x.shape], x.dtype)
    if where is not True:
        plain = where is None or (np.isscalar(where) and not isinstance(where, Tracer))
        keywords["where"] = where if plain else _one_like(array(where))
    if isinstance(keywords.get("initial"), Tracer):
        keywords["initial"] = _one_like(keywords["initial"])
    return function(ones, axis=axis, **keywords)


def _one_like(x: Any) -> Any:
    return np.ones((), x.dtype)


def accumulated_in(out: Any, x: Any) -> np.dtype[Any] | None:
    """The dtype in which NumPy adds up or multiplies elements for an array of floats, ``out``.

    Integers of any width give the same numbers, which wrap.
    """
    receiver = out[0] if isinstance(out, tuple) else out
    floats = hasattr(x, "dtype") and receiver is not None and is_inexact(receiver.dtype)
    return np.promote_types(receiver.dtype, x.dtype) if floats else None


def axis_of(axis: Any, ndim: int) -> int:
    """A nonnegative axis index."""
    return int(normalize_axis_index(axis, ndim))


def axes_of(axis: Any, ndim: int) -> Axes:
    """Sorted nonnegative axis indices; all axes for None."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    return tuple(sorted(axes_in_order(axis, ndim)))


def shape_of(shape: Any) -> Shape:
    """A shape as a tuple, from a number or a sequence."""
    if isinstance(shape, (list, tuple)):
        return tuple([n.__index__() for n in shape])
    if isinstance(shape, (np.ndarray, Tracer)) and shape.ndim == 1:
        return tuple([n.__index__() for n in shape])
    return (shape.__index__(),)


def flat(x: Any) -> Any:
    """Flatten an array in C order."""
    return reshape(x, shape=(x.size,))


def along(x: Any, axis: Any) -> tuple[Any, int]:
    """An array and a nonnegative axis; the flattened array and 0 for None."""
    return (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim))


def along_one(x: Any, axis: Any) -> tuple[Any, int]:
    """As `along`, but a number has one axis, as in NumPy's functions that are written in C."""
    return along(flat(x) if x.ndim == 0 else x, axis)


def check_castable(x: Any, dtype: Any, casting: str) -> None:
    """Raise if a casting rule forbids the conversion of an array to a dtype."""
    if not np.can_cast(x.dtype, dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {x.dtype!r} to {np.dtype(dtype)!r} according to the rule "
            f"{casting!r}"
        )


def known(x: Any) -> Any:
    """The plain array behind a value, or None if its elements are not known."""
    if not isinstance(x, Tracer):
        return np.asarray(x)
    value = x._known_value
    return None if value is UNKNOWN else np.asarray(value)


# -- arrays made by traced functions ---------------------------------------------------------------


def filled(shape: Shape, value: float, dtype: Any) -> Any:
    """A new array filled with one number that is known during tracing."""
    return made(full_p, shape=shape, value=value, dtype=np.dtype(dtype))


def counting(size: int, axis: int = 0, ndim: int = 1) -> Any:
    """0, 1, 2, ... along one axis, with size 1 along all others."""
    numbers = made(iota, size=size, dtype=INDEX)
    return reshape(numbers, shape=(*(1,) * axis, size, *(1,) * (ndim - axis - 1)))


def duplicate(x: Any) -> Any:
    """A copy that can be assigned to."""
    if isinstance(x, Tracer):
        x._check_usable()
        return copy(x)
    return np.array(x)


def constant(x: Any) -> Any:
    """A plain array as a read-only traced one, if a trace is active."""
    trace = current.get()
    if isinstance(x, Tracer) or not isinstance(trace, Trace):
        return x
    x = np.asarray(x)
    lifted = trace.lift(x.astype(dtype_of(x.dtype), copy=False))
    if isinstance(lifted, Literal):
        return filled((), lifted.value.item(), lifted.value.dtype)
    return lifted


def traced_copy(x: Any) -> Any:
    """A plain array as a traced array that can be assigned to, within a trace."""
    if x.size and not x.tobytes().strip(b"\0"):
        return filled(x.shape, 0, x.dtype)
    x = np.array(x)
    x.flags.writeable = False  # spares the trace another copy
    return duplicate(constant(x))


protocols.operators["asarray"] = asarray
protocols.operators["traced"] = traced_copy

"""Functions that return views in NumPy: assignments to the view change the array, and vice versa.

If NumPy returns a view or a copy depending on the memory layout (``reshape``), neither side can be
read after an assignment to the other. Read-only views (``broadcast_to``) cannot be assigned to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrans.errors import ShapeError, UnsupportedAttributeError
from functrans.ir.primitive import current
from functrans.ir.types import Shape, complex_dtype, is_complex, real_dtype
from functrans.ops.arrays import structural
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.structural import inverse
from functrans.ops.elementwise.complex_numbers import complex_p, imag_p, real_p
from functrans.ops.indexing.index import getitem
from functrans.trace import protocols
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import UNCERTAIN, is_number, make_view


def _as_view(
    x: Any, operation: str, read: Callable[[Any], Any],
    write: Callable[[Any, Any], Any] | str | None,
) -> Any:  # fmt: skip
    result = read(x)
    if isinstance(result, Tracer) and result is not x:
        return make_view(result, x, read, write, operation)
    return result


# -- the order of axes -----------------------------------------------------------------------------


def axes_in_order(axis: Any, ndim: int, name: str | None = None) -> tuple[int, ...]:
    """Nonnegative axis indices, in the order given."""
    if isinstance(axis, Tracer):
        axis = axis.__index__()  # NumPy's function would replace the error message
    return tuple(normalize_axis_tuple(axis, ndim, name))


def permuted(x: Any, permutation: Sequence[int], operation: str = "transpose") -> Any:
    """``x`` with its axes in another order."""
    forward = tuple(permutation)
    backward = inverse(forward)
    return _as_view(
        x,
        operation,
        lambda base: structural.transpose(base, permutation=forward),
        lambda base, new: structural.transpose(new, permutation=backward),
    )


def transpose(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """``x`` with its axes in another order, reversed by default."""
    if axes is None:
        return permuted(x, range(x.ndim)[::-1])
    axes = axes if isinstance(axes, Sequence) else np.atleast_1d(axes).tolist()
    if len(axes) != x.ndim:
        raise ShapeError(f"axes {tuple(axes)} don't match an array of shape {x.shape}")
    return permuted(x, axes_in_order(axes, x.ndim))


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """``x`` with two axes interchanged."""
    order = list(range(x.ndim))
    first, second = (normalize_axis_index(axis, x.ndim) for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return permuted(x, order, "swapaxes")


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """``x`` with some axes moved to other positions; the others keep their order."""
    sources = axes_in_order(source, x.ndim, "source")
    destinations = axes_in_order(destination, x.ndim, "destination")
    if len(sources) != len(destinations):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return permuted(x, order, "moveaxis")


def matrix_transpose(x: Any) -> Any:
    """``x`` with its last two axes interchanged."""
    if x.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return swapaxes(x, -1, -2)


# -- shapes ----------------------------------------------------------------------------------------


def reshaped(x: Any, shape: Shape, operation: str = "reshape") -> Any:
    """``x`` with another shape of the same size.

    If axes are only divided, NumPy returns a view for every memory layout.
    """
    is_contiguous = isinstance(x, Tracer) and x._is_contiguous
    result = _as_view(
        x,
        operation,
        lambda base: structural.reshape(base, shape=shape),
        (lambda base, new: structural.reshape(new, shape=base.shape))
        if is_contiguous or _divides(x.shape, shape)
        else UNCERTAIN,
    )
    if is_contiguous:
        result._is_contiguous = True
    return result


def _divides(shape: Shape, into: Shape) -> bool:
    """Whether each axis of a shape becomes one axis or several; those of size 1 do not count."""
    if 0 in shape:
        return True
    sizes = (n for n in into if n != 1)
    for extent in shape:
        product = 1
        while product < extent:
            product *= next(sizes)
        if product != extent:
            return False
    return True


def reshape(x: Any, shape: int | Sequence[int], order: str = "C") -> Any:
    """``x`` with another shape of the same size; one extent may be -1, and is then computed."""
    sizes = known_shape(x, _sizes(shape))
    if order in ("C", "c"):
        return reshaped(x, sizes)
    if order not in ("F", "f"):
        raise ValueError(f"order must be one of 'C' or 'F' (got {order!r})")

    def read(base: Any) -> Any:
        turned = structural.transpose(base, permutation=tuple(range(base.ndim)[::-1]))
        turned = structural.reshape(turned, shape=sizes[::-1])
        return structural.transpose(turned, permutation=tuple(range(len(sizes))[::-1]))

    return _as_view(x, "reshape", read, UNCERTAIN)


def _sizes(shape: Any) -> tuple[Any, ...]:
    """The extents of a shape given as a number, a sequence or a vector."""
    is_vector = isinstance(shape, (np.ndarray, Tracer)) and shape.ndim == 1
    return tuple(shape) if is_vector or isinstance(shape, (tuple, list)) else (shape,)


def known_shape(x: Any, shape: Sequence[Any]) -> Shape:
    """A requested shape, with -1 (or any negative number, as in NumPy) replaced by the rest."""
    sizes = [max(operator.index(n), -1) for n in shape]
    rest = prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and rest > 0 and x.size % rest == 0:
        sizes[sizes.index(-1)] = x.size // rest
    if any(n < 0 for n in sizes) or prod(sizes) != x.size:
        raise ShapeError(f"cannot reshape array of size {x.size} into shape {tuple(shape)}{here()}")
    return tuple(sizes)


def ravel(x: Any, order: str = "C") -> Any:
    """``x`` as a vector. Unlike ``reshape``, it is never strided: of ``x[:, 0]``, NumPy copies."""
    if (
        not isinstance(x, Tracer)
        or x._as_view is None
        or (x._is_contiguous and order in ("C", "c"))
    ):
        return reshape(x, (x.size,), order)
    return _as_view(x, "ravel", lambda base: copy(reshape(base, (base.size,), order)), UNCERTAIN)


def in_order(x: Any, operation: str) -> Any:
    """``x`` in a requested memory order, for which NumPy returns the array itself or a copy."""
    if isinstance(x, Tracer) and (x.ndim > 1 or x._as_view is not None):
        return _as_view(x, operation, copy, UNCERTAIN)
    return x


def flatten(x: Any, order: str = "C") -> Any:
    """``x`` as a vector, always a copy."""
    flat = ravel(x, order)
    return copy(x) if flat is x else unlinked(flat)


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """``x`` without axes of size 1: the given ones, or all."""
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = axes_in_order(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ShapeError(
            f"cannot select an axis to squeeze out which has size not equal to one: axis {axis} of "
            f"shape {x.shape}"
        )
    return reshaped(x, structural.drop_axes(x.shape, axes), "squeeze")


def expand_dims(x: Any, axis: int | Sequence[int]) -> Any:
    """``x`` with new axes of size 1 at the given positions of the result."""
    ndim = x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    axes = axes_in_order(axis, ndim)
    return reshaped(x, expand_axes_of(x.shape, axes), "expand_dims")


def expand_axes_of(shape: Shape, axes: Sequence[int]) -> Shape:
    """A shape with extents of 1 inserted at the given positions of the result."""
    sizes = list(shape)
    for axis in sorted(axes):
        sizes.insert(axis, 1)
    return tuple(sizes)


def broadcast_to(x: Any, shape: int | Sequence[int]) -> Any:
    """``x`` broadcast to a shape; a read-only view."""
    sizes = tuple(operator.index(n) for n in _sizes(shape))
    return _as_view(
        x, "broadcast_to", lambda base: structural.broadcast_to(base, shape=sizes), None
    )


# -- parts -----------------------------------------------------------------------------------------


def flip(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """``x`` backwards along some axes, or all."""
    axes = range(x.ndim) if axis is None else axes_in_order(axis, x.ndim)
    backwards = slice(None, None, -1)
    index = tuple(backwards if i in axes else slice(None) for i in range(x.ndim))
    return getitem(x, (*index, ...))


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of the matrices along two axes, as the last axis; a read-only view."""
    first, second = (normalize_axis_index(axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    return _as_view(x, "diagonal", lambda base: diagonal_of(base, offset, first, second), None)


def diagonal_of(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    """`diagonal` for two distinct nonnegative axes: a strided slice of the flattened matrices."""
    rows, columns = x.shape[axis1], x.shape[axis2]
    rest = [axis for axis in range(x.ndim) if axis not in (axis1, axis2)]
    last = structural.transpose(x, permutation=(*rest, axis1, axis2))
    flat = structural.reshape(last, shape=(*last.shape[:-2], rows * columns))
    start = offset if offset >= 0 else -offset * columns
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return getitem(flat, (..., slice(start, start + size * (columns + 1), columns + 1)))


# -- parts of complex numbers ----------------------------------------------------------------------


def real(x: Any) -> Any:
    """The real part of an array; a real array itself."""
    if not is_complex(x.dtype):
        return x
    return _as_view(x, "real", real_p, lambda base, new: complex_p(new, imag_p(base)))


def imag(x: Any) -> Any:
    """The imaginary part of an array; of a real array, read-only zeros."""
    if not is_complex(x.dtype):
        zeros = structural.zeros_like(x)
        if isinstance(zeros, np.ndarray):
            zeros.flags.writeable = False
        return zeros
    return _as_view(x, "imag", imag_p, lambda base, new: complex_p(real_p(base), new))


def _pairs(x: Any) -> Any:
    """The real and imaginary parts, alternating along the last axis as in memory."""
    parts = stack([real_p(x), imag_p(x)], axis=x.ndim)
    return structural.reshape(parts, shape=(*x.shape[:-1], 2 * x.shape[-1]))


def _of_pairs(x: Any) -> Any:
    """Complex numbers of such parts."""
    return complex_p(getitem(x, (..., slice(0, None, 2))), getitem(x, (..., slice(1, None, 2))))


def view(x: Any, dtype: Any = None, type: Any = np.ndarray) -> Any:
    """The same elements, or their bits as numbers of another dtype of that size.

    Complex elements also as their parts, and such parts as complex numbers.
    """
    if isclass(dtype) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type is not np.ndarray:
        raise UnsupportedAttributeError(
            f"ndarray.view as a {type.__name__} is not supported on traced values{here()}: "
            "its class has methods of its own; instead: functions of the array itself"
        )
    wanted = x.dtype if dtype is None else np.dtype(dtype)
    if wanted == x.dtype:
        return getitem(x, ...)
    own = x.dtype
    same_size = {own.kind, wanted.kind} <= set("iuf") and own.itemsize == wanted.itemsize
    if same_size:
        bits, back = (partial(structural.reinterpret, kind=dtype.kind) for dtype in (wanted, own))
        return _as_view(x, "view", bits, lambda base, new: back(new))
    if x.ndim > 0:
        if is_complex(x.dtype) and wanted == real_dtype(x.dtype):
            return _as_view(x, "view", _pairs, lambda base, new: _of_pairs(new))
        if x.dtype.kind == "f" and wanted == complex_dtype(x.dtype) and x.shape[-1] % 2 == 0:
            return _as_view(x, "view", _of_pairs, lambda base, new: _pairs(new))
    raise UnsupportedAttributeError(
        f"ndarray.view of {x.dtype} as {wanted} is not supported on traced values{here()}; "
        "instead: x.astype(dtype) converts the values; a dtype of the same size shows their bits"
    )


# -- copies ----------------------------------------------------------------------------------------


def copy(x: Any) -> Any:
    """A copy that shares no memory with the original."""
    if not isinstance(x, Tracer):
        return x.copy()
    if x._owner is not current.get():
        return structural.cast(x, dtype=x.dtype)
    x._refresh()
    return unlinked(x)


def unlinked(x: Any) -> Any:
    """A tracer for the same value that is not a view."""
    return Tracer(x._owner, x._variable, x._value) if isinstance(x, Tracer) else x


# -- methods and attributes of tracers -------------------------------------------------------------


def _spread(arguments: tuple[Any, ...]) -> Any:
    """``f(2, 3)`` means ``f((2, 3))``."""
    return arguments[0] if len(arguments) == 1 else arguments


def _transpose_method(x: Any, *axes: Any) -> Any:
    return transpose(x, _spread(axes) if axes else None)


def _reshape_method(x: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    result = reshape(x, _spread(shape), order)
    return _copy_method(result) if copy else result


def _copy_method(x: Any, order: str = "C") -> Any:
    result = copy(x)
    if isinstance(result, Tracer):
        result._is_contiguous = order in ("C", "c") if x.ndim else is_array(x)
    return result


def is_array(x: Tracer) -> bool | None:
    """Whether a value without axes is an array, not a number; None if it may be either."""
    return None if x._argument is not None else x._as_view is not None or x._is_contiguous


def as_array(x: Any) -> Any:
    """A number as an array without axes, which can be assigned to."""
    if isinstance(x, Tracer) and is_number(x):
        x = unlinked(x)
        x._is_contiguous = True
    return x


protocols.attributes["T"] = transpose
protocols.attributes["mT"] = matrix_transpose
protocols.attributes["real"] = real
protocols.attributes["imag"] = imag
protocols.methods.update(
    {
        "transpose": _transpose_method,
        "reshape": _reshape_method,
        "swapaxes": swapaxes,
        "ravel": ravel,
        "flatten": flatten,
        "squeeze": squeeze,
        "diagonal": diagonal,
        "copy": _copy_method,
        "view": view,
        "__copy__": copy,
        "__deepcopy__": lambda x, memo: copy(x),
    }
)

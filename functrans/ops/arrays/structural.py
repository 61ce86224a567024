"""The linear primitives that all families need: they move, repeat, sum or convert elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError, UnsupportedNumPyError
from functrans.ir.graph import Eqn
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive, current
from functrans.ir.types import GROWS, Aval, Shape, is_complex
from functrans.loop import scalar
from functrans.loop.nodes import fold, reshaped
from functrans.ops.define import on_parts, primitive
from functrans.ops.samples import cases, complexes, integers, reals
from functrans.trace import protocols
from functrans.trace.dtypes import dtype_of
from functrans.trace.source import warn_user
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer

# -- reshape ---------------------------------------------------------------------------------------


def _infer_reshape(x: Aval, *, shape: Shape) -> Aval:
    if prod(shape) != x.size:
        raise ShapeError(f"cannot reshape an array of shape {x.shape} into shape {shape}")
    return x.update(shape=shape)


def _batch_reshape(operands: Any, axes: Any, *, shape: Shape) -> tuple[Any, int]:
    x = move_axis(operands[0], axes[0], 0)
    return reshape(x, shape=(x.shape[0], *shape)), 0


# The ndarray methods bypass the checks that NumPy's functions make for other array types, and the
# lookup of patched names during tracing.
_ndarray = np.ndarray
_add = np.add.reduce
_empty = np.empty


reshape_p = primitive(
    "reshape",
    infer=_infer_reshape,
    numpy=lambda x, *, shape: x.reshape(shape) if isinstance(x, _ndarray) else np.reshape(x, shape),
    linear=LINEAR,
    transpose=[lambda ct, x, *, shape: reshape(ct, shape=x.shape)],
    transpose_moves=True,
    batch=_batch_reshape,
    pull=lambda read, index, x, *, shape: read(0, reshaped(index, shape, x.shape)),
    regroups=lambda shape: {"shape": shape},
    stores=True,
    samples=cases(
        ((2, 3), {"shape": (3, 2)}), ((4,), {"shape": (2, 2)}), ((1,), {"shape": ()}),
        ((0, 3), {"shape": (0,)}),
    ),
)  # fmt: skip


def reshape(x: Any, *, shape: Shape) -> Any:
    """``x`` with another shape of the same size."""
    return x if x.shape == shape else reshape_p(x, shape=shape)


# -- transpose -------------------------------------------------------------------------------------


def _batch_transpose(operands: Any, axes: Any, *, permutation: tuple[int, ...]) -> tuple[Any, int]:
    x = move_axis(operands[0], axes[0], 0)
    return transpose(x, permutation=(0, *(p + 1 for p in permutation))), 0


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _infer_transpose(x: Aval, *, permutation: tuple[int, ...]) -> Aval:
    if sorted(permutation) != list(range(x.ndim)):
        raise ShapeError(f"{permutation} is no permutation of the axes of shape {x.shape}")
    return x.update(shape=tuple(x.shape[p] for p in permutation))


def _transposed(x: Any, *, permutation: tuple[int, ...]) -> Any:
    if len(permutation) != np.ndim(x):
        _check_not_ragged(x)
    return np.transpose(x, permutation)


def _check_not_ragged(x: Any) -> None:
    """Raise if rows of a stack have different lengths, so that it is an array of arrays."""
    if x.dtype == object:
        raise UnsupportedNumPyError(
            "vmap cannot rearrange the residuals of a loop whose lanes, or steps of an outer loop, "
            "take different numbers of steps: call the pullback within the vmap that makes it, or "
            "give the loop max_steps"
        )


transpose_p = primitive(
    "transpose",
    infer=_infer_transpose,
    numpy=_transposed,
    linear=LINEAR,
    transpose=[lambda ct, x, *, permutation: transpose(ct, permutation=inverse(permutation))],
    transpose_moves=True,
    batch=_batch_transpose,
    pull=lambda read, at, x, *, permutation: read(0, tuple(at[i] for i in inverse(permutation))),
    stores=True,
    samples=cases(
        ((2, 3), {"permutation": (1, 0)}), ((2, 3, 4), {"permutation": (2, 0, 1)}),
        ((), {"permutation": ()}),
    ),
)  # fmt: skip


def transpose(x: Any, *, permutation: tuple[int, ...]) -> Any:
    """``x`` with its axes in another order."""
    if permutation == tuple(range(len(permutation))):
        return x
    return transpose_p(x, permutation=permutation)


def move_axis(x: Any, source: int, destination: int) -> Any:
    """``x`` with one axis moved to another position."""
    axes = [i for i in range(x.ndim) if i != source]
    axes.insert(destination, source)
    return transpose(x, permutation=tuple(axes))


# -- broadcast_to ----------------------------------------------------------------------------------


def _infer_broadcast(x: Aval, *, shape: Shape) -> Aval:
    aligned = shape[len(shape) - x.ndim :] if x.ndim <= len(shape) else None
    if aligned is None or any(a not in (1, b) for a, b in zip(x.shape, aligned, strict=True)):
        raise ShapeError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    return x.update(shape=shape)


def _batch_broadcast(operands: Any, axes: Any, *, shape: Shape) -> tuple[Any, int]:
    x = align_batched(operands[0], axes[0], len(shape))
    return broadcast_to(x, shape=(x.shape[0], *shape)), 0


def _pull_broadcast(read: Any, index: Any, x: Aval, *, shape: Shape) -> Any:
    own = index[len(shape) - x.ndim :]
    zero = scalar.const(0, np.int64)
    return read(0, tuple(zero if n == 1 else i for i, n in zip(own, x.shape, strict=True)))


_SMALL = 1024
"""Up to this many elements, a copy is faster than the view of ``np.broadcast_to``."""


def _broadcast(x: Any, *, shape: Shape) -> Any:
    if GROWS in shape:
        _check_not_ragged(x)
        added = len(shape) - x.ndim
        known = [max(n, own) for n, own in zip(shape[added:], x.shape, strict=True)]
        return np.broadcast_to(x, (*shape[:added], *known))
    # an assignment would drop unit axes in front
    if prod(shape) > _SMALL or x.ndim > len(shape) or type(x) is not _ndarray:
        return np.broadcast_to(x, shape)
    out = _empty(shape, x.dtype)
    out[...] = x
    return out


broadcast_to_p = primitive(
    "broadcast_to",
    infer=_infer_broadcast,
    numpy=_broadcast,
    linear=LINEAR,
    transpose=[lambda ct, x, *, shape: sum_to(ct, x.shape)],
    transpose_adds=True,
    batch=_batch_broadcast,
    pull=_pull_broadcast,
    stores=True,
    samples=cases(
        ((3,), {"shape": (2, 3)}), ((2, 1), {"shape": (2, 3)}), ((), {"shape": (2,)}),
        ((1, 3), {"shape": (0, 3)}),
    ),
)  # fmt: skip


def broadcast_to(x: Any, *, shape: Shape) -> Any:
    """``x`` broadcast to a shape, by NumPy's rules."""
    return x if x.shape == shape else broadcast_to_p(x, shape=shape)


def sum_to(x: Any, shape: Shape) -> Any:
    """``x`` summed over the axes along which an array of ``shape`` was broadcast to ``x.shape``."""
    if x.shape == shape:
        return x
    new = x.ndim - len(shape)
    axes = tuple(i for i, n in enumerate(x.shape) if i < new or (shape[i - new] == 1 and n != 1))
    return reshape(reduce_sum(x, axes=axes), shape=shape)


def align_batched(x: Any, axis: int | None, ndim: int) -> Any:
    """``x`` with its mapped axis first, then unit axes up to ``ndim`` unmapped axes.

    The unmapped axes then broadcast as they do without the mapped axis.
    """
    if axis is None:
        return x
    x = move_axis(x, axis, 0)
    missing = ndim - (x.ndim - 1)
    return reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x


def place(x: Any, axis: int | None, wanted: int | None, size: int) -> Any:
    """``x`` with its mapped axis moved to ``wanted``, or broadcast along a new axis there."""
    if wanted is None or axis == wanted:
        return x
    if axis is not None:
        return move_axis(x, axis, wanted)
    repeated = broadcast_to(x, shape=(size, *x.shape))
    return move_axis(repeated, 0, wanted)


def in_lanes(operands: Sequence[Any], axes: Sequence[int | None]) -> list[Any]:
    """Operands with the mapped axis first; those without one are repeated along it."""
    size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    return [place(x, axis, 0, size) for x, axis in zip(operands, axes, strict=True)]


def beside_mapped(axes: Sequence[int], mapped: int) -> tuple[int, ...]:
    """The axes of a lane's array in the array of all lanes, which has a mapped axis, too."""
    return tuple(axis + (axis >= mapped) for axis in axes)


def batch_along(op: Callable[..., Any]) -> Callable[..., Any]:
    """The batching rule of an operation on one array, line by line along an ``axis``."""

    def batch(operands: Any, mapped: Any, *, axis: int, **params: Any) -> Any:
        return op(operands[0], axis=axis + (axis >= mapped[0]), **params), mapped[0]

    return batch


# -- reduce_sum ------------------------------------------------------------------------------------


def drop_axes(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """A shape without some of its axes."""
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def expand_axes(x: Any, axes: tuple[int, ...]) -> Any:
    """``x`` with unit axes at the given (sorted) positions of the result."""
    shape = list(x.shape)
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(x, shape=tuple(shape))


def batch_reduction(reduce: Any) -> Any:
    """The batching rule of a primitive that removes ``axes``."""

    def batch(operands: Any, mapped: Any, *, axes: tuple[int, ...], **params: Any) -> Any:
        (x,), (axis,) = operands, mapped
        shifted = beside_mapped(axes, axis)
        return reduce(x, axes=shifted, **params), axis - sum(a < axis for a in shifted)

    return batch


def pull_reduction(operation: str) -> Any:
    """The compiled form of a primitive that combines the elements along ``axes``."""

    def pull(read: Any, index: Any, x: Aval, *, axes: tuple[int, ...], **params: Any) -> Any:
        def body(*inner: Any) -> Any:
            rest, along = iter(index), iter(inner)
            return read(0, tuple(next(along if i in axes else rest) for i in range(x.ndim)))

        total = fold(operation, [x.shape[a] for a in sorted(axes)], body)
        # 0.0 as NumPy's sum of nothing but -0.0; a loop starts with it, an expression does not
        unrolled = operation == "add" and total.dtype.kind == "f" and total.op != "fold"
        return total + 0.0 if unrolled else total

    return pull


def reduced(reduce: Callable[..., Any], x: Any, axes: tuple[int, ...]) -> Any:
    """A reduction by NumPy; of float16 in float32, which NumPy does only along the last axis."""
    if x.dtype != np.float16:
        return reduce(x, axes, x.dtype)
    return reduce(x, axes, np.float32).astype(x.dtype)


reduce_sum: Primitive = primitive(
    "reduce_sum",
    infer=lambda x, *, axes: x.update(shape=drop_axes(x.shape, axes)),
    numpy=lambda x, *, axes: reduced(_add, x, axes),
    linear=LINEAR,
    transpose=[
        lambda ct, x, *, axes: broadcast_to(expand_axes(ct, axes), shape=x.shape),
    ],
    transpose_moves=True,
    batch=lambda operands, mapped, *, axes: batch_reduction(reduce_sum)(
        operands, mapped, axes=axes
    ),
    pull=pull_reduction("add"),
    samples=cases(
        ((2, 3), {"axes": (0,)}), ((2, 3), {"axes": (0, 1)}), ((2, 3, 4), {"axes": (0, 2)}),
        ((3,), {"axes": ()}), ((0, 3), {"axes": (0,)}),
        ((integers(-5, 5), (2, 3)), {"axes": (1,)}),
    ),
)  # fmt: skip

# -- cast ------------------------------------------------------------------------------------------


def _convert(x: Any, *, dtype: np.dtype[Any]) -> Any:
    x = np.asarray(x)
    # imaginary parts are dropped without a warning here: `astype` has warned the user
    return (x.real if loses_part(x.dtype, dtype) else x).astype(dtype)[()]


def loses_part(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a conversion drops imaginary parts; bool is computed from both parts."""
    return is_complex(dtype) and wanted.kind not in "cb"


def transpose_cast(ct: Any, x: Aval, *, dtype: np.dtype[Any]) -> Any:
    if hasattr(ct, "mask"):
        # a masked cotangent; its module `functrans.ops.arrays.masked` imports this one
        return ct.over(_to(ct.value, x.dtype))
    return _to(ct, x.dtype)


def _to(x: Any, dtype: np.dtype[Any]) -> Any:
    """A tangent or cotangent in a dtype; a cast that would only make it strong is left out."""
    return x if x.dtype == dtype else cast(x, dtype=dtype)


cast: Primitive = primitive(
    "cast",
    infer=lambda x, *, dtype: x.update(dtype=dtype),
    numpy=_convert,
    linear=LINEAR,
    jvp=[lambda x, out, dx, *, dtype: _to(dx, dtype)],
    transpose=[transpose_cast],
    batch=lambda operands, axes, *, dtype: (cast(operands[0], dtype=dtype), axes[0]),
    scalar=lambda x, *, dtype: scalar.convert(x, dtype),
    parts=on_parts("complex_arithmetic:cast"),
    elementwise=True,
    always_strong=True,
    stores=True,
    samples=cases(
        ((3,), {"dtype": np.dtype(np.float32)}), ((3,), {"dtype": np.dtype(np.int64)}),
        ((integers(-3, 3), (2, 2)), {"dtype": np.dtype(np.float64)}),
        ((reals(0.0, 9.0), ()), {"dtype": np.dtype(np.bool_)}),
        ((3,), {"dtype": np.dtype(np.complex128)}),
        ((complexes(0.5, 2), (3,)), {"dtype": np.dtype(np.complex64)}),
        ((complexes(0.5, 2), (2, 2)), {"dtype": np.dtype(np.float64)}),
    ),
)  # fmt: skip


def astype(x: Any, dtype: Any) -> Any:
    """``x`` as a strong array of another dtype."""
    if not isinstance(x, Tracer):
        if isinstance(x, OnDevice):
            return x if x.dtype == np.dtype(dtype) else cast(x, dtype=np.dtype(dtype))
        return np.asarray(x).astype(dtype)[()]
    if dtype is x.dtype and not x._aval.weak:
        return x
    dtype = dtype_of(dtype)
    if loses_part(x.dtype, dtype):
        warn_user(
            "Casting complex values to real discards the imaginary part: write x.real",
            np.exceptions.ComplexWarning,
        )
    return x if x.dtype == dtype and not x._aval.weak else cast(x, dtype=dtype)


protocols.operators["astype"] = astype
protocols.operators["strengthen"] = lambda x: astype(x, x.dtype)


def _of_kind(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    return np.dtype(f"{kind}{dtype.itemsize}")


reinterpret: Primitive = primitive(
    "reinterpret",
    infer=lambda x, *, kind: x.update(dtype=_of_kind(x.dtype, kind)),
    numpy=lambda x, *, kind: np.asarray(x).view(_of_kind(x.dtype, kind))[()],
    jvp=ZERO_DERIVATIVE,
    batch=lambda operands, axes, *, kind: (reinterpret(operands[0], kind=kind), axes[0]),
    scalar=lambda x, *, kind: scalar.bitcast(x, _of_kind(x.dtype, kind)),
    elementwise=True,
    always_strong=True,
    samples=cases(((3,), {"kind": "i"}), ((integers(-3, 3), (2, 2)), {"kind": "u"})),
)

# -- array creation --------------------------------------------------------------------------------

full_p = primitive(
    "full",
    infer=lambda *, shape, value, dtype: Aval(shape, dtype),
    numpy=lambda *, shape, value, dtype: np.full(shape, value, dtype)[()],
    jvp=ZERO_DERIVATIVE,
    pull=lambda read, index, *, shape, value, dtype: scalar.const(value, dtype),
    parts=on_parts("complex_arithmetic:full"),
    exact=True,
    samples=cases(({"shape": (2, 3), "value": 1.5, "dtype": np.dtype(np.float64)},)),
)

iota = primitive(
    "iota",
    infer=lambda *, size, dtype: Aval((size,), dtype),
    numpy=lambda *, size, dtype: np.arange(size, dtype=dtype),
    jvp=ZERO_DERIVATIVE,
    pull=lambda read, index, *, size, dtype: scalar.convert(index[0], dtype),
    parts=on_parts("complex_arithmetic:iota"),
    samples=cases(({"size": 4, "dtype": np.dtype(np.int64)},)),
)


def made(primitive: Primitive, **params: Any) -> Any:
    """The result of a primitive without operands; within a trace it is assignable."""
    trace = current.get()
    if not isinstance(trace, Trace):
        return primitive.numpy(**params)
    return trace.create(primitive, {**params, "dtype": dtype_of(params["dtype"])})


def repeated(x: Any, *, shape: Shape) -> Any:
    """As `broadcast_to`, for an operand of a traced operation.

    `broadcast_to` of an untraced number would make an array now, which becomes an input.
    """
    trace = current.get()
    if isinstance(x, (Tracer, OnDevice)) or x.size != 1 or not isinstance(trace, Trace):
        return broadcast_to(x, shape=shape)
    (found,) = trace.record(broadcast_to_p, (np.asarray(x).reshape(())[()],), {"shape": shape})
    return found


def zeros(shape: Shape, dtype: Any) -> Any:
    """An array of zeros, or of False."""
    return full_p(shape=shape, value=0, dtype=np.dtype(dtype))


def zeros_like(x: Any) -> Any:
    """Zeros in the shape and dtype of an array, a tracer or an aval."""
    return zeros(x.shape, x.dtype)


def instantiated(values: Iterable[Any], like: Iterable[Any]) -> list[Any]:
    """The values, with zeros of the shape and dtype of ``like`` in place of None."""
    return [
        zeros_like(x) if value is None else value for value, x in zip(values, like, strict=True)
    ]


absent_p = primitive(
    "absent",
    infer=lambda *, shape, dtype: Aval(shape, dtype),
    numpy=lambda *, shape, dtype: np.zeros(shape, dtype)[()],
    jvp=ZERO_DERIVATIVE,
    pull=lambda read, index, *, shape, dtype: scalar.zero(dtype),
    parts=on_parts("complex_arithmetic:absent"),
    samples=cases(({"shape": (2, 3), "dtype": np.dtype(np.float64)},)),
)
"""Structural zeros of derivatives: compiled code may omit products with them."""


def absent(shape: Shape, dtype: Any) -> Any:
    """Structural zeros, of tangents and cotangents; the user's own zeros are `zeros`."""
    return absent_p(shape=shape, dtype=np.dtype(dtype))


def absent_like(x: Any) -> Any:
    """`absent` in the shape and dtype of an array, a tracer or an aval."""
    return absent(x.shape, x.dtype)


def is_zeros(maker: Eqn | None) -> bool:
    """Whether an equation makes an array of zeros."""
    if maker is None:
        return False
    return maker.primitive is absent_p or (maker.primitive is full_p and not maker.params["value"])

"""Reductions: product, maximum, minimum, all, any, argmax and argmin.

The sum is in `functrans.ops.arrays.structural`, since every family needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.loop.nodes import INDEX, fold
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import (
    batch_reduction,
    cast,
    drop_axes,
    expand_axes,
    pull_reduction,
    reduce_sum,
    reduced,
    reshape,
)
from functrans.ops.compiled.emission import Emit, always, elements
from functrans.ops.compiled.places import Index, whole
from functrans.ops.define import primitive
from functrans.ops.elementwise.choice import masked, nan_if
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.samples import booleans, cases, integers

Axes = tuple[int, ...]
Parts = tuple[Any, ...]
Combine = Callable[[Parts, Parts], Parts]


def _reduction(name: str, ufunc: np.ufunc, operation: str, **slots: Any) -> Primitive:
    op: Primitive = primitive(
        name,
        infer=slots.pop("infer", lambda x, *, axes: x.update(shape=drop_axes(x.shape, axes))),
        numpy=lambda x, *, axes: reduced(ufunc.reduce, x, axes),
        batch=lambda operands, mapped, *, axes: batch_reduction(op)(operands, mapped, axes=axes),
        pull=pull_reduction(operation),
        **slots,
    )
    return op


# -- the product -----------------------------------------------------------------------------------


def stretch(shape: Shape, axis: int, start: int, size: int) -> Index:
    """The index of part of an axis."""
    return (*map(whole, shape[:axis]), (start, size, 1), *map(whole, shape[axis + 1 :]))


def times(x_dx: Parts, y_dy: Parts) -> Parts:
    """The product of two numbers, and its tangent."""
    (x, dx), (y, dy) = x_dx, y_dy
    return x * y, dx * y + x * dy


def _folded(combine: Combine, parts: Parts, axis: int) -> Parts:
    """Numbers with several parts, where the first half along an axis is combined with the last."""
    shape = parts[0].shape
    count = shape[axis] // 2
    first, last = stretch(shape, axis, 0, count), stretch(shape, axis, shape[axis] - count, count)
    products = combine(
        tuple(read_slice(x, index=first) for x in parts),
        tuple(read_slice(x, index=last) for x in parts),
    )
    # an odd element in the middle remains for the next round
    rest = stretch(shape, axis, 0, shape[axis] - count)
    return tuple(
        update_slice(read_slice(x, index=rest), product, index=first)
        for x, product in zip(parts, products, strict=True)
    )


def combined_by_halves(combine: Combine, parts: Parts, axes: Axes) -> Parts:
    """Pairwise reduction: numbers along axes are combined in pairs; at least one is required."""
    shape = drop_axes(parts[0].shape, axes)
    for axis in axes:
        while parts[0].shape[axis] > 1:
            parts = _folded(combine, parts, axis)
    return tuple(reshape(x, shape=shape) for x in parts)


def _tangent_of_product(x: Any, out: Any, dx: Any, *, axes: Axes) -> Any:
    """The tangent of a product, by multiplications only, so that elements may be zero."""
    return combined_by_halves(times, (x, dx), axes)[1] if x.size else None


reduce_prod = _reduction(
    "reduce_prod", np.multiply, "mul",
    jvp=[_tangent_of_product],
    parts=lazy("functrans.ops.reductions.compiled.complex_product:product"),
    samples=cases(
        ((2, 3), {"axes": (0,)}), ((2, 3), {"axes": (0, 1)}), ((5, 3, 4), {"axes": (0, 2)}),
        ((), {"axes": ()}), ((0, 3), {"axes": (0,)}), ((7,), {"axes": (0,)}),
        (np.array([2.0, 0.0, 3.0, 0.5]), {"axes": (0,)}),
        (np.array([2.0, 0.0, 3.0, 0.0]), {"axes": (0,)}),
        ((integers(-5, 5), (2, 3)), {"axes": (1,)}),
    ),
)  # fmt: skip

# -- extremes --------------------------------------------------------------------------------------


def _infer_of_some(x: Aval, *, axes: Axes) -> Aval:
    if any(x.shape[axis] == 0 for axis in axes):
        raise ShapeError(f"an array of shape {x.shape} has no largest or smallest element")
    return x.update(shape=drop_axes(x.shape, axes))


def _shared_by_ties(x: Any, out: Any, dx: Any, *, axes: Axes) -> Any:
    """The tangent of an extreme: the mean of the tangents of the elements equal to it.

    If it is NaN, all elements have influence: a mask of zeros would hide it from derivatives.
    """
    undefined = isnan(out)
    wins = equal(x, expand_axes(out, axes)) | expand_axes(undefined, axes)
    count = reduce_sum(cast(wins, dtype=x.dtype), axes=axes)
    return reduce_sum(masked(wins, dx), axes=axes) / nan_if(undefined, count)


_some = cases(
    ((2, 3), {"axes": (0,)}), ((2, 3), {"axes": (0, 1)}), ((2, 3, 4), {"axes": (0, 2)}),
    ((), {"axes": ()}), ((2, 0), {"axes": (0,)}), ((integers(-5, 5), (2, 3)), {"axes": (1,)}),
)  # fmt: skip

reduce_max = _reduction(
    "reduce_max", np.maximum, "max",
    infer=_infer_of_some, jvp=[_shared_by_ties], samples=_some,
)  # fmt: skip

reduce_min = _reduction(
    "reduce_min", np.minimum, "min",
    infer=_infer_of_some, jvp=[_shared_by_ties], samples=_some,
)  # fmt: skip

# -- all and any -----------------------------------------------------------------------------------

_bits = cases(
    ((booleans(), (2, 3)), {"axes": (1,)}), ((booleans(), (0, 3)), {"axes": (0,)}),
    ((integers(-5, 5), (2, 3)), {"axes": (0, 1)}),
)  # fmt: skip

_emit_truth = lazy("functrans.ops.reductions.compiled.short_circuit:emit")
_decide_early = lazy("functrans.ops.reductions.compiled.short_circuit:are_long")


def _truth(decisive: bool) -> Emit:
    return Emit(partial(_emit_truth, decisive), _decide_early, elements, by_elements=always)


reduce_and = _reduction(
    "reduce_and", np.bitwise_and, "and", jvp=ZERO_DERIVATIVE, samples=_bits,
    emit=_truth(decisive=False), emit_on_grid=None,
)  # fmt: skip

reduce_or = _reduction(
    "reduce_or", np.bitwise_or, "or", jvp=ZERO_DERIVATIVE, samples=_bits,
    emit=_truth(decisive=True), emit_on_grid=None,
)  # fmt: skip

reduce_xor = _reduction(
    "reduce_xor", np.bitwise_xor, "xor", jvp=ZERO_DERIVATIVE, samples=_bits
)  # fmt: skip

# -- positions of extremes -------------------------------------------------------------------------


def _pull_position(operation: str) -> Any:
    def pull(read: Any, index: Any, x: Aval, *, axis: int) -> Any:
        def element(k: Any) -> Any:
            return read(0, (*index[:axis], k, *index[axis:]))

        extreme = fold(operation, [x.shape[axis]], element)
        return first_of(extreme, element, x.shape[axis])

    return pull


def first_of(extreme: Any, element: Callable[[Any], Any], extent: int) -> Any:
    """The index of the first element that equals the extreme."""
    # a vector holds twice as many short indices, which is profitable if it holds as many elements
    is_short = extreme.dtype.itemsize < INDEX.itemsize and extent <= np.iinfo(np.int32).max
    dtype = np.dtype(np.int32) if is_short else INDEX

    def candidate(k: Any) -> Any:
        # with a NaN among the elements the extreme is NaN: then the first NaN is found
        found = scalar.eq(element(k), extreme) | scalar.ne(element(k), element(k))
        return scalar.where(found, scalar.convert(k, dtype), scalar.const(extent, dtype))

    return scalar.convert(fold("min", [extent], candidate), INDEX)


_emit_position = lazy("functrans.ops.reductions.compiled.positions:emit")
_are_long = lazy("functrans.ops.reductions.compiled.positions:are_long")
_emit_on_grid = lazy("functrans.ops.reductions.compiled.grid.positions:emit")
_are_few = lazy("functrans.ops.reductions.compiled.grid.positions:are_few")


def _position(name: str, numpy: Any, operation: str) -> Primitive:
    def batch(operands: Any, mapped: Any, *, axis: int) -> Any:
        shifted = axis + (axis >= mapped[0])
        return op(operands[0], axis=shifted), mapped[0] - (shifted < mapped[0])

    op = primitive(
        name,
        infer=lambda x, *, axis: _infer_of_some(x, axes=(axis,)).update(dtype=INDEX),
        numpy=lambda x, *, axis: numpy(x, axis=axis),
        jvp=ZERO_DERIVATIVE,
        batch=batch,
        pull=_pull_position(operation),
        emit=Emit(partial(_emit_position, operation), _are_long, elements, by_elements=always),
        emit_on_grid=Emit(partial(_emit_on_grid, operation), _are_few, elements),
        samples=cases(
            ((3,), {"axis": 0}), ((2, 3), {"axis": 1}), ((2, 3, 4), {"axis": 1}),
            ((integers(-2, 2), (5, 2)), {"axis": 0}),
        ),
    )  # fmt: skip
    return op


argmax = _position("argmax", np.argmax, "max")
argmin = _position("argmin", np.argmin, "min")

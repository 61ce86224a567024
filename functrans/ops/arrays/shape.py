"""Joining arrays, and operations composed of joining, slicing and reshaping.

The functions take and give arrays and tracers, and count axes from 0; `functrans.numpy` has
NumPy's signatures.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.on_device import OnDevice, holds_device
from functrans.ir.primitive import ALL_LINEAR
from functrans.ir.types import Aval, Shape
from functrans.loop.nodes import UNROLLED, as_index, guard
from functrans.ops.arrays.promotion import common, promote
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import (
    astype,
    broadcast_to,
    expand_axes,
    in_lanes,
    repeated,
    reshape,
)
from functrans.ops.compiled.emission import Emission, Emit, always
from functrans.ops.compiled.places import whole
from functrans.ops.define import primitive
from functrans.ops.samples import cases, integers
from functrans.records import NamedTuple
from functrans.trace.foreign import check_plain
from functrans.trace.protocols import SEQUENCES
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

if TYPE_CHECKING:
    from functrans.loop.target import Target


class Joins(NamedTuple):
    """Thresholds for joining arrays by comparisons, measured on 200 rows."""

    few: int = 5
    """Up to this many parts, comparisons select the part of each element; more are copied."""
    small: int = 64
    """Up to this many elements in all, comparisons are used for any number of parts."""


FEWEST_HALVED = 5
"""From this many parts on, an element's part is found by bisection."""

# -- concatenate -----------------------------------------------------------------------------------


def _infer_concatenate(*parts: Aval, axis: int) -> Aval:
    first = parts[0]
    for i, part in enumerate(parts):
        if part.shape != with_extent(first.shape, axis, *part.shape[axis : axis + 1]):
            raise ShapeError(
                f"cannot join arrays along axis {axis}: number {i} has shape {part.shape}, the "
                f"first has {first.shape}, and all other axes must be of equal sizes"
            )
    return first.update(shape=with_extent(first.shape, axis, sum(p.shape[axis] for p in parts)))


def with_extent(shape: Shape, axis: int, *extent: int) -> Shape:
    """A shape with another extent along one axis."""
    return (*shape[:axis], *extent, *shape[axis + 1 :])


def _transpose_concatenate(cotangent: Any, *parts: Any, axis: int) -> list[Any]:
    results: list[Any] = []
    start = 0
    for part in parts:
        extent = part.shape[axis]
        taken = None
        if isinstance(part, Aval):
            taken = read_along(cotangent, axis, start, extent)
        results.append(taken)
        start += extent
    return results


def _pull_concatenate(read: Any, index: Any, *parts: Aval, axis: int) -> Any:
    ends = np.cumsum([part.shape[axis] for part in parts]).tolist()

    def element(i: int) -> Any:
        along = index[axis] - (ends[i - 1] if i else 0)
        return read(i, (*index[:axis], along, *index[axis + 1 :]))

    def between(first: int, last: int) -> Any:
        """The element, which is in one of the parts from number ``first`` to ``last``."""
        if first == last:
            return element(present[first])
        middle = (first + last) // 2 if last - first >= FEWEST_HALVED else first
        before = as_index(index[axis]) < ends[present[middle]]
        return guard(before, between(first, middle), between(middle + 1, last))

    present = [i for i, part in enumerate(parts) if part.shape[axis]] or [0]
    place = as_index(index[axis])
    if place.op == "const":
        found = bisect_right([ends[i] for i in present], place.attribute)
        return element(present[min(found, len(present) - 1)])
    return between(0, len(present) - 1)


def _has_many_parts(eqn: Eqn, target: Target) -> bool:
    """Whether copying the parts one by one is cheaper than selecting the part of each element."""
    aval, few = eqn.outputs[0].aval, target[Joins].few
    if len(eqn.inputs) <= few or aval.size <= target[Joins].small:
        return False
    if aval.shape[eqn.params["axis"]] <= UNROLLED:
        return False
    return sum(x.aval.size > 0 for x in eqn.inputs) > few


def _emit_concatenate(at: Emission) -> None:
    axis = at.eqn.params["axis"]
    rest = [whole(n) for n in at.eqn.outputs[0].aval.shape]
    parts = []
    start = 0
    for number, x in enumerate(at.eqn.inputs):
        extent = x.aval.shape[axis]
        parts.append(((*rest[:axis], (start, extent, 1), *rest[axis + 1 :]), number))
        start += extent
    at.assemble(parts, adds=False)


concatenate_p = primitive(
    "concatenate",
    infer=_infer_concatenate,
    numpy=lambda *parts, axis: np.concatenate(parts, axis),
    linear=ALL_LINEAR,
    transpose=_transpose_concatenate,
    transpose_moves=True,
    batch=lambda operands, axes, *, axis: (concatenate(in_lanes(operands, axes), axis=axis + 1), 0),
    pull=_pull_concatenate,
    emit=Emit(_emit_concatenate, applies=_has_many_parts, by_elements=always),
    prepare=lambda *parts, axis: (promote(common, parts), {"axis": axis}),
    stores=True,
    samples=cases(
        ((2,), (3,), {"axis": 0}), ((2, 3), (2, 1), (2, 0), {"axis": 1}), ((2,), {"axis": 0}),
        ((integers(-9, 9), (2,)), (integers(-9, 9), (1,)), {"axis": 0}),
    ),
)  # fmt: skip


def concatenate(parts: Sequence[Any], *, axis: int) -> Any:
    """Arrays joined along an axis that they have."""
    return parts[0] if len(parts) == 1 else concatenate_p(*parts, axis=axis)


def stack(parts: Sequence[Any], *, axis: int) -> Any:
    """Arrays of one shape joined along a new axis."""
    for i, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ShapeError(
                f"cannot stack arrays of different shapes: number {i} has shape {part.shape}, the "
                f"first has {parts[0].shape}"
            )
    return concatenate([expand_axes(part, (axis,)) for part in parts], axis=axis)


# -- conversion of arguments -----------------------------------------------------------------------


def asarray(x: Any) -> Any:
    """A tracer or array as it is; numbers, and nested sequences of all these, as an array."""
    if type(x) is Tracer:
        return x
    if isinstance(x, (Tracer, np.ndarray, np.generic, OnDevice)):
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray:
            check_plain(x)
        return x
    if isinstance(x, SEQUENCES) and holds_tracer(x):
        numbers: list[Any] = []
        shape = _shape_of_numbers(x, numbers)
        if shape is None:
            return stack([asarray(part) for part in x], axis=0)
        return reshape(_row_of_numbers(numbers), shape=shape)
    if isinstance(x, (list, tuple)) and holds_device((x,), {}):
        return stack([asarray(part) for part in x], axis=0)
    return np.asarray(x)


def in_dtype(x: Any, dtype: Any) -> Any:
    """Convert a value to the dtype of an array; as in NumPy, Python integers must fit."""
    given = asarray(x)
    if isinstance(x, (int, list, tuple)) and isinstance(given, np.ndarray):
        if given.dtype.kind in "iu" and np.dtype(dtype).kind in "iu":
            return np.asarray(x, dtype)[()]
    return astype(given, dtype)


def _shape_of_numbers(x: Any, numbers: list[Any]) -> Shape | None:
    """The shape of nested sequences of numbers, appended to ``numbers``; None if irregular."""
    if not isinstance(x, SEQUENCES):
        numbers.append(x)
        # looked up on the type: an instance's __getattr__ may answer for any name
        rank = x.ndim if hasattr(type(x), "ndim") else np.asarray(x).ndim
        return None if rank else ()
    shapes = {_shape_of_numbers(part, numbers) for part in x}
    inner = shapes.pop() if len(shapes) == 1 else None
    return None if inner is None else (len(x), *inner)


def _row_of_numbers(numbers: Sequence[Any]) -> Any:
    """Numbers as a vector, in which runs of untraced numbers are one constant."""
    parts: list[Any] = []
    for traced, group in groupby(numbers, lambda number: isinstance(number, Tracer)):
        neighbours = list(group)
        if traced:
            parts += [reshape(x, shape=(1,)) for x in neighbours]
        else:
            parts.append(np.asarray(neighbours))
    return concatenate(parts, axis=0)


def holds_tracer(x: Any) -> bool:
    """Whether a tracer stands anywhere in nested sequences."""
    return isinstance(x, Tracer) or (isinstance(x, SEQUENCES) and any(map(holds_tracer, x)))


def any_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tracer stands anywhere in the arguments of a call."""
    return any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values()))


def with_tracers(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tracer is among the arguments of a call: a condition of `trace.delegation`."""
    return any_traced(args, kwargs)


def fitted(value: Any, shape: Shape, traced: bool = True) -> Any:
    """A value broadcast to the elements that it is assigned to; superfluous unit axes go.

    ``traced``: whether any value of the assignment is traced.
    """
    own = value.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    tail = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(own, tail, strict=True)):
        raise ValueError(
            f"could not broadcast input array from shape {value.shape} into shape {shape}{here()}"
        )
    value = reshape(value, shape=own)
    if not traced or own == shape:
        return broadcast_to(value, shape=shape)
    return repeated(value, shape=shape)


# -- one axis --------------------------------------------------------------------------------------


def read_along(x: Any, axis: int, start: int, size: int, step: int = 1) -> Any:
    """A slice along one axis."""
    index = [whole(n) for n in x.shape]
    index[axis] = (start, size, step) if size else whole(0)
    return read_slice(x, index=tuple(index))


def merged(x: Any, axis: int) -> Any:
    """An array with an axis and the next one merged."""
    count = x.shape[axis] * x.shape[axis + 1]
    return reshape(x, shape=(*x.shape[:axis], count, *x.shape[axis + 2 :]))


def flip(x: Any, *, axes: Sequence[int]) -> Any:
    """``x`` backwards along some axes."""
    index = [(n - 1, n, -1) if i in axes and n > 1 else whole(n) for i, n in enumerate(x.shape)]
    return read_slice(x, index=tuple(index))


def roll(x: Any, *, shift: int, axis: int) -> Any:
    """``x`` with its elements shifted cyclically along an axis."""
    size = x.shape[axis]
    cut = -shift % size if size else 0
    if cut == 0:
        return x
    return concatenate(
        [read_along(x, axis, cut, size - cut), read_along(x, axis, 0, cut)], axis=axis
    )

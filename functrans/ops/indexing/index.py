"""``x[index]`` and ``x[index] = value``, for every index that NumPy takes.

An index is resolved once into a `Plan`: a static slice, new axes, and integer arrays that index
some of the resulting axes. Reading and writing follow the same plan.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.on_device import OnDevice
from functrans.ir.types import Shape, describe
from functrans.ops.arrays.shape import asarray, fitted, holds_tracer, in_dtype
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import drop_axes, reshape, transpose
from functrans.ops.compiled.places import Index as BasicIndex
from functrans.ops.compiled.places import Range, sliced_shape, whole
from functrans.ops.elementwise.choice import select
from functrans.ops.indexing.gather import gather, scatter_set
from functrans.ops.indexing.positions import index_shape
from functrans.ops.indexing.selected import Selected, refuse, same
from functrans.ops.indexing.windows import (
    Window,
    has_unknown_bounds,
    is_unknown,
    read_window,
    window_of,
    write_window,
)
from functrans.records import NamedTuple
from functrans.trace import protocols
from functrans.trace.absent import UNKNOWN
from functrans.trace.foreign import check_plain
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import is_number, make_view

NOT_AN_INDEX = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


class Plan(NamedTuple):
    """A resolved index."""

    basic: BasicIndex  # the static slice, which is applied first
    expanded: Shape  # the shape of the slice after new axes of size 1 are inserted
    arrays: tuple[Any, ...]  # integer arrays, or traced integers
    axes: tuple[int, ...]  # the axes of ``expanded`` that the arrays index
    position: int  # the position of the index arrays' axes in the result
    is_view: bool  # whether NumPy returns a view for this index

    @property
    def placement(self) -> tuple[int, ...]:
        """The permutation from `gather`'s order of axes to NumPy's."""
        ndim = len(index_shape(self.arrays))
        rest = len(self.expanded) - len(self.axes)
        behind = range(ndim, ndim + rest)
        return (*behind[: self.position], *range(ndim), *behind[self.position :])

    @property
    def result_shape(self) -> Shape:
        if not self.arrays:
            return self.expanded
        rest = drop_axes(self.expanded, self.axes)
        return (*rest[: self.position], *index_shape(self.arrays), *rest[self.position :])


# -- reading an index ------------------------------------------------------------------------------


class Mask(NamedTuple):
    """A boolean array, plain or traced."""

    value: Any


class _Slice(NamedTuple):
    """A hashable slice: Python's own slices are hashable only from 3.12 on."""

    start: Any
    stop: Any
    step: Any


def plan_of(shape: Shape, index: Any) -> Plan:
    """Resolve an index into an array of the given shape; plans are memoised.

    Raises `IndexError` if the index is out of bounds, has too many entries, or is not an index.
    Raises `TracerIndexError` if the shape of the result depends on an unknown value.
    """
    items = index if isinstance(index, tuple) else (index,)
    try:
        return _remembered_plan(shape, tuple([_hashable(item) for item in items]))
    except TypeError:
        plan = _worked_out(shape, [entry_of(item) for item in items])
        # NumPy copies what an array without axes selects, but not what a number does
        if any(isinstance(item, np.ndarray) and item.ndim == 0 for item in items):
            return plan._replace(is_view=False)
        return plan


_BOUNDS = frozenset({int, type(None), np.int64})


def _hashable(item: Any) -> Any:
    """A hashable form of an entry; raises TypeError for arrays and for traced bounds."""
    if type(item) is slice:
        bounds = _Slice(item.start, item.stop, item.step)
        if type(bounds[0]) in _BOUNDS and type(bounds[1]) in _BOUNDS and type(bounds[2]) in _BOUNDS:
            return bounds
    if type(item) is int or item is None or item is Ellipsis:
        return item
    raise TypeError


@cached(4096)
def _remembered_plan(shape: Shape, items: tuple[Any, ...]) -> Plan:
    return _worked_out(
        shape, [slice(*item) if isinstance(item, _Slice) else item for item in items]
    )


def _worked_out(shape: Shape, items: Sequence[Any]) -> Plan:
    is_fancy = any(isinstance(item, Mask) or _has_axes(item) for item in items)
    basic: list[int | Range] = []
    expanded: list[int] = []
    arrays: list[Any] = []
    axes: list[int] = []
    groups = _Groups()
    for item, axis in with_axes(items, shape):
        if isinstance(item, int):
            basic.append(_in_bounds(item, shape[axis], axis))
            if is_fancy:
                groups.advanced(len(expanded) - len(axes))
        elif isinstance(item, slice):
            entry = _range(item, shape[axis])
            basic.append(entry)
            expanded.append(entry[1])
            groups.basic()
        elif item is None:
            expanded.append(1)
            groups.basic()
        elif item is Ellipsis:
            groups.basic()
        else:
            groups.advanced(len(expanded) - len(axes))
            for array, extent in index_arrays(item, shape, axis):
                if extent is None:
                    extent = 1  # a 0-d mask acts on a new axis
                else:
                    basic.append(whole(extent))
                arrays.append(array)
                axes.append(len(expanded))
                expanded.append(extent)
    is_view = not is_fancy and (len(expanded) > len(axes) or Ellipsis in items)
    return Plan(tuple(basic), tuple(expanded), tuple(arrays), tuple(axes), groups.position, is_view)


class _Groups:
    """NumPy's position of index arrays' axes: in place if adjacent, first if they are separated."""

    def __init__(self) -> None:
        self.position = 0
        self._groups = 0
        self._open = False

    def advanced(self, position: int) -> None:
        if not self._open:
            self._groups += 1
            self._open = True
            self.position = position if self._groups == 1 else 0

    def basic(self) -> None:
        self._open = False


def entry_of(item: Any) -> Any:
    """An entry of an index as an int, a slice, None, Ellipsis, an integer array or a `Mask`."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return Mask(np.asarray(item))
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, range):
        item = list(item)
    if isinstance(item, (list, tuple)):
        item = asarray(item) if len(item) or holds_tracer(item) else np.zeros(0, np.int64)
    if not isinstance(item, (Tracer, np.ndarray, OnDevice)):
        try:
            return operator.index(item)
        except TypeError:
            if protocols.is_sequence(type(item)):
                return entry_of(list(item))
            if not hasattr(item, "__array__"):
                raise IndexError(f"{NOT_AN_INDEX}, not {describe(item)}") from None
        item = np.asarray(item)
    if isinstance(item, np.ndarray) and type(item) is not np.ndarray:
        check_plain(item)
    if item.dtype.kind == "b":
        return Mask(item)
    if item.dtype.kind not in "iu":
        raise IndexError(f"{NOT_AN_INDEX}, not {item.dtype}")
    return int(item) if isinstance(item, np.ndarray) and item.ndim == 0 else item


def _known_mask(mask: Any) -> Any:
    if not isinstance(mask, Tracer):
        return np.asarray(mask)
    if mask.size == 0:
        return np.zeros(mask.shape, np.bool_)
    value = mask._known_value
    if value is UNKNOWN:
        refuse(mask)
    return np.asarray(value)


def _has_axes(item: Any) -> bool:
    return isinstance(item, (Tracer, np.ndarray, OnDevice)) and bool(item.shape)


def _consumed(item: Any) -> int:
    """The number of axes that an entry indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.value.ndim if isinstance(item, Mask) else 1


def with_axes(items: Sequence[Any], shape: Shape) -> Iterator[tuple[Any, int]]:
    """The entries and their axes, with full slices for the axes that have no entry."""
    consumed = sum(map(_consumed, items))
    missing = len(shape) - consumed
    if missing < 0:
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {consumed} were "
            "indexed"
        )
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    everything = slice(None)
    axis = 0
    for item in items if dots else (*items, Ellipsis):
        yield item, axis
        if item is Ellipsis:
            yield from ((everything, axis + i) for i in range(missing))
            axis += missing
        axis += _consumed(item)


def _in_bounds(i: int, extent: int, axis: int) -> int:
    if not -extent <= i < extent:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {extent}{here()}")
    return i + extent if i < 0 else i


def _range(of: slice, extent: int) -> Range:
    for bound in (of.start, of.stop, of.step):
        assert not is_unknown(bound), "windows are taken before a plan is made"
    start, stop, step = of.indices(extent)
    size = len(range(start, stop, step))
    return (start, size, step) if size else (0, 0, 1)


def index_arrays(item: Any, shape: Shape, axis: int) -> Iterator[tuple[Any, int | None]]:
    """The integer arrays of an entry for the axes from ``axis`` on, and the extents they index."""
    if not isinstance(item, Mask):
        extent = shape[axis]
        value = item._known_value if isinstance(item, Tracer) else item
        if value is not UNKNOWN:
            _check_elements(value, extent, axis)
        yield item, extent
        return
    mask = item.value
    if mask.ndim == 0:
        yield np.zeros(int(_known_mask(mask)), np.int64), None
        return
    for i, (size, extent) in enumerate(zip(mask.shape, shape[axis:], strict=False), axis):
        if size not in (extent, 0):  # NumPy accepts an empty mask for any extent
            raise IndexError(
                f"boolean index did not match indexed array along axis {i}; size of axis is "
                f"{extent} but size of corresponding boolean axis is {size}{here()}"
            )
    yield from zip(_known_mask(mask).nonzero(), shape[axis:], strict=False)


def _check_elements(value: Any, extent: int, axis: int) -> None:
    if value.size:
        for extreme in (value.min(), value.max()):
            _in_bounds(int(extreme), extent, axis)


# -- reading and writing by a plan -----------------------------------------------------------------


def read(x: Any, plan: Plan) -> Any:
    """The elements at a resolved index."""
    taken = reshape(read_slice(x, index=plan.basic), shape=plan.expanded)
    if not plan.arrays:
        return taken
    return transpose(gather(taken, *plan.arrays, axes=plan.axes), permutation=plan.placement)


Scatter = Callable[..., Any]
"""A primitive of the scatter family: (x, updates, *indices, axes, unique) -> new x."""


def write(
    x: Any, plan: Plan, value: Any, scatter: Scatter = scatter_set, unique: bool = False
) -> Any:
    """``x`` with its elements at a resolved index set, or combined with ``value`` by a scatter.

    ``value`` has the dtype of ``x`` and the shape of the result of reading.
    """
    if not plan.arrays:
        return update_slice(x, reshape(value, shape=sliced_shape(plan.basic)), index=plan.basic)
    taken = reshape(read_slice(x, index=plan.basic), shape=plan.expanded)
    placement = plan.placement
    updates = transpose(value, permutation=tuple(np.argsort(placement).tolist()))
    unique = unique or has_unique(plan)
    written = scatter(taken, updates, *plan.arrays, axes=plan.axes, unique=unique)
    return update_slice(x, reshape(written, shape=sliced_shape(plan.basic)), index=plan.basic)


def has_unique(plan: Plan) -> bool:
    """Whether it is certain that no element is indexed twice."""
    shape = index_shape(plan.arrays)
    if all(n == 1 for n in shape):
        return True
    if any(isinstance(array, Tracer) for array in plan.arrays):
        return False
    extents = [plan.expanded[axis] for axis in plan.axes]
    wrapped = [np.intp(array) % n for array, n in zip(plan.arrays, extents, strict=True)]
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*wrapped)), extents)
    seen = np.zeros(prod(extents), np.bool_)
    seen[flat] = True
    return bool(np.count_nonzero(seen) == flat.size)


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``."""
    windows, index = split_windows(x.shape, index)
    for window in windows:
        x = _windowed(x, window)
    return _getitem(x, index)


def split_windows(shape: Shape, index: Any) -> tuple[list[Window], Any]:
    """The slices of an index with traced bounds, and the index into the resulting window."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(has_unknown_bounds, items)):
        return [], index
    windows = [
        window_of(item, shape[axis], axis)
        for item, axis in with_axes([entry_of(item) for item in items], shape)
        if has_unknown_bounds(item)
    ]
    return windows, tuple([slice(None) if has_unknown_bounds(x) else x for x in items])


def _windowed(x: Any, window: Window) -> Any:
    result = read_window(x, window)
    if not isinstance(x, Tracer):
        return result
    return make_view(
        result,
        x,
        lambda base: read_window(base, window),
        lambda base, new: write_window(base, window, new),
        "indexing",
    )


def written_back(x: Any, windows: Sequence[Window], write: Callable[[Any], Any]) -> Any:
    """``x`` after a write to the innermost of nested windows."""
    if not windows:
        return write(x)
    first, *others = windows
    inner = written_back(read_window(x, first), others, write)
    return write_window(x, first, inner)


def _getitem(x: Any, index: Any) -> Any:
    if _is_unknown_mask(index) and index.shape == x.shape[: index.ndim] and isinstance(x, Tracer):
        return Selected(x, index)
    plan = plan_of(x.shape, index)
    result = read(x, plan)
    if plan.is_view and isinstance(result, Tracer) and isinstance(x, Tracer) and result is not x:
        return make_view(
            result,
            x,
            lambda base: read(base, plan),
            lambda base, new: write(base, plan, new),
            "indexing",
        )
    if result is x and isinstance(x, Tracer) and (not plan.is_view or is_number(x)):
        # the element of an array without axes, or an array of a number
        result = Tracer(x._owner, x._variable, x._value)
        result._is_contiguous = plan.is_view
    return result


def setitem(x: Any, index: Any, value: Any) -> Any:
    """The value of ``x`` after ``x[index] = value``."""
    windows, index = split_windows(x.shape, index)
    return written_back(x, windows, lambda x: _setitem(x, index, value))


def _setitem(x: Any, index: Any, value: Any) -> Any:
    if isinstance(value, Selected):
        full = converted(_whole_of(value, x, index), x.dtype)
        return _choice(index, fitted(full, x.shape), x)
    value = converted(value, x.dtype)
    if _is_mask(index):
        selected = _set_where(x, index, value)
        if selected is not None:
            return selected
    plan = plan_of(x.shape, index)
    return write(x, plan, fitted(value, plan.result_shape))


def converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert as NumPy's assignment does: to the array's dtype, which Python integers must fit."""
    if not hasattr(type(value), "__array__"):
        if isinstance(value, (int, complex)):
            return np.asarray(value, dtype)
        if hasattr(type(value), "__float__"):
            return np.asarray(float(value), dtype)
        if isinstance(value, (list, tuple)) and isinstance(asarray(value), np.ndarray):
            return np.asarray(value, dtype)
    if isinstance(value, Tracer):
        # this value may become the array's own value, so a view must be up to date
        value._refresh()
    if isinstance(value, np.integer) and dtype.kind == "i":  # unsigned integers may wrap around
        value = value.item()
    return in_dtype(value, dtype)


def _is_mask(index: Any) -> bool:
    return isinstance(index, (Tracer, np.ndarray, OnDevice)) and index.dtype.kind == "b"


def _is_unknown_mask(index: Any) -> bool:
    """Whether an index is a boolean mask with unknown values, of at least one element."""
    if not isinstance(index, Tracer) or not _is_mask(index) or index.size == 0:
        return False
    return index._known_value is UNKNOWN


def _whole_of(value: Selected, x: Any, index: Any) -> Any:
    """The whole array of a boolean selection that is assigned back through the same mask."""
    is_back = _is_unknown_mask(index) and same(index, value.mask)
    if not is_back or value.full.ndim != x.ndim:
        refuse(value.mask)
    return value.full


def _set_where(x: Any, mask: Any, value: Any) -> Any:
    """``x[mask] = value`` as a select, for an unknown mask; None if it cannot be one."""
    if mask.shape != x.shape[: mask.ndim]:
        return None
    try:
        fit = fitted(value, x.shape[mask.ndim :])
    except ValueError:
        return None
    return _choice(mask, fit, x)


def _choice(mask: Any, value: Any, x: Any) -> Any:
    rest = (1,) * (x.ndim - mask.ndim)
    return select(reshape(mask, shape=(*mask.shape, *rest)), value, x)


protocols.operators["getitem"] = getitem
protocols.operators["setitem"] = setitem

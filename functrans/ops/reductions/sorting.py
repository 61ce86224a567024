"""Stable sorting along an axis; derivatives are permuted like the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX
from functrans.ops.arrays.structural import batch_along
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.indexing.gather import gather_along
from functrans.ops.samples import cases, integers

_samples = cases(
    ((3,), {"axis": 0}), ((2, 5), {"axis": 1}), ((4, 2, 3), {"axis": 1}), ((0, 2), {"axis": 0}),
    ((integers(-2, 2), (6,)), {"axis": 0}),
)  # fmt: skip


_emit_sort = lazy("functrans.ops.reductions.compiled.sorts:sort")
_is_sorted = lazy("functrans.ops.reductions.compiled.sorts:sorts")
_emit_argsort = lazy("functrans.ops.reductions.compiled.sorts:argsort")
_sort_on_grid = lazy("functrans.ops.reductions.compiled.grid.merge_sort:sort")
_argsort_on_grid = lazy("functrans.ops.reductions.compiled.grid.merge_sort:argsort")


def _operations(eqn: Eqn, of_graph: Any) -> int:
    """One comparison for each element and each doubling of the runs."""
    (x,) = eqn.inputs
    extent: int = x.aval.shape[eqn.params["axis"]]
    return x.aval.size * max(extent.bit_length(), 1)


LONG = 2048
"""From this row length on, NumPy's vectorised unstable sort is used, and ties sorted afterwards."""


def _argsort(x: Any, *, axis: int) -> Any:
    is_long = x.dtype.kind in "iuf" and x.ndim > 0 and x.shape[axis] >= LONG
    if not is_long or _has_radix_sort(x.dtype):
        return np.argsort(x, axis=axis, kind="stable")
    return np.moveaxis(_stable(np.moveaxis(x, axis, -1)), -1, axis)


SHORT = 512
"""Up to this row length, NumPy's vectorised sort of 16-bit integers is faster than radix sort."""


def _has_radix_sort(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's stable sort is a radix sort, up to 29 times as fast as its other ones."""
    return dtype.kind in "biu" and dtype.itemsize <= 2


def _sort(x: Any, *, axis: int) -> Any:
    by_digits = _has_radix_sort(x.dtype) and (x.dtype.itemsize == 1 or x.shape[axis] > SHORT)
    return np.sort(x, axis=axis, kind="stable" if by_digits else None)


def _stable(x: Any) -> Any:
    """A stable argsort of the last axis: an unstable one, after which ties are sorted by index.

    NumPy's unstable argsort is vectorised. It may only have permuted the indices of equal
    elements: these are sorted by the pair of the value's rank and the index.
    """
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, axis=-1)
    before, after = ordered[..., :-1], ordered[..., 1:]
    starts = before != after
    if x.dtype.kind == "f":
        starts &= (before == before) | (after == after)  # all NaNs count as equal
    if starts.all():
        return order
    groups = np.zeros(x.shape, np.int64)
    np.cumsum(starts, axis=-1, out=groups[..., 1:])
    groups *= x.shape[-1]
    order += groups
    order.sort(axis=-1)
    order -= groups
    return order


argsort: Primitive = primitive(
    "argsort",
    infer=lambda x, *, axis: x.update(dtype=INDEX),
    numpy=_argsort,
    jvp=ZERO_DERIVATIVE,
    batch=lambda *args, **params: batch_along(argsort)(*args, **params),
    emit=Emit(_emit_argsort, operations=_operations),
    emit_on_grid=Emit(_argsort_on_grid, operations=_operations),
    samples=_samples,
)  # fmt: skip

sort: Primitive = primitive(
    "sort",
    infer=lambda x, *, axis: x.update(),
    numpy=_sort,
    jvp=[lambda x, out, dx, *, axis: gather_along(dx, argsort(x, axis=axis), axis)],
    batch=lambda *args, **params: batch_along(sort)(*args, **params),
    emit=Emit(_emit_sort, applies=_is_sorted, operations=_operations),
    emit_on_grid=Emit(_sort_on_grid, operations=_operations),
    samples=_samples,
)  # fmt: skip

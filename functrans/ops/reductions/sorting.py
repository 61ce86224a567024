"""Sorting along an axis; equal elements keep their order, and derivatives follow elements.

On a CPU, NumPy sorts what is long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.indexing.gather import gather_along
from functrans.ops.samples import cases, integers

_samples = cases(
    ((3,), {"axis": 0}), ((2, 5), {"axis": 1}), ((4, 2, 3), {"axis": 1}), ((0, 2), {"axis": 0}),
    ((integers(-2, 2), (6,)), {"axis": 0}),
)  # fmt: skip


_emit_sort = lazy("functrans.ops.reductions.compiled.merge_sort:sort")
_emit_argsort = lazy("functrans.ops.reductions.compiled.merge_sort:argsort")
_is_sorted = lazy("functrans.ops.reductions.compiled.merge_sort:sorts")
_is_argsorted = lazy("functrans.ops.reductions.compiled.merge_sort:argsorts")
_sort_on_grid = lazy("functrans.ops.reductions.compiled.grid.merge_sort:sort")
_argsort_on_grid = lazy("functrans.ops.reductions.compiled.grid.merge_sort:argsort")


def _operations(eqn: Eqn, of_graph: Any) -> int:
    """A comparison for each element and each doubling of the runs."""
    (x,) = eqn.inputs
    extent: int = x.aval.shape[eqn.params["axis"]]
    return x.aval.size * max(extent.bit_length(), 1)


def _batch(sort: Primitive, operands: Any, mapped: Any, axis: int) -> tuple[Any, int]:
    return sort(operands[0], axis=axis + (axis >= mapped[0])), mapped[0]


LONG = 2048
"""Rows of so many elements are sorted by vectors, and ties are broken behind that."""


def _argsort(x: Any, *, axis: int) -> Any:
    if x.dtype.kind not in "iuf" or x.ndim == 0 or x.shape[axis] < LONG:
        return np.argsort(x, axis=axis, kind="stable")
    return np.moveaxis(_stable(np.moveaxis(x, axis, -1)), -1, axis)


def _stable(x: Any) -> Any:
    """Decorate-sort-undecorate: an unstable order of the last axis, whose ties are sorted again.

    NumPy's unstable sort goes by vectors. The places of equal elements are the only ones that it
    may have confused: they are put in order by sorting them behind the number of their value.
    """
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, axis=-1)
    before, after = ordered[..., :-1], ordered[..., 1:]
    starts = before != after
    if x.dtype.kind == "f":
        starts &= (before == before) | (after == after)  # (NaNs are one value)
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
    batch=lambda operands, mapped, *, axis: _batch(argsort, operands, mapped, axis),
    emit=Emit(_emit_argsort, applies=_is_argsorted, operations=_operations),
    emit_on_grid=Emit(_argsort_on_grid, operations=_operations),
    samples=_samples,
)  # fmt: skip

sort: Primitive = primitive(
    "sort",
    infer=lambda x, *, axis: x.update(),
    numpy=lambda x, *, axis: np.sort(x, axis=axis),
    jvp=[lambda x, out, dx, *, axis: gather_along(dx, argsort(x, axis=axis), axis)],
    batch=lambda operands, mapped, *, axis: _batch(sort, operands, mapped, axis),
    emit=Emit(_emit_sort, applies=_is_sorted, operations=_operations),
    emit_on_grid=Emit(_sort_on_grid, operations=_operations),
    samples=_samples,
)  # fmt: skip

"""Sorting along an axis; equal elements keep their order, and derivatives follow elements.

On a CPU, NumPy sorts.
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


_emit_sort = lazy("functrans.ops.reductions.compiled.grid.merge_sort:sort")
_emit_argsort = lazy("functrans.ops.reductions.compiled.grid.merge_sort:argsort")


def _operations(eqn: Eqn, of_graph: Any) -> int:
    """A comparison for each element and each doubling of the runs."""
    (x,) = eqn.inputs
    extent: int = x.aval.shape[eqn.params["axis"]]
    return x.aval.size * max(extent.bit_length(), 1)


def _batch(sort: Primitive, operands: Any, mapped: Any, axis: int) -> tuple[Any, int]:
    return sort(operands[0], axis=axis + (axis >= mapped[0])), mapped[0]


argsort: Primitive = primitive(
    "argsort",
    infer=lambda x, *, axis: x.update(dtype=INDEX),
    numpy=lambda x, *, axis: np.argsort(x, axis=axis, kind="stable"),
    jvp=ZERO_DERIVATIVE,
    batch=lambda operands, mapped, *, axis: _batch(argsort, operands, mapped, axis),
    emit_on_grid=Emit(_emit_argsort, operations=_operations),
    samples=_samples,
)  # fmt: skip

sort: Primitive = primitive(
    "sort",
    infer=lambda x, *, axis: x.update(),
    numpy=lambda x, *, axis: np.sort(x, axis=axis),
    jvp=[lambda x, out, dx, *, axis: gather_along(dx, argsort(x, axis=axis), axis)],
    batch=lambda operands, mapped, *, axis: _batch(sort, operands, mapped, axis),
    emit_on_grid=Emit(_emit_sort, operations=_operations),
    samples=_samples,
)  # fmt: skip

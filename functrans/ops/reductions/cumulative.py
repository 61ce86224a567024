"""Running sums, products, extremes and bitwise operations along an axis.

The derivatives of products and extremes are parallel prefix operations, without division: results
over 1, 2, 4, ... elements are combined with those before them (Hillis and Steele, "Data parallel
algorithms", 1986).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.lazily import lazy
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import batch_along, full_p
from functrans.ops.compiled.emission import Emit, elements
from functrans.ops.define import primitive
from functrans.ops.dependence import Dependent, Pattern, check_entries, pairs, product, size
from functrans.ops.elementwise.choice import masked, maximum, minimum, nan_if
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.reductions.reduce import Combine, Parts, stretch, times
from functrans.ops.samples import booleans, cases, integers

_emit = lazy("functrans.ops.reductions.compiled.running:emit")
_emit_on_grid = lazy("functrans.ops.reductions.compiled.grid.blocked_scan:emit")


def _cumulative(name: str, ufunc: np.ufunc, op: str, **slots: Any) -> Primitive:
    """A primitive of ``axis`` and ``reverse``: whether it runs from the end to the beginning.

    ``op`` is the scalar operation that it repeats.
    """

    def accumulate(x: Any, *, axis: int, reverse: bool) -> Any:
        if reverse:
            return np.flip(ufunc.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)
        return ufunc.accumulate(x, axis=axis, dtype=x.dtype)

    defined: Primitive = primitive(
        name,
        infer=lambda x, *, axis, reverse: x.update(),
        numpy=accumulate,
        batch=lambda *args, **params: batch_along(defined)(*args, **params),
        emit=Emit(partial(_emit, op), operations=elements),
        emit_on_grid=Emit(partial(_emit_on_grid, op), operations=elements),
        samples=slots.pop("samples", None) or cases(
            ((3,), {"axis": 0, "reverse": False}), ((2, 5), {"axis": 1, "reverse": False}),
            ((4, 2), {"axis": 0, "reverse": True}), ((2, 0, 3), {"axis": 1, "reverse": False}),
            ((1, 2), {"axis": 0, "reverse": False}),
            ((integers(-3, 3), (5,)), {"axis": 0, "reverse": True}),
        ),
        **slots,
    )  # fmt: skip
    return defined


def _sparsity(x: Dependent, *, axis: int, reverse: bool) -> Pattern:
    shape, count = x.aval.shape, size(x.aval)
    check_entries(count * shape[axis] // 2)
    positions = np.moveaxis(np.arange(count).reshape(shape), axis, -1)
    later, earlier = np.tril_indices(shape[axis])
    rows, columns = (earlier, later) if reverse else (later, earlier)
    own = pairs(positions[..., rows], positions[..., columns], (count, count))
    return product(own, x.pattern)


cumsum: Primitive = _cumulative(
    "cumsum", np.add, "add",
    linear=LINEAR,
    transpose=[lambda ct, x, *, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse)],
    transpose_adds=True,
    sparsity=_sparsity,
)  # fmt: skip


def running(combine: Combine, parts: Parts, axis: int, reverse: bool) -> Parts:
    """Combine each position of the arrays ``parts`` with all preceding positions along an axis."""
    shape = parts[0].shape
    distance = 1
    while distance < shape[axis]:
        size = shape[axis] - distance
        front, back = stretch(shape, axis, 0, size), stretch(shape, axis, distance, size)
        before, now = (back, front) if reverse else (front, back)
        combined = combine(
            tuple(read_slice(x, index=before) for x in parts),
            tuple(read_slice(x, index=now) for x in parts),
        )
        parts = tuple(
            update_slice(x, value, index=now) for x, value in zip(parts, combined, strict=True)
        )
        distance *= 2
    return parts


cumprod = _cumulative(
    "cumprod", np.multiply, "mul",
    jvp=[lambda x, out, dx, *, axis, reverse: running(times, (x, dx), axis, reverse)[1]],
)  # fmt: skip


def _extreme_of(choose: Callable[[Any, Any], Any]) -> Combine:
    """Combine extremes, with the number and the summed tangents of the elements equal to them."""

    def combine(before: Parts, now: Parts) -> Parts:
        out = choose(before[0], now[0])
        undefined = isnan(out)  # all elements have influence
        wins = [equal(part[0], out) | undefined for part in (before, now)]
        sums = (
            masked(wins[0], x) + masked(wins[1], y)
            for x, y in zip(before[1:], now[1:], strict=True)
        )
        return (out, *sums)

    return combine


def _shared_by_ties(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def tangent(x: Any, out: Any, dx: Any, *, axis: int, reverse: bool) -> Any:
        parts = (x, dx, full_p(shape=x.shape, value=1, dtype=x.dtype))
        _, total, count = running(_extreme_of(choose), parts, axis, reverse)
        return total / nan_if(isnan(out), count)

    return tangent


cummax = _cumulative("cummax", np.maximum, "max", jvp=[_shared_by_ties(maximum)])
cummin = _cumulative("cummin", np.minimum, "min", jvp=[_shared_by_ties(minimum)])

_bits = cases(
    ((integers(-9, 9), (5,)), {"axis": 0, "reverse": True}),
    ((booleans(), (2, 3)), {"axis": 0, "reverse": False}),
)

cumand = _cumulative("cumand", np.bitwise_and, "and", jvp=ZERO_DERIVATIVE, samples=_bits)
cumor = _cumulative("cumor", np.bitwise_or, "or", jvp=ZERO_DERIVATIVE, samples=_bits)
cumxor = _cumulative("cumxor", np.bitwise_xor, "xor", jvp=ZERO_DERIVATIVE, samples=_bits)

"""Indexing by arrays of integers: `gather` reads, the `scatter` family writes.

The integer arrays broadcast to the index shape, and index the given axes of the array; in the
result, the index shape comes first and the other axes follow in their order. Negative indices count
from the end; an index out of bounds raises IndexError.

``unique`` is a promise that no element is indexed twice. Without it, if an element is set several
times, the last value counts, as in NumPy, also in the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from operator import and_
from typing import Any

import numpy as np

from functrans.errors import DtypeError, NotDifferentiableError, ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.loop.nodes import guard
from functrans.loop.scalar import Scalar
from functrans.ops.arrays import structural
from functrans.ops.compiled.emission import Emit, elements
from functrans.ops.define import primitive
from functrans.ops.dependence import Dependent, Pattern, everything, pairs, product, size, union
from functrans.ops.elementwise.arithmetic import multiply
from functrans.ops.elementwise.choice import masked, nan_if
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.indexing.positions import (
    INDEX,
    batch_indices,
    behind,
    check_bounds,
    flat_positions,
    index_shape,
    indexed_first,
    infer_indexed,
    open_mesh,
    pull_indices,
)
from functrans.ops.samples import cases

_FIRST = tuple(range(64))

# -- gather ----------------------------------------------------------------------------------------


def _gather(x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    try:
        moved = x if axes == _FIRST[: len(axes)] else np.transpose(x, indexed_first(x.ndim, axes))
        return moved[indices]
    except IndexError:
        check_bounds(x.shape, axes, indices)
        raise


def _batch_gather(operands: Any, mapped: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
    x, *indices = operands
    axis, *index_axes = mapped
    if all(i is None for i in index_axes):
        out = gather(x, *indices, axes=structural.beside_mapped(axes, axis))
        return out, behind(len(index_shape(indices)), structural.beside_mapped(axes, axis), axis)
    size = next(i.shape[a] for i, a in zip(indices, index_axes, strict=True) if a is not None)
    counter, *aligned = batch_indices(indices, index_axes, size)
    if axis is None:
        return gather(x, *aligned, axes=axes), 0
    return gather(x, counter, *aligned, axes=(axis, *structural.beside_mapped(axes, axis))), 0


def _pull_gather(read: Any, element: Any, x: Aval, *indices: Aval, axes: tuple[int, ...]) -> Any:
    ndim = len(index_shape(indices))
    rest = iter(element[ndim:])
    at = dict(zip(axes, pull_indices(read, 1, element[:ndim], x, indices, axes), strict=True))
    return read(0, tuple(at[i] if i in at else next(rest) for i in range(x.ndim)))


def _transpose_gather(ct: Any, x: Any, *indices: Any, axes: tuple[int, ...]) -> list[Any]:
    unique = index_shape(indices) == ()
    result = scatter_add(structural.absent_like(x), ct, *indices, axes=axes, unique=unique)
    return [result, *(None for _ in indices)]


gather: Primitive = primitive(
    "gather",
    infer=lambda x, *indices, axes: x.update(shape=infer_indexed(x, indices, axes)),
    numpy=_gather,
    linear=LINEAR,
    transpose=_transpose_gather,
    transpose_adds=True,
    batch=_batch_gather,
    pull=_pull_gather,
    stores=True,
    samples=cases(
        ((4,), np.array([0, 3, -1, 0]), {"axes": (0,)}), ((3, 4), np.array(2), {"axes": (0,)}),
        ((3, 4), np.array([[0, 1], [3, -2]]), {"axes": (1,)}),
        ((3, 4), np.array([[0], [2]]), np.array([1, 1, 3]), {"axes": (0, 1)}),
        ((3, 4, 2), np.array([1, 1]), np.array([2, 0]), {"axes": (2, 0)}),
        ((0, 2), np.zeros(0, int), {"axes": (0,)}),
    ),
)  # fmt: skip

# -- the scatter family ----------------------------------------------------------------------------

scatter_samples = cases(
    ((4,), (3,), np.array([0, 3, 1]), {"axes": (0,), "unique": True}),
    ((4,), (3,), np.array([0, -1, 0]), {"axes": (0,), "unique": False}),
    ((3, 4), (3,), np.array(2), {"axes": (1,), "unique": True}),
    ((3, 4), (4,), np.array(2), {"axes": (0,), "unique": True}),
    ((4,), (), np.array(-1), {"axes": (0,), "unique": True}),
    ((3, 4, 2), (4,), np.array(1), np.array(0), {"axes": (0, 2), "unique": True}),
    ((3, 4), (2, 2, 3), np.array([[0, 1], [3, 1]]), {"axes": (1,), "unique": False}),
    ((3, 4), (2, 3), np.array([[0], [2]]), np.array([1, 1, 3]), {"axes": (0, 1), "unique": False}),
)
unique_samples = cases(
    ((4,), (3,), np.array([0, 3, 1]), {"axes": (0,), "unique": True}),
    ((3, 4), (2, 3), np.array([1, -1]), {"axes": (1,), "unique": True}),
)


def writes_several(eqn: Eqn, target: Any = None) -> bool:
    """Whether a scatter has index arrays with axes; otherwise it writes at one position."""
    return index_shape([x.aval for x in eqn.inputs[2:]]) != ()


_emit = lazy("functrans.ops.indexing.compiled.scatter:emit")
_emit_on_grid = lazy("functrans.ops.indexing.compiled.grid.scatter:emit")


def _scatter(
    name: str, update: Callable[..., None], combine: str | None, samples: Any = scatter_samples,
    **slots: Any,
) -> Primitive:  # fmt: skip
    """A primitive that writes ``updates`` to elements of a copy of ``x``.

    ``update(flat, positions, updates)`` does it in place, all of them one-dimensional; ``combine``
    is the scalar operation that combines an update with the element; None replaces the element.

    Updates at one position, as loops write them, are compiled by elements: each element of the
    result compares its position.
    """

    def numpy(x: Any, updates: Any, *indices: Any, axes: tuple[int, ...], unique: bool) -> Any:
        check_bounds(x.shape, axes, indices)
        permutation = indexed_first(x.ndim, axes)
        # one flat index array: NumPy's fast path for `ufunc.at`
        out = np.array(np.transpose(x, permutation), order="C")
        flat = out.reshape(-1)
        update(flat, flat_positions(out.shape, indices), np.reshape(updates, -1))
        return np.transpose(out, structural.inverse(permutation))[()]

    def infer(x: Aval, updates: Aval, *indices: Aval, axes: tuple[int, ...], unique: bool) -> Aval:
        shape = infer_indexed(x, indices, axes)
        if updates.shape != shape:
            raise ShapeError(f"values of shape {updates.shape} for elements of shape {shape}")
        if updates.dtype != x.dtype:
            raise DtypeError(f"values of dtype {updates.dtype} for an array of dtype {x.dtype}")
        return x.update()

    def batch(
        operands: Any, mapped: Any, *, axes: tuple[int, ...], unique: bool
    ) -> tuple[Any, int]:
        x, updates, *indices = operands
        axis, update_axis, *index_axes = mapped
        size = next(o.shape[a] for o, a in zip(operands, mapped, strict=True) if a is not None)
        if all(i is None for i in index_axes):
            x, axes = structural.place(x, axis, 0, size), structural.beside_mapped(axes, 0)
            updates = structural.place(updates, update_axis, len(index_shape(indices)), size)
        else:
            x, axes = structural.place(x, axis, 0, size), (0, *structural.beside_mapped(axes, 0))
            updates = structural.place(updates, update_axis, 0, size)
            indices = batch_indices(indices, index_axes, size)
        return op(x, updates, *indices, axes=axes, unique=unique), 0

    def at_position(old: Scalar, new: Scalar) -> Scalar:
        if combine == "add" and old.dtype.kind == "b":
            return old | new
        return new if combine is None else Scalar(combine, (old, new), old.dtype)

    def pull(
        read: Any, element: Any, x: Aval, updates: Aval, *indices: Aval, axes: tuple[int, ...],
        unique: bool,
    ) -> Any:  # fmt: skip
        at = pull_indices(read, 2, (), x, indices, axes)
        here = reduce(and_, (scalar.eq(element[a], i) for a, i in zip(axes, at, strict=True)))
        rest = tuple(i for axis, i in enumerate(element) if axis not in axes)
        old = read(0, element)
        return guard(here, at_position(old, read(1, rest)), old)

    op = primitive(
        name,
        infer=infer,
        numpy=numpy,
        batch=batch,
        pull=pull,
        at_position=at_position,
        emit=Emit(partial(_emit, combine), writes_several, elements),
        emit_on_grid=Emit(partial(_emit_on_grid, combine), writes_several, elements),
        samples=samples,
        sparsity=_sparsity_of_scatter,
        **slots,
    )
    return op


def _sparsity_of_scatter(
    x: Dependent, updates: Dependent, *indices: Dependent, axes: tuple[int, ...], unique: bool
) -> Pattern | None:
    if index_shape([index.aval for index in indices]) == ():
        return NotImplemented  # as of any operation by elements
    count = size(x.aval)
    if updates.pattern is None:
        return x.pattern
    if not all(index.is_known for index in indices):
        return union([x.pattern, everything([updates], x.aval)])
    positions = np.arange(count).reshape(x.aval.shape)
    targets = _gather(positions, *(index.value for index in indices), axes=axes)
    written = pairs(targets, np.arange(targets.size), (count, targets.size))
    return union([x.pattern, product(written, updates.pattern)])


def _at(ufunc: np.ufunc) -> Callable[..., None]:
    return lambda flat, positions, updates: ufunc.at(flat, positions, updates)


def _transpose_scatter_add(ct: Any, x: Any, updates: Any, *indices: Any, **params: Any) -> Any:
    return [
        ct if isinstance(x, Aval) else None,
        gather(ct, *indices, axes=params["axes"]) if isinstance(updates, Aval) else None,
        *(None for _ in indices),
    ]


scatter_add: Primitive = _scatter(
    "scatter_add", _at(np.add), "add",
    linear=((0, 1),),
    transpose=_transpose_scatter_add,
)  # fmt: skip


def _put(flat: Any, positions: Any, updates: Any) -> None:
    flat[positions] = updates


def _transpose_scatter_set(
    ct: Any, x: Any, updates: Any, *indices: Any, axes: tuple[int, ...], unique: bool
) -> Any:
    results = [None] * (2 + len(indices))
    if isinstance(x, Aval):
        nothing = structural.absent(
            (*index_shape(indices), *structural.drop_axes(x.shape, axes)), ct.dtype
        )
        results[0] = scatter_set(ct, nothing, *indices, axes=axes, unique=unique)
    if isinstance(updates, Aval):
        taken = gather(ct, *indices, axes=axes)
        if not unique:
            taken = masked(_last_of_each(ct.shape, updates.shape, indices, axes), taken)
        results[1] = taken
    return results


def _last_of_each(
    shape: Shape, wanted: Shape, indices: Sequence[Any], axes: tuple[int, ...]
) -> Any:
    """A mask of the updates that are the last ones for their elements, whose values remain."""
    each = index_shape(indices)
    order = structural.reshape(structural.iota(size=prod(each), dtype=INDEX), shape=each)
    nobody = structural.full_p(shape=tuple(shape[a] for a in axes), value=-1, dtype=INDEX)
    all_axes = tuple(range(len(axes)))
    winner = scatter_set(nobody, order, *indices, axes=all_axes, unique=False)
    last = equal(gather(winner, *indices, axes=all_axes), order)
    return structural.broadcast_to(
        structural.reshape(last, shape=(*each, *(1,) * (len(wanted) - len(each)))), shape=wanted
    )


scatter_set: Primitive = _scatter(
    "scatter_set", _put, None,
    linear=((0, 1),),
    stores=True,
    transpose=_transpose_scatter_set,
)  # fmt: skip


def _jvp_scatter_multiply(
    primals: Any, tangents: Any, outs: Any, *, axes: tuple[int, ...], unique: bool
) -> Any:
    (x, updates, *indices), (dx, du, *_) = primals, tangents
    total = None
    if dx is not None:
        total = scatter_multiply(dx, updates, *indices, axes=axes, unique=unique)
    if du is not None:
        if not unique:
            raise NotDifferentiableError(
                "x.at[i].multiply(v) is not differentiable in v where i may have an index twice: "
                "if it has none, write x.at[i].multiply(v, unique=True)"
            )
        moved = multiply(gather(x, *indices, axes=axes), du)
        part = scatter_set(structural.absent_like(x), moved, *indices, axes=axes, unique=True)
        total = part if total is None else total + part
    return total


def _transpose_scatter_multiply(ct: Any, x: Any, updates: Any, *indices: Any, **params: Any) -> Any:
    return [scatter_multiply(ct, updates, *indices, **params), None, *(None for _ in indices)]


scatter_multiply: Primitive = _scatter(
    "scatter_multiply", _at(np.multiply), "mul",
    linear=LINEAR,
    jvp=_jvp_scatter_multiply,
    transpose=_transpose_scatter_multiply,
    samples=unique_samples,
)  # fmt: skip


def _jvp_scatter_extreme(
    primals: Any, tangents: Any, outs: Any, *, axes: tuple[int, ...], unique: bool
) -> Any:
    """Tangents of extremes: all values equal to the extreme share its derivative equally."""
    (x, updates, *indices), (dx, du, *_), (out,) = primals, tangents, outs
    x_wins, reached = equal(x, out) | isnan(out), gather(out, *indices, axes=axes)
    u_wins = equal(updates, reached) | isnan(reached)
    params = {"axes": axes, "unique": unique}
    counts = scatter_add(
        structural.cast(x_wins, dtype=x.dtype),
        structural.cast(u_wins, dtype=x.dtype),
        *indices,
        **params,
    )
    share = 1 / (counts + structural.cast(equal(counts, 0), dtype=x.dtype))
    moved = scatter_add(
        structural.zeros_like(x) if dx is None else masked(x_wins, dx),
        structural.zeros_like(updates) if du is None else masked(u_wins, du),
        *indices, **params,
    )  # fmt: skip
    return moved * nan_if(isnan(out), share)


scatter_max = _scatter("scatter_max", _at(np.maximum), "max", jvp=_jvp_scatter_extreme)
scatter_min = _scatter("scatter_min", _at(np.minimum), "min", jvp=_jvp_scatter_extreme)


# -- along an axis ---------------------------------------------------------------------------------


def gather_along(x: Any, indices: Any, axis: int) -> Any:
    """Elements of ``x`` at given indices along one axis, as ``np.take_along_axis`` selects them."""
    mesh = open_mesh(x.shape, axis, indices)
    return gather(x, *mesh, axes=tuple(range(x.ndim)))

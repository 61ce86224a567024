"""Diagonal block sparsity of tangents: each element of a slice varies in a direction of its own.

The tangents of elementwise functions of a slice of the input are diagonal: element ``k`` varies in
one direction. They are stored without an axis of directions. A sum over the elements, or a product,
gives them this axis again: a row for each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.slicing import embed, numpy_index, read_slice, slice_p
from functrans.ops.arrays.structural import (
    absent,
    broadcast_to_p,
    expand_axes,
    full_p,
    iota,
    reduce_sum,
    repeated,
    reshape,
    reshape_p,
    transpose,
    transpose_p,
)
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.arithmetic import add, multiply
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.linalg.compiled.blas import sides
from functrans.optimise.machine.blocks import MOST, Block, index_of
from functrans.records import NamedTuple

_INDEX = np.dtype(np.int64)
_PIECES = 4
"""The most pieces of an array for a sum along an axis: coordinates of a point."""


class Diagonal(NamedTuple):
    """Elements that are not zero in one direction each; the directions are along the first axis."""

    own: np.ndarray
    """The direction of each element: a view of `numpy.arange`, so it is linear in the indices."""
    value: Any
    """The elements, with a first axis of one element instead of the directions."""
    is_one: bool = False

    @property
    def key(self) -> Any:
        """A key of an array's directions, which is equal for arrays with the same directions."""
        return self.own.shape, int(self.own.flat[0]), _steps(self.own)

    @property
    def tied(self) -> tuple[int, ...]:
        """The axes along which directions differ, counted without the axis of directions."""
        return tuple(axis for axis, step in enumerate(_steps(self.own)) if step)

    @property
    def as_block(self) -> Block:
        """The elements as if they all had the first direction."""
        return Block((0,) * self.value.ndim, self.value, self.is_one)

    def blocks(self) -> list[Block]:
        """The same as blocks: one for each direction, or one with mostly zeros for all of them."""
        own = _once(self.own)
        low, count = int(own.min()), int(own.max() - own.min()) + 1
        shape, few = self.own.shape, own.shape
        if own.size < count and own.size <= MOST:
            tied, starts = self.tied, np.ndindex(few)
            single = [(i, self.at(tied, [i[axis] for axis in tied])) for i in starts]
            return [Block((int(x.own.flat[0]), *i), x.value, x.is_one) for i, x in single]
        if np.array_equal(own.ravel(), np.arange(low, low + count)):
            columns = iota(size=count, dtype=_INDEX)
        else:
            columns = _affine(own, low)
        rows = expand_axes(iota(size=count, dtype=_INDEX), (1,))
        mask = equal(rows, expand_axes(reshape(columns, shape=(own.size,)), (0,)))
        dtype = self.value.dtype
        if self.is_one:
            one = full_p(shape=mask.shape, value=1, dtype=dtype)
            value = reshape(select(mask, one, absent(mask.shape, dtype)), shape=(count, *few))
            value = repeated(value, shape=(count, *shape))
        else:
            full = (count, *shape)
            mask = repeated(reshape(mask, shape=(count, *few)), shape=full)
            value = select(mask, repeated(self.value, shape=full), absent(full, dtype))
        return [Block((low, *(0,) * len(shape)), value)]

    def at(self, axes: Sequence[int], index: Sequence[int]) -> Diagonal:
        """The elements at an index along some axes, which keep one element."""
        bounds = [(0, n) for n in self.own.shape]
        for axis, i in zip(axes, index, strict=True):
            bounds[axis] = (i, i + 1)
        own = self.own[tuple(slice(*pair) for pair in bounds)]
        value = read_slice(self.value, index=index_of(((0, 1), *bounds)))
        return Diagonal(own, value, self.is_one)


def diagonal_or_block(own: np.ndarray, value: Any, is_one: bool) -> Diagonal | Block:
    """Elements and their directions, which may all be the same."""
    made = Diagonal(own, value, is_one)
    return made if made.tied else Block((int(own.flat[0]), *(0,) * own.ndim), value, is_one)


def _steps(own: np.ndarray) -> tuple[int, ...]:
    """The stride of the direction along each axis."""
    steps = (stride // own.itemsize for stride in own.strides)
    return tuple(step if n > 1 else 0 for step, n in zip(steps, own.shape, strict=True))


def _affine(own: np.ndarray, low: int) -> Any:
    """Directions as a sum of multiples of the indices."""
    total: Any = full_p(shape=own.shape, value=int(own.flat[0]) - low, dtype=_INDEX)
    for axis, (step, n) in enumerate(zip(_steps(own), own.shape, strict=True)):
        along = multiply(iota(size=n, dtype=_INDEX), full_p(shape=(n,), value=step, dtype=_INDEX))
        along = reshape(along, shape=tuple(n if i == axis else 1 for i in range(own.ndim)))
        total = add(total, repeated(along, shape=own.shape))
    return total


def meet(part: Diagonal, block: Block) -> bool:
    """Whether an element is in both, for the same direction: two terms of a sum."""
    (low, high), *bounds = block.bounds
    own = _once(part.own[tuple(slice(*pair) for pair in bounds)])
    return bool(np.any((low <= own) & (own < high)))


def disjoint(parts: Sequence[Diagonal]) -> list[Diagonal]:
    """The same sum, without an element in several of the arrays for the same direction.

    Terms that cancel, like both tangents of ``x[i] - x[i]``, do so before they are multiplied.
    """
    made: list[Diagonal] = []
    for part in parts:
        for i, before in enumerate(made):
            axes = [axis for axis in range(part.own.ndim) if axis in (*part.tied, *before.tied)]
            kept = tuple(slice(None, None if a in axes else 1) for a in range(part.own.ndim))
            own, other = part.own[kept], before.own[kept]
            if not np.any(own == other):
                continue
            mask = equal(_affine(own, 0), _affine(other, 0))
            mask = reshape(mask, shape=(1, *mask.shape))
            shape, nothing = part.value.shape, absent(part.value.shape, part.value.dtype)
            mask = repeated(mask, shape=shape)
            total = select(mask, add(before.value, part.value), before.value)
            made[i] = Diagonal(before.own, total)
            part = Diagonal(part.own, select(mask, nothing, part.value))
        made.append(part)
    return made


def _once(own: np.ndarray) -> np.ndarray:
    """Directions, each along the axes along which they differ."""
    return own[tuple(slice(None, None if step else 1) for step in _steps(own))]


def moved(eqn: Eqn, own: np.ndarray, directions: int) -> np.ndarray | None:
    """The directions of elements that an equation moves; None if it moves the directions, too."""
    primitive, params = eqn.primitive, eqn.params
    shape = eqn.outputs[0].aval.shape
    if primitive is transpose_p:
        first, *order = params["permutation"]
        return own.transpose([axis - 1 for axis in order]) if first == 0 else None
    if shape[:1] != (directions,):
        return None
    if primitive is reshape_p:
        made = own.reshape(shape[1:])
        return made if np.may_share_memory(made, own) else None
    if primitive is broadcast_to_p or primitive.elementwise:
        return np.broadcast_to(own, shape[1:]) if len(shape) == 1 + own.ndim else None
    if primitive is slice_p and params["index"][0] == whole(directions):
        return own[numpy_index(tuple(params["index"][1:]))]
    if primitive is reduce_sum:
        axes = params["axes"]
        kept = tuple(0 if axis + 1 in axes else slice(None) for axis in range(own.ndim))
        return own[kept]
    return None


class _Rows(NamedTuple):
    """Arrays, each of which varies in one direction: the first, and every ``step``-th after it."""

    first: int
    step: int
    value: Any


def pieces(part: Block | Diagonal, axes: Sequence[int]) -> list[Any]:
    """An array that is summed along some of the axes along which directions differ, but not all.

    For each index along these, its elements: the directions of a sum are several for each element.
    """
    if not isinstance(part, Diagonal):
        return [part]
    tied = [axis for axis in part.tied if axis + 1 in axes]
    count = prod(part.own.shape[axis] for axis in tied)
    if count == 1 or len(tied) == len(part.tied) or count > _PIECES:
        return [part]
    return [part.at(tied, i) for i in np.ndindex(*(part.own.shape[axis] for axis in tied))]


def summed(part: Diagonal, axes: Sequence[int]) -> _Rows | None:
    """A sum over all axes along which directions differ, and maybe others."""
    tied = [axis + 1 for axis in part.tied]
    if not set(tied) <= set(axes):
        return None
    rest = tuple(axis for axis in axes if axis not in tied)
    value = reduce_sum(part.value, axes=rest) if rest else part.value
    places = [axis - sum(x < axis for x in rest) for axis in tied]
    return _rows(part, value, places)


def contracted(eqn: Eqn, part: Diagonal, number: int, other: Any) -> _Rows | None:
    """A product with an operand without directions, summed over the axes along which these differ.

    Behind the directions are the other axes of these elements, and then those of the operand.
    """
    own, rest = sides(eqn)[number], sides(eqn)[1 - number]
    if own.batch or own.free[:1] != (0,) or {axis - 1 for axis in own.contract} != {*part.tied}:
        return None
    tied = own.contract
    left = transpose(part.value, permutation=(0, *tied, *own.free[1:]))
    right = transpose(other, permutation=(*rest.contract, *rest.free))
    few, theirs = right.shape[: len(tied)], right.shape[len(tied) :]
    mine = left.shape[1 + len(tied) :]
    right = reshape(right, shape=(1, *few, *(1,) * len(mine), *theirs))
    if part.is_one:
        value = repeated(right, shape=(1, *few, *mine, *theirs))
    else:
        left = reshape(left, shape=(*left.shape, *(1,) * len(theirs)))
        value = multiply(left, right) if number == 0 else multiply(right, left)
    ordered = part._replace(own=part.own.transpose([axis - 1 for axis in (*tied, *own.free[1:])]))
    return _rows(ordered, value, range(1, 1 + len(tied)))


def _rows(part: Diagonal, value: Any, places: Sequence[int]) -> _Rows | None:
    """Elements, with the axes along which directions differ as one axis of directions."""
    own = _once(part.own).ravel()
    step = int(own[1] - own[0])
    if step < 1 or not np.array_equal(own, own[0] + step * np.arange(own.size)):
        return None
    others = [axis for axis in range(1, value.ndim) if axis not in places]
    value = transpose(value, permutation=(0, *places, *others))
    shape = (own.size, *value.shape[1 + len(places) :])
    return _Rows(int(own[0]), step, reshape(value, shape=shape))


def joined(rows: Sequence[_Rows]) -> list[Block]:
    """Blocks of rows; rows of several arrays that alternate are interleaved."""
    made = []
    left = sorted(rows, key=lambda each: each.first)
    while left:
        first, step, value = left[0]
        group = [
            next((x for x in left if x.first == first + i and x.step == step), None)
            for i in range(step)
        ]
        members = [x for x in group if x is not None and x.value.shape == value.shape]
        if len(members) < step:
            members = members[:1]
            shape = (step * (value.shape[0] - 1) + 1, *value.shape[1:])
            index = ((0, value.shape[0], step), *((0, n, 1) for n in shape[1:]))
            value = embed(value, index=index, shape=shape)
        elif step > 1:
            parts = [expand_axes(each.value, (1,)) for each in members]
            value = reshape(
                concatenate(parts, axis=1), shape=(step * value.shape[0], *value.shape[1:])
            )
        left = [x for x in left if not any(x is each for each in members)]
        made.append(Block((first, *(0,) * (value.ndim - 1)), value, is_sum=True))
    return made

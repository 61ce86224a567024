"""Rules of block sparsity propagation: the blocks of a linear operation's result.

A rule gets the operands, of which at least one is `Blocks`, and returns the blocks of the result;
None if all of its elements are as easily computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import embed_p, read_slice, slice_p
from functrans.ops.arrays.structural import (
    absent,
    broadcast_to_p,
    reduce_sum,
    repeated,
    reshape,
    reshape_p,
    transpose,
    transpose_p,
)
from functrans.ops.elementwise.arithmetic import add, multiply, negative, subtract
from functrans.ops.linalg.compiled.blas import sides
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.blocks import LOOSEST, MOST, Block, Blocks, Bounds, index_of, sum_of
from functrans.optimise.machine.diagonal_blocks import (
    Diagonal,
    contracted,
    diagonal_or_block,
    disjoint,
    joined,
    meet,
    moved,
    pieces,
    summed,
)
from functrans.trace.stage import apply


def of_blocks(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    """The blocks of the result of a linear operation."""
    if eqn.primitive.elementwise:
        return _elementwise(eqn, operands)
    rule = RULES[eqn.primitive]
    if rule in (_multiplied, _joined, _embedded):
        return rule(eqn, operands)
    (x,) = operands
    plain, made, rows = [], [], []
    axes = eqn.params["axes"] if eqn.primitive is reduce_sum else ()
    for part in (piece for whole in x.parts for piece in pieces(whole, axes)):
        if not isinstance(part, Diagonal):
            plain.append(part)
            continue
        if {axis + 1 for axis in part.tied} & {*axes}:
            found = summed(part, axes)
            rows += [] if found is None else [found]
            plain += part.blocks() if found is None else []
            continue
        own = moved(eqn, part.own, x.directions)
        alone = None if own is None else rule(eqn, [x._replace(parts=(part.as_block,))])
        if own is None or alone is None:
            plain += part.blocks()
        else:
            (one,) = alone.parts
            made.append(diagonal_or_block(own, one.value, one.is_one))
    rest = rule(eqn, [x._replace(parts=tuple(plain))])
    return None if rest is None else _result(eqn, operands, [*rest.parts, *joined(rows), *made])


def _result(eqn: Eqn, operands: Sequence[Any], parts: Sequence[Any]) -> Blocks | None:
    aval = eqn.outputs[0].aval
    directions = max(x.directions for x in operands if isinstance(x, Blocks))
    several = sum(isinstance(x, Blocks) for x in operands) > 1
    plain = [part for part in parts if not isinstance(part, Diagonal)]
    diagonals: dict[Any, Diagonal] = {}
    for part in parts:
        if isinstance(part, Diagonal):
            before = diagonals.get(part.key)
            total = part if before is None else Diagonal(part.own, add(before.value, part.value))
            diagonals[part.key] = total
    kept = disjoint(list(diagonals.values())) if len(diagonals) <= MOST else []
    if len(diagonals) > MOST or any(
        meet(part, block) for part in kept for block in plain if not block.is_sum
    ):
        plain += [block for part in diagonals.values() for block in part.blocks()]
        kept = []
    made = sum_of(plain, aval.shape, aval.dtype, directions, LOOSEST if several else 0.0)
    return None if made is None else made._replace(parts=(*made.parts, *kept))


def _elementwise(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    """A sum over the blocks of all operands in which the operation is linear."""
    sparse = {i for i, x in enumerate(operands) if isinstance(x, Blocks)}
    groups = eqn.primitive.linear_groups(len(operands))
    group = next((group for group in groups if sparse & set(group)), ())
    if not sparse or any(i not in sparse for i in group):
        return None
    operands = [
        x.dense() if isinstance(x, Blocks) and i not in group else x for i, x in enumerate(operands)
    ]
    parts: list[Any] = []
    for i in group:
        for part in operands[i].parts:
            own = _own_directions(eqn, operands, group, i, part)
            for block in part.blocks() if own is None else [part.as_block]:
                made = _of_block(eqn, operands, group, i, block)
                if made is not None:
                    parts.append(made if own is None else Diagonal(own, made.value))
    return _result(eqn, operands, parts) if group else None


def _own_directions(
    eqn: Eqn, operands: list[Any], group: Sequence[int], i: int, part: Block | Diagonal
) -> np.ndarray | None:
    """The directions of a result of elements with their own; None if it has several for each."""
    if not isinstance(part, Diagonal):
        return None
    ndim = len(eqn.outputs[0].aval.shape)
    others = [x for j, x in enumerate(operands) if j not in group]
    if any(len(x.shape) == ndim and x.shape[0] > 1 for x in others):
        return None
    return moved(eqn, part.own, operands[i].directions)


def _of_block(
    eqn: Eqn, operands: list[Any], group: Sequence[int], i: int, part: Block
) -> Block | None:
    """The block that an elementwise operation makes of a block of operand ``i``."""
    shape = eqn.outputs[0].aval.shape
    missing = len(shape) - len(operands[i].shape)
    own = ((0, 1),) * missing + part.bounds
    extents = (1,) * missing + operands[i].shape
    bounds = tuple(
        (0, n) if extent == 1 else pair for pair, extent, n in zip(own, extents, shape, strict=True)
    )
    start = tuple(low for low, _ in bounds)
    size = tuple(high - low for low, high in bounds)
    others = [
        part.value if j == i else _at(x, bounds) if j not in group else absent(size, x.dtype)
        for j, x in enumerate(operands)
    ]
    value = part.value
    if eqn.primitive is multiply and part.is_one:
        (value,) = (x for j, x in enumerate(others) if j != i)
        if isinstance(value, np.generic) and value == 0:
            return None
    elif eqn.primitive is subtract and i == 1:
        value = negative(value)
    elif eqn.primitive not in (add, subtract, broadcast_to_p):
        (value,) = apply(eqn, others)
    is_one = part.is_one and eqn.primitive is broadcast_to_p
    return Block(start, repeated(value, shape=size), is_one, part.is_sum)


def _at(x: Any, bounds: Bounds) -> Any:
    """The elements of an operand that an elementwise operation needs for a block of the result."""
    if not x.shape:
        return x
    own = bounds[len(bounds) - len(x.shape) :]
    kept = tuple((0, 1) if n == 1 else pair for pair, n in zip(own, x.shape, strict=True))
    return read_slice(x, index=index_of(kept))


def _reshaped(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    (x,) = operands
    shape = eqn.outputs[0].aval.shape
    parts = []
    for part in x.parts:
        bounds = _regrouped(part.bounds, x.shape, shape)
        if bounds is None:
            return None
        value = reshape(part.value, shape=tuple(high - low for low, high in bounds))
        start = tuple(low for low, _ in bounds)
        parts.append(part._replace(start=start, value=value))
    return _result(eqn, operands, parts)


def _regrouped(bounds: Bounds, old: Shape, new: Shape) -> Bounds | None:
    """The bounds of a block after a reshape; None if it is no block there."""
    made: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        before, after = [i, i + 1], [j, j + 1]
        while (a := prod(old[slice(*before)])) != (b := prod(new[slice(*after)])):
            (before if a < b else after)[1] += 1
        i, j = min(before[1], len(old)), min(after[1], len(new))
        flat = _flattened(bounds[slice(*before)], old[slice(*before)])
        inner = None if flat is None else _unflattened(flat, new[slice(*after)])
        if inner is None:
            return None
        made += inner
    return tuple(made)


def _flattened(bounds: Bounds, shape: Shape) -> tuple[int, int] | None:
    """The range of a block in an array with its axes joined; None if it is not contiguous."""
    low, high = 0, 1
    for (a, b), n in zip(bounds, shape, strict=True):
        if high - low > 1 and (a, b) != (0, n):
            return None
        low, high = low * n + a, (high - 1) * n + b
    return low, high


def _unflattened(flat: tuple[int, int], shape: Shape) -> Bounds | None:
    """The bounds of a range after its axis is split; None if it is no block then."""
    low, high = flat
    made = []
    for axis in range(len(shape)):
        inner = prod(shape[axis + 1 :])
        (first, a), (last, b) = divmod(low, inner), divmod(high - 1, inner)
        made.append((first, last + 1))
        if first == last:
            low, high = a, b + 1
        elif a or b + 1 != inner:
            return None
        else:
            low, high = 0, inner
    return tuple(made)


def _transposed(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    order = eqn.params["permutation"]
    parts = [
        part._replace(
            start=tuple(part.start[p] for p in order),
            value=transpose(part.value, permutation=order),
        )
        for part in operands[0].parts
    ]
    return _result(eqn, operands, parts)


def _repeated(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    parts = [_of_block(eqn, operands, (0,), 0, part) for part in operands[0].parts]
    return _result(eqn, operands, [part for part in parts if part is not None])


def _sliced(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    parts = []
    for part in operands[0].parts:
        index: list[Any] = []
        start = []
        for entry, (low, high), n in zip(
            eqn.params["index"], part.bounds, operands[0].shape, strict=True
        ):
            if isinstance(entry, int):
                index.append(entry - low if low <= entry < high else None)
            elif (low, high) == (0, n):
                index.append(entry)
                start.append(0)
            elif entry[2] != 1:
                return None
            else:
                first, last = max(low, entry[0]), min(high, entry[0] + entry[1])
                index.append((first - low, last - first, 1) if first < last else None)
                start.append(first - entry[0])
        if None not in index:
            value = read_slice(part.value, index=tuple(index))
            parts.append(part._replace(start=tuple(start), value=value))
    return _result(eqn, operands, parts)


def _embedded(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    index = eqn.params["index"]
    if any(not isinstance(entry, int) and entry[2] != 1 for entry in index):
        return None
    parts = []
    for part in operands[0].plain:
        axes = iter(part.bounds)
        bounds = []
        for entry in index:
            if isinstance(entry, int):
                bounds.append((entry, entry + 1))
            else:
                low, high = next(axes)
                bounds.append((entry[0] + low, entry[0] + high))
        value = reshape(part.value, shape=tuple(high - low for low, high in bounds))
        parts.append(Block(tuple(low for low, _ in bounds), value))
    return _result(eqn, operands, parts)


def _joined(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    axis, before = eqn.params["axis"], 0
    parts = []
    for x in operands:
        own = x.plain if isinstance(x, Blocks) else (Block((0,) * len(x.shape), x),)
        for part in own:
            start = list(part.start)
            start[axis] += before
            parts.append(Block(tuple(start), part.value))
        before += x.shape[axis]
    return _result(eqn, operands, parts)


def _summed(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    axes = eqn.params["axes"]
    parts = [
        Block(
            tuple(s for axis, s in enumerate(part.start) if axis not in axes),
            reduce_sum(part.value, axes=axes),
            is_sum=part.is_sum,
        )
        for part in operands[0].parts
    ]
    return _result(eqn, operands, parts)


def _multiplied(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    """A contraction: of the other operand, the slices that the blocks are multiplied by."""
    both = sides(eqn)
    number = next(i for i, x in enumerate(operands) if isinstance(x, Blocks))
    other = operands[1 - number]
    if isinstance(other, Blocks):
        other = other.dense()
    own, rest = both[number], both[1 - number]
    parts: list[Block] = []
    plain: list[Block] = []
    rows = []
    for part in operands[number].parts:
        found = contracted(eqn, part, number, other) if isinstance(part, Diagonal) else None
        if found is None:
            plain += part.blocks()
        else:
            rows.append(found)
    for part in joined(rows):
        axes = tuple(range(len(part.start)))
        order = axes if number == 0 else (*axes[len(own.free) :], *axes[: len(own.free)])
        start = tuple(part.start[axis] for axis in order)
        parts.append(Block(start, transpose(part.value, permutation=order), is_sum=True))
    for part in plain:
        kept = [(0, n) for n in other.shape]
        for mine, theirs in zip(
            (*own.batch, *own.contract), (*rest.batch, *rest.contract), strict=True
        ):
            kept[theirs] = part.bounds[mine]
        factors = [part.value, read_slice(other, index=index_of(tuple(kept)))]
        (value,) = apply(eqn, factors if number == 0 else factors[::-1])
        batch = [part.start[axis] for axis in own.batch]
        free = [[part.start[axis] for axis in own.free], [0] * len(rest.free)]
        left, right = free if number == 0 else free[::-1]
        parts.append(Block((*batch, *left, *right), value, is_sum=True))
    return _result(eqn, operands, parts)


RULES: dict[Any, Callable[[Eqn, list[Any]], Blocks | None]] = {
    reshape_p: _reshaped,
    transpose_p: _transposed,
    broadcast_to_p: _repeated,
    slice_p: _sliced,
    embed_p: _embedded,
    concatenate_p: _joined,
    reduce_sum: _summed,
    dot_general: _multiplied,
}

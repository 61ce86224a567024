"""Block sparsity propagation: zeros of tangents for a basis are not computed.

A Jacobian is computed for all vectors of a basis at once, along an axis of directions. What is
computed of a single input has a tangent in one direction, and structural zeros in all others. An
array of such tangents is a few dense blocks (`functrans.optimise.machine.blocks`), and an operation
that is linear in it is applied to these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import assemble_p, embed_p, numpy_index, read_slice, slice_p
from functrans.ops.arrays.structural import (
    absent,
    absent_p,
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
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.emission import emitted
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.arithmetic import add, multiply, negative, subtract
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.linalg.compiled.blas import counts, sides
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.blocks import (
    LOOSEST,
    MOST,
    Block,
    Blocks,
    Bounds,
    index_of,
    is_small,
    sum_of,
)
from functrans.optimise.simplification import fold_constants, merge_equal, simplify
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

_INDEX = np.dtype(np.int64)


class Directions(NamedTuple):
    """When zeros are left out.

    Measured: `fraction`, `least` and `moved` (zeros of tangents for a basis).
    """

    fewest: int = 17
    """Fewer are unrolled, and their zeros fold."""
    most: int = 4096
    fraction: float = 0.85
    """The most operations that may remain."""
    least: int = 4096
    """The operations that must be saved."""
    moved: int = 2
    """The operations as which an element of a joined array counts."""
    enlarged: int = 4
    """How many times as many elements as its operands a result has, ..."""
    terms: int = 8
    """... and of how many terms, if all its elements are computed rather than joined."""


class _Basis(NamedTuple):
    """Elements of all vectors of a basis, which are along the first axis."""

    directions: int
    ones: np.ndarray
    """For each element of the other axes, the direction in which it is 1."""
    dtype: np.dtype[Any]

    @property
    def is_whole(self) -> bool:
        """Whether these are the vectors themselves, in some shape."""
        return np.array_equal(self.ones.ravel(), np.arange(self.directions))


def leave_out_zero_blocks(graph: Graph, target: Target) -> Graph:
    """Compute only those blocks of the tangents for a basis that are not structural zeros.

    Expects a simplified graph, in which slices of the basis show what depends on which input.
    Leaves linear operations on blocks, and joins these where any other operation reads them.
    """
    makers: dict[Atom, Eqn] = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    limits = target[Directions]
    bases: dict[Atom, _Basis] = {}
    for eqn in graph.eqns:
        if (found := _basis(eqn, makers, bases)) is not None:
            if limits.fewest <= found.directions <= limits.most:
                bases[eqn.outputs[0]] = found
    if all(basis.is_whole for basis in bases.values()):
        return graph

    def run(*inputs: Any) -> list[Any]:
        values = _Values(zip(graph.inputs, inputs, strict=True), makers, limits)
        for eqn in graph.eqns:
            with at_source_of(eqn):
                found = _sparse(eqn, values, bases)
            if found is not None:
                values.sparse[eqn.outputs[0]] = found
            if found is None or is_small(found.shape, found.directions):
                operands = [values.read(atom) for atom in eqn.inputs]
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
        return [values.read(atom) for atom in graph.outputs]

    made = merge_equal(simplify(fold_constants(rewrite(run, graph.in_avals))))
    before, after = _work(graph, target), _work(made, target)
    is_less = after <= limits.fraction * before and after + limits.least <= before
    return made if is_less else graph


def _work(graph: Graph, target: Target) -> int:
    """An estimate of the operations of a graph; an element that is moved by a join counts, too."""
    return sum(_operations(eqn, target) for eqn in graph.eqns)


def _operations(eqn: Eqn, target: Target) -> int:
    size = eqn.outputs[0].aval.size
    if eqn.primitive is dot_general:
        return size * counts(eqn).summed
    if eqn.primitive in _JOINS:
        return size * target[Directions].moved
    return 0 if emitted(eqn, target) is not None else size * pattern(eqn).work


class _Values(Environment):
    """The values of variables; those of which blocks are known become arrays when they are read."""

    def __init__(self, items: Any, makers: Mapping[Atom, Eqn], limits: Directions) -> None:
        super().__init__(items)
        self.sparse: dict[Atom, Blocks] = {}
        self.makers = makers
        self.limits = limits

    def read(self, atom: Atom) -> Any:
        if isinstance(atom, Var) and atom not in self:
            eqn = self.makers[atom]
            if _is_easy(eqn, self.limits):
                operands = [self.read(x) for x in eqn.inputs]
                self.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            else:
                self[atom] = self.sparse[atom].dense()
        return super().read(atom)

    def known(self, atom: Atom) -> Any:
        """The blocks of a variable, or its value."""
        found = self.sparse.get(atom)
        return self.read(atom) if found is None else found


def _is_easy(eqn: Eqn, limits: Directions) -> bool:
    """Whether computing all elements of an array takes less than joining its blocks."""
    if eqn.primitive in _MOVES:
        return True
    size = eqn.outputs[0].aval.size
    enlarged = size >= limits.enlarged * sum(x.aval.size for x in eqn.inputs)
    work = counts(eqn).summed if eqn.primitive is dot_general else 1
    return eqn.primitive in (dot_general, multiply) and enlarged and work <= limits.terms


def _basis(eqn: Eqn, makers: Mapping[Atom, Eqn], bases: Mapping[Atom, _Basis]) -> _Basis | None:
    """What an equation reads of a basis, or makes as one."""
    (out, *_) = eqn.outputs
    if eqn.inputs and (known := bases.get(eqn.inputs[0])) is not None:
        ones = _moved(eqn, known)
        return None if ones is None else known._replace(ones=ones)
    if eqn.primitive is not select:
        return None
    mask, one, zero = eqn.inputs
    test, rest = makers.get(mask), makers.get(zero)
    if not isinstance(one, Literal) or one.value != 1:
        return None
    if (
        test is None
        or test.primitive is not equal
        or rest is None
        or rest.primitive is not absent_p
    ):
        return None
    count = out.aval.shape[0] if out.aval.shape else 0
    for x, wanted in zip(test.inputs, ((count, 1), (1, count)), strict=True):
        made = makers.get(x)
        if made is None or made.primitive is not reshape_p or x.aval.shape != wanted:
            return None
        source = makers.get(made.inputs[0])
        if source is None or source.primitive is not iota:
            return None
    return _Basis(count, np.arange(count), out.aval.dtype)


def _moved(eqn: Eqn, basis: _Basis) -> np.ndarray | None:
    """The elements of a basis that an equation reads, if it keeps the axis of directions."""
    ones, primitive, params = basis.ones, eqn.primitive, eqn.params
    shape = eqn.outputs[0].aval.shape
    if primitive is transpose_p:
        first, *order = params["permutation"]
        return ones.transpose([axis - 1 for axis in order]) if first == 0 else None
    if not shape or shape[0] != basis.directions:
        return None
    if primitive is reshape_p:
        return ones.reshape(shape[1:])
    if primitive is broadcast_to_p and len(shape) == 1 + ones.ndim:
        return np.broadcast_to(ones, shape[1:])
    if primitive is slice_p and params["index"][0] == whole(basis.directions):
        return ones[numpy_index(params["index"][1:])]
    return None


def _sparse(eqn: Eqn, values: _Values, bases: Mapping[Atom, _Basis]) -> Blocks | None:
    """The blocks of an equation's result; None if they are not known."""
    primitive = eqn.primitive
    if primitive is absent_p:
        return Blocks(eqn.params["shape"], eqn.params["dtype"])
    if (basis := bases.get(eqn.outputs[0])) is not None and not basis.is_whole:
        if (found := _of_basis(basis)) is not None:
            return found
    if not any(atom in values.sparse for atom in eqn.inputs) or not eqn.outputs[0].aval.size:
        return None
    rule = _elementwise if primitive.elementwise else _RULES.get(primitive)
    return None if rule is None else rule(eqn, [values.known(atom) for atom in eqn.inputs])


def _of_basis(basis: _Basis) -> Blocks | None:
    """The blocks in which elements of a basis are, if these are few or contiguous."""
    ones, shape = basis.ones, basis.ones.shape
    ones = ones[tuple(slice(None, None if stride else 1) for stride in ones.strides)]
    count = ones.size
    first = int(ones.flat[0]) if count else 0
    if count and np.array_equal(ones.ravel(), np.arange(first, first + count)):
        one = full_p(shape=(count, count), value=1, dtype=basis.dtype)
        if count > 1:
            rows = expand_axes(iota(size=count, dtype=_INDEX), (1,))
            columns = expand_axes(iota(size=count, dtype=_INDEX), (0,))
            one = select(equal(rows, columns), one, absent((count, count), basis.dtype))
        one = repeated(reshape(one, shape=(count, *ones.shape)), shape=(count, *shape))
        parts = [Block((first, *(0,) * len(shape)), one, count == 1)]
    elif 0 < count <= MOST:
        size = tuple(n if own == 1 else 1 for own, n in zip(ones.shape, shape, strict=True))
        one = full_p(shape=(1, *size), value=1, dtype=basis.dtype)
        parts = [Block((int(ones[i]), *i), one, True) for i in np.ndindex(ones.shape)]
    else:
        return None
    return Blocks((basis.directions, *shape), basis.dtype, basis.directions, tuple(parts))


# -- rules -----------------------------------------------------------------------------------------


def _result(eqn: Eqn, operands: Sequence[Any], parts: Sequence[Block]) -> Blocks | None:
    aval = eqn.outputs[0].aval
    directions = max(x.directions for x in operands if isinstance(x, Blocks))
    several = sum(isinstance(x, Blocks) for x in operands) > 1
    return sum_of(parts, aval.shape, aval.dtype, directions, LOOSEST if several else 0.0)


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
    parts = [
        made
        for i in group
        for part in operands[i].parts
        if (made := _of_block(eqn, operands, group, i, part)) is not None
    ]
    return _result(eqn, operands, parts) if group else None


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
    return Block(start, repeated(value, shape=size))


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
        parts.append(Block(tuple(low for low, _ in bounds), value, part.is_one))
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
        Block(tuple(part.start[p] for p in order), transpose(part.value, permutation=order))
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
            parts.append(Block(tuple(start), read_slice(part.value, index=tuple(index))))
    return _result(eqn, operands, parts)


def _embedded(eqn: Eqn, operands: list[Any]) -> Blocks | None:
    index = eqn.params["index"]
    if any(not isinstance(entry, int) and entry[2] != 1 for entry in index):
        return None
    parts = []
    for part in operands[0].parts:
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
        own = x.parts if isinstance(x, Blocks) else (Block((0,) * len(x.shape), x),)
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
    parts = []
    for part in operands[number].parts:
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
        parts.append(Block((*batch, *left, *right), value))
    return _result(eqn, operands, parts)


_MOVES = frozenset((reshape_p, transpose_p, broadcast_to_p, slice_p))
_JOINS = frozenset((concatenate_p, assemble_p, embed_p))

_RULES: dict[Any, Callable[[Eqn, list[Any]], Blocks | None]] = {
    reshape_p: _reshaped,
    transpose_p: _transposed,
    broadcast_to_p: _repeated,
    slice_p: _sliced,
    embed_p: _embedded,
    concatenate_p: _joined,
    reduce_sum: _summed,
    dot_general: _multiplied,
}

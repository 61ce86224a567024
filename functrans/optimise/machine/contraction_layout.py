"""Layout selection for contractions: operands in layouts that BLAS accepts.

Operands are read through transposes, or copied with their axes in a suitable order. Long sums are
split into parts, sums over several axes become stacks of products, and only one half of a symmetric
result is computed. `functrans.ops.linalg.compiled.blas` makes the calls themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Shape, is_float
from functrans.loop.nodes import index
from functrans.loop.scalar import const, zero
from functrans.loop.target import Target
from functrans.ops.arrays.structural import broadcast_to_p, cast, reduce_sum, transpose_p
from functrans.ops.compiled.elements import Puller
from functrans.ops.linalg.compiled.blas import (
    Products,
    Sides,
    blocks,
    counts,
    is_large,
    matrix,
    sides,
)
from functrans.ops.linalg.compiled.forms import Forms, is_blocked, is_last, packs_in_parts
from functrans.ops.linalg.contraction import dot_general, gemm, widening_dot_general
from functrans.optimise.machine.symmetry import COLUMN, ROW, Names, is_symmetric
from functrans.records import NamedTuple


class SplitSums(NamedTuple):
    """Contractions whose sums are split into parts, one for each thread.

    Measured: `long_sum` and `long_half` (the long sum of a logistic Hessian, and others with 40 to
    128 columns), `largest_in_parts`, `long_sum_of_large` and `largest_copy` (parts of long sums for
    large results).
    """

    long_sum: int = 4
    """The ratio of a sum's length to the longest side of its result from which it is split."""
    long_half: int = 16
    """The ratio for half of a symmetric result, also if the right operand fits into the cache: a
    packed copy of it, which one thread writes, would be read by the others."""
    largest_in_parts: int = 256
    """The longest side of such a result: adding up the parts of a larger one takes too long."""
    long_sum_of_large: int = 16
    """The ratio for a larger result, which is split only if parts pack some terms at a time, if the
    terms are contiguous in the right operand."""
    largest_copy: int = 1 << 23
    """The most bytes of a right operand that is packed as a whole for such a result, if its columns
    are contiguous: a larger copy leaves the caches, and is read again for each block of rows."""
    least_part: int = 128
    """The fewest terms of a part."""
    fewest_elements: int = 4096
    """The number of elements from which a blocked product has enough blocks for all threads. All
    blocks read the right operand; if it fits into the cache, the sum is not split."""
    most_parts: int = 8
    """The largest number of parts."""
    largest_stack: int = 2
    """The greatest ratio, in elements, of a stack of products that are added up to the operands."""


class Swapping(NamedTuple):
    """Products whose operands are swapped, because tiles would read the left one in short pieces.

    Measured: all (`x.T @ y` of 17 to 500,000 rows, 4 to 100,000 terms, 1 to 400 columns), without
    AVX-512.
    """

    least_bytes: int = 5 << 19
    """The fewest bytes of the left operand: pieces of a smaller one are read from a cache."""
    shortest_line: int = 256
    """The fewest bytes between its terms: pieces of shorter lines follow each other in memory."""
    fewest_terms: int = 32
    """With fewer, transposing the result takes longer than is gained."""


class TermOrder(NamedTuple):
    """Sums of terms before which the smaller operand is copied in the order of the larger one.

    Measured: both (`ijk,kj->i`).
    """

    ratio: int = 4
    """The least ratio of the operands' elements for which the copy takes little of the time."""
    fewest: int = 200
    """The fewest terms."""


Order = tuple[int, ...]
"""The axes of an array, in some order."""

LARGEST_PATTERN = 16
"""The largest number of equations from which an identity matrix is recognised."""


def lay_out_contractions(graph: Graph, target: Target) -> Graph:
    """Choose layouts for contractions: read through transposes, reorder operands for BLAS.

    Expects all contractions: later passes create none.
    Leaves operands of large contractions in layouts that BLAS accepts.
    """
    producers = dict(graph.makers)
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        eqn, result = _with_larger_on_the_right(eqn, producers, target)
        if not (eqn.primitive is dot_general and is_large(eqn, target)):
            eqns += _in_one_order(eqn, target)
        elif known := _by_identity(eqn, producers):
            eqns.append(known)
            producers[eqn.outputs[0]] = known
        else:
            eqn, turned = _of_halves(eqn, producers, target)
            producers |= {made.outputs[0]: made for made in turned}
            eqn, total = _of_stack(eqn, producers, target)
            eqns += [*turned, *_laid_out(eqn, producers, graph.uses, target), *total]
        eqns += result
    return Graph(graph.inputs, eqns, graph.outputs)


def _with_larger_on_the_right(
    eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target
) -> tuple[Eqn, list[Eqn]]:
    """The product with its operands swapped, and the transpose of its result, if that is faster.

    The right operand is packed in whole lines. Of a left operand whose terms are lines in memory,
    a tile reads a piece of each line, as many elements as the tile has rows; hardware does not
    prefetch them. So the larger operand is better on the right.
    """
    if eqn.primitive is not dot_general or target.registers > target[Forms].few_registers:
        return eqn, []
    (x, y), (left, right), (out,) = eqn.inputs, sides(eqn), eqn.outputs
    if not len(left.free) == len(left.contract) == len(right.free) == 1:
        return eqn, []
    x, through = _untransposed(x, producers)
    if x in producers:
        return eqn, []  # it need not be in memory: a row of blocks may compute it, as in attention
    batch, _, contract = (tuple(through[i] for i in group) for group in left)
    *stack, last = range(x.aval.ndim - 1)
    if batch != (*stack,) or contract != (last,):
        return eqn, []
    limits, itemsize, (terms, rows) = target[Swapping], x.aval.dtype.itemsize, x.aval.shape[-2:]
    is_in_pieces = rows * itemsize >= limits.shortest_line
    is_far = terms * rows * itemsize >= limits.least_bytes
    is_long = terms >= limits.fewest_terms
    if not (is_in_pieces and is_far and is_long and rows > out.aval.shape[-1]):
        return eqn, []
    params = {"contract": (contract, right.contract), "batch": (batch, right.batch)}
    product = eqn.but(inputs=(x, y), params=params)
    turned = Var(out.aval.update(shape=(*out.aval.shape[:-2], *out.aval.shape[:-3:-1])))
    swapped = with_swapped_operands(product, turned)
    if not is_blocked(swapped, target):
        return eqn, []
    permutation = {"permutation": (*stack, last + 1, last)}
    return swapped, [Eqn(transpose_p, (turned,), (out,), permutation, eqn.source)]


def with_swapped_operands(product: Eqn, out: Var) -> Eqn:
    """The product with its operands swapped, whose result is transposed."""
    params = {**product.params, "contract": product.params["contract"][::-1]}
    params["batch"] = product.params["batch"][::-1]
    return product.but(inputs=product.inputs[::-1], outputs=(out,), params=params)


def _in_one_order(eqn: Eqn, target: Target) -> list[Eqn]:
    """The equation, before it possibly a copy of an operand with its axes in the other's order.

    Vectors along the terms are then contiguous in both operands.
    """
    for number, x in enumerate(eqn.inputs):
        if not is_summed_with_larger(eqn, x, target):
            continue
        own, others = eqn.params["contract"][number], eqn.params["contract"][1 - number]
        pairs = sorted(zip(others, own, strict=True))
        order = tuple(axis for _, axis in pairs)
        if order == tuple(range(len(order))):
            continue
        made: list[Eqn] = []
        operands, contract = list(eqn.inputs), [tuple(axis for axis, _ in pairs)] * 2
        operands[number] = transposed(x, order, eqn, made)
        contract[number] = tuple(range(len(order)))
        params = {**eqn.params, "contract": tuple(contract)}
        return [*made, eqn.but(inputs=operands, params=params)]
    return [eqn]


def is_summed_with_larger(eqn: Eqn, x: Atom, target: Target) -> bool:
    """Whether a contraction reads all of an array for each of several results, with vectors.

    Then the array is best in the order in which the other operand lies, which is larger.
    """
    if eqn.primitive is not dot_general or target.lanes_are_threads or x.aval.ndim < 2:
        return False
    number = eqn.inputs.index(x)
    has_terms_alone = len(eqn.params["contract"][number]) == x.aval.ndim
    limits, other = target[TermOrder], eqn.inputs[1 - number].aval
    return (
        has_terms_alone
        and x.aval.size >= limits.fewest
        and other.size >= limits.ratio * x.aval.size
    )


def _of_halves(eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target) -> tuple[Eqn, list[Eqn]]:
    """The contraction of the half floats that operands are cast from, and the transposes it reads.

    The libraries of GPUs multiply half floats on tensor cores.
    """
    made: list[Eqn] = []
    operands = [_before_widening(x, eqn, producers, made) for x in eqn.inputs]
    found = [x for x in operands if x is not None]
    if len({x.aval.dtype for x in found}) != 1 or len(found) != len(operands):
        return eqn, []
    halves = Eqn(widening_dot_general, found, eqn.outputs, eqn.params, eqn.source)
    return (halves, made) if is_large(halves, target) else (eqn, [])


def _before_widening(
    atom: Atom, eqn: Eqn, producers: Mapping[Atom, Eqn], made: list[Eqn]
) -> Atom | None:
    """The half floats that an array is cast from, transposed like it; None without such a cast."""
    maker = producers.get(atom)
    if maker is None or atom.aval.dtype != np.float32:
        return None
    if maker.primitive is cast:
        (source,) = maker.inputs
        return source if is_float(source.aval.dtype) and source.aval.dtype.itemsize == 2 else None
    if maker.primitive is transpose_p:
        half = _before_widening(maker.inputs[0], eqn, producers, made)
        return None if half is None else transposed(half, maker.params["permutation"], eqn, made)
    return None


def _by_identity(eqn: Eqn, producers: Mapping[Atom, Eqn]) -> Eqn | None:
    """The transpose that replaces a contraction with an identity matrix; None without one."""
    for number, axes in enumerate(sides(eqn)):
        if axes.batch or len(axes.free) != 1 or len(axes.contract) != 1:
            continue
        if not _is_identity(eqn.inputs[number], producers):
            continue
        other = sides(eqn)[1 - number]
        groups = (other.contract, other.free) if number == 0 else (other.free, other.contract)
        params = {"permutation": (*groups[0], *groups[1])}
        return Eqn(transpose_p, (eqn.inputs[1 - number],), eqn.outputs, params, eqn.source)
    return None


def _is_identity(atom: Atom, producers: Mapping[Atom, Eqn]) -> bool:
    """Whether a value is computed as an identity matrix: 1 where ``i == j``, and 0 elsewhere.

    A matrix that the user provides is not treated like one: its zeros times infinity are NaN.
    """
    if atom.aval.shape[0] != atom.aval.shape[1] or not isinstance(atom, Var):
        return False
    # the matrix must be computed from counters and constants alone
    needed: set[Eqn] = set()
    stack: list[Var] = [atom]
    while stack:
        maker = producers.get(stack.pop())
        if maker is None or len(needed) > LARGEST_PATTERN:
            return False
        if maker.primitive.scalar is None and maker.primitive.pull is None:
            return False
        needed.add(maker)
        stack += [x for x in maker.inputs if isinstance(x, Var) and producers.get(x) not in needed]
    row, column = (index("i", n) for n in atom.aval.shape)
    element = Puller(producers, {}).element(atom, (row, column))
    if element.op != "where":
        return False
    condition, yes, no = element.args
    is_diagonal = condition.op == "eq" and set(condition.args) == {row, column}
    return is_diagonal and yes is const(1, yes.dtype) and no is zero(no.dtype)


def _laid_out(
    eqn: Eqn, producers: Mapping[Atom, Eqn], uses: Mapping[Atom, int], target: Target
) -> list[Eqn]:
    made: list[Eqn] = []
    operands: list[Atom] = []
    contract: list[tuple[int, ...]] = []
    batch: list[tuple[int, ...]] = []
    for number, (operand, axes) in enumerate(zip(eqn.inputs, sides(eqn), strict=True)):
        source, through = _untransposed(operand, producers)
        seen = Sides(*(tuple(through[i] for i in group) for group in axes))
        # a source is used if its free axes are in the order in which the result has them
        if list(seen.free) == sorted(seen.free) and _fits(source.aval.shape, seen):
            operand, axes = source, seen
        # an operand with a single use can be stored in any order
        order = _order_in_memory(operand, producers) if uses[operand] == 1 else None
        if order is not None and not _fits(*_reordered(operand.aval.shape, axes, order)):
            order = None
        if order is None and not _fits(operand.aval.shape, axes):
            groups = (axes.free, axes.contract) if number == 0 else (axes.contract, axes.free)
            order = (*axes.batch, *groups[0], *groups[1])
        if order is not None:
            _, axes = _reordered(operand.aval.shape, axes, order)
            operand = transposed(operand, order, eqn, made)
        operands.append(operand)
        contract.append(axes.contract)
        batch.append(axes.batch)
    params: dict[str, Any] = {"contract": tuple(contract), "batch": tuple(batch)}
    symmetric = _is_half_enough(eqn, producers, target)
    lies_along_columns = not is_last(contract[1], operands[1].aval.shape)
    parts = _parts(eqn, target, symmetric, lies_along_columns)
    return made + _divided(eqn, operands, params, symmetric, parts)


def _of_stack(eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target) -> tuple[Eqn, list[Eqn]]:
    """A contraction over several axes, as a stack of products along one axis, and their sum.

    The axes cannot be merged into one in memory; as a stack, the operands need not be copied. Such
    contractions are gradients with respect to a matrix that multiplies a stack of matrices. If the
    terms are contiguous in both operands, the right one is transposed while it is packed, so the
    operands are swapped if that makes it the smaller one.
    """
    (left, right), limits, operands = sides(eqn), target[SplitSums], eqn.inputs
    if left.batch or len(left.contract) < 2 or is_blocked(eqn, target):
        return eqn, []
    pairs = [*zip(left.contract, right.contract, strict=True)]
    terms = max(pairs, key=lambda pair: operands[0].aval.shape[pair[0]])
    lie_along = all(i == x.aval.ndim - 1 for i, x in zip(terms, operands, strict=True))
    size, (out,) = counts(eqn), eqn.outputs
    turned = lie_along and size.rows < size.columns and out.aval.ndim == 2
    if turned:
        operands, terms, pairs = operands[::-1], terms[::-1], [pair[::-1] for pair in pairs]
    rest = [pair for pair in pairs if pair != terms]
    around = tuple(operands[0].aval.shape[i] for i, _ in rest)
    total = Var(out.aval.update(shape=out.aval.shape[::-1])) if turned else out
    stack = Var(out.aval.update(shape=(*around, *total.aval.shape)))
    ratio = stack.aval.size / max(sum(x.aval.size for x in operands), 1)
    if operands[0].aval.shape[terms[0]] < limits.least_part or ratio > limits.largest_stack:
        return eqn, []
    contract, batch = tuple((axis,) for axis in terms), tuple(zip(*rest, strict=True))
    params = {**eqn.params, "contract": contract, "batch": batch}
    products = eqn.but(inputs=operands, outputs=(stack,), params=params)
    if not is_blocked(products, target) or _is_half_enough(eqn, producers, target):
        return eqn, []
    axes = tuple(range(len(rest)))
    made = [Eqn(reduce_sum, (stack,), (total,), {"axes": axes}, eqn.source)]
    if turned:
        made.append(Eqn(transpose_p, (total,), (out,), {"permutation": (1, 0)}, eqn.source))
    return products, made


def _divided(
    eqn: Eqn, operands: Sequence[Atom], params: dict[str, Any], symmetric: bool, parts: int | None
) -> list[Eqn]:
    """The contraction, possibly in parts that are added up, or of half a symmetric matrix."""
    if parts is None and not symmetric:
        return [eqn.but(inputs=operands, params=params)]
    params = {**params, "parts": parts, "symmetric": symmetric, "panels": False}
    if parts is None:
        return [Eqn(gemm, operands, eqn.outputs, params, eqn.source)]
    (out,) = eqn.outputs
    sums = Var(out.aval.update(shape=(parts, *out.aval.shape)))
    return [
        Eqn(gemm, operands, (sums,), params, eqn.source),
        Eqn(reduce_sum, (sums,), (out,), {"axes": (0,)}, eqn.source),
    ]


def _parts(eqn: Eqn, target: Target, symmetric: bool, lies_along_columns: bool) -> int | None:
    """The number of parts of a long sum with a small result; None if it is not split."""
    size, limits = counts(eqn), target[SplitSums]
    if sides(eqn)[0].batch or size.multiplications < target[Products].worth_splitting:
        return None
    packed = size.summed * size.columns * eqn.inputs[1].aval.dtype.itemsize
    has_blocks = size.rows * size.columns >= limits.fewest_elements
    side = max(size.rows, size.columns)
    is_long_half = symmetric and size.summed >= limits.long_half * side
    fits = packed <= target.cache and not is_long_half
    if is_blocked(eqn, target) and has_blocks and fits:
        return None
    is_large = side > limits.largest_in_parts
    if is_large and not packs_in_parts(eqn, target):
        return None
    along_terms = is_large and not lies_along_columns
    ratio = limits.long_sum_of_large if along_terms else limits.long_sum
    # the sums of all parts take no more memory than the copy
    saves_copy = packed > limits.largest_copy and size.summed >= limits.most_parts * size.rows
    is_long = size.summed >= ratio * side or (is_large and lies_along_columns and saves_copy)
    if not is_long or size.summed < limits.least_part:
        return None
    most = min(limits.most_parts, 1 << (size.summed // limits.least_part).bit_length() - 1)
    equal = [n for n in range(-(-most // 2), most + 1) if size.summed % n == 0]
    return max(equal, default=most)


def _is_half_enough(eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target) -> bool:
    """Whether a contraction gives symmetric matrices, and computing one half is profitable.

    For stacks of matrices it is profitable if they have a kernel of our own.
    """
    shape = eqn.outputs[0].aval.shape
    x, y = sides(eqn)
    if len(x.free) != 1 or len(y.free) != 1 or shape[-1] != shape[-2]:
        return False
    if x.batch and not is_blocked(eqn, target):
        return False
    size, limits = counts(eqn), target[Products]
    itemsize = eqn.outputs[0].aval.dtype.itemsize
    has_panels = is_blocked(eqn, target) and shape[-1] > 2 * target.lanes(itemsize)
    if not (has_panels or blocks(shape[-1]) > 1) or size.multiplications < limits.worth_splitting:
        return False
    if size.summed * itemsize < limits.least_half_bytes:
        return False
    named = [
        (operand, _named(operand.aval.ndim, axes, own))
        for operand, axes, own in zip(eqn.inputs, (x, y), (ROW, COLUMN), strict=True)
    ]
    return is_symmetric(named, producers)


def _named(ndim: int, axes: Sides, own: str) -> Names:
    """The names of an operand's axes: ``own`` for the free one, numbers for all others."""
    together = (*axes.batch, *axes.contract)
    return tuple(own if i in axes.free else together.index(i) for i in range(ndim))


def _fits(shape: Shape, axes: Sides) -> bool:
    return matrix(shape, axes.free, axes.contract) is not None


def _reordered(shape: Shape, axes: Sides, order: Order) -> tuple[Shape, Sides]:
    """The shape and the sides of an operand after its axes are reordered."""
    sides = Sides(*(tuple(order.index(i) for i in group) for group in axes))
    return tuple(shape[i] for i in order), sides


def _order_in_memory(atom: Atom, producers: Mapping[Atom, Eqn]) -> Order | None:
    """The axis order in memory of most of the arrays from which a value is computed.

    None if that is the value's own order, or if the value is not computed elementwise.
    """
    votes: Counter[Order] = Counter()
    stack: list[tuple[Atom, Order]] = [(atom, tuple(range(len(atom.aval.shape))))]
    seen = set(stack)
    while stack:
        each, axes = stack.pop()
        maker = producers.get(each)
        reached: list[tuple[Atom, Order]] = []
        if maker is not None and maker.primitive is transpose_p:
            inverse = np.argsort(maker.params["permutation"])
            reached = [(maker.inputs[0], tuple(axes[i] for i in inverse))]
        elif maker is not None and maker.primitive.scalar is not None:
            reached = [(x, axes) for x in maker.inputs if x.aval.shape == each.aval.shape]
        elif maker is None or maker.primitive is not broadcast_to_p:
            votes[axes] += 1
        stack += [item for item in reached if item not in seen]
        seen.update(reached)
    ((order, most),) = votes.most_common(1) or ((None, 0),)
    own = tuple(range(len(atom.aval.shape)))
    return order if order != own and most > votes[own] else None


def _untransposed(atom: Atom, producers: Mapping[Atom, Eqn]) -> tuple[Atom, tuple[int, ...]]:
    """The operand of a transpose, and for each axis of the result the axis of the operand."""
    maker = producers.get(atom)
    if maker is None or maker.primitive is not transpose_p:
        return atom, tuple(range(len(atom.aval.shape)))
    return maker.inputs[0], tuple(maker.params["permutation"])


def transposed(operand: Atom, order: Order, eqn: Eqn, made: list[Eqn]) -> Var:
    """A value with its axes in another order, computed for an equation."""
    out = Var(operand.aval.update(shape=tuple(operand.aval.shape[i] for i in order)))
    made.append(Eqn(transpose_p, (operand,), (out,), {"permutation": order}, eqn.source))
    return out

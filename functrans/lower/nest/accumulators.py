"""Multiple accumulators: a sum as interleaved sums, so that additions overlap in time.

Expects expressions with folds. Leaves expressions in which long folds are combinations of several
folds that share a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import INDEX, combine_pairwise, index
from functrans.loop.reductions import Reductions
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.target import Target
from functrans.loop.terms import from_terms


def with_accumulators(
    expressions: Sequence[Scalar],
    count: int,  # the number of folds that replace each
    target: Target,
    simplify: Simplifier,
) -> list[Scalar]:
    """Split the outermost folds of expressions into interleaved ones, which share a loop."""
    folds = [node for node in postorder(expressions) if node.op == "fold"]
    nested = {inner for fold in folds for inner in postorder(fold.args) if inner.op == "fold"}
    if count < 2 or nested:
        return list(expressions)
    known = {fold: _cut(fold, count, simplify) for fold in folds if _is_long(fold, target)}
    return simplify.substitute(expressions, known)


def _is_long(fold: Scalar, target: Target) -> bool:
    stop = fold.args[-1]
    return stop.op == "const" and int(stop.attribute) >= target[Reductions].shortest


def _cut(fold: Scalar, count: int, simplify: Simplifier) -> Scalar:
    """Split a fold into strided ones, and unroll the remaining elements."""
    op, indices = fold.attribute
    value, *extents = fold.args
    *outer, innermost = indices
    each, left = divmod(int(extents[-1].attribute), count)
    if each == 0:
        return fold
    step = index("k", each)

    def partial(length: int, position: Scalar) -> Scalar:
        (moved,) = simplify.substitute([value], {innermost: position})
        own = (*outer, step) if length > 1 else tuple(outer)
        stops = (*extents[:-1], const(length, INDEX)) if length > 1 else tuple(extents[:-1])
        return Scalar("fold", (moved, *stops), fold.dtype, (op, own)) if own else moved

    # a fold over one element needs no loop
    first_of_each = {step: count} if each > 1 else {}
    partials = [partial(each, from_terms(first_of_each, first)) for first in range(count)]
    partials += [partial(1, const(each * count + i, INDEX)) for i in range(left)]
    return combine_pairwise(op, partials)

"""Loop interchange for sums along columns: rows are read in order, and the sums are in memory.

A vector loop over columns, with the loop over rows inside, reads a piece of one row after the
other. If the array comes from memory, each piece is waited for, since hardware prefetches only what
is read in order. So whole rows are added to the results, one after the other. Expects a vector loop
of sums; leaves a loop that stores zeros, and one over rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import identity
from functrans.loop.reductions import Reductions, unblocked
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Reduce, Statement, Store
from functrans.loop.target import Target

Loops = Sequence[tuple[Scalar, Scalar, Scalar]]
"""Indices with their ranges, outermost first."""

Term = tuple[str, Scalar]
"""What a sum combines, and by which operation."""


def row_by_row(loop: For, target: Target) -> tuple[Statement, ...]:
    """A vector loop of sums over the rows of an array that comes from memory, row by row."""
    sums = [unblocked(each) for each in loop.body if isinstance(each, Reduce)]
    stores = [each for each in loop.body if isinstance(each, Store)]
    is_plain = len(sums) + len(stores) == len(loop.body) and not any(each.body for each in sums)
    ranges = {tuple((start, stop) for _, start, stop in each.loops) for each in sums}
    if not is_plain or len(ranges) != 1 or not loop.stop.attribute > loop.lanes > 1:
        return (loop,)
    loops = sums[0].loops
    terms = {total: term for each in sums for total, term in _terms(each, loops)}
    nodes = postorder([term for _, term in terms.values()])
    is_plain = all(each.value in terms and each.op is None for each in stores)
    if (
        not is_plain
        or not terms.keys().isdisjoint(nodes)
        or not _is_far(loop, loops, nodes, target)
    ):
        return (loop,)
    first, further = [], []
    for each in stores:
        op, term = terms[each.value]
        first.append(replace(each, value=const(identity(op, term.dtype), term.dtype)))
        further.append(replace(each, value=term, op=op))
    # a repeated vector would be added twice
    rows = replace(loop, body=tuple(further), repeatable=False)
    for bounds in reversed(loops):
        rows = For(*bounds, (rows,))
    return replace(loop, body=tuple(first)), rows


def _terms(sums: Reduce, loops: Loops) -> Iterator[tuple[Scalar, Term]]:
    """The results of sums, their operations, and their terms with the indices of given loops."""
    own = {mine: index for (mine, *_), (index, *_) in zip(sums.loops, loops, strict=True)}
    values = Simplifier().substitute(sums.values, own)
    return zip(sums.targets, zip(sums.ops, values, strict=True), strict=True)


def _is_far(loop: For, loops: Loops, nodes: Iterable[Scalar], target: Target) -> bool:
    """Whether an array that comes from memory is read along a loop, and across its sums."""
    along, across = Coefficients(loop.index), Coefficients(loops[-1][0])
    return any(
        along.of_element(x.attribute, x.args) == 1
        and across.of_element(x.attribute, x.args) not in (0, 1)
        and x.attribute.nbytes >= target[Reductions].from_memory
        for x in nodes
        if x.op == "load"
    )

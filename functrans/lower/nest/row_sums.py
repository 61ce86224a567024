"""Loop interchange for sums along columns: rows are read in order, and the sums are in memory.

A vector loop over columns, with the loop over rows inside, reads a piece of one row after the
other. If the array comes from memory, each piece is waited for, since hardware prefetches only what
is read in order. So whole rows are added to the sums. Several long rows are combined first
(unroll-and-jam): the sums of several results do not fit into the nearest cache, and would be read
and written for each row. Short rows share pages of memory, in which hardware expects one sequence
of reads. Expects a vector loop of sums; leaves a loop that stores zeros, and loops over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.nodes import ZERO, as_index, combine_pairwise, identity, index
from functrans.loop.reductions import Reductions, unblocked
from functrans.loop.scalar import Scalar, const, idiv, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Reduce, Statement, Store
from functrans.loop.target import Target
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.vectors import widths
from functrans.lower.select.root import Elements

Loops = Sequence[tuple[Scalar, Scalar, Scalar]]
"""Indices with their ranges, outermost first."""

Term = tuple[str, Scalar]
"""What a sum combines, and by which operation."""


def takes_rows(loop: Loop, target: Target) -> bool:
    """Whether a loop over columns only computes sums of rows that come from memory."""
    assert loop.index is not None
    roots = [child for child in loop.children if isinstance(child, Elements)]
    values = [value for root in roots for _, value in root.elements]
    if len(roots) < len(loop.children) or any(value.op != "fold" for value in values):
        return False
    terms = [x.args[0] for x in values]
    return any(_rows_at_once(loop.index, x.attribute[1][-1], terms, target) for x in values)


def row_by_row(loop: For, target: Target) -> tuple[Statement, ...]:
    """A vector loop of sums over the rows of an array that comes from memory, row by row."""
    sums = [unblocked(each) for each in loop.body if isinstance(each, Reduce)]
    stores = [each for each in loop.body if isinstance(each, Store)]
    is_plain = len(sums) + len(stores) == len(loop.body) and not any(each.body for each in sums)
    ranges = {tuple((start, stop) for _, start, stop in each.loops) for each in sums}
    if not is_plain or len(ranges) != 1 or not loop.stop.attribute > loop.lanes > 1:
        return (loop,)
    *outer, (row, start, stop) = sums[0].loops
    terms = {total: term for each in sums for total, term in _terms(each, sums[0].loops)}
    values = [term for _, term in terms.values()]
    count = _rows_at_once(loop.index, row, values, target)
    is_plain = all(each.value in terms and each.op is None for each in stores)
    if not count or not is_plain or not terms.keys().isdisjoint(postorder(values)):
        return (loop,)
    lanes = min(loop.lanes, 2 * target.lanes(max(widths(values))))
    # a repeated vector would be added twice
    columns = replace(loop, lanes=lanes, repeatable=False, whole=loop.stop.attribute % lanes == 0)
    empty, added = [], []
    for each in stores:
        op, term = terms[each.value]
        empty.append(replace(each, value=const(identity(op, term.dtype), term.dtype)))
        added.append(replace(each, value=term, op=op))
    rows = For(row, start, stop, (replace(columns, body=tuple(added)),))
    body = _jammed(rows, count) if count > 1 else (rows,)
    for bounds in reversed(outer):
        body = (For(*bounds, body),)
    return replace(columns, body=tuple(empty)), *body


def _jammed(rows: For, count: int) -> tuple[For, ...]:
    """Unroll-and-jam: add the sums of several rows, and then the remaining rows one by one."""
    (columns,) = rows.body
    assert isinstance(columns, For)
    simplify = Simplifier()
    rounds = simplify(idiv(rows.stop - rows.start, as_index(count)))
    turn = index("turn", rows.index.attribute[2] // count)
    places = [{rows.index: simplify(rows.start + turn * count + i)} for i in range(count)]
    added = []
    for each in columns.body:
        assert isinstance(each, Store) and each.op is not None
        terms = [simplify.substitute([each.value], place)[0] for place in places]
        added.append(replace(each, value=combine_pairwise(each.op, terms)))
    rest = replace(rows, start=simplify(rows.start + rounds * count))
    return For(turn, ZERO, rounds, (replace(columns, body=tuple(added)),)), rest


def _terms(sums: Reduce, loops: Loops) -> Iterator[tuple[Scalar, Term]]:
    """The results of sums, their operations, and their terms with the indices of given loops."""
    own = {mine: index for (mine, *_), (index, *_) in zip(sums.loops, loops, strict=True)}
    values = Simplifier().substitute(sums.values, own)
    return zip(sums.targets, zip(sums.ops, values, strict=True), strict=True)


def _rows_at_once(along: Scalar, across: Scalar, values: Sequence[Scalar], target: Target) -> int:
    """The number of rows to add at once, of arrays that are read along columns and across rows."""
    columns, rows = Coefficients(along), Coefficients(across)
    nodes = postorder(values)
    operations = node_count(x for x in nodes if x.args)
    found = [
        target[Reductions].rows_at_once(
            across.attribute[2] or 0,
            along.attribute[2] * x.dtype.itemsize,
            x.attribute.nbytes,
            operations,
            target.cache_line,
        )
        for x in nodes
        if x.op == "load"
        and columns.of_element(x.attribute, x.args) == 1
        and rows.of_element(x.attribute, x.args) not in (0, 1)
    ]
    return max(found, default=0)

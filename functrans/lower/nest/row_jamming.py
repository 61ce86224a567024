"""Unroll and jam of reductions along rows: several rows are combined at once.

If all rows are multiplied by the same vector, its elements are loaded once for several rows. And
rows that come from memory are several sequences of reads, all of which hardware prefetches.
Expects a loop with one vector reduction along each row. Leaves a loop over groups of rows; the last
rows, fewer than a group, are combined one by one, with the same accumulators and so the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.reductions import Reductions, blocked, unblocked
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, If, Let, Reduce, Store
from functrans.loop.target import Target
from functrans.loop.walk import expressions, loaded, stored
from functrans.lower.nest.unroll_and_jam import Jam
from functrans.lower.nest.vectors import widths


def several_rows(loop: For, target: Target) -> For:
    """A loop over rows, each of which is reduced, several at once if that takes less time."""
    row, *others = loop.body
    rows = loop.stop.attribute if loop.start == ZERO and loop.stop.op == "const" else 0
    if loop.lanes > 1 or not isinstance(row, Reduce):
        return loop
    terms = _innermost(row)
    # what is stored and read again may be private to an iteration
    is_plain = all(isinstance(each, (Let, Store)) for each in others)
    is_plain = is_plain and stored(loop.body).isdisjoint(loaded(loop.body))
    if not is_plain or terms is None or not _is_worthwhile(terms, loop.index, target):
        return loop
    # the code of what follows is repeated for each row
    after = postorder([x for each in others for x in expressions(each)])
    if node_count(x for x in after if x.args) > _extent(terms):
        return loop
    whole = unblocked(_with_lanes(row, 1))
    count, lanes = _rows_and_lanes(row, terms, target)
    if whole.body or count == 1 or rows < 2 * count:
        return loop
    _, _, stop = whole.loops[0]
    is_filled = stop.op == "const" and stop.attribute % lanes == 0
    whole = replace(whole, lanes=lanes, repeatable=terms.repeatable, whole=is_filled)
    row = blocked(whole, target[Reductions])
    simplify, groups = Simplifier(), rows // count
    group = index(loop.index.attribute[0], -(-rows // count))
    places = [{loop.index: simplify(group * count + number)} for number in range(count)]
    body = Jam(places, simplify).statements((row, *others))
    if rows % count:
        rest = For(loop.index, const(groups * count, INDEX), loop.stop, (row, *others))
        body = (If(group < groups, body, (rest,)),)
    return replace(loop, index=group, stop=const(group.attribute[2], INDEX), body=body)


def _innermost(row: Reduce) -> Reduce | None:
    """The vector loop of a reduction, which may be in blocks; None if it is something else."""
    while len(row.targets) == len(row.loops) == 1:
        match row.body:
            case () if row.lanes > 1:
                return row
            case (Reduce() as inner,) if row.lanes == 1 and row.values == inner.targets:
                row = inner
            case _:
                return None
    return None


def _rows_and_lanes(row: Reduce, terms: Reduce, target: Target) -> tuple[int, int]:
    """The rows to reduce at once, and the lanes of each, whose sums fill half of the registers."""
    limits, register = target[Reductions], target.lanes(max(widths(terms.values)))
    count, room = limits.rows_jammed, target.registers // 2
    lanes = min(terms.lanes, register * max(room // count, 1))
    if row is terms and _extent(terms) > limits.most_steps * lanes:
        # rather fewer rows than several blocks of each
        return max(room * register // terms.lanes, 1), terms.lanes
    return count, lanes


def _extent(row: Reduce) -> int:
    return row.loops[0][0].attribute[2] or 0


def _with_lanes(row: Reduce, lanes: int) -> Reduce:
    """A reduction with another number of lanes of its vector loop."""
    if row.lanes > 1:
        return replace(row, lanes=lanes)
    body = tuple(_with_lanes(each, lanes) for each in row.body if isinstance(each, Reduce))
    return replace(row, body=body)


def _is_worthwhile(row: Reduce, rows: Scalar, target: Target) -> bool:
    """Whether rows come from memory, or are multiplied by the same vector."""
    limits, (along, *_) = target[Reductions], row.loops[0]
    nodes = postorder(row.values)
    if node_count(x for x in nodes if x.args) > limits.plain_body:
        return False
    columns = Coefficients(along)
    strides = {x: columns.of_element(x.attribute, x.args) for x in nodes if x.op == "load"}
    loads = [x for x, stride in strides.items() if stride != 0]
    varying = [x for x in loads if rows in postorder(x.args)]
    if not varying or any(strides[x] != 1 for x in loads):
        return False
    length = _extent(row)
    if any(x.attribute.nbytes >= limits.from_memory for x in varying):
        nbytes = length * max(x.dtype.itemsize for x in varying)
        return nbytes >= limits.fewest_lines_far * target.cache_line
    (value,) = row.values
    is_product = value.op == "mul" and all(x in loads for x in value.args)
    return is_product and len(varying) < len(loads) and length >= limits.shortest_jammed

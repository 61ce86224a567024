"""Fusion of products over blocks of rows: intermediate values stay in the cache.

In attention, scores are a product, their softmax is computed by rows, and the weights are a factor
of another product. If everything is computed for a block of rows before the next block, neither
scores nor weights are ever in memory as a whole, which would be quadratic in the number of rows.
(This strip-mines and interchanges the loops over rows; for attention see T. Dao et al.,
"FlashAttention", 2022. Here rows are complete: no sum is corrected afterwards.) Sums over rows,
such as gradients with respect to keys and values, are accumulated from block to block.

Threads share the matrices of a stack. Of few matrices, they share the rows of each: blocks are
assigned to shares cyclically, since under a mask rows have different lengths. Each share has its
own sums, which are added afterwards, in the order of the shares. The number of shares does not
depend on the number of threads.

Expects nests in order. Leaves some of them as one, whose outermost loop goes over a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import add
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.operations import operations_of
from functrans.loop.relocation import Position, Relocation
from functrans.loop.scalar import Scalar, const, idiv, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, buffer, load
from functrans.loop.target import Target
from functrans.loop.walk import Body, stored
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import Values, delinearised, quotient_and_rest
from functrans.lower.product.block import Block
from functrans.lower.product.blocking import blocks_by_rows
from functrans.lower.product.epilogue import Epilogue, epilogue_of, without
from functrans.lower.product.kernel import Product
from functrans.lower.product.narrowing import Narrowed, narrowed
from functrans.lower.product.packing import Terms
from functrans.lower.product.panels import packing
from functrans.lower.product.stream import Cut, Stream, Streaming, cut_of, spared
from functrans.lower.select.root import Contraction, Elements, Readers, extent_of


class _Member(NamedTuple):
    """A nest of a stream: its product, if it starts with one, and the statements for each row."""

    product: Product | None
    epilogue: Epilogue | None
    is_sum: bool


def stream_nests(
    stream: Stream, readers: Readers, bodies: NestBuilder, target: Target, simplify: Simplifier
) -> list[Nest] | None:
    """The nests of a stream: packing, and one for everything else; None if that is impossible."""
    widest = max(2 * target.lanes(root.target.dtype.itemsize) for root in stream.made.values())
    tile = max(target[Streaming].tile, widest)
    mask = narrowed(stream, readers, tile, target, simplify)
    if mask is not None:
        own = NestBuilder(mask.readers, target, simplify)
        found = _nests(mask.stream, mask, mask.readers, own, target, simplify)
        if found is not None:
            return found
    limits = target[Streaming]
    shares = cut_of(stream, readers, target).shares
    if shares > 1 and spared(stream, readers) < limits.least_shared_bytes:
        return None
    return _nests(stream, None, readers, bodies, target, simplify)


def _nests(
    stream: Stream,
    mask: Narrowed | None,
    readers: Readers,
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> list[Nest] | None:
    passing = stream.passing(readers)
    cut = cut_of(stream, readers, target)
    count = prod(map(extent_of, stream.batch)) * cut.shares
    parts = min(count, target[Streaming].most_parts)
    members = []
    for loop in stream.members:
        first = next(iter(loop.roots)).target
        is_stored = first not in passing and (cut.shares == 1 or first not in stream.sums)
        member = _member(stream, mask, loop, cut.rows, parts, is_stored, bodies, target, simplify)
        if member is None or not (mask is None or _is_narrow(member, mask)):
            return None
        members.append(member)
    part, number, share = index("part", parts), index("matrix", count), index("share", cut.shares)
    batch = delinearised((*stream.batch, share), number, simplify)
    here = _Here(part, batch.pop(share), batch, cut)
    body = _in_blocks(stream, mask, members, passing, here, simplify)
    start, stop = block_range(part, -(-count // parts), const(count, INDEX))
    products = [(each.product, each.is_sum) for each in members if each.product is not None]
    scratch = [row for each in members if each.epilogue for row in each.epilogue.nest.scratch]
    shared = [each.sums for each, is_sum in products if is_sum and cut.shares > 1]
    own = stored(body) - {*(root.target for root in stream.roots), *scratch, *shared}
    room = target.largest_stack - sum(one.nbytes for one in scratch)
    body, stack = _on_stack(body, own, room, simplify)
    matrices = For(number, start, stop, body)
    nest = Nest(
        (For(part, ZERO, const(parts, INDEX), (matrices,), parallel=True),),
        (*scratch, *stack),
        sum(root.work for loop in stream.members for root in loop.roots),
        operations=sum(operations_of(each.epilogue.nest.body) for each in members if each.epilogue),
    )
    if sum(one.nbytes for one in nest.scratch) > target.largest_stack:
        return None
    packings = [each for product, is_sum in products if not is_sum for each in packing(product)]
    added = [_added(each, cut.shares, simplify) for each, is_sum in products if is_sum]
    before = [] if mask is None else mask.before()
    return [*before, *packings, nest, *(added if cut.shares > 1 else ())]


def _added(product: Product, shares: int, simplify: Simplifier) -> Nest:
    """The nest that adds the sums of all shares."""
    size, loops = product.size, product.root.sides[0]
    number = index("row", size.batch * size.rows)
    matrix, row = quotient_and_rest(number, size.rows, simplify)
    batch = delinearised(loops, matrix, simplify) if loops else {}

    def total(row: Scalar, column: Scalar) -> Scalar:
        of_shares = [(matrix * shares + share, row, column) for share in range(shares)]
        return reduce(add, (load(product.sums, tuple(map(simplify, each))) for each in of_shares))

    block = Block(batch, (row, simplify(row + 1)), (ZERO, const(size.columns, INDEX)))
    body = product.over_elements(block, total, half=product.root.symmetric)
    rows = For(number, ZERO, const(number.attribute[2], INDEX), body, parallel=True)
    return Nest((rows,), (), shares * product.root.target.count)


def _on_stack(
    body: Body,
    own: Iterable[Buffer],  # with an element for each part along their first axis
    room: int,  # in bytes
    simplify: Simplifier,
) -> tuple[Body, list[Buffer]]:
    """The statements with as many buffers of a part as possible on the stack, and these.

    A thread then uses the same memory for all of its parts, which stays in its cache.
    """
    relocation = Relocation(simplify)
    stack: list[Buffer] = []

    def placed(one: Buffer) -> Callable[[Position], tuple[Buffer, Position]]:
        return lambda position: (one, position[1:])

    for each in sorted(own, key=lambda one: (one.nbytes, one.name)):
        one = buffer(each.name, each.dtype, each.extents[1:])
        room -= one.nbytes
        if room >= 0:
            stack.append(one)
            relocation.placed[each] = placed(one)
    return relocation.statements(body), stack


class _Here(NamedTuple):
    """The context of a stream's statements: the part, the share of rows, and the matrix."""

    part: Scalar
    share: Scalar
    batch: Values
    cut: Cut


def _member(
    stream: Stream,
    mask: Narrowed | None,
    loop: Loop,
    rows: int,
    parts: int,
    is_stored: bool,  # whether the product is stored in memory as a whole
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> _Member | None:
    first = next(iter(loop.roots))
    is_sum = first.target in stream.sums
    product = None
    if isinstance(first, Contraction):
        blocks = blocks_by_rows(first, target, rows, is_sum, mask is not None)
        product = Product(first, blocks, target, simplify, parts, is_sum, is_alone=is_stored)
        loop = without(loop, first)
    if not loop.roots:
        return _Member(product, None, is_sum)
    epilogue = epilogue_of(stream.batch, (stream.row,), bodies.build(loop))
    return None if epilogue is None else _Member(product, epilogue, is_sum)


def _is_narrow(member: _Member, mask: Narrowed) -> bool:
    """Whether the loops over columns can be narrowed: tiles consist of whole tiles of products."""
    if member.product is not None:
        blocks = member.product.blocks
        return mask.tile % (blocks.height if member.is_sum else blocks.width) == 0
    return True


def _in_blocks(
    stream: Stream,
    mask: Narrowed | None,
    members: Sequence[_Member],
    passing: Mapping[Buffer, Elements],
    here: _Here,
    simplify: Simplifier,
) -> Body:
    """The statements for a share of a matrix: a loop over its blocks of rows, and its sums."""
    extent, (rows, shares) = extent_of(stream.row), here.cut
    blocks = -(-extent // rows)
    turn = index("turn", -(-blocks // shares))
    turns = simplify(idiv(blocks + (shares - 1) - here.share, shares))
    start = simplify((turn * shares + here.share) * rows)
    stop = simplify(minimum(start + rows, extent))
    relocation = Relocation(simplify)
    body: list[Body] = []
    before: list[Body] = []
    after: list[Body] = []
    for one, root in passing.items():
        if not isinstance(root, Contraction):
            relocation.placed[one] = _place(stream, root, here, start)
    for member in members:
        product = member.product
        if product is not None:
            columns, among = (ZERO, const(product.size.columns, INDEX)), None
            if mask is not None and product.root in mask.columns:
                if mask.columns[product.root] == {*product.root.sides[2]}:
                    columns = mask.bounds
                else:
                    among = mask.bounds
            own = Block(here.batch, (start, stop), columns, (here.part,))
            if member.is_sum:
                own = own._replace(rows=(ZERO, const(product.size.rows, INDEX)))
                terms = Terms(start, simplify(stop - start), rows)
                before.append(product.zeros(own))
                body.append(product.accumulated(own, terms, relocation, among))
                if shares == 1:
                    after.append(product.stored(own))
            else:
                body.append(product.computed(own, relocation, among))
                if product.root.target not in passing:
                    body.append(product.stored(own))
                if not product.is_direct:
                    relocation.placed[product.root.target] = product.place(own)
        if member.epilogue is not None:
            own = Block(here.batch, (start, stop), (ZERO, ZERO), (here.part,))
            by_rows = member.epilogue.of_block(own, relocation, simplify)
            body.append(by_rows if mask is None else mask.loops(by_rows))
    if mask is not None:
        body.insert(0, mask.found((start, stop), here.batch))
        body.append(mask.tested((start, stop), relocation))
    inside = tuple(each for part in body for each in part)
    parts = (*before, (For(turn, ZERO, turns, inside),), *after)
    done = tuple(each for part in parts for each in part)
    return done if mask is None else mask.around(done, here.batch)


def _place(
    stream: Stream, root: Elements, here: _Here, start: Scalar
) -> Callable[[Position], tuple[Buffer, Position]]:
    """The memory of a block's rows of values that pass from nest to nest."""
    around = root.axes[: len(stream.around)]
    others = [axis for axis in range(len(root.target.shape)) if axis not in around]
    shape = [root.target.extents[axis] for axis in others]
    parts: int = here.part.attribute[2]
    kept = buffer(f"{root.target.name}_rows", root.target.dtype, (parts, here.cut.rows, *shape))

    def place(position: Position) -> tuple[Buffer, Position]:
        inner = (position[axis] for axis in others)
        return kept, (here.part, position[around[-1]] - start, *inner)

    return place

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

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain
from math import prod
from operator import add

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.operations import operations_of
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const, idiv, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, buffer, load
from functrans.loop.substitution import Position
from functrans.loop.target import Target
from functrans.loop.walk import Body, stored
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import delinearised, quotient_and_rest
from functrans.lower.product.block import Block, Bounds
from functrans.lower.product.blocking import blocks_by_rows
from functrans.lower.product.epilogue import Epilogue, epilogue_of, without
from functrans.lower.product.kernel import Product
from functrans.lower.product.narrowing import Narrowed, narrowed
from functrans.lower.product.packing import Terms, last_part
from functrans.lower.product.panels import packing
from functrans.lower.product.stream import Stream, Streaming, cut_of, spared
from functrans.lower.select.root import Contraction, Elements, Readers, extent_of
from functrans.records import NamedTuple


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
        found = _Streamed(mask.stream, mask, mask.readers, target, simplify).nests(own)
        if found is not None:
            return found
    limits = target[Streaming]
    shares = cut_of(stream, readers, target).shares
    if shares > 1 and spared(stream, readers) < limits.least_shared_bytes:
        return None
    return _Streamed(stream, None, readers, target, simplify).nests(bodies)


class _Streamed:
    """The statements of a stream for a share of a matrix's rows."""

    def __init__(
        self,
        stream: Stream,
        mask: Narrowed | None,
        readers: Readers,
        target: Target,
        simplify: Simplifier,
    ) -> None:
        self.stream, self.mask, self.target, self.simplify = stream, mask, target, simplify
        self.passing = stream.passing(readers)
        self.rows, self.shares = cut_of(stream, readers, target)
        self.count = prod(map(extent_of, stream.batch)) * self.shares
        self.parts = min(self.count, target[Streaming].most_parts)
        self.part, share = index("part", self.parts), index("share", self.shares)
        self.number = index("matrix", self.count)
        self.batch = delinearised((*stream.batch, share), self.number, simplify)
        self.share = self.batch.pop(share)
        extent = extent_of(stream.row)
        blocks = -(-extent // self.rows)
        self.turn = index("turn", -(-blocks // self.shares))
        self.turns = simplify(idiv(blocks + (self.shares - 1) - self.share, self.shares))
        start = simplify((self.turn * self.shares + self.share) * self.rows)
        self.bounds = start, simplify(minimum(start + self.rows, extent))
        """The rows of a block."""

    def nests(self, bodies: NestBuilder) -> list[Nest] | None:
        """The nests of the stream; None if a member of it cannot be executed block by block."""
        mask, members = self.mask, list[_Member]()
        for loop in self.stream.members:
            member = self._member(loop, bodies)
            if member is None or not (mask is None or _is_narrow(member, mask)):
                return None
            members.append(member)
        body = self._in_blocks(members)
        start, stop = block_range(self.part, -(-self.count // self.parts), const(self.count, INDEX))
        products = [(each.product, each.is_sum) for each in members if each.product is not None]
        epilogues = [each.epilogue.nest for each in members if each.epilogue]
        scratch = [row for each in epilogues for row in each.scratch]
        shared = [each.sums for each, is_sum in products if is_sum and self.shares > 1]
        own = stored(body) - {*(root.target for root in self.stream.roots), *scratch, *shared}
        room = self.target.largest_stack - sum(one.nbytes for one in scratch)
        body, stack = _on_stack(body, own, room, self.simplify)
        matrices = For(self.number, start, stop, body)
        nest = Nest(
            (For(self.part, ZERO, const(self.parts, INDEX), (matrices,), parallel=True),),
            (*scratch, *stack),
            products=sum(product.root.work for product, _ in products),
            operations=sum(operations_of(each.body) for each in epilogues),
        )
        if sum(one.nbytes for one in nest.scratch) > self.target.largest_stack:
            return None
        packings = [each for product, is_sum in products if not is_sum for each in packing(product)]
        sums = [product for product, is_sum in products if is_sum and self.shares > 1]
        added = [_added(each, self.shares, self.simplify) for each in sums]
        return [*([] if mask is None else mask.before()), *packings, nest, *added]

    def _member(self, loop: Loop, bodies: NestBuilder) -> _Member | None:
        stream, (first, *_) = self.stream, loop.roots
        is_sum = first.target in stream.sums
        product = None
        if isinstance(first, Contraction):
            # whether the product is stored in memory as a whole
            alone = first.target not in self.passing and not (is_sum and self.shares > 1)
            blocks = blocks_by_rows(first, self.target, self.rows, is_sum, self.mask is not None)
            product = Product(
                first, blocks, self.target, self.simplify, self.parts, is_sum, is_alone=alone
            )
            loop = without(loop, first)
        if not loop.roots:
            return _Member(product, None, is_sum)
        epilogue = epilogue_of(stream.batch, (stream.row,), bodies.build(loop))
        return None if epilogue is None else _Member(product, epilogue, is_sum)

    def _in_blocks(self, members: Sequence[_Member]) -> Body:
        """A loop over the blocks of rows of a share, and its sums."""
        mask, relocation = self.mask, Relocation(self.simplify)
        body: list[Body] = []
        before: list[Body] = []
        after: list[Body] = []
        for one, root in self.passing.items():
            if not isinstance(root, Contraction):
                relocation.placed[one] = self._place(root)
        for member in members:
            if member.product is not None and member.is_sum:
                own, among = self._block(member.product)
                start, stop = self.bounds
                least = last_part(extent_of(self.stream.row), self.rows)
                terms = Terms(start, self.simplify(stop - start), self.rows, least)
                before.append(member.product.zeros(own))
                body.append(member.product.accumulated(own, terms, relocation, among))
                if self.shares == 1:
                    after.append(member.product.stored(own))
            elif member.product is not None:
                body.append(self._computed(member.product, relocation))
            if member.epilogue is not None:
                own = Block(self.batch, self.bounds, (ZERO, ZERO), (self.part,))
                by_rows = member.epilogue.of_block(own, relocation, self.simplify)
                body.append(by_rows if mask is None else mask.loops(by_rows))
        if mask is not None:
            body.insert(0, mask.found(self.bounds, self.batch))
            body.append(mask.tested(self.bounds, relocation))
        blocks = For(self.turn, ZERO, self.turns, tuple(chain(*body)))
        done = (*chain(*before), blocks, *chain(*after))
        return done if mask is None else mask.around(done, self.batch)

    def _computed(self, product: Product, relocation: Relocation) -> Body:
        """The statements of a product for a block of rows, which others read there."""
        own, among = self._block(product)
        body = product.computed(own, relocation, among)
        if product.root.target not in self.passing:
            body += product.stored(own)
        if not product.is_direct:
            relocation.placed[product.root.target] = product.place(own)
        return body

    def _block(self, product: Product) -> tuple[Block, Bounds | None]:
        """The block of a product, and the terms or rows of which it needs only some."""
        root, mask = product.root, self.mask
        columns, among = (ZERO, const(product.size.columns, INDEX)), None
        if mask is not None and root in mask.columns:
            if mask.columns[root] == {*root.sides[2]}:
                columns = mask.bounds
            else:
                among = mask.bounds
        is_sum = root.target in self.stream.sums
        rows = (ZERO, const(product.size.rows, INDEX)) if is_sum else self.bounds
        return Block(self.batch, rows, columns, (self.part,)), among

    def _place(self, root: Elements) -> Callable[[Position], tuple[Buffer, Position]]:
        """The memory of a block's rows of values that pass from nest to nest."""
        one = root.target
        around = root.axes[: len(self.stream.around)]
        others = [axis for axis in range(len(one.shape)) if axis not in around]
        shape = [one.extents[axis] for axis in others]
        kept = buffer(f"{one.name}_rows", one.dtype, (self.parts, self.rows, *shape))

        def place(position: Position) -> tuple[Buffer, Position]:
            inner = (position[axis] for axis in others)
            return kept, (self.part, position[around[-1]] - self.bounds[0], *inner)

        return place


def _is_narrow(member: _Member, mask: Narrowed) -> bool:
    """Whether the loops over columns can be narrowed: tiles consist of whole tiles of products."""
    if member.product is not None:
        blocks = member.product.blocks
        return mask.tile % (blocks.height if member.is_sum else blocks.width) == 0
    return True


def _added(product: Product, shares: int, simplify: Simplifier) -> Nest:
    """The nest that adds the sums of all shares."""
    size, loops = product.size, product.root.sides[0]
    number = index("row", size.batch * size.rows)
    matrix, row = quotient_and_rest(number, size.rows, simplify)
    batch = delinearised(loops, matrix, simplify)

    def total(row: Scalar, column: Scalar) -> Scalar:
        of_shares = [(matrix * shares + share, row, column) for share in range(shares)]
        return reduce(add, (load(product.sums, tuple(map(simplify, each))) for each in of_shares))

    block = Block(batch, (row, simplify(row + 1)), (ZERO, const(size.columns, INDEX)))
    body = product.over_elements(block, total, half=product.root.symmetric)
    rows = For(number, ZERO, const(number.attribute[2], INDEX), body, parallel=True)
    return Nest((rows,), ())


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

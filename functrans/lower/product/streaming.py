"""Fusion of products over blocks of rows: what lies between them stays in the cache.

In attention, scores are a product, their softmax is made row by row, and the weights go into
another product. If all is done for a block of rows before the next one is begun, neither scores nor
weights are ever in memory as a whole, which is quadratic in the number of rows. (Strip-mining of
the loops over rows, and their interchange; for attention known by T. Dao et al., "FlashAttention",
2022. Rows are whole here: no sum is corrected afterwards.) Sums over rows, such as gradients by
keys and values, are added up from block to block.

Expects nests in order. Leaves some of them as one, whose outermost loop goes over a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.operations import operations_of
from functrans.loop.relocation import Position, Relocation
from functrans.loop.scalar import Scalar, const, minimum, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, buffer
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import Values, delinearised
from functrans.lower.product.block import Block
from functrans.lower.product.blocking import blocks_by_rows
from functrans.lower.product.epilogue import Epilogue, epilogue_of, without
from functrans.lower.product.kernel import Product
from functrans.lower.product.packing import Terms
from functrans.lower.product.panels import packing
from functrans.lower.select.root import Contraction, Elements, Root, extent_of

Readers = Mapping[Buffer, Sequence[Root]]


class Streaming(NamedTuple):
    """Products that are fused over blocks of rows. Not measured on their own."""

    fewest_matrices: int = 4
    """Matrices of a stack, of which threads have some each: blocks of one come after each other."""
    least_bytes: int = 1 << 20
    """Bytes that need not be in memory: fewer are in the cache anyway."""
    block_bytes: int = 1 << 19
    """Bytes of all that a block of rows consists of, about."""
    most_rows: int = 48
    """Rows of a block at most; their number is a multiple of `multiple`."""
    multiple: int = 8
    most_parts: int = 16
    """Threads at most that have blocks of their own."""


@dataclass
class Stream:
    """Nests that go over the same rows, and what they make there.

    Parameters
    ----------
    batch : tuple of Scalar
        The loops over a stack.
    row : Scalar
        The loop over rows.
    members : list of Loop
    made : dict
        What each buffer is made by, that has these loops.
    sums : dict
        Products that are sums over all rows, by their buffers.
    """

    batch: tuple[Scalar, ...]
    row: Scalar
    members: list[Loop] = field(default_factory=list)
    made: dict[Buffer, Elements] = field(default_factory=dict)
    sums: dict[Buffer, Contraction] = field(default_factory=dict)

    @property
    def around(self) -> tuple[Scalar, ...]:
        """The loops that all members have."""
        return (*self.batch, self.row)

    def takes(self, loop: Loop) -> bool:
        """Whether a nest can be done block by block; it is a member then."""
        roots = [root for root in loop.roots if isinstance(root, Elements)]
        if len(roots) != len(loop.roots) or not self.sums.keys().isdisjoint(loop.sources):
            return False
        if len(roots) == 1 and self._is_sum(roots[0]):
            assert isinstance(roots[0], Contraction)
            self.sums[roots[0].target] = roots[0]
        elif all(self._is_of_rows(root) for root in roots):
            self.made.update((root.target, root) for root in roots)
        else:
            return False
        self.members.append(loop)
        return True

    def _is_of_rows(self, root: Elements) -> bool:
        """Whether a root makes a row of what is read of these rows."""
        if root.loops[: len(self.around)] != self.around or root.part:
            return False
        if not isinstance(root, Contraction):
            return self._is_read_at(root, self.around)
        _, right = root.factors
        rows = root.sides[1] == (self.row,)
        return rows and not self._reads(right) and self._is_read_at(root, self.around)

    def _is_sum(self, root: Elements) -> bool:
        """Whether a product is a sum over all rows of what has been made of them."""
        if not isinstance(root, Contraction) or root.sides[0] != self.batch:
            return False
        counter = root.counter
        assert counter is not None
        whole = extent_of(counter) == extent_of(self.row)
        reads = any(self._reads(factor) for factor in root.factors)
        return whole and reads and self._is_read_at(root, (*self.batch, counter))

    def _reads(self, factor: Scalar) -> bool:
        return any(
            node.op == "load" and node.attribute in self.made for node in postorder([factor])
        )

    def _is_read_at(self, root: Elements, loops: Sequence[Scalar]) -> bool:
        """Whether a root reads what has been made at these indices alone."""
        own = {root.target: root} if root.loops[: len(self.around)] == self.around else {}
        for source, loads in root.loads.items():
            maker = (self.made | own).get(source)
            if maker is None:
                continue
            axes = maker.axes[: len(loops)]
            if any(
                x.args[axis] is not loop
                for x in loads
                for axis, loop in zip(axes, loops, strict=True)
            ):
                return False
        return True

    def passing(self, readers: Readers) -> dict[Buffer, Elements]:
        """What is made here and read nowhere else."""
        inside = {root for loop in self.members for root in loop.roots}
        return {
            one: root
            for one, root in self.made.items()
            if not root.output and all(each in inside for each in readers.get(one, ()))
        }


def streams(loops: Sequence[Loop], readers: Readers, target: Target) -> Iterator[Stream | Loop]:
    """Nests in an order in which they can be done; of some, streams."""
    rest = list(loops)
    while rest:
        stream, taken, moved = _begun(rest, target)
        if stream is None or not _is_worth_it(stream, readers, target):
            yield rest.pop(0)
            continue
        # what does not depend on the stream comes before it
        yield from moved
        yield stream
        rest = rest[taken:]


def _begun(loops: Sequence[Loop], target: Target) -> tuple[Stream | None, int, list[Loop]]:
    """The longest stream that begins with a nest; how far it goes, and what is in between."""
    first = next(iter(loops[0].roots))
    if not isinstance(first, Contraction) or len(first.sides[1]) != 1 or not first.sides[0]:
        return None, 0, []
    stream = Stream(first.sides[0], first.sides[1][0])
    if not stream.takes(loops[0]):
        return None, 0, []
    taken, moved, between = 1, [], []
    for number, loop in enumerate(loops[1:], 1):
        made = stream.made.keys() | stream.sums.keys()
        if made.isdisjoint(loop.sources):
            between.append(loop)
        elif stream.takes(loop):
            taken, moved = number + 1, [*between]
        else:
            break
    return stream, taken, moved


def _is_worth_it(stream: Stream, readers: Readers, target: Target) -> bool:
    limits = target[Streaming]
    if prod(map(extent_of, stream.batch)) < limits.fewest_matrices:
        return False
    products = [loop for loop in stream.members if isinstance(next(iter(loop.roots)), Contraction)]
    if len(products) < 2:
        return False
    return sum(one.nbytes for one in stream.passing(readers)) >= limits.least_bytes


class _Member(NamedTuple):
    """A nest of a stream: its product, if it begins with one, and what is done for each row."""

    product: Product | None
    epilogue: Epilogue | None
    is_sum: bool


def stream_nests(
    stream: Stream,
    readers: Readers,
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> list[Nest] | None:
    """The nests of a stream: packing, and one for all the rest; None if there is no such one."""
    passing = stream.passing(readers)
    rows = _rows(stream, passing, target)
    count = prod(map(extent_of, stream.batch))
    parts = min(count, target[Streaming].most_parts)
    members = []
    for loop in stream.members:
        member = _member(stream, loop, rows, parts, bodies, target, simplify)
        if member is None:
            return None
        members.append(member)
    part, number = index("part", parts), index("matrix", count)
    here = _Here(part, number, delinearised(stream.batch, number, simplify), rows)
    body = _in_blocks(stream, members, passing, here, simplify)
    start, stop = block_range(part, -(-count // parts), const(count, INDEX))
    matrices = For(number, start, stop, body)
    nest = Nest(
        (For(part, ZERO, const(parts, INDEX), (matrices,), parallel=True),),
        tuple(row for each in members if each.epilogue for row in each.epilogue.nest.scratch),
        sum(root.work for loop in stream.members for root in loop.roots),
        operations=sum(operations_of(each.epilogue.nest.body) for each in members if each.epilogue),
    )
    if sum(one.nbytes for one in nest.scratch) > target.largest_stack:
        return None
    packings: list[Nest] = []
    for each in members:
        if each.product is not None and not each.is_sum:
            packings += packing(each.product)
    return [*packings, nest]


class _Here(NamedTuple):
    """Where statements of a stream are: in which part, at which matrix, in blocks of some rows."""

    part: Scalar
    number: Scalar
    batch: Values
    rows: int


def _rows(stream: Stream, passing: Mapping[Buffer, Elements], target: Target) -> int:
    """The rows of a block: as many as the cache holds with all that is made of them."""
    limits = target[Streaming]
    around = prod(map(extent_of, stream.around))
    wide = max(sum(one.nbytes for one in passing) // around, 1)
    rows = min(limits.block_bytes // wide, limits.most_rows, extent_of(stream.row))
    return max(rows // limits.multiple, 1) * limits.multiple


def _member(
    stream: Stream,
    loop: Loop,
    rows: int,
    parts: int,
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> _Member | None:
    first = next(iter(loop.roots))
    is_sum = first.target in stream.sums
    product = None
    if isinstance(first, Contraction):
        blocks = blocks_by_rows(first, target, rows, is_sum)
        product = Product(first, blocks, target, simplify, parts)
        loop = without(loop, first)
    if not loop.roots:
        return _Member(product, None, is_sum)
    epilogue = epilogue_of(stream.batch, (stream.row,), bodies.build(loop))
    return None if epilogue is None else _Member(product, epilogue, is_sum)


def _in_blocks(
    stream: Stream,
    members: Sequence[_Member],
    passing: Mapping[Buffer, Elements],
    here: _Here,
    simplify: Simplifier,
) -> Body:
    """What is done for one matrix of the stack: a loop over blocks of rows, sums around it."""
    extent = extent_of(stream.row)
    block = index("block", -(-extent // here.rows))
    start = simplify(block * here.rows)
    stop = simplify(minimum(start + here.rows, extent))
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
            columns = ZERO, const(product.size.columns, INDEX)
            own = Block(here.batch, (start, stop), columns, (here.part,))
            if member.is_sum:
                own = own._replace(rows=(ZERO, const(product.size.rows, INDEX)))
                terms = Terms(start, simplify(stop - start), here.rows)
                before.append(product.zeros(own))
                body.append(product.accumulated(own, terms, relocation))
                after.append(product.stored(own))
            else:
                body.append(product.computed(own, relocation))
                if product.root.target not in passing:
                    body.append(product.stored(own))
                relocation.placed[product.root.target] = product.place(own)
        if member.epilogue is not None:
            own = Block(here.batch, (start, stop), (ZERO, ZERO), (here.part,))
            body.append(member.epilogue.of_block(own, relocation, simplify))
    inside = tuple(each for part in body for each in part)
    loop = For(block, ZERO, const(block.attribute[2], INDEX), inside)
    parts = (*before, (loop,), *after)
    return tuple(each for part in parts for each in part)


def _place(
    stream: Stream, root: Elements, here: _Here, start: Scalar
) -> Callable[[Position], tuple[Buffer, Position]]:
    """Where the rows of a block are kept, of what passes from nest to nest."""
    around = root.axes[: len(stream.around)]
    others = [axis for axis in range(len(root.target.shape)) if axis not in around]
    shape = [root.target.extents[axis] for axis in others]
    parts: int = here.part.attribute[2]
    kept = buffer(f"{root.target.name}_rows", root.target.dtype, (parts, here.rows, *shape))

    def place(position: Position) -> tuple[Buffer, Position]:
        inner = (position[axis] for axis in others)
        return kept, (here.part, position[around[-1]] - start, *inner)

    return place

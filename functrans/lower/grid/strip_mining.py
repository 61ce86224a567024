"""Strip mining: a thread executes several adjacent iterations, with wide loads.

Expects a step. Leaves one whose loops over adjacent elements are in strips: each thread executes a
strip of 16 bytes of the widest array, statement by statement (`unroll_and_jam.py`), so that its
loads and stores are adjacent in the code, where the printer merges them. A thread with few loads
executes several strips, a block's width apart, so that enough loads are in flight. The remainder of
an array is processed element by element. Extents that must be multiples of strips are written as
products, from which the alignment follows.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from math import prod

from functrans.loop.affine import divisor
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, combine_pairwise, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const, maximum, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    If,
    Kernel,
    MatrixMultiply,
    Reduce,
    Statement,
    While,
    in_loops,
)
from functrans.loop.substitution import substituted
from functrans.loop.walk import Access, Body, accesses, buffers_of, walk, with_bodies
from functrans.lower.grid.contiguity import WIDEST, is_alike, is_apart, is_by_data, neighbours
from functrans.lower.grid.dealing import bounds, dealt, is_dealt, values_of, work_of
from functrans.lower.grid.sizes import Sizes, called, with_products
from functrans.lower.nest.unroll_and_jam import Jam, NotUniform
from functrans.lower.plan import Step

NONE: frozenset[Buffer] = frozenset()

_LITTLE = 32
"""The operations of an iteration that take less time than it waits for memory."""

_FEW = 4
"""The most rounds of a row that are unrolled, as the compiler does with the rounds of a loop."""


def strip_mined(step: Step, grid: Grid, largest: int) -> Step:
    """The step in strips, if it has loops over adjacent elements.

    ``largest`` is the largest number that is a constant in kernels.
    """
    sizes = Sizes(step.sizes, largest)
    products = [each for each in walk(step.kernel.body) if isinstance(each, MatrixMultiply)]
    if products:
        # its loads are adjacent already
        each = WIDEST // max(product.dtype.itemsize for product in products)
        kernel = with_products(step.kernel, sizes, each, least=each)
        return called(step, kernel, sizes.numbers)
    if step.kernel.private or not step.kernel.team:
        # a tile's threads have been assigned already; a library has threads of its own
        return step
    strips = _OfThreads if step.kernel.team == 1 else _OfTeams
    kernel = strips(step.kernel, sizes, grid).kernel()
    return step if kernel is step.kernel else called(step, kernel, sizes.numbers)


class _Strips:
    """Common base of strips of threads and strips of teams."""

    def __init__(self, kernel: Kernel, sizes: Sizes, grid: Grid) -> None:
        self.given = kernel
        self.sizes = sizes
        self.grid = grid
        self.simplify = Simplifier()

    def width(self, counter: Scalar, found: Sequence[Access], by_one: Set[Buffer] = NONE) -> int:
        """The number of iterations of a strip of a loop.

        All accesses must be contiguous except those whose position depends on data: adjacent
        threads should not access elements that are further apart than before. Elements of
        ``by_one``, in shared memory, are accessed one by one, and need not be aligned.
        """
        sides = {
            each: neighbours(each, counter, self.sizes.numbers, aligned=each.buffer not in by_one)
            for each in set(found)
        }
        in_memory = {each: n for each, n in sides.items() if each.buffer in self.given.buffers}
        if not any(n > 1 for n in in_memory.values()):
            return 1
        widest = max(each.buffer.dtype.itemsize for each, n in in_memory.items() if n > 1)
        for each, n in sides.items():
            alike = each.buffer in by_one and is_alike(each, counter, WIDEST // widest)
            if n <= 1 and is_apart(each, counter) and not alike:
                return 1
        stores = [each for each in sides if each.is_store and not is_by_data(each, counter)]
        return min([WIDEST // widest, *(sides[each] for each in stores)])

    def limited(self, width: int, work: int, largest: int) -> int:
        """A narrower strip, if there are many operations in each iteration."""
        while width > 1 and width * work > largest:
            width //= 2
        return width

    def lanes(self, first: Scalar, width: int) -> list[Scalar]:
        """The iterations of a strip."""
        return [self.simplify(first * width + number) for number in range(width)]


class _OfThreads(_Strips):
    """Strips of the innermost loop of a band whose iterations are executed by one thread each."""

    def kernel(self) -> Kernel:
        given = self.given
        if not given.band or given.band[-1].start is not ZERO:
            return given
        loop = given.band[-1]
        count = self.sizes.value(loop.stop)
        work = operations_of(loop.body, self.sizes.numbers)
        width = self.width(loop.index, list(accesses(loop.body)))
        width = self.limited(width, work, self.grid.largest_single_strip)
        while len(given.band) > 1 and count % width:
            width //= 2  # rows that are not aligned to 16 bytes
        total = prod(self.sizes.value(each.stop) for each in given.band)
        if width == 1 or total < self.grid.shortest_in_strips:
            return given
        try:
            made = self._of_loop(loop, count, width, work)
        except NotUniform:
            return given
        body = in_loops(given.band[:-1], (made,))
        return with_products(replace(given, body=body), self.sizes, width)

    def _of_loop(self, loop: For, count: int, width: int, work: int) -> For:
        strips = self._strips(loop, count, width, work)
        threads = self.grid.block
        if strips == 1:
            made = index(loop.index.attribute[0], -(-count // width))
            places = [made]
        else:
            block = index("b", -(-count // (width * strips * threads)))
            thread = index("t", threads)
            made = block
            places = [self._place(block, thread, strips, each) for each in range(strips)]
        last = self.lanes(places[-1], width)[-1]
        inside = self._jammed(loop.body, loop.index, places, width)
        if count % (width * (strips * threads if strips > 1 else 1)):
            rest = tuple(self._one_by_one(loop, place, width) for place in places)
            inside = (If(last < loop.stop, inside, rest),)
        if strips > 1:
            extent = const(threads, INDEX)
            inside = (For(thread, ZERO, extent, inside, parallel=True),)
        return For(made, ZERO, self.sizes.of(made.attribute[2]), inside, parallel=True)

    def _place(self, block: Scalar, thread: Scalar, strips: int, number: int) -> Scalar:
        """The strip that a thread executes: adjacent threads execute adjacent strips."""
        return self.simplify((block * strips + number) * self.grid.block + thread)

    def _strips(self, loop: For, count: int, width: int, work: int) -> int:
        """The number of strips of a thread, so that enough bytes of loads are in flight."""
        if len(self.given.band) > 1:
            return 1
        once = {each for each in accesses(loop.body) if not each.is_store}
        nbytes = sum(
            width * each.buffer.dtype.itemsize
            for each in once
            if neighbours(each, loop.index, self.sizes.numbers) >= width
        )
        strips = 1
        while (
            0 < 2 * strips * nbytes <= self.grid.in_flight
            and 2 * strips * width * work <= self.grid.largest_strip
            and count >= 2 * strips * width * self.grid.threads
        ):
            strips *= 2
        return strips

    def _jammed(self, body: Body, counter: Scalar, places: Sequence[Scalar], width: int) -> Body:
        lanes = [lane for place in places for lane in self.lanes(place, width)]
        return Jam([{counter: lane} for lane in lanes], self.simplify).statements(body)

    def _one_by_one(self, loop: For, place: Scalar, width: int) -> For:
        """The existing iterations of a strip, one after the other."""
        counter = index(loop.index.attribute[0], width)
        first = self.lanes(place, width)[0]
        body = substituted(loop.body, {loop.index: first + counter}, self.simplify)
        left = self.simplify(loop.stop - first)
        stop = maximum(ZERO, minimum(left, const(width, INDEX)))
        return For(counter, ZERO, stop, body)


def _is_known(stop: Scalar) -> bool:
    """Whether the stop of a loop is known at the call."""
    return stop.op in ("size", "const")


class _OfTeams(_Strips):
    """Strips of the loops and reductions that are dealt to the threads of teams."""

    def kernel(self) -> Kernel:
        given = self.given
        inside = given.band[-1].body if given.band else given.body
        loops = list(dealt(inside, given.team))
        self.widths: dict[Scalar, int] = {}
        for statement in loops:
            stop = bounds(statement)[2]
            width = min(self.widths.get(stop, WIDEST), self._width(statement))
            self.widths[stop] = width
        body = self._statements(inside)
        if all(new is old for new, old in zip(body, inside, strict=True)):
            return given
        made = replace(given, body=in_loops(given.band, body))
        return with_products(made, self.sizes, max(self.widths.values(), default=1))

    def _width(self, statement: For | Reduce) -> int:
        """The strips that a loop allows."""
        counter, start, stop = bounds(statement)
        if start is not ZERO or (isinstance(statement, For) and not _is_known(stop)):
            return 1
        found = list(accesses(statement.body, values_of(statement)))
        width = WIDEST
        if any(each.buffer in self.given.buffers for each in found):
            rows = set(self.given.scratch) if self._is_moving(statement) else NONE
            width = self.width(counter, found, rows)
        width = self.limited(width, work_of(statement, self.sizes.numbers), self.grid.largest_strip)
        count, least = self._count(counter, stop), divisor(stop, self.sizes.numbers)
        while width > 1 and (least % width or count // width < self.given.team):
            width //= 2
        try:
            self._in_strips(statement, min(width, 2))
        except NotUniform:
            return 1
        return width

    def _count(self, counter: Scalar, stop: Scalar) -> int:
        """The number of iterations, or an upper bound."""
        return self.sizes.value(stop) if _is_known(stop) else counter.attribute[2] or 0

    def _statements(self, body: Body) -> Body:
        return tuple(map(self._statement, body))

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, (For, Reduce)) and is_dealt(statement, self.given.team):
            return self._in_rounds(self._in_strips(statement, self.widths[bounds(statement)[2]]))
        return with_bodies(statement, self._statements)

    def _in_rounds(self, statement: For | Reduce) -> For | Reduce:
        """A row's few rounds, unrolled: for a row reduced with others, or in shared memory.

        The loads of several rows, or rounds, are then in flight at once. (The length of rows in
        shared memory is a constant of the kernel anyway.)
        """
        _, start, stop = bounds(statement)
        if statement.rounds or start is not ZERO or not _is_known(stop):
            return statement
        count, team = self.sizes.value(stop), self.given.team
        rounds = -(-count // team)
        if not 0 < rounds <= (_FEW if self._is_moving(statement) else 1):
            return statement
        if isinstance(statement, For) or len(statement.loops) == 1:
            rows = set(self.given.scratch) - set(self.given.dealt)
            if rows.isdisjoint(buffers_of((statement,))):
                return statement
        return replace(statement, rounds=rounds, whole=count % team == 0)

    def _is_moving(self, statement: For | Reduce) -> bool:
        """Whether threads mostly wait for memory."""
        loops = any(isinstance(each, (For, Reduce, While)) for each in walk(statement.body))
        in_memory = not set(self.given.buffers).isdisjoint(buffers_of((statement,)))
        return in_memory and not loops and work_of(statement, self.sizes.numbers) <= _LITTLE

    def _in_strips(self, statement: For | Reduce, width: int) -> For | Reduce:
        counter, start, stop = bounds(statement)
        if width == 1:
            return statement
        count = self._count(counter, stop) // width
        strip = index(counter.attribute[0], count)
        jam = Jam([{counter: lane} for lane in self.lanes(strip, width)], self.simplify)
        body = jam.statements(statement.body)
        if statement.rounds:
            rounds, whole = -(-count // statement.lanes), count % statement.lanes == 0
            statement = replace(statement, rounds=rounds, whole=whole)
        parts = Scalar("idiv", (stop, const(width, INDEX)), INDEX)
        end = self.sizes.of(count) if _is_known(stop) else self.simplify(parts)
        if isinstance(statement, For):
            return replace(statement, index=strip, stop=end, body=body)
        lanes = jam.values(statement.values)
        values = tuple(
            self.simplify(combine_pairwise(op, list(terms)))
            for op, terms in zip(statement.ops, zip(*lanes, strict=True), strict=True)
        )
        loops = (*statement.loops[:-1], (strip, start, end))
        return replace(statement, loops=loops, body=body, values=values)

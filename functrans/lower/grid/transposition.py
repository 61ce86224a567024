"""Transposition through shared memory: tiles of operands that are read across their memory order.

Expects a step. Leaves the kernel of a team, if adjacent threads would load elements that are far
apart, and another loop of the band is contiguous. The band then consists of tiles of the two loops:

    for each tile, by a team:
        each thread: load elements along the rows of memory, into tiles of shared memory
        each thread: execute iterations along the rows of stores, which read the tiles by columns

(After Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009.) Rows of a tile have
an odd length, so that the elements of a column are in different banks. If rows are aligned to 16
bytes, a thread accesses as much of each at once. Beyond the edges, the last element is loaded
again, so that no load waits for a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, guard, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const, minimum, postorder
from functrans.loop.simplify import TRUE, Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Kernel,
    Let,
    Statement,
    Store,
    buffer,
    in_loops,
    load,
    local,
    where_true,
)
from functrans.loop.walk import Access, Body, accesses, children, expressions, loaded, stored
from functrans.lower.grid.contiguity import WIDEST, neighbours, reads_back, stride
from functrans.lower.grid.dealing import deal, least_power_of_two
from functrans.lower.grid.launch import narrowed
from functrans.lower.grid.sizes import Sizes, called, with_products
from functrans.lower.nest.linearisation import quotient_and_rest
from functrans.lower.nest.unroll_and_jam import Jam, NotUniform
from functrans.lower.plan import Step
from functrans.records import NamedTuple


def transposed(step: Step, grid: Grid, largest: int) -> Step:
    """The step with tiles in shared memory, if it reads arrays across their memory order.

    ``largest`` is the largest number that is a constant in kernels.
    """
    kernel, sizes = step.kernel, Sizes(step.sizes, largest)
    if kernel.team != 1 or kernel.scratch:
        return step
    found = _across(kernel, sizes, grid)
    if found is None:
        return step
    tiling = _Tiling(kernel, found, sizes, grid)
    if tiling.threads < grid.warp or not tiling.tiles:
        return step
    return narrowed(called(step, replace(tiling.kernel(), narrow=False), sizes.numbers))


def reads_across(body: Body, grid: Grid) -> bool:
    """Whether tiles are profitable for statements, whose extents are all constants."""
    kernel = Kernel(tuple(loaded(body)), 0, body)
    return _across(kernel, Sizes((), 0), grid) is not None


class Across(NamedTuple):
    """A strided access: an operand that a kernel reads across its order in memory."""

    rows: For  # the loop of the band along which the operand is contiguous
    columns: For  # the loop along which stores are contiguous
    loads: Mapping[Scalar, Scalar]  # the loads, with the conditions under which they are executed


def _across(kernel: Kernel, sizes: Sizes, grid: Grid) -> Across | None:
    """The strided accesses for which tiles are profitable; None if there are none."""
    band = kernel.band
    extents = [sizes.value(loop.stop) for loop in band]
    if len(band) < 2 or prod(extents) < grid.smallest_tiled:
        return None
    if any(loop.start is not ZERO for loop in band):
        return None
    inside = band[-1].body
    columns = next((loop for loop in reversed(band) if _stores_go_along(loop, inside, sizes)), None)
    if columns is None:
        return None
    candidates = _candidates(kernel)
    best: Across | None = None
    for rows in reversed(band):
        if rows is columns or _is_cached(rows, columns, kernel, sizes, grid):
            continue
        loads = {
            each: condition
            for each, condition in candidates.items()
            if _pays(each, rows, columns, sizes, grid)
        }
        if loads and (best is None or len(loads) > len(best.loads)):
            best = Across(rows, columns, loads)
    return best


def _stores_go_along(loop: For, body: Body, sizes: Sizes) -> bool:
    """Whether adjacent iterations store adjacent elements."""
    stores = [each for each in accesses(body) if each.is_store]
    return all(0 < _fetched(each, loop, sizes, WIDEST + 1) <= WIDEST for each in stores)


def _fetched(access: Access, loop: For, sizes: Sizes, most: int) -> int:
    """The bytes from one iteration's element to the next one's, at most ``most``."""
    apart = stride(access, loop.index, sizes)
    return most if apart is None else min(abs(apart) * access.buffer.dtype.itemsize, most)


def _candidates(kernel: Kernel) -> dict[Scalar, Scalar]:
    """Loads that an iteration executes before it stores to their buffer, at the band's indices.

    No other iteration stores there: those of a band are independent.
    """
    inside = kernel.band[-1].body
    as_before = set(kernel.buffers)
    if reads_back(inside):
        as_before -= stored(inside)
    roots = [root for each in inside if not children(each) for root in expressions(each)]

    def is_known(*given: Scalar) -> bool:
        nodes = postorder(given)
        # (an index, or a condition, may be loaded, too)
        read = {x.attribute for x in nodes if x.op == "load"}
        return read <= as_before and all(
            x.args or x.op in ("const", "size", "index") for x in nodes
        )

    return {
        node: condition for node, condition in _loads(roots).items() if is_known(node, condition)
    }


def _loads(roots: Sequence[Scalar]) -> dict[Scalar, Scalar]:
    """The loads in expressions, and the conditions under which they are executed."""
    found: dict[Scalar, Scalar] = {}
    seen: set[tuple[Scalar, Scalar]] = set()
    stack = [(root, TRUE) for root in roots]
    while stack:
        node, condition = stack.pop()
        if (node, condition) in seen:
            continue
        seen.add((node, condition))
        if node.op == "load":
            known = found.get(node, condition)
            found[node] = known if known is condition else _either(known, condition)
        if node.op == "guard":
            test, value, otherwise = node.args
            stack += [(value, _both(condition, test)), (otherwise, _both(condition, ~test))]
        args = node.args[:1] if node.op in ("guard", "unlikely") else node.args
        stack += [(arg, condition) for arg in args]
    return found


def _both(x: Scalar, y: Scalar) -> Scalar:
    return y if x is TRUE else x & y


def _either(x: Scalar, y: Scalar) -> Scalar:
    return TRUE if x is TRUE or y is TRUE else x | y


def _is_cached(rows: For, columns: For, kernel: Kernel, sizes: Sizes, grid: Grid) -> bool:
    """Whether the rows that a block covers use all cache lines that it fetches."""
    band = kernel.band
    if columns is not band[-1] or rows is not band[-2]:
        return False
    return sizes.value(columns.stop) < grid.warp


def _pays(node: Scalar, rows: For, columns: For, sizes: Sizes, grid: Grid) -> bool:
    """Whether much less memory is fetched along one loop than along the other."""
    access = Access(node.attribute, node.args, False)
    along, across = (_fetched(access, loop, sizes, grid.sector) for loop in (rows, columns))
    return 0 < 2 * along <= across


class _Tiling:
    """Generates a kernel of tiles."""

    def __init__(self, kernel: Kernel, found: Across, sizes: Sizes, grid: Grid) -> None:
        self.given = kernel
        self.inside = kernel.band[-1].body
        self.rows, self.columns = found.rows, found.columns
        self.sizes = sizes
        self.grid = grid
        self.simplify = Simplifier()
        self.height, self.width = sizes.value(found.rows.stop), sizes.value(found.columns.stop)
        side = grid.tile_side
        if max(node.dtype.itemsize for node in found.loads) <= 2:
            side *= 2
        area = side * side
        self.tall = min(side, least_power_of_two(self.height))
        self.wide = min(area // self.tall, least_power_of_two(self.width))
        self.tall = min(area // self.wide, least_power_of_two(self.height))
        self.threads = min(grid.block, self.tall * self.wide)
        self.each = self.tall * self.wide // self.threads
        """The number of elements of a tile for each thread."""
        self.row_block = index("row_tile", -(-self.height // self.tall))
        self.column_block = index("column_tile", -(-self.width // self.wide))
        self.conditions = found.loads
        self.tiles: dict[Scalar, Buffer] = {}
        for node in found.loads:
            tile = buffer(f"{node.attribute.name}_tile", node.dtype, (self.wide, self.tall | 1))
            if sum(each.nbytes for each in (*self.tiles.values(), tile)) <= grid.rows:
                self.tiles[node] = tile

    def kernel(self) -> Kernel:
        strip = self._strip()
        body: Body = (self._loaded(), self._computed(strip))
        for counter in (self.column_block, self.row_block):
            stop = self.sizes.of(counter.attribute[2])
            body = (For(counter, ZERO, stop, body, parallel=True),)
        others = [x for x in self.given.band if x is not self.rows and x is not self.columns]
        body = in_loops(others, body)
        scratch = tuple(self.tiles.values())
        made = replace(self.given, body=body, scratch=scratch, team=self.threads)
        return with_products(made, self.sizes, max(strip, *map(self._aligned, self.tiles)))

    # -- into shared memory -----------------------------------------------------------------------

    def _loaded(self) -> For:
        """Each thread loads its share of the tiles, in strips along the rows of memory."""
        thread = index("thread", self.threads)
        names: list[Scalar] = []
        values: list[Scalar] = []
        stores: list[Statement] = []
        for node, tile in self.tiles.items():
            strip = self._aligned(node)
            for number in range(self.each // strip):
                column, first = self._place(thread, number, self.tall // strip)
                column_there = self._there(self.column_block, column, self.wide, 1, self.width)
                row_there = self._there(self.row_block, first, self.tall, strip, self.height)
                for lane in range(strip):
                    known = {
                        self.columns.index: column_there,
                        self.rows.index: self.simplify(row_there * strip + lane),
                    }
                    condition, value = self.simplify.substitute(
                        [self.conditions[node], node], known
                    )
                    if condition is not TRUE:
                        value = guard(condition, value, 0)
                    name = local(node.dtype, "x")
                    names.append(name)
                    values.append(value)
                    row = self.simplify(first * strip + lane)
                    stores.append(Store(tile, (column, row), name))
        return deal(thread, [Let(tuple(names), tuple(values)), *stores], self.threads)

    def _aligned(self, node: Scalar) -> int:
        """The number of elements of a row that are loaded at once, at multiples of that number."""
        if self.conditions[node] is not TRUE:
            return 1
        access = Access(node.attribute, node.args, False)
        strip = max(neighbours(access, self.rows.index, self.sizes.numbers), 1)
        return _divisor(strip, self.height, self.each, self.tall)

    def _there(self, block: Scalar, within: Scalar, side: int, strip: int, extent: int) -> Scalar:
        """The index of a row or column, or of a strip of them; beyond the edge, the last one."""
        number = block * (side // strip) + within
        if extent % side:
            number = minimum(number, self.sizes.of(extent // strip) - 1)
        return self.simplify(number)

    def _place(self, thread: Scalar, number: Scalar | int, inner: int) -> tuple[Scalar, Scalar]:
        """A thread's strip, and its row: adjacent threads process adjacent strips."""
        return quotient_and_rest(thread + number * self.threads, inner, self.simplify)

    # -- from shared memory -----------------------------------------------------------------------

    def _strip(self) -> int:
        """The number of adjacent iterations that a thread executes together."""
        stores = [each for each in accesses(self.inside) if each.is_store]
        least = min(neighbours(each, self.columns.index, self.sizes.numbers) for each in stores)
        strip = _divisor(max(least, 1), self.width, self.each, self.wide)
        while strip > 1 and strip * self._work() > self.grid.largest_strip:
            strip //= 2
        try:
            self._lanes(index("thread", self.threads), [0], strip)
        except NotUniform:
            return 1
        return strip

    def _work(self) -> int:
        return operations_of(self.inside, self.sizes.numbers)

    def _computed(self, strip: int) -> For:
        """Each thread executes its share of the iterations, in strips along the rows of stores."""
        thread = index("thread", self.threads)
        count = self.each // strip
        number = index("strip", count)
        there = self._is_there(thread, number if count > 1 else ZERO, strip)
        one = where_true(there, self._lanes(thread, [number if count > 1 else ZERO], strip))
        if count == 1:
            return deal(thread, one, self.threads)
        one_by_one = (For(number, ZERO, const(count, INDEX), one),)
        body: Body = one_by_one
        is_often_whole = self.height >= self.tall and self.width >= self.wide
        if is_often_whole and self.each * self._work() <= self.grid.largest_strip:
            try:
                together = self._lanes(thread, list(range(count)), strip)
            except NotUniform:
                return deal(thread, body, self.threads)
            body = where_true(self._is_whole(), together, one_by_one)
        return deal(thread, body, self.threads)

    def _lanes(self, thread: Scalar, numbers: Sequence[Scalar | int], strip: int) -> Body:
        """The iterations of some of a thread's strips, statement by statement."""
        lanes = []
        for number in numbers:
            row, first = self._place(thread, number, self.wide // strip)
            for lane in range(strip):
                column = self.simplify(first * strip + lane)
                known = {
                    self.rows.index: self.simplify(self.row_block * self.tall + row),
                    self.columns.index: self.simplify(self.column_block * self.wide + column),
                }
                known |= {node: load(tile, (column, row)) for node, tile in self.tiles.items()}
                lanes.append(known)
        return Jam(lanes, self.simplify).statements(self.inside)

    def _is_there(self, thread: Scalar, number: Scalar, strip: int) -> Scalar:
        """Whether the iterations of a thread's strip exist."""
        row, first = self._place(thread, number, self.wide // strip)
        conditions = []
        if self.height % self.tall:
            conditions.append(self.row_block * self.tall + row < self.rows.stop)
        if self.width % self.wide:
            column = self.column_block * (self.wide // strip) + first
            conditions.append(column < self.sizes.of(self.width // strip))
        return self._all(conditions)

    def _is_whole(self) -> Scalar:
        """Whether every tile is completely inside the array."""
        conditions = []
        if self.height % self.tall:
            conditions.append((self.row_block + 1) * self.tall <= self.rows.stop)
        if self.width % self.wide:
            conditions.append((self.column_block + 1) * self.wide <= self.columns.stop)
        return self._all(conditions)

    def _all(self, conditions: Sequence[Scalar]) -> Scalar:
        return self.simplify(reduce(lambda x, y: x & y, conditions, TRUE))


def _divisor(strip: int, *numbers: int) -> int:
    """The largest power of two, up to a strip, that divides some numbers."""
    while any(number % strip for number in numbers):
        strip //= 2
    return strip

"""Merge sort on a grid: teams sort rows, or tiles of rows, by networks; then runs are merged.

A team loads keys (`sort_keys.py`), sorts them by a network, of which each thread does several steps
in registers before threads exchange keys in shared memory (`sorting_network.py`), and stores the
elements or indices of the keys. A longer row is sorted in tiles, whose sorted runs are merged in
pairs, again and again: a team computes each tile of a merged run. It finds by binary search how
many of the tile's keys come from the first run (`merge_path.py`), and merges them by the network.

As in NumPy, NaN comes last, and in an argsort equal elements keep their order. A sort puts -0.0
before 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from math import prod

from functrans.caches import cached_property
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, index, separated
from functrans.loop.scalar import Scalar, idiv, irem, minimum
from functrans.loop.statements import Buffer, For, If, Let, Statement, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest
from functrans.ops.reductions.compiled.grid.merge_path import Part, Runs
from functrans.ops.reductions.compiled.grid.sorting_network import Pass, Window, merging, room
from functrans.ops.reductions.compiled.networks import named, sorting, through
from functrans.ops.reductions.compiled.sort_keys import Keys, Words, chosen
from functrans.records import NamedTuple, dataclass

Rows = tuple[Buffer, ...]
"""Memory for keys: a buffer for each of their words."""


def sort(at: Emission) -> None:
    """The sorted elements along an axis."""
    _emit(at, numbered=False)


def argsort(at: Emission) -> None:
    """The indices that sort the elements along an axis."""
    _emit(at, numbered=True)


def _emit(at: Emission, numbered: bool) -> None:
    grid = at.target.grid
    assert grid is not None
    source, target = at.operand(0), at.result()
    if target.count:
        axis = at.eqn.params["axis"]
        keys = Keys(source.dtype, target.extents[axis], numbered)
        _Sort(at, grid, axis, source, target, keys).run()


Stores = Callable[[Position, Scalar, Words], tuple[Store, ...]]
"""The statements that store a key at a position of a line."""


class _Merge(NamedTuple):
    """The statements that merge runs, and the buffers that they need."""

    body: Body
    stack: Rows


class _Share(NamedTuple):
    """The part of a line that a thread loads and stores."""

    before: Body
    line: Position
    start: Scalar
    """The first position of the share."""
    exists: Scalar | None = None
    """The condition that the line exists; None if it always does."""


Shares = Callable[[Scalar], _Share]
"""The share of each thread."""


@dataclass(frozen=True)
class _Sort:
    """A sort of the lines of a buffer along an axis."""

    at: Emission
    grid: Grid
    axis: int
    source: Buffer
    target: Buffer
    keys: Keys

    # -- sizes ----------------------------------------------------------------------------------

    @cached_property
    def extent(self) -> int:
        return self.target.extents[self.axis]

    @cached_property
    def others(self) -> tuple[int, ...]:
        return tuple(n for axis, n in enumerate(self.target.extents) if axis != self.axis)

    @cached_property
    def bits(self) -> int:
        """The binary logarithm of the number of keys of a thread."""
        return max((self.grid.sort_registers * 4 // self.keys.nbytes).bit_length() - 1, 1)

    @cached_property
    def top(self) -> int:
        """The binary logarithm of a tile's keys: a whole line's if a team has room for them."""
        top = self.bits + 1
        while 1 << top < self.extent and self._fits(top + 1):
            top += 1
        return top

    def _fits(self, top: int) -> bool:
        threads = 1 << top - self.bits
        nbytes = prod(room(1 << top, self.bits)) * self.keys.nbytes
        is_room = nbytes <= self.grid.shared and threads <= self.grid.largest_team
        return threads <= self.grid.warp or is_room

    @cached_property
    def tile(self) -> int:
        return 1 << self.top

    @cached_property
    def tiles(self) -> int:
        """The number of tiles of a line."""
        return -(-self.extent // self.tile)

    @cached_property
    def lines(self) -> int:
        """The number of lines of a team: a warp has several if a line needs fewer threads."""
        return max(self.grid.warp >> self.top - self.bits, 1)

    @cached_property
    def team(self) -> int:
        return self.lines << self.top - self.bits

    @cached_property
    def outermost(self) -> Window:
        """The highest bits of positions in a tile: neighbouring threads have neighbouring keys."""
        return Window(self.top - self.bits, self.bits)

    # -- indices and memory ---------------------------------------------------------------------

    def loops(self) -> Position:
        """Indices of all lines."""
        return tuple(index("line", n) for n in self.others)

    def place(self, line: Position, number: Scalar) -> Position:
        return (*line[: self.axis], number, *line[self.axis :])

    def memory(self, *shape: int) -> Rows:
        """Memory for the keys of consecutive lines."""
        return self.rows("runs", (*shape, *self.others, self.extent))

    def rows(self, name: str, shape: Sequence[int]) -> Rows:
        labels = [f"{name}_keys", f"{name}_numbers"]
        return tuple(
            self.at.scratch(label, dtype, shape)
            for label, dtype in zip(labels, self.keys.dtypes, strict=False)
        )

    def call(self, body: Body, writes: Rows, stack: Rows = (), team: int = 0) -> None:
        self.at.call(
            body,
            stack=stack,
            writes=writes,
            largest_constant=prod(room(self.lines * self.tile, self.bits)),
            team=team,
        )

    # -- passes ---------------------------------------------------------------------------------

    def run(self) -> None:
        if self.extent <= 1 << self.bits:
            self.sort_lines_of_threads()
        elif self.tiles == 1:
            self.sort_tiles(self.to_result)
        else:
            self.sort_and_merge_tiles()

    def sort_and_merge_tiles(self) -> None:
        """Sort tiles, then merge pairs of runs, back and forth between two halves of a buffer."""
        turns = (self.tiles - 1).bit_length() - 1
        runs = self.memory(2)
        self.sort_tiles(self.to_memory(runs, ZERO), runs)
        if turns:
            turn = index("turn", turns)
            half, other = irem(turn, 2), irem(turn + 1, 2)
            merge = self.merge_runs(runs, half, turn, self.to_memory(runs, other))
            self.call((For(turn, ZERO, as_index(turns), merge.body),), runs, merge.stack, self.team)
        last = self.merge_runs(runs, as_index(turns % 2), as_index(turns), self.to_result)
        self.call(last.body, (self.target,), last.stack, self.team)

    def to_memory(self, rows: Rows, half: Scalar) -> Stores:
        return lambda line, number, key: _put(rows, (half, *line, number), key)

    def to_result(self, line: Position, number: Scalar, key: Words) -> tuple[Store, ...]:
        value = self.keys.result(key, self.target.dtype)
        return (Store(self.target, self.place(line, number), value),)

    # -- lines, or tiles of them ----------------------------------------------------------------

    def sort_lines_of_threads(self) -> None:
        """Sort lines that fit into the registers of one thread."""
        line = self.loops()
        numbers = [as_index(number) for number in range(self.extent)]
        keys = [self.keys.of(load(self.source, self.place(line, n)), n) for n in numbers]
        found, sort = through(keys, sorting(self.extent))
        stores = [
            each
            for number, key in zip(numbers, found, strict=True)
            for each in self.to_result(line, number, key)
        ]
        self.call(nest(line, (*sort, *stores), parallel=True), (self.target,))

    def sort_tiles(self, stores: Stores, writes: Rows | None = None) -> None:
        """Sort several lines, or a tile of one line, by each team."""
        around, shares = self.tiles_of_lines() if self.lines == 1 else self.several_lines()
        rows = self.rows("tile", room(self.lines * self.tile, self.bits))
        body = self.dealt(partial(self.load_and_sort, rows, shares))
        for top in range(self.bits + 1, self.top + 1):
            for each in merging(top, self.bits, mirrored=True):
                body += self.dealt(partial(_merge, rows, each))
        body += self.dealt(partial(self.store, rows, shares, stores))
        statements = nest(around, body, parallel=True)
        self.call(statements, writes or (self.target,), rows, self.team)

    def tiles_of_lines(self) -> tuple[Position, Shares]:
        line, tile = self.loops(), index("tile", self.tiles)
        begin = tile * self.tile
        return (*line, tile), lambda thread: _Share((), line, begin + self.outermost.below(thread))

    def several_lines(self) -> tuple[Position, Shares]:
        """The lines and shares of teams in which groups of adjacent threads sort a line each."""
        count = prod(self.others)
        group = index("lines", -(-count // self.lines))

        def share(thread: Scalar) -> _Share:
            number = group * self.lines + idiv(thread, self.team // self.lines)
            exists = number < count if count % self.lines else None
            inside = number if exists is None else minimum(number, as_index(count - 1))
            line = tuple(local(INDEX, "line") for _ in self.others)
            let = Let(line, separated(inside, self.others))
            return _Share((let,), line, self.outermost.below(thread), exists)

        return (group,), share

    def load_and_sort(self, rows: Rows, shares: Shares, thread: Scalar) -> Body:
        """Load and sort a thread's first run; neighbouring threads read adjacent keys."""
        share = shares(thread)
        keys = []
        for number in range(1 << self.bits):
            here = share.start + (number << self.outermost.low)
            place = self.place(share.line, minimum(here, as_index(self.extent - 1)))
            key = self.keys.of(load(self.source, place), here)
            inside = self.inside(share, here)
            keys.append(key if inside is None else chosen(inside, key, self.keys.last()))
        found, sort = through(keys, sorting(len(keys)))
        positions = Pass(Window(0, self.bits), ()).positions(thread)
        return (*share.before, *sort, *_put_all(rows, positions, found))

    def store(self, rows: Rows, shares: Shares, stores: Stores, thread: Scalar) -> Body:
        share = shares(thread)
        found, take = named(_load_all(rows, Pass(self.outermost, ()).positions(thread)))
        body: list[Statement] = [*share.before, take]
        for number, key in enumerate(found):
            here = share.start + (number << self.outermost.low)
            statements = stores(share.line, here, key)
            inside = self.inside(share, here)
            body += statements if inside is None else (If(inside, statements),)
        return tuple(body)

    def inside(self, share: _Share, place: Scalar) -> Scalar | None:
        """The condition that a position is in bounds; None if it always is."""
        if self.extent % self.tile == 0:
            return share.exists
        inside = place < self.extent
        return inside if share.exists is None else share.exists & inside

    # -- runs -----------------------------------------------------------------------------------

    def merge_runs(self, source: Rows, half: Scalar, turn: Scalar, stores: Stores) -> _Merge:
        """Merge pairs of runs of a line; each team computes a tile of a merged run."""
        line, tile = self.loops(), index("tile", self.tiles)
        begin = tile * self.tile
        let, runs = Runs.around(
            begin,
            turn + self.top,
            lambda place: tuple(load(row, (half, *line, place)) for row in source),
            self.extent,
        )
        taken = self.at.scratch("taken", INDEX, (2,))
        rows = self.rows("merged", room(self.tile, self.bits))
        first, *following = merging(self.top, self.bits, mirrored=False)
        body: Body = (let, runs.taken_before(begin, self.tile, taken, self.team))
        body += self.dealt(partial(self.load_and_merge, rows, runs, begin, taken, first))
        for each in following:
            body += self.dealt(partial(_merge, rows, each))

        def share(thread: Scalar) -> _Share:
            return _Share((), line, begin + self.outermost.below(thread))

        body += self.dealt(partial(self.store, rows, share, stores))
        return _Merge(nest((*line, tile), body, parallel=True), (taken, *rows))

    def load_and_merge(
        self, rows: Rows, runs: Runs, begin: Scalar, taken: Buffer, one: Pass, thread: Scalar
    ) -> Body:
        part = Part(runs, begin, self.tile, taken, one.window.first(thread))
        keys = []
        for number in range(one.window.keys):
            key, exists = part.key(number << one.window.low)
            whole = self.extent % self.tile == 0
            keys.append(key if whole else chosen(exists, key, self.keys.last()))
        found, merge = through(keys, one.comparisons)
        return (part.let, *merge, *_put_all(rows, one.positions(thread), found))

    def dealt(self, body: Callable[[Scalar], Body]) -> Body:
        """The work of each thread of a team between two exchanges of keys."""
        thread = index("thread", self.team)
        return (For(thread, ZERO, as_index(self.team), body(thread), lanes=self.team),)


# -- work of a thread --------------------------------------------------------------------------


def _merge(rows: Rows, one: Pass, thread: Scalar) -> Body:
    """A pass of merging, in place."""
    positions = one.positions(thread)
    found, merge = through(_load_all(rows, positions), one.comparisons)
    return (*merge, *_put_all(rows, positions, found))


def _load_all(rows: Rows, positions: Sequence[Position]) -> list[Words]:
    return [tuple(load(row, position) for row in rows) for position in positions]


def _put_all(rows: Rows, positions: Sequence[Position], keys: Sequence[Words]) -> Body:
    pairs = zip(positions, keys, strict=True)
    return tuple(chain(*(_put(rows, position, key) for position, key in pairs)))


def _put(rows: Rows, place: Position, key: Words) -> tuple[Store, ...]:
    return tuple(Store(row, place, word) for row, word in zip(rows, key, strict=True))

"""Sorts on a CPU: networks of comparisons for short rows, radix sort for long ones.

A network sorts short rows, as many at once as a vector has lanes, and so does a network in memory
with many rows of medium length (`bitonic_sort.py`), or with a few rows one by one. Long rows are
sorted by the digits of their keys (`radix_sort.py`). NumPy sorts some rows of medium length, if
elements are not numbered.

Keys (`sort_keys.py`) have the order of the elements. A network is not stable, so the index of an
element follows its key and breaks ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from functrans.ir.graph import Eqn
from functrans.ir.types import Aval
from functrans.loop.nodes import ZERO, as_index, fold, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import BOOL, Scalar, convert, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, Store, load
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.reductions.compiled.bitonic_sort import RUN, Bitonic, Stores, by_words
from functrans.ops.reductions.compiled.networks import sorting, through
from functrans.ops.reductions.compiled.radix_sort import Memory, Radix, counts_of, digits_of
from functrans.ops.reductions.compiled.sort_keys import Keys, Words
from functrans.records import NamedTuple

Rows = tuple[Buffer, ...]
"""Memory for keys: a buffer for each word of a key."""


BEGINNING = 64
"""The number of neighbouring pairs that are compared before all others. Not measured."""


class Sorts(NamedTuple):
    """Thresholds between sorting algorithms. All are measured."""

    network: int = 16
    """The longest row that a network sorts as a whole."""
    elements: int = 1024
    """The largest array whose rows are always sorted by compiled code."""
    vectorised: int = 512
    """The longest row of larger arrays that NumPy's vectorised sort sorts faster, in a third to a
    fourteenth of the time; there is none for elements of one byte."""
    compressed: int = 1 << 15
    """The bytes of an array from which that sort is faster for rows of any length, in a quarter to
    a half of the time, if the target has `library_sorts`; of elements of four bytes or more."""
    few_lines: int = 4
    """The most rows for which it is: threads share the rows that compiled code sorts."""
    in_lanes: int = 256
    """The longest row of several that a bitonic network sorts if elements are numbered."""
    wide: int = 64
    """The vector length in bytes from which a network sorts rows twice as long, if keys have at
    least four digits; a radix sort is faster for keys of fewer digits."""
    unnumbered: int = 150
    """The longest row that a network sorts if elements are not numbered; NumPy is faster for longer
    ones. With vectors of `wide` bytes, it is half of this for each byte of a key."""
    along: int = 128
    """The longest line that a network sorts by itself, for each lane, if keys have at least four
    digits; a radix sort, which is used for longer ones, has one pass for each digit."""
    unnumbered_along: int = 8
    """How many times as long a line is if elements are not numbered, and vectors are not `wide`."""
    along_for_digit: int = 80
    """The same for each digit of keys that have fewer."""


def sort(at: Emission) -> None:
    """The sorted elements along an axis."""
    _emit(at, numbered=False)


def argsort(at: Emission) -> None:
    """The indices that sort the elements along an axis."""
    _emit(at, numbered=True)


def sorts(eqn: Eqn, target: Target) -> bool:
    """Whether compiled code sorts elements without numbers; otherwise, NumPy sorts them."""
    aval, axis, limits = eqn.inputs[0].aval, eqn.params["axis"], target[Sorts]
    extent: int = aval.shape[axis]
    lines: tuple[int, ...] = aval.shape[:axis] + aval.shape[axis + 1 :]
    longest = limits.vectorised if aval.dtype.itemsize > 1 else limits.network
    itemsize = aval.dtype.itemsize
    is_large = itemsize >= 4 and aval.size * itemsize >= limits.compressed
    if target.library_sorts and is_large and prod(lines) <= limits.few_lines:
        longest = extent
    if aval.size <= limits.elements or not limits.network < extent <= longest:
        return True
    keys = Keys(aval.dtype, extent, numbered=False)
    # with four lanes, NumPy's sort of more than 32 elements is faster
    longest = min(limits.unnumbered, 2 * keys.lanes(target) ** 2)
    if target.vector_bytes >= limits.wide:
        longest = limits.unnumbered // 2 * keys.nbytes
    if _axis_of_lanes(keys, lines, target) is None:
        # each takes about as long as NumPy's sort, without a step to Python
        return extent <= _longest_along(keys, target) and prod(lines) <= keys.lanes(target)
    return extent <= longest


def sorts_in_lanes(aval: Aval, target: Target) -> bool:
    """Whether a network sorts lines along the last axis, without numbers, side by side."""
    keys = Keys(aval.dtype, aval.shape[-1], numbered=False)
    return _axis_of_lanes(keys, aval.shape[:-1], target) is not None


def sorts_along(aval: Aval, target: Target) -> bool:
    """Whether a network sorts lines along the last axis, one by one, in less than two searches."""
    keys = Keys(aval.dtype, aval.shape[-1], numbered=False)
    return keys.extent <= _longest_along(keys, target)


def _emit(at: Emission, numbered: bool) -> None:
    source, target = at.operand(0), at.result()
    if target.count:
        axis = at.eqn.params["axis"]
        _Sort(at, axis, source, target, Keys(source.dtype, target.extents[axis], numbered)).run()


class _Sort(NamedTuple):
    """A sort of the lines of a buffer along an axis."""

    at: Emission
    axis: int
    source: Buffer
    target: Buffer
    keys: Keys

    def run(self) -> None:
        extents = self.target.extents
        extent = extents[self.axis]
        line = tuple(index("line", n) for i, n in enumerate(extents) if i != self.axis)
        if extent <= self.at.target[Sorts].network:
            body = self.network(line, ZERO, extent, self.to_result(line))
            self.call(in_vectors(line, body, self.keys.lanes(self.at.target)), ())
            return
        across = _axis_of_lanes(self.keys, [i.attribute[2] for i in line], self.at.target)
        if across is not None:
            self.in_lanes(line, across)
            return
        if _is_along(self.keys, self.at.target):
            self.along(line)
            return
        self.by_digits(line)

    def in_lanes(self, line: Position, across: int) -> None:
        """Sort lines of medium length, as many at once as a vector has lanes."""
        outer, inner = (*line[:across], *line[across + 1 :]), line[across]
        lines, lanes = inner.attribute[2], self.keys.lanes(self.at.target)
        block, lane = index("block", -(-lines // lanes)), index("lane", lanes)
        number, whole = self.at.simplify(block * lanes + lane), lines % lanes == 0
        own = (*line[:across], number, *line[across + 1 :])
        stop = as_index(lanes) if whole else minimum(lines - block * lanes, lanes)
        rows = self.rows("lines", self.keys.extent, lanes)

        def in_lanes(loops: Sequence[Scalar], body: Body) -> Body:
            return nest(loops, (For(lane, ZERO, stop, body, lanes=lanes, whole=whole),))

        network = partial(self.network, own)
        body = Bitonic(rows, (lane,), in_lanes).sort(network, self.to_result(own))
        self.call(_shared((*outer, block), body), rows)

    def along(self, line: Position) -> None:
        """Sort lines of medium length one by one, with the lanes of vectors along each."""
        keys, lanes = self.keys, self.keys.lanes(self.at.target)
        unit = min(RUN * lanes, keys.extent)  # vectors of whole runs, without a remainder
        rows = self.rows("keys", -(-keys.extent // unit) * unit)
        place, pad = index("place", keys.extent), index("pad", rows[0].extents[0] - keys.extent)
        key = keys.of(load(self.source, self.position(line, place)), place)
        body = (
            *in_vectors((place,), stored(rows, place, key), lanes),
            *in_vectors((pad,), stored(rows, pad + keys.extent, keys.last()), lanes),
            *sorted_along(rows, lanes, self.at.simplify),
            *in_vectors((place,), self.to_result(line)(place, loaded(rows, place)), lanes),
        )
        self.call(_shared(line, body), rows)

    def by_digits(self, line: Position) -> None:
        """Sort long lines by radix: on the stack, or in memory that each line has for itself."""
        keys, at = self.keys, self.at
        is_short = 4 * keys.nbytes * keys.extent <= at.target.largest_stack
        apart = () if is_short else line
        lines = tuple(loop.attribute[2] for loop in apart)
        one, other = (self.rows(name, *lines, keys.extent) for name in ("keys", "moved"))
        counts = at.scratch("counts", *counts_of(keys))

        def read(place: Scalar) -> Words:
            return keys.of(load(self.source, self.position(line, place)), place)

        memory = Memory(one, apart), Memory(other, apart)
        body, found = Radix(keys, counts).sort(read, memory, at.target)
        place = index("place", keys.extent)
        value = keys.result(found.read(place), self.target.dtype)
        store = Store(self.target, self.position(line, place), value)
        if self.axis < len(self.target.extents) - 1:
            body += nest((place,), (store,))
        else:
            body = self.unless_in_order(line, (*body, *vectorised(place, store, at.target)))
        self.call(_shared(line, body), (counts, *one, *other) if is_short else (counts,))

    def unless_in_order(self, line: Position, body: Body) -> Body:
        """Copy a row of ordered or equal elements, which one fast pass over it finds; else sort."""
        place = index("place", self.keys.extent)

        def element(place: Scalar) -> Scalar:
            return load(self.source, self.position(line, place))

        check, disordered = out_of_order(element, self.keys.extent, self.at)
        value = convert(place, self.target.dtype) if self.keys.numbered else element(place)
        copy = Store(self.target, self.position(line, place), value)
        return (*check, If(disordered, body, vectorised(place, copy, self.at.target)))

    def call(self, body: Body, stack: Rows) -> None:
        self.at.call(body, uncounted=16 * self.target.count, stack=stack)

    def rows(self, name: str, *shape: int) -> Rows:
        return tuple(self.at.scratch(name, dtype, shape) for dtype in self.keys.dtypes)

    def to_result(self, line: Position) -> Stores:
        def stores(place: Scalar, key: Words) -> Body:
            value = self.keys.result(key, self.target.dtype)
            return (Store(self.target, self.position(line, place), value),)

        return stores

    def position(self, line: Position, place: Scalar) -> Position:
        return (*line[: self.axis], place, *line[self.axis :])

    def network(self, line: Position, start: Scalar, count: int, stores: Stores) -> Body:
        """Sort a few elements of a line in registers."""

        def key(place: Scalar) -> Words:
            return self.keys.of(load(self.source, self.position(line, place)), place)

        return _run(key, self.at.simplify, start, count, stores)


def sorted_along(rows: Rows, lanes: int, simplify: Simplifier) -> Body:
    """Sort keys in memory, with the lanes of vectors along them: whole runs in each lane."""
    along = partial(in_vectors, lanes=lanes)
    run = partial(_run, partial(loaded, rows), simplify)
    return Bitonic(rows, (), along).sort(run, partial(stored, rows))


def _run(
    key: Callable[[Scalar], Words], simplify: Simplifier, start: Scalar, count: int, stores: Stores
) -> Body:
    """Sort a few keys in registers."""
    places = [simplify(start + number) for number in range(count)]
    found, statements = through([key(place) for place in places], sorting(count))
    return (*statements, *by_words(stores, places, found))


def out_of_order(
    element: Callable[[Scalar], Scalar], extent: int, at: Emission
) -> tuple[Body, Scalar]:
    """Whether some element of a row is less than the one before it, or follows NaN."""

    def falls(place: Scalar) -> Scalar:
        return ~(element(place) <= element(place + 1))

    # the first pairs show that most rows are not in order
    pairs = extent - 1
    early = fold("or", [min(pairs, BEGINNING)], falls)
    pair = index("pair", pairs)
    late = Scalar("fold", (falls(pair), where(early, ZERO, pairs)), BOOL, ("or", (pair,)))
    lanes = at.target.lanes(element(ZERO).dtype.itemsize)
    check, (disordered,) = lower_folds([early | late], lanes, at.simplify, at.target)
    return tuple(check), disordered


def _axis_of_lanes(keys: Keys, lines: Sequence[int], target: Target) -> int | None:
    """The axis of lines that a network sorts side by side; None if it does not.

    The last axis if it fills a vector; otherwise the longest, if it fills at least half of one, or
    three quarters if the lines can be sorted one by one.
    """
    lanes, limits = keys.lanes(target), target[Sorts]
    is_wide = target.vector_bytes >= limits.wide and digits_of(keys) >= 4
    if not lines or keys.extent > limits.in_lanes * (2 if is_wide else 1):
        return None
    last = len(lines) - 1
    best = last if lines[last] >= lanes else max(range(last, -1, -1), key=lines.__getitem__)
    fewest = 3 * lanes // 4 if _is_along(keys, target) else lanes // 2
    return best if lines[best] >= fewest else None


def _is_along(keys: Keys, target: Target) -> bool:
    """Whether a network sorts a line by itself, with the lanes of vectors along it."""
    limits, longest = target[Sorts], _longest_along(keys, target)
    is_cheap = not keys.numbered and target.vector_bytes < limits.wide and digits_of(keys) >= 4
    return keys.extent <= longest * (limits.unnumbered_along if is_cheap else 1)


def _longest_along(keys: Keys, target: Target) -> int:
    lanes, limits, digits = keys.lanes(target), target[Sorts], digits_of(keys)
    return limits.along * lanes if digits >= 4 else limits.along_for_digit * digits


def in_vectors(loops: Position, body: Body, lanes: int) -> Body:
    """Loops of independent iterations, of which the innermost is vectorised."""
    if not loops:
        return body
    *outer, inner = loops
    extent: int = inner.attribute[2]
    if not extent:
        return ()
    while lanes > extent:
        lanes //= 2
    whole = extent % lanes == 0
    inside = For(inner, ZERO, as_index(extent), body, lanes=lanes, parallel=not outer, whole=whole)
    return _shared(outer, (inside,))


def _shared(loops: Sequence[Scalar], body: Body) -> Body:
    """Loops of independent iterations, of which the outermost is divided among threads."""
    return nest(loops[:1], nest(loops[1:], body), parallel=True)


def loaded(rows: Rows, place: Scalar) -> Words:
    """The key at a place of memory."""
    return tuple(load(row, (place,)) for row in rows)


def stored(rows: Rows, place: Scalar, key: Words) -> Body:
    """The statements that store a key at a place of memory."""
    return tuple(Store(row, (place,), word) for row, word in zip(rows, key, strict=True))

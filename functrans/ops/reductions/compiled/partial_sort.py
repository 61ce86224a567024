"""Partial sort on a CPU: candidates in a buffer, and a bound that most elements exceed.

The bound is one of the elements that are known not to come after the last of the least elements: at
first, the one of its rank in a sample of the line. A block of elements is compared with it in
vectors, and read one by one only if some element is up to it: a candidate. When the buffer of
candidates is full, a network sorts it, all but the least are dropped, and the bound falls. In
random order, an element at place n is one of the k least so far with a probability of k / n, so
that there are about k log(n / k) candidates.

The greatest elements are the least of keys in descending order. They are looked for from the end of
the line, since of equal elements, the last ones are the greatest to a stable sort.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.nodes import INDEX, as_index, fold, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const, convert, eq, maximum, minimum, where
from functrans.loop.statements import Assign, Buffer, If, Let, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest
from functrans.ops.reductions.compiled.sort_keys import Keys, chosen
from functrans.ops.reductions.compiled.sorts import Rows, in_vectors, loaded, sorted_along, stored
from functrans.ops.reductions.ranks import BLOCK, room
from functrans.records import NamedTuple

_COUNT = np.dtype(np.uint32)


def partial_sort(at: Emission) -> None:
    """The least or greatest elements of each line, in order."""
    _emit(at, numbered=False)


def partial_argsort(at: Emission) -> None:
    """The indices of the least or greatest elements of each line, in their order."""
    _emit(at, numbered=True)


def _emit(at: Emission, numbered: bool) -> None:
    source, target = at.operand(0), at.result()
    if not target.count:
        return
    *lines, extent = source.extents
    keys = Keys(source.dtype, extent, numbered, descending=at.eqn.params["greatest"])
    size = (room(target.extents[-1]),)
    memory = tuple(at.scratch("candidates", dtype, size) for dtype in keys.dtypes)
    line = tuple(index("line", n) for n in lines)
    body = _Line(at, source, target, line, keys, memory).body()
    nests = nest(line[:1], nest(line[1:], body), parallel=True)
    at.call(nests, uncounted=source.count, stack=memory)


class _Line(NamedTuple):
    """A line of elements, along the last axis of a buffer, and memory for its candidates."""

    at: Emission
    source: Buffer
    target: Buffer
    line: Position
    keys: Keys
    memory: Rows

    def body(self) -> Body:
        """Statements that find the least elements, and store them in order."""
        keys, full = self.keys, self.memory[0].extents[0]
        filled, bound = local(_COUNT, "filled"), local(keys.plain, "bound")
        place, blocks = index("place", full), -(-keys.extent // BLOCK)
        block = index("block", blocks + 1)
        sample = self.element(place * (keys.extent // full))
        is_needed = eq(block, 0) | eq(block, blocks) | (filled > full - BLOCK)
        steps = (
            If(is_needed, self.sort(block, filled, bound)),
            If(block < blocks, self.scan(block * BLOCK, filled, bound)),
        )
        return (
            *in_vectors((place,), stored(self.memory, place, keys.of(sample, place)), self.lanes),
            Let((filled, bound), (const(full, _COUNT), const(0, keys.plain))),
            *nest((block,), steps),
            *self.results(),
        )

    def sort(self, block: Scalar, filled: Scalar, bound: Scalar) -> Body:
        """Sort the candidates, and keep the least; before the first block, those of the sample."""
        count, (size,) = self.target.extents[-1], self.memory[0].extents
        place, last = index("place", size), self.keys.last()
        candidates = chosen(place < convert(filled, INDEX), loaded(self.memory, place), last)
        greatest = self.keys.plain_in(loaded(self.memory, as_index(count - 1)))
        # an equal element that comes later is not among the least
        before, is_sample = maximum(greatest, 1) - 1, eq(block, 0)
        return (
            *in_vectors((place,), stored(self.memory, place, candidates), self.lanes),
            *sorted_along(self.memory, self.lanes, self.at.simplify),
            Assign(
                (filled, bound),
                (
                    where(is_sample, const(0, _COUNT), const(count, _COUNT)),
                    where(is_sample, greatest, before),
                ),
            ),
        )

    def scan(self, begin: Scalar, filled: Scalar, bound: Scalar) -> Body:
        """Append the elements of a block that are up to the bound."""
        # the last block begins among the elements of the one before, which do not count again
        is_whole = self.keys.extent % BLOCK == 0
        start = begin if is_whole else minimum(begin, self.keys.extent - BLOCK)

        def key(place: Scalar) -> Scalar:
            return self.keys.plain_of(self.element(start + place))

        below = fold("or", [BLOCK], lambda place: key(place) <= bound)
        width = self.at.target.lanes(self.keys.plain.itemsize)
        check, (some,) = lower_folds([below], width, self.at.simplify, self.at.target)
        place, plain = index("place", BLOCK), local(self.keys.plain, "key")
        end = minimum(convert(filled, INDEX), self.memory[0].extents[0] - 1)  # it is inside
        new = self.keys.with_number(plain, start + place)
        append = (*stored(self.memory, end, new), Assign((filled,), (filled + 1,)))
        is_new = (plain <= bound) & (begin <= start + place)
        each = (Let((plain,), (key(place),)), If(is_new, append))
        return (*check, If(some, nest((place,), each)))

    def results(self) -> Body:
        """Store the least elements, or their indices."""
        count = self.target.extents[-1]
        place = index("place", count)
        rank = count - 1 - place if self.keys.descending else place
        value = self.keys.result(loaded(self.memory, rank), self.target.dtype)
        if self.keys.numbered:
            value = self.number(value)
        store = Store(self.target, (*self.line, place), value)
        return in_vectors((place,), (store,), self.lanes)

    # -- parts of these -------------------------------------------------------------------------

    @property
    def lanes(self) -> int:
        return self.keys.lanes(self.at.target)

    def number(self, place: Scalar) -> Scalar:
        """The index of the element that comes at a place, and the place of an index."""
        return self.keys.extent - 1 - place if self.keys.descending else place

    def element(self, place: Scalar) -> Scalar:
        """The element that comes at a place."""
        return load(self.source, (*self.line, self.number(place)))

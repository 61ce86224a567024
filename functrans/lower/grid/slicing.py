"""Slicing of sums: the terms of a loop's sums are dealt to threads as well, besides its iterations.

Expects a loop of independent iterations, each with long sums, which a team shares. Leaves two loops
that are dealt to its threads. If a step of a recurrent network multiplies a matrix and a vector,
there are fewer sums than threads in a team, and each sum is long. In the first loop, a thread adds
a strided slice of the terms of one sum, and stores the partial sum in a row of shared memory; in
the second, a thread combines the slices of an iteration, and executes the rest. (In matrix
products, this is known as slice-K.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from functrans.loop.affine import lies_along
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.reductions import Reductions, blocked, unblocked
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Reduce, Statement, Store, buffer, load
from functrans.loop.substitution import substituted
from functrans.loop.walk import Body, locals_in, walk
from functrans.lower.grid.dealing import deal, extent, is_from_zero, perfect, terms
from functrans.lower.nest.linearisation import delinearised, quotient_and_rest
from functrans.lower.nest.unroll_and_jam import Jam
from functrans.records import NamedTuple

Key = tuple[int, np.dtype[np.generic], tuple[int, int]]
"""The result of an iteration to which a row of slices belongs; its dtype, and its shape."""


class Sums(NamedTuple):
    """A loop with long sums."""

    loops: tuple[For, ...]  # the loop, and inner loops that are the whole body of another
    needed: Body  # the statements on which the sums depend
    sums: tuple[Reduce, ...]  # each in one nest of loops
    body: Body  # all statements of an iteration, including the sums

    @property
    def iterations(self) -> int:
        return prod(map(extent, self.loops))

    @property
    def most(self) -> int:
        """The largest number of slices with at least two terms."""
        return min(extent_of_terms(each) for each in self.sums) // 2

    @property
    def rest(self) -> Body:
        """The statements of an iteration besides the sums."""
        return tuple(each for each in self.body if each not in self.sums)

    @property
    def targets(self) -> list[Scalar]:
        return [target for each in self.sums for target in each.targets]

    def slices(self, team: int, grid: Grid) -> Iterator[int]:
        """The possible numbers of slices for a team's threads: powers of two."""
        count = 2
        while count <= min(grid.warp, self.most, team // self.iterations):
            yield count
            count *= 2


def extent_of_terms(statement: Reduce) -> int:
    """The trip count of the innermost loop of a sum."""
    return int(statement.loops[-1][0].attribute[2] or 0)


def long_sums(loop: For, grid: Grid) -> Sums | None:
    """The sums of a loop whose terms may be dealt; None if there are none."""
    loops = perfect(loop)
    if not all(is_from_zero(each.start, each.stop) for each in loops):
        return None
    body = tuple(unblocked(x) if isinstance(x, Reduce) else x for x in loops[-1].body)
    sums = tuple(each for each in body if isinstance(each, Reduce) and _is_long(each, grid))
    if not sums or not prod(map(extent, loops)):
        return None
    before = body[: 1 + max(map(body.index, sums))]
    if not all(isinstance(each, (Let, Reduce)) for each in walk(before)):
        return None
    needed = _needed(before, sums)
    return None if needed is None else Sums(tuple(loops), needed, sums, body)


def _is_long(statement: Reduce, grid: Grid) -> bool:
    """Whether a sum has many terms, and its last loop can be divided."""
    _, *bounds = statement.loops[-1]
    return terms(statement) >= grid.shortest and is_from_zero(*bounds)


def _needed(before: Body, sums: Sequence[Statement]) -> Body | None:
    """The statements on which sums depend; None if one sum depends on another."""
    wanted = locals_in(sums)
    found: list[Statement] = []
    for each in reversed(before):
        assert isinstance(each, (Let, Reduce))
        if wanted.isdisjoint(each.targets):
            continue
        if each in sums:
            return None
        found.append(each)
        wanted |= locals_in((each,))
    return tuple(reversed(found))


class Slicer:
    """Deals the terms of sums to the threads of a team."""

    def __init__(
        self,
        team: int,
        lengths: Reductions,  # the number of terms that are added sequentially
        room: int,  # the available bytes of shared memory
    ) -> None:
        self.team = team
        self.room = room
        self.lengths = lengths
        self.simplify = Simplifier()
        self.rows: dict[Key, Buffer] = {}
        """Shared memory for slices, which consecutive loops share if they can."""

    def has_room(self, sums: Sums, count: int) -> bool:
        """Whether there is shared memory for another loop."""
        needed = {*self.rows, *self._keys(sums, count)}
        return sum(dtype.itemsize * prod(shape) for _, dtype, shape in needed) <= self.room

    def loops(self, sums: Sums, count: int) -> tuple[For, For]:
        """The loops over the slices of each sum."""
        rows = [self._row(key) for key in self._keys(sums, count)]
        return self._of_slices(sums, count, rows), self._of_iterations(sums, count, rows)

    def _keys(self, sums: Sums, count: int) -> list[Key]:
        shape = count, odd(sums.iterations)
        return [(number, target.dtype, shape) for number, target in enumerate(sums.targets)]

    def _row(self, key: Key) -> Buffer:
        if key not in self.rows:
            _, dtype, shape = key
            self.rows[key] = buffer("slices", dtype, shape)
        return self.rows[key]

    def _of_slices(self, sums: Sums, count: int, rows: Sequence[Buffer]) -> For:
        """Each thread sums a slice."""
        thread = index("thread", sums.iterations * count)
        if _terms_are_near(sums):
            iteration, part = quotient_and_rest(thread, count, self.simplify)
        else:
            part, iteration = quotient_and_rest(thread, sums.iterations, self.simplify)
        known = delinearised([loop.index for loop in sums.loops], iteration, self.simplify)
        slices = [self._slice(each, part, count) for each in sums.sums]
        made = Jam([known], self.simplify).statements((*sums.needed, *slices))
        body: list[Statement] = [
            blocked(each, self.lengths) if isinstance(each, Reduce) else each for each in made
        ]
        targets = [x for each in made[len(sums.needed) :] for x in _targets(each)]
        body += [Store(row, (part, iteration), x) for row, x in zip(rows, targets, strict=True)]
        return deal(thread, body, self.team)

    def _slice(self, statement: Reduce, part: Scalar, count: int) -> Reduce:
        """The sum of a strided slice of the terms, so that adjacent threads read adjacent terms."""
        *outer, (counter, _, _) = statement.loops
        extent = extent_of_terms(statement)
        turn = index(counter.attribute[0], -(-extent // count))
        stop = as_index(extent // count)
        if extent % count:
            left = as_index(extent + count - 1) - part
            stop = self.simplify(Scalar("idiv", (left, as_index(count)), INDEX))
        known = {counter: self.simplify(turn * count + part)}
        return replace(
            statement,
            loops=(*outer, (turn, ZERO, stop)),
            values=tuple(self.simplify.substitute(statement.values, known)),
            body=substituted(statement.body, known, self.simplify),
            lanes=1,
            whole=False,
        )

    def _of_iterations(self, sums: Sums, count: int, rows: Sequence[Buffer]) -> For:
        """Each thread combines the slices of an iteration, and executes the rest of it."""
        own = index(sums.loops[-1].index.attribute[0], sums.iterations)
        known = delinearised([loop.index for loop in sums.loops], own, self.simplify)
        left = iter(rows)
        body: list[Statement] = []
        for each in sums.body:
            if each in sums.sums:
                assert isinstance(each, Reduce)
                part = index("part", count)
                values = tuple(load(next(left), (part, own)) for _ in each.targets)
                loops = ((part, ZERO, as_index(count)),)
                body.append(Reduce(each.targets, each.ops, values, loops))
            else:
                body += substituted((each,), known, self.simplify)
        return deal(own, body, self.team)


def _targets(statement: Statement) -> tuple[Scalar, ...]:
    assert isinstance(statement, Reduce)
    return statement.targets


def odd(number: int) -> int:
    """The number, or the next one if it is even: lines of odd length begin in different banks."""
    return number | 1


def _terms_are_near(sums: Sums) -> bool:
    """Whether the terms of a sum are adjacent in memory, rather than those of adjacent sums."""
    iteration = sums.loops[-1].index
    votes = [
        lies_along(value, each.loops[-1][0], iteration)
        for each in sums.sums
        for value in each.values
    ]
    return 2 * sum(votes) > len(votes)

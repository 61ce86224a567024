"""Loop fusion and array contraction: vector loops of a step that share data become one loop.

In reverse mode, a step of a recurrence computes cotangents of its parameters in some loops, and
adds them to accumulators in others, which would read them again, and compute again what is cheap.
In one loop they are locals. Loop distribution (`functrans.loop.distribution`) divides the loop
again, by levels of dependence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import product

from functrans.caches import cached_property
from functrans.loop.nodes import ZERO
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Statement, Store, load, local
from functrans.loop.substitution import Position, substituted
from functrans.loop.walk import (
    Access,
    accesses,
    assigned,
    buffers_of,
    declared,
    loaded,
    locals_in,
    stored,
    walk,
)
from functrans.records import NamedTuple, dataclass


class Joining(NamedTuple):
    """Thresholds of loop fusion in steps."""

    longest: int = 1024
    """The most iterations of a loop: a longer one may be shared by threads on its own. Measured
    (LSTMs with diagonal weights)."""


Range = tuple[int, int]
"""The least and the greatest position along an axis."""

Box = tuple[Range | None, ...]
"""The elements that a loop accesses along each axis, if they are known."""


def fused(body: Sequence[Statement], limits: Joining, simplify: Simplifier) -> list[Statement]:
    """The statements of a step. A vector loop joins the last one with which it shares data."""
    done: list[_Part] = []
    for each in body:
        part = _Part(each, simplify)
        if part.is_vectors and int(part.loop.stop.attribute) <= limits.longest:
            number = _partner(done, part)
            if number is not None:
                done[number] = done[number].joined(part)
                continue
        place = len(done)
        if _is_copy(each) and not part.is_vectors:
            # of a carry to which slices are added: it is no obstacle between loops
            while place and done[place - 1].is_vectors and not part.must_follow(done[place - 1]):
                place -= 1
        done.insert(place, part)
    return [part.statement for part in done]


def _is_copy(statement: Statement) -> bool:
    """Whether a statement is a nest of loops that copies elements."""
    while isinstance(statement, For) and len(statement.body) == 1:
        (statement,) = statement.body
    return isinstance(statement, Store) and statement.op is None and statement.value.op == "load"


def _partner(done: Sequence[_Part], part: _Part) -> int | None:
    """The position of the loop that a vector loop may join."""
    for number in reversed(range(len(done))):
        if done[number].may_join(part):
            return number
        if part.must_follow(done[number]):
            return None
    return None


@dataclass(eq=False)
class _Part:
    """A statement of a step, and what it accesses."""

    statement: Statement
    simplify: Simplifier

    @cached_property
    def is_vectors(self) -> bool:
        """Whether it is a vector loop over a known number of elements, without loops inside."""
        each = self.statement
        return (
            isinstance(each, For)
            and each.lanes > 1
            and each.start is ZERO
            and each.stop.op == "const"
            and all(
                isinstance(x, Let) or (isinstance(x, Store) and not x.late and not x.atomic)
                for x in each.body
            )
        )

    @property
    def loop(self) -> For:
        assert isinstance(self.statement, For)
        return self.statement

    @cached_property
    def reads(self) -> set[Buffer]:
        return loaded([self.statement])

    @cached_property
    def writes(self) -> set[Buffer]:
        return stored([self.statement])

    @cached_property
    def sets(self) -> set[Scalar]:
        """The locals that it declares or changes, for statements after it."""
        return (
            set() if self.is_vectors else {*declared([self.statement]), *assigned([self.statement])}
        )

    @cached_property
    def locals(self) -> set[Scalar]:
        return locals_in([self.statement])

    @cached_property
    def places(self) -> dict[Buffer, dict[tuple[Position, bool], Box]]:
        """The elements of each buffer that an iteration reads, or stores, with all of the loop."""
        found: dict[Buffer, dict[tuple[Position, bool], Box]] = defaultdict(dict)
        adds = (x for x in self.loop.body if isinstance(x, Store) and x.op is not None)
        for one, position, is_store in (
            *accesses(self.loop.body),
            *(Access(x.target, x.indices, False) for x in adds),
        ):
            if (position, is_store) not in found[one]:
                found[one][position, is_store] = tuple(map(self._range, position))
        return found

    def _range(self, entry: Scalar) -> Range | None:
        terms, first = self.simplify.terms(entry)
        if not terms.keys() <= {self.loop.index}:
            return None
        last = first + terms.get(self.loop.index, 0) * (int(self.loop.stop.attribute) - 1)
        return min(first, last), max(first, last)

    def must_follow(self, other: _Part) -> bool:
        """Whether it must stay behind another part: it reads or changes what the other one sets."""
        if not other.sets.isdisjoint(self.locals):
            return True
        if self.is_vectors and other.is_vectors:
            return not self._is_apart(other)
        return not (
            self.writes.isdisjoint(other.writes | other.reads)
            and self.reads.isdisjoint(other.writes)
        )

    def may_join(self, other: _Part) -> bool:
        """Whether a later loop over as many elements shares data with this one, and may join it.

        It may if no iteration accesses what another one of the other loop stores.
        """
        if not self.is_vectors or self.loop.stop is not other.loop.stop:
            return False
        if (self.reads | self.writes).isdisjoint(other.reads | other.writes):
            return False
        return self._is_apart(other.over(self.loop.index))

    def _is_apart(self, other: _Part) -> bool:
        """Whether different iterations of two loops access different elements, or only read them.

        So do the same iterations if the indices of the loops are not the same.
        """
        both = self.places.keys() & other.places.keys()
        for one in both & (self.writes | other.writes):
            for mine, its in product(self.places[one].items(), other.places[one].items()):
                ((at, stores), box), ((other_at, also), other_box) = mine, its
                # (a position that depends on data need not stay where it is)
                is_own = at == other_at and None not in box
                if (stores or also) and not is_own and _meet(box, other_box):
                    return False
        return True

    def over(self, index: Scalar) -> _Part:
        """The loop over another index."""
        loop = self.loop
        body = substituted(loop.body, {loop.index: index}, self.simplify)
        return _Part(replace(loop, index=index, body=body), self.simplify)

    def joined(self, other: _Part) -> _Part:
        """One loop instead of two."""
        mine, its = self.loop, other.over(self.loop.index).loop
        lanes = max(mine.lanes, its.lanes)
        return _Part(
            replace(
                mine,
                body=(*mine.body, *its.body),
                lanes=lanes,
                parallel=mine.parallel and its.parallel,
                repeatable=mine.repeatable and its.repeatable,
                whole=int(mine.stop.attribute) % lanes == 0,
            ),
            self.simplify,
        )


def _meet(some: Box, others: Box) -> bool:
    """Whether elements may be the same: there is no axis along which their ranges are apart."""
    return not any(
        x is not None and y is not None and (x[1] < y[0] or y[1] < x[0])
        for x, y in zip(some, others, strict=True)
    )


def contracted(
    body: Sequence[Statement], given: Set[Buffer], simplify: Simplifier
) -> list[Statement]:
    """Array contraction: an array that only one vector loop accesses, at one place, is a local.

    ``given`` are the buffers that are also accessed elsewhere.
    """
    users: dict[Buffer, list[int]] = defaultdict(list)
    for number, each in enumerate(body):
        for one in buffers_of([each]):
            users[one].append(number)
    made = list(body)
    for one in dict.fromkeys(x.target for x in walk(body) if isinstance(x, Store)):
        if len(users[one]) == 1 and one not in given:
            (number,) = users[one]
            made[number] = _without(one, made[number], simplify)
    return made


def _without(one: Buffer, statement: Statement, simplify: Simplifier) -> Statement:
    """A vector loop with a local instead of an array, if each iteration has its own element."""
    if not _Part(statement, simplify).is_vectors:
        return statement
    assert isinstance(statement, For)
    places = {position for other, position, _ in accesses(statement.body) if other is one}
    stores = [x for x in statement.body if isinstance(x, Store) and x.target is one]
    if len(places) > 1 or len(stores) > 1 or stores[0].op is not None:
        return statement
    (place,), (store,) = places, stores
    number = statement.body.index(store)
    before, after = statement.body[:number], statement.body[number + 1 :]
    if one in loaded((*before, store)):
        return statement
    name = local(one.dtype, one.name)
    after = substituted(after, {load(one, place): name}, simplify)
    return replace(statement, body=(*before, Let((name,), (store.value,)), *after))

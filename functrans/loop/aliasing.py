"""Aliasing: whether an array can be computed in the memory of another one.

A target may be the same buffer as its source if each element of the source is read before it is
overwritten, and not after that. Copies of an element to itself are then left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    Call,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    While,
    load,
    local,
)
from functrans.loop.substitution import Position
from functrans.loop.walk import Body, bodies, children, expressions, loaded, scalars, stored, walk

_AFFINE = frozenset({"index", "const", "add", "sub", "mul", "neg"})
"""Operations of indices whose values do not depend on where they are computed."""

Box = tuple[tuple[int, int], ...]
"""For each axis, the least and the greatest position."""


class Copies:
    """Removes copies of elements to themselves, from statements that are given in order.

    An element to which something else may have been stored before is not one of these: the copy
    restores it.
    """

    def __init__(self, source: Buffer, target: Buffer) -> None:
        self.source = source
        self.target = target
        self._changed: list[Box] = []
        """Where something else was stored."""
        self._simplify = Simplifier()

    def removed(self, body: Body) -> Body:
        """The statements without copies."""
        kept: list[Statement] = []
        for each in body:
            copies: dict[Statement, list[Box]] = {}
            self._look(each, {}, copies, True)
            restored = {copy for copy, boxes in copies.items() if any(map(self._is_changed, boxes))}
            self._changed += [box for copy in restored for box in copies[copy]]
            left = self._without(each, copies.keys() - restored)
            kept += [] if left is None else [left]
        same = len(kept) == len(body) and all(
            one is other for one, other in zip(kept, body, strict=True)
        )
        return body if same else tuple(kept)

    def _look(
        self,
        statement: Statement,
        ranges: Mapping[Scalar, tuple[int, int]],
        copies: dict[Statement, list[Box]],
        in_loops: bool,
    ) -> None:
        """Find the copies in a statement, and what else is stored to the target."""
        match statement:
            case Store() if statement.target is self.target:
                box = self._box(statement.indices, ranges)
                same = statement.value is load(self.source, statement.indices)
                if in_loops and same and statement.op is None:
                    copies.setdefault(statement, []).append(box)
                else:
                    self._changed.append(box)
            case For():
                inner = dict(ranges)
                if statement.start.op == statement.stop.op == "const":
                    first, stop = (int(x.attribute) for x in (statement.start, statement.stop))
                    inner[statement.index] = first, stop - 1
                for each in statement.body:
                    self._look(each, inner, copies, in_loops)
            case _:
                if not children(statement) and self.target in stored([statement]):
                    self._changed.append(self._box((), {}))
                for each in children(statement):
                    self._look(each, ranges, copies, False)

    def _box(self, position: Position, ranges: Mapping[Scalar, tuple[int, int]]) -> Box:
        """The elements at a position in all iterations; all elements if the position is empty."""
        box: list[tuple[int, int]] = []
        for axis, extent in enumerate(self.target.shape):
            entry = position[axis] if position else None
            low, high = 0, int(extent.attribute) - 1 if extent.op == "const" else 1 << 62
            terms, constant = self._simplify.terms(entry) if entry is not None else ({}, 0)
            if entry is not None and all(term in ranges for term in terms):
                ends = [sorted(factor * x for x in ranges[term]) for term, factor in terms.items()]
                low = constant + sum(least for least, _ in ends)
                high = constant + sum(most for _, most in ends)
            box.append((low, high))
        return tuple(box)

    def _is_changed(self, box: Box) -> bool:
        """Whether something else may have been stored to one of the elements."""
        return any(
            all(least <= high and low <= most for (low, high), (least, most) in pairs)
            for pairs in (zip(box, other, strict=True) for other in self._changed)
        )

    def _without(self, statement: Statement, copies: set[Statement]) -> Statement | None:
        """A statement without some copies; None if nothing is left."""
        if statement in copies:
            return None
        if not isinstance(statement, For) or copies.isdisjoint(walk([statement])):
            return statement
        left = [self._without(each, copies) for each in statement.body]
        body = tuple(each for each in left if each is not None)
        return replace(statement, body=body) if body else None


def _stores(statement: Statement, target: Buffer) -> bool:
    # most are simple statements, and there may be thousands
    if isinstance(statement, Store):
        return statement.target is target
    return target in stored([statement])


def _stores_in(statements: Iterable[Statement], target: Buffer) -> list[Store]:
    return [each for each in statements if isinstance(each, Store) and each.target is target]


class Aliasing:
    """Orders loads and stores so that a target can be the same buffer as its source.

    The source may be written, too, before the target is.
    """

    def __init__(self, source: Buffer, target: Buffer) -> None:
        self.source = source
        self.target = target

    def block(self, body: Body) -> Body | None:
        """The statements, in an order that reads elements before overwriting them; or None."""
        first = next((n for n, each in enumerate(body) if _stores(each, self.target)), None)
        if first is None:
            return body
        before, here, after = body[:first], body[first], body[first + 1 :]
        if self.source in stored(after):
            return None
        if self.source in stored([here]):
            # computed and used slice by slice, in this loop
            last = None if self.source in loaded(after) else self._statement(here)
            return None if last is None else (*before, last, *after)
        if self.source not in loaded([here, *after]):
            return body
        rest: Body | None = None
        if all(isinstance(each, (Store, Let)) for each in body[first:]):
            rest = self._compute_before_stores(body[first:])
        else:
            if self.source not in loaded(after):
                aliased = self._statement(here)
                rest = (aliased, *after) if aliased is not None else None
            if rest is None:
                rest = self._load_before_stores(body[first:])
        return None if rest is None else (*before, *rest)

    def _statement(self, statement: Statement) -> Statement | None:
        """A statement that both reads the source and writes the target."""
        match statement:
            case If():
                chosen, otherwise = self.block(statement.body), self.block(statement.otherwise)
                if chosen is None or otherwise is None:
                    return None
                return If(statement.condition, chosen, otherwise)
            case For() if self._has_own_slice(statement):
                inner = self.block(statement.body)
                # a repeated iteration would read what it has written
                return None if inner is None else replace(statement, body=inner, repeatable=False)
        return None

    def _has_own_slice(self, loop: For) -> bool:
        """Whether each iteration accesses only a slice of both buffers that no other accesses."""
        inside = list(walk(loop.body))
        if self._in_calls(inside):
            return False
        if loop.parallel and self._reads_what_it_writes(loop.body):
            return True
        bound = {each.index for each in inside if isinstance(each, For)}
        bound.update(i for each in inside if isinstance(each, Reduce) for i, *_ in each.loops)
        positions = [node.args for node in self._loads_in(loop.body)]
        for one in (self.source, self.target):
            positions += [each.indices for each in _stores_in(inside, one)]
        moves = Coefficients(loop.index)
        for entries in zip(*positions, strict=True):
            nodes = postorder(entries[:1])
            if (
                all(entry is entries[0] for entry in entries)
                and all(node.op in _AFFINE and node not in bound for node in nodes)
                and moves.of(entries[0]) not in (0, None)
            ):
                return True
        return False

    def _reads_what_it_writes(self, body: Body) -> bool:
        """Whether each element of the source is accessed only where the same statements write it.

        What an iteration of a parallel loop writes, no other one does.
        """
        here = [each for each in body if isinstance(each, Store)]
        written = {each.indices for each in _stores_in(here, self.target)}
        own = [value for each in body for value in expressions(each)]
        touched = {x.args for x in postorder(own) if x.op == "load" and x.attribute is self.source}
        touched.update(each.indices for each in _stores_in(here, self.source))
        return touched <= written and all(
            self._reads_what_it_writes(inner) for each in body for inner in bodies(each)
        )

    def _in_calls(self, statements: Iterable[Statement]) -> bool:
        return any(
            isinstance(each, Call)
            and (self.source in (*each.reads, *each.writes) or self.target in each.writes)
            for each in statements
        )

    def _loads_in(self, body: Body) -> list[Scalar]:
        return [x for x in scalars(body) if x.op == "load" and x.attribute is self.source]

    def _compute_before_stores(self, body: Body) -> Body | None:
        """Simple statements, with all stored values computed before the first store.

        Common subexpressions are then still computed once: after a store, values loaded from
        changed memory would have to be loaded again.
        """
        computed: list[Statement] = []
        stores: list[Statement] = []
        for number, each in enumerate(body):
            if not loaded([each]).isdisjoint(stored(stores)):
                if self.source in loaded(body[number:]):
                    return None
                return (*computed, *stores, *body[number:])
            if isinstance(each, Store) and each.value.op != "const":
                name = local(each.value.dtype, each.target.name)
                computed.append(Let((name,), (each.value,)))
                each = replace(each, value=name)
            (stores if isinstance(each, Store) else computed).append(each)
        return (*computed, *stores)

    def _load_before_stores(self, body: Body) -> Body | None:
        """The statements after a declaration that reads everything that they need of the source."""
        if any(isinstance(each, For) and each.parallel for each in body):
            return None
        if any(isinstance(each, While) for each in walk(body)) or self._in_calls(walk(body)):
            return None
        found = self._loads_in(body)
        if not all(self._is_in_bounds(node.args, body) for node in found):
            return None
        names = {node.args: local(self.source.dtype, self.source.name) for node in found}
        relocation = Relocation(Simplifier())
        relocation.held[self.source] = dict(names)
        return Let(tuple(names.values()), tuple(found)), *relocation.statements(body)

    def _is_in_bounds(self, position: Position, body: Body) -> bool:
        """Whether a position is known and in bounds before the statements are executed."""
        stores = _stores_in(body, self.target)
        for axis, (entry, extent) in enumerate(zip(position, self.source.shape, strict=True)):
            if entry.op == "const" and 0 <= entry.attribute < extent.attribute:
                continue
            # an element that is written exists
            if not any(store.indices[axis] is entry for store in stores):
                return False
            if not all(node.op in _AFFINE for node in postorder([entry])):
                return False
        return True

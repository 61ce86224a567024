"""Definite assignment analysis: whether elements of a buffer are written before they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.loop.scalar import OPERATIONS, Scalar, evaluate, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Call, For, Statement, Store
from functrans.loop.walk import children, expressions

Box = tuple[tuple[int, int], ...]
"""For each axis, the start and the stop of a range."""

MOST_ENUMERATED = 1 << 15
"""The most iterations of a store, and elements of its buffer, that are enumerated."""


class _Written:
    """The elements of a buffer that have been written: boxes, and others, which are enumerated."""

    def __init__(self, one: Buffer) -> None:
        self.one = one
        self.boxes: list[Box] = []
        self.others: np.ndarray[Any, Any] | None = None
        """For each element, whether it has been written, if boxes do not suffice."""

    def copy(self) -> _Written:
        made = _Written(self.one)
        made.boxes = list(self.boxes)
        made.others = None if self.others is None else self.others.copy()
        return made

    def add(self, box: Box) -> None:
        self.boxes.append(box)
        if self.others is not None:
            self.others[_slices(box)] = True

    def add_each(self, positions: tuple[np.ndarray[Any, Any], ...]) -> None:
        if self.others is None:
            self.others = np.zeros(self.one.extents, bool)
            for box in self.boxes:
                self.others[_slices(box)] = True
        self.others[positions] = True

    def has(self, box: Box) -> bool:
        if _covered(box, self.boxes):
            return True
        return self.others is not None and bool(self.others[_slices(box)].all())


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*pair) for pair in box)


def used_by(statement: Statement) -> set[Buffer]:
    """The buffers that a statement itself reads or writes."""
    found = {x.attribute for x in postorder(expressions(statement)) if x.op == "load"}
    if isinstance(statement, Store):
        found.add(statement.target)
    if isinstance(statement, Call):
        found.update((*statement.reads, *statement.writes))
    return found


def assigned_before_use(body: Sequence[Statement], one: Buffer) -> bool:
    """Whether every element of a buffer is written before it is read.

    Conservative: False if that is not known.
    """
    return _uses_assigned(body, one, _Written(one), set(), Simplifier())


def _uses_assigned(
    body: Sequence[Statement],
    one: Buffer,
    written: _Written,
    before: set[tuple[Scalar, ...]],
    simplify: Simplifier,
) -> bool:
    """Whether elements that statements read are written before, perhaps in the same iteration."""
    before, written = set(before), written.copy()
    for each in body:
        if isinstance(each, Call) and one in used_by(each):
            return False
        for node in postorder(expressions(each)):
            if node.op == "load" and node.attribute is one and node.args not in before:
                if not written.has(_wanted(node.args, one, simplify)):
                    return False
        if isinstance(each, Store) and each.target is one:
            if each.op is not None and each.indices not in before:
                return False
            before.add(each.indices)
        if not _uses_assigned(children(each), one, written, before, simplify):
            return False
        _assign(each, written, {}, simplify)
    return True


def _wanted(position: Sequence[Scalar], one: Buffer, simplify: Simplifier) -> Box:
    """The range of an element that is read: within its buffer, whatever guards it."""
    box = []
    for entry, extent in zip(position, one.extents, strict=True):
        low, high = simplify.bounds(entry) or (0, extent - 1)
        box.append((max(low, 0), min(high + 1, extent)))
    return tuple(box)


def _assign(
    statement: Statement, written: _Written, extents: Mapping[Scalar, int], simplify: Simplifier
) -> None:
    """Record what a statement writes unconditionally, in loops with the given extents."""
    match statement:
        case Store() if statement.target is written.one:
            ranges = [_range(i, extents, simplify) for i in statement.indices]
            indices = [x for i in statement.indices for x in postorder([i]) if x.op == "index"]
            box = tuple(r for r in ranges if r is not None)
            if len(box) == len(ranges) and len(set(indices)) == len(indices):
                written.add(box)
            else:
                _enumerate(statement, written, extents)
        case For():
            start, stop = statement.start, statement.stop
            if start.op == stop.op == "const" and start.attribute == 0 < stop.attribute:
                inner = {**extents, statement.index: int(stop.attribute)}
                for each in statement.body:
                    _assign(each, written, inner, simplify)


def _enumerate(store: Store, written: _Written, extents: Mapping[Scalar, int]) -> None:
    """Record the elements that a store writes in all iterations, if they follow from the loops."""
    nodes = postorder(store.indices)
    loops = [node for node in nodes if node in extents]
    counts = [extents[loop] for loop in loops]
    if any(x.op not in OPERATIONS and x.op != "const" and x not in extents for x in nodes):
        return
    if not loops or max(prod(counts), store.target.count) > MOST_ENUMERATED:
        return
    values: dict[Scalar, Any] = dict(zip(loops, np.indices(counts), strict=True))
    positions = [np.broadcast_to(evaluate(i, values), counts) for i in store.indices]
    if all(
        (0 <= at).all() and (at < extent).all()
        for at, extent in zip(positions, store.target.extents, strict=True)
    ):
        written.add_each(tuple(positions))


def _range(
    entry: Scalar, extents: Mapping[Scalar, int], simplify: Simplifier
) -> tuple[int, int] | None:
    """The range of an index, without gaps, over the iterations of its loops; None if unknown."""
    terms, first = simplify.terms(entry)
    count = 1
    for term, factor in sorted(terms.items(), key=lambda pair: pair[1]):
        if term not in extents or factor != count:
            return None
        count *= extents[term]
    return first, first + count


def _covered(wanted: Box, boxes: Sequence[Box]) -> bool:
    """Whether the union of boxes contains another box."""
    if any(start >= stop for start, stop in wanted):
        return True
    for number, box in enumerate(boxes):
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, box, strict=True)]
        if all(start < stop for start, stop in common):
            rest = list(wanted)
            for axis, (start, stop) in enumerate(common):
                for left in ((rest[axis][0], start), (stop, rest[axis][1])):
                    outside = (*rest[:axis], left, *rest[axis + 1 :])
                    if not _covered(outside, boxes[number + 1 :]):
                        return False
                rest[axis] = start, stop
            return True
    return False

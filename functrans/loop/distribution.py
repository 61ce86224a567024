"""Loop distribution (fission): a vector loop becomes several, by levels of dependence.

In a step of a recurrence with several layers, each layer reads what the one before it has computed.
A loop that computes all layers for one vector before it begins the next vector waits for each
result, since a processor looks ahead only some hundred instructions. Distributed, the vectors of
one layer follow each other, and none waits for another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace

from functrans.loop.fusion import Joining, contracted, fused
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Number, Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Statement, Store, buffer, load, local
from functrans.loop.substitution import substituted
from functrans.loop.terms import from_terms
from functrans.loop.walk import expressions
from functrans.records import NamedTuple

Fixed = tuple[Number | None, ...]
"""The constant indices of an element, and None for others."""


class Levels(NamedTuple):
    """Thresholds of loop distribution. Measured: all (LSTMs with diagonal weights)."""

    least_work: int = 48
    """The fewest operations for an element in each loop: an exponential."""
    fewest_expanded: int = 3
    """The fewest loops between which locals are stored."""
    longest_apart: int = 31
    """The most iterations for which vectors do not overlap, if the rest fills a vector. What two
    overlapping vectors have just stored cannot be loaded as one before it is in the cache."""


def distributed(loop: For, limits: Levels, simplify: Simplifier) -> tuple[For, ...]:
    """The loops that execute the levels of a vector loop one after the other.

    A value is one level above the stored values that it reads. A local that several loops need is
    stored in a buffer by the first one (scalar expansion).
    """
    if loop.lanes == 1 or loop.start is not ZERO or loop.stop.op != "const":
        return (loop,)
    levels = _levels(loop.body, limits) if loop.lanes < loop.stop.attribute else None
    if levels is None:
        return (loop,)
    groups: list[list[Statement]] = [[]]
    for level in range(max(levels.values(), default=0) + 1):
        if operations_of(groups[-1]) >= limits.least_work:
            groups.append([])
        groups[-1] += [each for each, own in levels.items() if own == level]
    if len(groups) > 1 and operations_of(groups[-1]) < limits.least_work:
        rest = groups.pop()
        groups[-1] += rest
    if len(groups) == 1:
        return (loop,)
    expansion = _Expansion(loop, simplify)
    bodies = expansion.bodies(groups)
    if bodies is None or (expansion.buffers and len(groups) < limits.fewest_expanded):
        return (loop,)
    return tuple(replace(loop, body=body) for body in bodies)


def in_levels(
    body: Sequence[Statement],
    given: Set[Buffer],  # the buffers that are also accessed elsewhere
    limits: Levels,
    joining: Joining,
    simplify: Simplifier,
    # whether elements depend only on elements at the same index, in this step and in others
    independent: bool = False,
) -> list[Statement]:
    """The statements of a step: its vector loops are fused, and distributed by levels."""
    made: list[Statement] = []
    apart: set[int] = set()
    for each in fused(body, joining, simplify):
        loops = distributed(each, limits, simplify) if isinstance(each, For) else ()
        is_short = len(loops) > 1 and loops[0].stop.attribute <= limits.longest_apart
        if is_short and (independent or is_full(loops[0])):
            apart.update(range(len(made), len(made) + len(loops)))
        made += loops or (each,)
    done: list[Statement] = []
    for number, each in enumerate(contracted(made, given, simplify)):
        if isinstance(each, For) and number in apart:
            done += in_parts(each, simplify)
        else:
            done.append(each)
    return done


def _levels(body: Sequence[Statement], limits: Levels) -> dict[Statement, int] | None:
    """The level of each store and costly local; None if an element is read and then overwritten."""
    levels: dict[Statement, int] = {}
    made: dict[Buffer, dict[Fixed, int]] = defaultdict(dict)  # the levels of what has been stored
    read: dict[Buffer, set[Fixed]] = defaultdict(set)
    of_nodes: dict[Scalar, int] = {}
    for each in body:
        if not isinstance(each, (Let, Store)):
            return None
        roots = expressions(each)
        for node in postorder(roots, known=of_nodes):
            level = max((of_nodes[x] for x in node.args), default=0)
            if node.op == "load":
                at = _fixed(node.args)
                read[node.attribute].add(at)
                found = made[node.attribute]
                level = max([level, *(found[other] + 1 for other in found if _meet(at, other))])
            of_nodes[node] = level
        if isinstance(each, Let):
            own = max(of_nodes[x] for x in roots)
            if operations_of([each]) >= limits.least_work:
                levels[each] = own
                own += 1
            of_nodes.update(dict.fromkeys(each.targets, own))
            continue
        at, found = _fixed(each.indices), made[each.target]
        if each.late or any(_meet(at, x) for x in read[each.target]):
            return None
        before = (found[other] for other in found if _meet(at, other))
        levels[each] = found[at] = max([*before, *(of_nodes[x] for x in roots)], default=0)
    return levels


def _fixed(indices: Sequence[Scalar]) -> Fixed:
    return tuple(i.attribute if i.op == "const" else None for i in indices)


def _meet(some: Fixed, others: Fixed) -> bool:
    """Whether two positions in a buffer may be the same: no constant indices differ."""
    pairs = zip(some, others, strict=True)
    return all(i == k or i is None or k is None for i, k in pairs)


class _Expansion:
    """Scalar expansion: a local that several parts of a loop need is stored by the first of them.

    Locals without operations are declared again instead.
    """

    def __init__(self, loop: For, simplify: Simplifier) -> None:
        self.loop = loop
        self.simplify = simplify
        self.declared: set[Scalar] = set()
        """The locals of the parts so far."""
        self.buffers: dict[Scalar, Buffer] = {}
        """Where those are stored that a later part needs."""

    def bodies(self, groups: Sequence[Sequence[Statement]]) -> list[tuple[Statement, ...]] | None:
        """The parts with the statements of each group; None if a local cannot be stored."""
        parts = [self._part(set(group)) for group in groups]
        if any(name.dtype.kind != "f" for name in self.buffers):
            return None
        return [tuple(x for each in part for x in self._with_stores(each)) for part in parts]

    def _part(self, group: set[Statement]) -> tuple[Statement, ...]:
        """Some statements of the body, in its order, with the declarations that they need."""
        needed: set[Scalar] = set()
        kept: list[Statement] = []
        names: dict[Scalar, Scalar] = {}
        """New names for the locals of earlier parts."""
        for each in reversed(self.loop.body):
            targets = each.targets if isinstance(each, Let) else ()
            if each not in group and needed.isdisjoint(targets):
                continue
            if isinstance(each, Let) and not self.declared.isdisjoint(targets):
                own = tuple(local(name.dtype, name.attribute[0]) for name in targets)
                names.update(zip(targets, own, strict=True))
                is_stored = operations_of([each]) > 0
                values = tuple(map(self._stored, targets)) if is_stored else each.values
                each = Let(own, values)
            needed.update(x for x in postorder(expressions(each)) if x.op == "local")
            kept.insert(0, each)
        self.declared.update(x for each in kept if isinstance(each, Let) for x in each.targets)
        return substituted(kept, names, self.simplify) if names else tuple(kept)

    def _stored(self, name: Scalar) -> Scalar:
        """The element of a buffer where a local is stored."""
        if name not in self.buffers:
            extent = int(self.loop.stop.attribute)
            self.buffers[name] = buffer(name.attribute[0], name.dtype, (extent,))
        return load(self.buffers[name], (self.loop.index,))

    def _with_stores(self, each: Statement) -> list[Statement]:
        """A statement, and after it the stores of its locals."""
        names = each.targets if isinstance(each, Let) else ()
        at = (self.loop.index,)
        return [each, *(Store(self.buffers[x], at, x) for x in names if x in self.buffers)]


def is_full(loop: For) -> bool:
    """Whether the remainder of a vector loop fills one more vector, of fewer lanes."""
    return (int(loop.stop.attribute) % loop.lanes).bit_count() == 1


def in_parts(loop: For, simplify: Simplifier) -> tuple[Statement, ...]:
    """A loop as vectors that do not overlap: the last of fewer and fewer lanes."""
    extent, lanes, start = loop.index.attribute[2], loop.lanes, 0
    made: list[Statement] = []
    while start < extent:
        lanes = min(lanes, 1 << (extent - start).bit_length() - 1)
        count = (extent - start) // lanes * lanes
        own = index(loop.index.attribute[0], count)
        values = {loop.index: from_terms({own: 1} if count > 1 else {}, start)}
        body = substituted(loop.body, values, simplify)
        flags = {"repeatable": loop.repeatable, "whole": True}
        one = For(own, ZERO, const(count, INDEX), body, lanes, **flags)
        made += [one] if count > 1 else body
        start += count
    return tuple(made)

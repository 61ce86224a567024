"""Buffer donation: results are written into inputs that the caller has donated.

Expects nests in order. Leaves nests in which such a result and its input may be one buffer.

Buffers never overlap, and machine code relies on it. So a result that is to overwrite a donated
input becomes the same buffer, before kernels are constructed, and only if nothing is read after it
has been overwritten: no later nest reads the input, and in the nest that first writes the result,
each iteration reads what it overwrites before it does so, and nothing else of the input. Copies of
an element to itself are removed: a scatter then costs only what it changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.relocation import Position, Relocation
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
from functrans.loop.walk import bodies, expressions, loaded, scalars, stored, walk
from functrans.lower.nest.bodies import Nest

Body = tuple[Statement, ...]

_AFFINE = frozenset({"index", "const", "add", "sub", "mul", "neg"})
"""Operations of indices whose values do not depend on where they are computed."""


def donate(
    nests: Sequence[Nest],
    donated: Sequence[Buffer],  # inputs
    outputs: Sequence[Buffer],
) -> tuple[list[Nest], dict[Buffer, Buffer]]:
    """Nests that overwrite donated inputs, and for each output that does so its input."""
    like: dict[Hashable, list[Buffer]] = {}
    for out in outputs:
        like.setdefault(layout(out), []).append(out)
    donated = [x for x in donated if is_reusable(x) and layout(x) in like]
    if not donated:
        return list(nests), {}
    found = [nest.body for nest in nests]
    readers, writers = occurrences(map(loaded, found)), occurrences(map(stored, found))
    homes: dict[Buffer, Buffer] = {}
    taken: set[Buffer] = set()

    def pairs() -> Iterator[tuple[Buffer, Buffer]]:
        # first the outputs that are computed from the input itself, because copies may vanish there
        made = _dependents(found)
        order = {out: number for number, out in enumerate(outputs)}
        direct = {
            x: sorted(
                (out for out in made.get(x, ()) if out in order and layout(out) == layout(x)),
                key=order.__getitem__,
            )
            for x in donated
        }
        yield from ((x, out) for x in donated for out in direct[x])
        for x in donated:
            if x not in taken:
                yield from ((x, out) for out in like[layout(x)] if out not in direct[x])

    for source, target in pairs():
        if target in homes or source in taken:
            continue
        tried = {n: _without_copies(found[n], source, target) for n in writers.get(target, ())}
        first = next((n for n, body in tried.items() if target in stored(body)), len(found))
        later = [n for n in readers.get(source, ()) if n > first]
        if any(source in loaded(tried.get(n, found[n])) for n in later):
            continue
        if first in tried:
            aliased = Aliasing(source, target).block(tried[first])
            if aliased is None:
                continue
            tried[first] = aliased
        homes[target] = source
        taken.add(source)
        for n, body in tried.items():
            found[n] = body
    kept = [replace(nest, body=body) for nest, body in zip(nests, found, strict=True) if body]
    return kept, homes


def occurrences(found: Iterable[set[Buffer]]) -> dict[Buffer, list[int]]:
    """The positions of the nests in which buffers are found."""
    numbers: dict[Buffer, list[int]] = {}
    for number, buffers in enumerate(found):
        for one in buffers:
            numbers.setdefault(one, []).append(number)
    return numbers


def layout(one: Buffer) -> Hashable:
    """The key by which two buffers agree if one array could be both."""
    return one.dtype, one.shape


def is_reusable(source: Buffer) -> bool:
    """Whether reuse is profitable: not for scalars, nor for empty arrays."""
    return bool(source.shape) and all(n.attribute != 0 for n in source.shape)


def _dependents(bodies: Sequence[Body]) -> dict[Buffer, set[Buffer]]:
    """Which buffers are computed from which: targets by source."""
    made: dict[Buffer, set[Buffer]] = {}
    for each in (each for body in bodies for each in walk(body) if isinstance(each, Store)):
        for node in postorder([each.value]):
            if node.op == "load":
                made.setdefault(node.attribute, set()).add(each.target)
    return made


def _without_copies(body: Body, source: Buffer, target: Buffer) -> Body:
    """The statements without those that copy an element to itself."""
    kept: list[Statement] = []
    for each in body:
        match each:
            case Store() if each.target is target and each.op is None:
                if each.value is load(source, each.indices):
                    continue
            case For():
                inner = _without_copies(each.body, source, target)
                if each.body and not inner:
                    continue
                if inner != each.body:
                    each = replace(each, body=inner)
        kept.append(each)
    return tuple(kept)


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

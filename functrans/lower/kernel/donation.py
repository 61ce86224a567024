"""Buffer donation: results are written into inputs that the caller has donated.

Expects nests in order. Leaves nests in which such a result and its input may be one buffer.

Buffers never overlap, and machine code relies on it. So a result that is to overwrite a donated
input becomes the same buffer, before kernels are constructed, and only if nothing is read after it
has been overwritten: no later nest reads the input, and in the nest that first writes the result,
each iteration reads what it overwrites before it does so, and nothing else of the input. Copies of
an element to itself are removed: a scatter then costs only what it changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from functrans.loop.aliasing import Aliasing, Copies
from functrans.loop.scalar import postorder
from functrans.loop.statements import Buffer, Store
from functrans.loop.walk import Body, loaded, stored, walk
from functrans.lower.nest.bodies import Nest


def donate(
    nests: Sequence[Nest],
    donated: Sequence[Buffer],  # inputs
    outputs: Sequence[Buffer],
) -> tuple[list[Nest], dict[Buffer, Buffer]]:
    """Nests that overwrite donated inputs, and for each output that does so its input."""
    layouts = {layout(out) for out in outputs}
    donated = [x for x in donated if is_reusable(x) and layout(x) in layouts]
    if not donated:
        return list(nests), {}
    found = [nest.body for nest in nests]
    readers, writers = occurrences(map(loaded, found)), occurrences(map(stored, found))
    homes: dict[Buffer, Buffer] = {}
    taken: set[Buffer] = set()
    for source, target in _pairs(donated, outputs, _dependents(found)):
        if target in homes or source in taken:
            continue
        changed = _overwriting(found, source, target, readers, writers)
        if changed is not None:
            homes[target] = source
            taken.add(source)
            for n, body in changed.items():
                found[n] = body
    kept = [replace(nest, body=body) for nest, body in zip(nests, found, strict=True) if body]
    return kept, homes


def _pairs(
    donated: Sequence[Buffer], outputs: Sequence[Buffer], made: Mapping[Buffer, Set[Buffer]]
) -> Iterator[tuple[Buffer, Buffer]]:
    """Inputs and outputs of one layout, those first that are computed from the input itself.

    There, copies may vanish. ``made`` has the buffers that are computed from another.
    """
    like: dict[Hashable, list[Buffer]] = {}
    for out in outputs:
        like.setdefault(layout(out), []).append(out)
    for direct in (True, False):
        for x in donated:
            for out in like[layout(x)]:
                if (out in made.get(x, ())) == direct:
                    yield x, out


def _overwriting(
    found: Sequence[Body],
    source: Buffer,
    target: Buffer,
    readers: Mapping[Buffer, Sequence[int]],
    writers: Mapping[Buffer, Sequence[int]],
) -> dict[int, Body] | None:
    """The bodies that change if an output overwrites an input; None if it must not."""
    copies = Copies(source, target)
    changed = {n: copies.removed(found[n]) for n in writers.get(target, ())}
    first = next((n for n, body in changed.items() if target in stored(body)), len(found))
    later = [n for n in readers.get(source, ()) if n > first]
    if any(source in loaded(changed.get(n, found[n])) for n in later):
        return None
    if first in changed:
        aliased = Aliasing(source, target).block(changed[first])
        if aliased is None:
            return None
        changed[first] = aliased
    return changed


def occurrences(found: Iterable[Set[Buffer]]) -> dict[Buffer, list[int]]:
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

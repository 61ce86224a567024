"""Row fusion: nests over the rows of the same arrays become one loop, in which rows stay in cache.

Expects nests in order. Leaves fewer nests, and fewer temporaries in memory.

Elementwise roots share loops already (`functrans.lower.nest.fusion`), but the statements of an
`emit` rule are a nest of their own. If this nest, too, is a loop over rows, and each iteration
reads only its own rows of the arrays that another nest computes, both are executed for one row, or
for a few, before the next rows. An array that no other nest accesses is then contracted to scratch
of the size of these rows, and is never written to memory (array contraction). For a Fourier
transform of rows, such arrays are the copies of the real and imaginary parts, and the spectrum
whose absolute value is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from functools import partial

from functrans.caches import cached_property
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const, idiv, irem
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, Buffer, For, If, Let, Reduce, Statement, Store, buffer
from functrans.loop.substitution import Position, substituted
from functrans.loop.target import Target
from functrans.loop.walk import accesses, walk
from functrans.lower.nest.bodies import Nest
from functrans.records import dataclass

PLAIN = (Assign, For, If, Let, Reduce, Store)
"""The statements whose accesses to memory are loads and stores at explicit positions."""


def with_fused_rows(
    nests: Sequence[Nest],
    outputs: Iterable[Buffer],  # the buffers that are not contracted
    target: Target,
) -> list[Nest]:
    """Equivalent nests, of which some are fused."""
    if not any(nest.scratch for nest in nests):
        # without rows on the stack, nests are plain elements, which have been fused
        return list(nests)
    return _RowFusion(list(map(_Rows, nests)), frozenset(outputs), target).run()


@dataclass(frozen=True, eq=False)
class _Rows:
    """A nest, and the buffers that it accesses."""

    nest: Nest

    @cached_property
    def loop(self) -> For | None:
        """The loop over rows, if the nest is a single one."""
        nest, (first, *others) = self.nest, self.nest.body
        if others or not isinstance(first, For) or not first.parallel or first.lanes > 1:
            return None
        if nest.part or nest.team or nest.turns or nest.in_phases or nest.exit:
            return None
        if first.start is not ZERO or first.stop.op != "const" or not first.stop.attribute:
            return None
        return first if all(isinstance(each, PLAIN) for each in walk(first.body)) else None

    def depends_on(self, other: _Rows) -> bool:
        """Whether the nest must stay behind an earlier one: their accesses conflict."""
        return not (
            self.nest.loads.isdisjoint(other.nest.stores)
            and self.nest.stores.isdisjoint(other.nest.stores)
            and self.nest.stores.isdisjoint(other.nest.loads)
        )

    def used(self) -> frozenset[Buffer]:
        """All buffers that the nest accesses."""
        return self.nest.loads | self.nest.stores


class _RowFusion:
    def __init__(self, nests: Sequence[_Rows], kept: Set[Buffer], target: Target) -> None:
        self.nests = nests
        self.kept = kept
        self.room = target.largest_stack
        self.simplify = Simplifier()
        self.users = Counter(one for each in nests for one in each.used())
        """The number of nests that access a buffer."""

    def run(self) -> list[Nest]:
        done: list[_Rows] = []
        for each in self.nests:
            for number in reversed(range(len(done))):
                if each.loop is None:
                    break
                if not done[number].nest.stores.isdisjoint(each.nest.loads):
                    fused = self._fused(done[number], done[number + 1 :], each)
                    if fused is not None:
                        each = _Rows(fused)
                        del done[number]
            done.append(each)
        return [each.nest for each in done]

    def _fused(self, first: _Rows, between: Sequence[_Rows], last: _Rows) -> Nest | None:
        """One nest instead of two, at the later one's position, if legal and profitable."""
        if first.loop is None or last.loop is None or first.nest.part:
            return None
        scratch = (*first.nest.scratch, *last.nest.scratch)
        if not scratch or any(each.depends_on(first) for each in between):
            # (nests without scratch are elementwise, and have been fused already)
            return None
        loops = first.loop, last.loop
        extents = [int(loop.stop.attribute) for loop in loops]
        count = min(extents)
        if any(extent % count for extent in extents):
            return None
        row = index("row", count)
        bodies = [
            self._group(loop, row, extent // count)
            for loop, extent in zip(loops, extents, strict=True)
        ]
        places = _positions([*bodies[0], *bodies[1]])
        common = {
            one
            for one in first.used() & last.used()
            if one in first.nest.stores or one in last.nest.stores
        }
        groups = {one: self._rows_together(one, places[one], row, count) for one in common}
        if not all(groups.values()):
            return None
        rows = {
            one: buffer(f"{one.name}_rows", one.dtype, (groups[one], *one.extents[1:]))
            for one in common
            if self.users[one] == 2 and one not in self.kept
        }
        private = (*scratch, *rows.values())
        if not rows or sum(one.nbytes for one in private) > self.room:
            return None
        relocation = Relocation(self.simplify)
        for one, own in rows.items():
            relocation.placed[one] = partial(_within, own, groups[one])
        body = relocation.statements([*bodies[0], *bodies[1]])
        self.users.subtract(one for one in common)
        operations = (first.nest.operations, last.nest.operations)
        return replace(
            last.nest,
            body=(replace(last.loop, index=row, stop=const(count, INDEX), body=body),),
            scratch=private,
            products=first.nest.products + last.nest.products,
            uncounted=first.nest.uncounted + last.nest.uncounted,
            largest_constant=max(first.nest.largest_constant, last.nest.largest_constant),
            operations=None if None in operations else sum(x or 0 for x in operations),
        )

    def _group(self, loop: For, row: Scalar, size: int) -> tuple[Statement, ...]:
        """The body of a loop for one group of rows, of a given size."""
        if size == 1:
            return substituted(loop.body, {loop.index: row}, self.simplify)
        inner = index(loop.index.attribute[0], size)
        body = substituted(loop.body, {loop.index: row * size + inner}, self.simplify)
        return (For(inner, ZERO, const(size, INDEX), body),)

    def _rows_together(
        self, one: Buffer, positions: Sequence[Position], row: Scalar, count: int
    ) -> int:
        """The number of rows of a buffer that only one iteration accesses; 0 if some share rows."""
        if not one.shape or one.extents[0] % count:
            return 0
        size = one.extents[0] // count
        own = all(self.simplify(idiv(position[0], size)) is row for position in positions)
        return size if own else 0


def _positions(statements: Sequence[Statement]) -> dict[Buffer, list[Position]]:
    """The positions at which each buffer is accessed."""
    found: dict[Buffer, list[Position]] = {}
    for one, position, _ in accesses(statements):
        found.setdefault(one, []).append(position)
    return found


def _within(own: Buffer, size: int, position: Position) -> tuple[Buffer, Position]:
    """The position of an element in the scratch for the rows of its group."""
    return own, (irem(position[0], size), *position[1:])

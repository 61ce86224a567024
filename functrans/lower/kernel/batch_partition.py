"""Batch partitioning: threads share the rows of a batch if a scan does not mix them.

Expects the nest of a scan. Leaves a parallel loop over blocks of rows around all of it, or the nest
as it is.

The steps of a scan are sequential, and a single step often has too little work to share. But if a
step processes each row of its carry (the samples of a batch in a recurrent network) independently,
each block of rows can execute all steps on its own: a single loop over blocks, outside of
everything, replaces many small parallel ones. The blocks do not depend on the number of threads, so
neither do the bits of the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from functrans.lazily import lazy
from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const, convert, eq, idiv, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Address, Buffer, Call, For, If, Let, Statement, Store
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import assigned, carries_a_local, expressions, walk
from functrans.lower.nest.bodies import Nest
from functrans.records import NamedTuple

_assigned_before_use = lazy("functrans.lower.kernel.definite_assignment:assigned_before_use")
_used_by = lazy("functrans.lower.kernel.definite_assignment:used_by")


class BatchPartition(NamedTuple):
    """Scans over a batch whose rows are independent, in blocks that threads share.

    Measured: all together (the gradient of an LSTM).
    """

    least_rows: int = 8
    """The rows of a block are a multiple of this, or of groups of at least as many."""
    most_blocks: int = 16
    """The largest number of blocks."""
    least_work: int = 2_000_000
    """The fewest scalar operations of a loop for which blocks are profitable."""
    most_repeated: float = 0.25
    """The most operations that are repeated, as a fraction of all: each block executes what
    concerns no rows."""


def partition_batch(nest: Nest, target: Target) -> Nest:
    """The nest as a parallel loop over blocks of rows, if it is a scan that allows it."""
    limits = target[BatchPartition]
    if nest.in_phases or nest.work < limits.least_work or not _is_scan(nest.body):
        return nest
    for extent in _row_extents(nest.body):
        # a block of fewer rows than a vector of them has lanes would be a masked vector
        least = limits._replace(least_rows=max(limits.least_rows, _lanes(nest.body, extent)))
        if extent >= 2 * least.least_rows:
            found = _RowDependences(nest, extent)
            if found.are_independent():
                body = (_blocked(nest, extent, found.groups, least),)
                if operations_of(body) <= (1 + limits.most_repeated) * operations_of(nest.body):
                    return replace(nest, body=body)
    return nest


def _lanes(body: Sequence[Statement], extent: int) -> int:
    """The number of rows in a vector, if all loops over as many iterations are vector loops."""
    loops = (each for each in walk(body) if isinstance(each, For) and _is_over_rows(each, extent))
    return min((loop.lanes for loop in loops), default=1)


def _is_scan(body: Sequence[Statement]) -> bool:
    """Whether there is a sequential loop with loops or calls inside."""
    return any(
        isinstance(each, For)
        and not each.parallel
        and any(isinstance(inner, (For, Call)) for inner in each.body)
        for each in body
    )


def _row_extents(body: Sequence[Statement]) -> list[int]:
    """The candidates for the number of rows: extents of inner loops, and of what they store.

    A product is a loop over groups of rows.
    """
    found: dict[int, None] = {}
    for step in body:
        if isinstance(step, For):
            for each in step.body:
                if isinstance(each, For) and each.stop.op == "const":
                    found[int(each.stop.attribute)] = None
                    found.update(_grouped(each))
    return list(found)


def _grouped(loop: For) -> dict[int, None]:
    """Multiples of a loop's trip count that are extents of what is written in it."""
    count = int(loop.stop.attribute)
    stores = (each for each in walk(loop.body) if isinstance(each, Store))
    axes = {n for each in stores for n in each.target.extents}
    return dict.fromkeys(sorted(n for n in axes if count and n > count and n % count == 0))


class _RowDependences:
    """Dependence analysis: whether no row depends on another row in the statements of a nest.

    Every block executes all statements that do not concern rows, with its own scratch for their
    results, and the statements that concern rows for its own rows only.
    """

    def __init__(
        self,
        nest: Nest,
        extent: int,  # the number of rows
    ) -> None:
        self.body = nest.body
        self.extent = extent
        self.scratch = set(nest.scratch)
        self.written = nest.stores
        self.axes: dict[Buffer, int] = {}
        """For each buffer that is written by rows, the axis of the rows."""
        self.shared: set[Buffer] = set()
        """Buffers of which every block reads any element, or writes the same elements."""
        self.groups: dict[For, int] = {}
        """Loops over groups of rows, and the number of rows in a group."""
        self.simplify = Simplifier()

    def are_independent(self) -> bool:
        """Whether each block can execute all statements for its own rows."""
        return all(map(self._is_row_wise, self.body)) and not self.shared & self.axes.keys()

    def _is_row_wise(self, statement: Statement) -> bool:
        match statement:
            case For() if _is_over_rows(statement, self.extent):
                return self._is_own_row_loop(statement)
            case For() if self._is_own_group_loop(statement):
                self.groups[statement] = _group(statement, self.extent)
                return True
            case For():
                return self._reads_shared(statement) and all(map(self._is_row_wise, statement.body))
            case Call():
                return self._call(statement)
            case Store():
                self.shared.add(statement.target)
                # blocks may write the same values at once, but not update them
                plain = statement.op is None or statement.target in self.scratch
                return plain and self._reads_shared(statement)
        return self._reads_shared(statement) and not any(
            isinstance(each, (Store, Call)) for each in walk([statement])
        )

    def _reads_shared(self, statement: Statement) -> bool:
        """Whether the expressions of a statement read nothing that other blocks write."""
        inner = [statement] if isinstance(statement, For) else walk([statement])
        return all(self._may_share(x.attribute) for each in inner for x in self._loads(each))

    def _may_share(self, one: Buffer) -> bool:
        """Whether a block may read any element of a buffer, since it is not written by rows."""
        self.shared.add(one)
        return one in self.scratch

    def _loads(self, statement: Statement) -> Iterable[Scalar]:
        for node in postorder(expressions(statement)):
            if node.op == "load" and node.attribute in self.written:
                yield node

    def _is_own_row_loop(self, loop: For, size: int = 1) -> bool:
        """Whether each iteration of a loop over the rows accesses its own row only.

        Or, if it is a loop over groups of this ``size``, rows of its group.
        """
        if carries_a_local(loop):
            return False
        inside = list(walk(loop.body))
        if any(isinstance(each, Call) for each in inside):
            return False
        loads = [(x.attribute, x.args) for each in inside for x in self._loads(each)]
        stores = [(each.target, each.indices) for each in inside if isinstance(each, Store)]
        lets = _values(inside)
        found: dict[Buffer, list[Sequence[Scalar]]] = {}
        for one, position in (*loads, *stores):
            found.setdefault(one, []).append([lets.get(i, i) for i in position])
        targets = {one for one, _ in stores}
        return all(
            all(self._is_own_row(one, position, loop.index, size) for position in positions)
            or self._is_private(one, loop)
            or (one not in targets and self._may_share(one))
            for one, positions in found.items()
        )

    def _is_own_group_loop(self, loop: For) -> bool:
        """Whether each iteration of a loop processes a group of adjacent rows."""
        size = _group(loop, self.extent)
        if size < 2:
            return False
        axes, shared = dict(self.axes), set(self.shared)
        if self._is_own_row_loop(loop, size):
            return True
        self.axes, self.shared = axes, shared
        return False

    def _is_private(self, one: Buffer, loop: For) -> bool:
        """Whether each iteration has written what it reads of a row of scratch."""
        if one not in self.scratch or _naming(loop.body, one) < _naming(self.body, one):
            return False
        return loop.parallel or _assigned_before_use(loop.body, one)

    def _is_own_row(self, one: Buffer, position: Sequence[Scalar], row: Scalar, size: int) -> bool:
        axes = [axis for axis, i in enumerate(position) if self._number_of_group(i, size) is row]
        if len(axes) != 1 or any(
            row in postorder([i]) for axis, i in enumerate(position) if axis != axes[0]
        ):
            return False
        return self._has_row_axis(one, axes[0])

    def _number_of_group(self, row: Scalar, size: int) -> Scalar:
        """The number of the group to which a row belongs, for groups of this size."""
        return row if size == 1 else self.simplify(idiv(row, size))

    def _has_row_axis(self, one: Buffer, axis: int) -> bool:
        return self.axes.setdefault(one, axis) == axis

    def _call(self, call: Call) -> bool:
        """Whether a product is one of rows, and its other operand is not written."""
        cut = call.rows
        extent = convert(const(self.extent, INDEX), np.int32)
        if cut is None or call.arguments[cut.count] is not extent:
            return False
        for number, argument in enumerate(call.arguments):
            if isinstance(argument, Scalar):
                if any(x.op == "load" for x in postorder([argument])):
                    return False
            elif isinstance(argument, Address) and argument.target in self.written:
                axis = cut.axes.get(number)
                if axis is None or argument.indices[axis] is not ZERO:
                    return False
                if not self._has_row_axis(argument.target, axis):
                    return False
        return True


def _is_over_rows(loop: For, extent: int) -> bool:
    return loop.start is ZERO and loop.stop is const(extent, INDEX)


def _values(inside: Sequence[Statement]) -> dict[Scalar, Scalar]:
    """The values of locals that are never changed."""
    changed = assigned(inside)
    return {
        name: value
        for each in inside
        if isinstance(each, Let)
        for name, value in zip(each.targets, each.values, strict=True)
        if name not in changed
    }


def _group(loop: For, extent: int) -> int:
    """The number of rows for each iteration of a loop; 0 if it does not divide the rows evenly."""
    if loop.start is not ZERO or loop.stop.op != "const":
        return 0
    count = int(loop.stop.attribute)
    return extent // count if count and extent % count == 0 else 0


def _naming(body: Iterable[Statement], one: Buffer) -> int:
    """The number of statements that refer to a buffer themselves."""
    return sum(one in _used_by(each) for each in walk(body))


def _blocked(nest: Nest, extent: int, groups: Mapping[For, int], limits: BatchPartition) -> For:
    """The loop over blocks, with the statements for the rows of a block inside."""
    least = -(-extent // limits.most_blocks)
    together = lcm(*groups.values())
    unit = -(-limits.least_rows // together) * together
    length = -(-least // unit) * unit
    block = index("rows", -(-extent // length))
    start, stop = block_range(block, length, const(extent, INDEX))

    def rows(loop: For) -> tuple[Statement, ...]:
        if length == 1:
            return substituted(loop.body, {loop.index: block}, Simplifier())
        return (replace(loop, start=start, stop=stop, repeatable=False, whole=False),)

    def cut(statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case For() if _is_over_rows(statement, extent):
                return rows(statement)
            case For() if statement in groups:
                size = groups[statement]
                bounds = block_range(block, length // size, const(extent // size, INDEX))
                return (replace(statement, start=bounds[0], stop=bounds[1], whole=False),)
            case For():
                return (replace(statement, body=all_cut(statement.body)),)
            case Call():
                return (statement.for_rows(start, Scalar("sub", (stop, start), INDEX)),)
            case Store() if statement.target not in nest.scratch:
                # all blocks have computed the same; one of them writes it
                return (If(eq(block, ZERO), (statement,)),)
        return (statement,)

    def all_cut(body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(part for each in body for part in cut(each))

    count = const(block.attribute[2], INDEX)
    return For(block, ZERO, count, all_cut(nest.body), parallel=True)

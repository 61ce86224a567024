"""Batch partitioning: threads share the rows of a batch where a scan does not mix them.

Expects the nest of a scan. Leaves a parallel loop over blocks of rows around all of it, or the nest
as it is.

The steps of a scan come one after the other, and what one step does is often too little to share.
But where a step does the same for each row of its carry (the samples of a batch in a recurrent
network), each block of rows can go through all steps on its own: one loop over blocks, outside of
everything, takes the place of many small parallel ones. The blocks do not depend on the number of
threads, so neither do the bits of the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.scalar import Scalar, const, convert, eq, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Address, Buffer, Call, For, If, Statement, Store
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import carries_a_local, expressions, stored, walk
from functrans.lower.kernel.definite_assignment import assigned_before_use, used_by
from functrans.lower.nest.bodies import Nest


class BatchPartition(NamedTuple):
    """Scans over a batch whose rows do not mix, cut into blocks that threads share.

    Measured: all together (the gradient of an LSTM).
    """

    least_rows: int = 8
    """The rows of a block are a multiple of this: vectors and products stay whole."""
    most_blocks: int = 16
    """The greatest number of blocks."""
    least_work: int = 1_000_000
    """Scalar operations of a loop that are worth being cut into blocks."""


def partition_batch(nest: Nest, target: Target) -> Nest:
    """The nest as a parallel loop over blocks of rows, if it is a scan that allows it."""
    limits = target[BatchPartition]
    if nest.turns or nest.work < limits.least_work or not _is_scan(nest.body):
        return nest
    for extent in _row_extents(nest.body):
        if extent >= 2 * limits.least_rows and _RowDependences(nest, extent).are_independent():
            return replace(nest, body=(_blocked(nest, extent, limits),))
    return nest


def _is_scan(body: Sequence[Statement]) -> bool:
    """Whether there is a loop with loops or calls inside, whose steps follow each other."""
    return any(
        isinstance(each, For) and not each.parallel and any(map(_is_of_rows, each.body))
        for each in body
    )


def _is_of_rows(statement: Statement) -> bool:
    return isinstance(statement, (For, Call))


def _row_extents(body: Sequence[Statement]) -> list[int]:
    """How many rows there may be: the extents of loops inside of loops."""
    found: dict[int, None] = {}
    for step in body:
        if isinstance(step, For):
            for each in step.body:
                if isinstance(each, For) and each.stop.op == "const":
                    found[int(each.stop.attribute)] = None
    return list(found)


class _RowDependences:
    """Dependence analysis: whether no statement of a nest uses a row in the computation of another.

    Every block does all that is not about rows, and has scratch of its own for it. Of what is about
    rows it has its own rows only.

    Parameters
    ----------
    nest : Nest
    extent : int
        The number of rows.
    """

    def __init__(self, nest: Nest, extent: int) -> None:
        self.body = nest.body
        self.extent = extent
        self.scratch = set(nest.scratch)
        self.written = stored(nest.body)
        self.axes: dict[Buffer, int] = {}
        """Along which axis the rows of each buffer lie that is written by rows."""
        self.shared: set[Buffer] = set()
        """Buffers of which every block reads any element, or writes the same ones."""

    def are_independent(self) -> bool:
        """Whether each block can do all statements for its own rows."""
        return all(map(self._is_row_wise, self.body)) and not self.shared & self.axes.keys()

    def _is_row_wise(self, statement: Statement) -> bool:
        match statement:
            case For() if _is_over_rows(statement, self.extent):
                return self._is_own_row_loop(statement)
            case For():
                return self._reads_shared(statement) and all(map(self._is_row_wise, statement.body))
            case Call():
                return self._call(statement)
            case Store():
                self.shared.add(statement.target)
                # blocks may write the same at once, but not update it
                plain = statement.op is None or statement.target in self.scratch
                return plain and self._reads_shared(statement)
        return self._reads_shared(statement) and not any(
            isinstance(each, (Store, Call)) for each in walk([statement])
        )

    def _reads_shared(self, statement: Statement) -> bool:
        """Whether the expressions in the statement itself read nothing that other blocks write."""
        inner = [statement] if isinstance(statement, For) else walk([statement])
        return all(self._may_share(x.attribute) for each in inner for x in self._loads(each))

    def _may_share(self, one: Buffer) -> bool:
        """Whether a block may read any element of a buffer that is not written by rows."""
        self.shared.add(one)
        return one in self.scratch

    def _loads(self, statement: Statement) -> Iterable[Scalar]:
        for node in postorder(expressions(statement)):
            if node.op == "load" and node.attribute in self.written:
                yield node

    def _is_own_row_loop(self, loop: For) -> bool:
        """Whether each iteration of a loop over the rows reads and writes its own row only."""
        if carries_a_local(loop):
            return False
        inside = list(walk(loop.body))
        if any(isinstance(each, Call) for each in inside):
            return False
        loads = [(x.attribute, x.args) for each in inside for x in self._loads(each)]
        stores = [(each.target, each.indices) for each in inside if isinstance(each, Store)]
        found: dict[Buffer, list[Sequence[Scalar]]] = {}
        for one, position in (*loads, *stores):
            found.setdefault(one, []).append(position)
        targets = {one for one, _ in stores}
        return all(
            all(self._is_own_row(one, position, loop.index) for position in positions)
            or self._is_private(one, loop)
            or (one not in targets and self._may_share(one))
            for one, positions in found.items()
        )

    def _is_private(self, one: Buffer, loop: For) -> bool:
        """Whether each iteration has written what it reads of a row on the stack."""
        if one not in self.scratch or _naming(loop.body, one) < _naming(self.body, one):
            return False
        return assigned_before_use(loop.body, one)

    def _is_own_row(self, one: Buffer, position: Sequence[Scalar], row: Scalar) -> bool:
        axes = [axis for axis, i in enumerate(position) if i is row]
        if len(axes) != 1 or any(
            row in postorder([i]) for axis, i in enumerate(position) if axis != axes[0]
        ):
            return False
        return self._has_row_axis(one, axes[0])

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


def _naming(body: Iterable[Statement], one: Buffer) -> int:
    """How many statements name a buffer themselves."""
    return sum(one in used_by(each) for each in walk(body))


def _blocked(nest: Nest, extent: int, limits: BatchPartition) -> For:
    """The loop over blocks, with the statements for the rows of a block inside."""
    least = -(-extent // limits.most_blocks)
    length = -(-least // limits.least_rows) * limits.least_rows
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
            case For():
                return (replace(statement, body=all_cut(statement.body)),)
            case Call():
                return (statement.for_rows(start, Scalar("sub", (stop, start), INDEX)),)
            case Store() if statement.target not in nest.scratch:
                # all blocks have found the same; one of them writes it
                return (If(eq(block, ZERO), (statement,)),)
        return (statement,)

    def all_cut(body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(part for each in body for part in cut(each))

    count = const(block.attribute[2], INDEX)
    return For(block, ZERO, count, all_cut(nest.body), parallel=True)

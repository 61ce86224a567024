"""Software pipelining: a block copies its next row while it stores the results of one.

After Lam, "Software pipelining: an effective scheduling technique for VLIW machines" (1988).
Expects the step of a team, with rows in shared memory (`register_rows.py`). Leaves a team that
processes several consecutive rows if only one block has space for its row: without another block,
memory would be idle while the team computes. The loop that uses an element of the row for the
last time then copies the element of the next row to its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Await, For, If, Kernel, Statement, in_loops
from functrans.loop.substitution import substituted
from functrans.loop.walk import buffers_of, stored, walk
from functrans.lower.grid.dealing import is_dealt, is_plain
from functrans.lower.grid.sizes import Sizes, called
from functrans.lower.plan import Step
from functrans.records import NamedTuple


def pipelined(step: Step, grid: Grid, largest: int) -> Step:
    """The step, whose teams process several rows each if they can copy one in advance.

    ``largest`` is the largest number that is a constant in kernels.
    """
    kernel, sizes = step.kernel, Sizes(step.sizes, largest)
    parts = _Parts.of(kernel)
    if parts is None or _has_space_for_another(kernel, grid):
        return step
    extents = [sizes.value(each.stop) for each in kernel.band]
    # (several times as many teams as are resident, so that all finish at about the same time)
    count = min(grid.rows_of_a_team, prod(extents) // (4 * grid.blocks), extents[-1])
    if count < 2:
        return step
    kernel = replace(kernel, body=parts.pipelined(kernel.band, count, sizes))
    return called(step, kernel, sizes.numbers)


def _has_space_for_another(kernel: Kernel, grid: Grid) -> bool:
    """Whether shared memory has space for as many teams as there may be threads."""
    teams = 2 * grid.largest_team // kernel.team
    return teams * sum(row.nbytes for row in kernel.long) <= grid.largest_shared


class _Parts(NamedTuple):
    """An iteration of a band: a loop that copies a row, and statements that use the row."""

    copy: For
    wait: Await
    before: Sequence[Statement]
    last: For  # the loop that uses the row last
    after: Sequence[Statement]

    @classmethod
    def of(cls, kernel: Kernel) -> _Parts | None:
        """The parts of a kernel with a single row that is copied, and overwritten in time."""
        if not kernel.band or not kernel.long:
            return None
        copy, wait, *rest = kernel.band[-1].body
        waits = sum(isinstance(each, Await) for each in walk(kernel.body))
        if not isinstance(copy, For) or not isinstance(wait, Await) or waits > 1:
            return None
        (row,) = stored((copy,))
        number = max(n for n, each in enumerate(rest) if row in buffers_of((each,)))
        last = rest[number]
        if not isinstance(last, For) or not is_dealt(last, kernel.team) or not is_plain(last):
            return None
        if last.stop is not copy.stop or row.dtype.itemsize < _LEAST:
            return None
        return cls(copy, wait, rest[:number], last, rest[number + 1 :])

    def pipelined(self, band: Sequence[For], count: int, sizes: Sizes) -> tuple[Statement, ...]:
        """The band, whose iterations process several rows each."""
        simplify = Simplifier()
        *outer, inner = band
        extent = sizes.value(inner.stop)
        team = index(inner.index.attribute[0], -(-extent // count))
        turn = index("row", count)
        first = simplify(team * count)
        own = simplify(first + turn)
        stop = const(count, INDEX)
        if extent % count:
            stop = simplify(minimum(stop, inner.stop - first))
        (ahead,) = self.copy.body
        where = {inner.index: simplify(own + 1), self.copy.index: self.last.index}
        before = substituted((self.wait, *self.before), {inner.index: own}, simplify)
        (last,) = substituted((self.last,), {inner.index: own}, simplify)
        after = substituted(self.after, {inner.index: own}, simplify)
        assert isinstance(last, For)
        and_copy = replace(last, body=(*last.body, *substituted((ahead,), where, simplify)))
        # (the condition is outside the loop, so that addresses of copies are computed once)
        use = If(simplify(turn + 1) < stop, (and_copy,), (last,))
        turns = For(turn, ZERO, stop, (*before, use, *after))
        body = (*substituted((self.copy,), {inner.index: first}, simplify), turns)
        made = replace(inner, index=team, stop=sizes.of(team.attribute[2]), body=body)
        return in_loops(outer, (made,))


_LEAST = 4
"""The bytes of the smallest asynchronous copy: an element must be one by itself."""

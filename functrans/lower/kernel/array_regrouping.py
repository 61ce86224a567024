"""Array regrouping: rows that the same loops access become neighbours in memory.

After C. Ding and K. Kennedy, "Inter-array data regrouping" (LCPC 1999). A scan may stack dozens of
values, each in an array of its own, and its backward scan reads a row of each in every step. These
are more streams than processors fetch ahead, and more addresses than there are registers. So such
arrays become the columns of one array, a record, whose rows consist of their rows.

Expects the nests of a program. Leaves the columns of records.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from itertools import accumulate
from math import prod

from functrans.loop.affine import Coefficients
from functrans.loop.statements import Address, Buffer, Call, Column, For, MatrixMultiply
from functrans.loop.target import Target
from functrans.loop.walk import accesses, buffers_of, walk
from functrans.lower.nest.bodies import Nest
from functrans.records import NamedTuple


class Regrouping(NamedTuple):
    """Thresholds of array regrouping. Measured: all (LSTMs with diagonal weights)."""

    fewest: int = 32  # the fewest arrays of a record
    # the most bytes of an array's row: longer rows are fetched ahead by themselves
    widest: int = 256
    least: int = 1 << 20  # the fewest bytes of a record: less stays in the second-level cache

    def is_worthwhile(self, columns: Collection[Buffer]) -> bool:
        """Whether a record of these columns is worthwhile."""
        enough = len(columns) >= self.fewest
        return enough and sum(one.nbytes for one in columns) >= self.least


def columns_of(
    nests: Sequence[Nest],
    elsewhere: Container[Buffer],  # the buffers that are no temporaries
    target: Target,
) -> dict[Buffer, Column]:
    """The temporaries that become columns of records."""
    limits = target[Regrouping]
    narrow = {
        one
        for nest in nests
        for one in nest.stores
        if one.shape and prod(one.extents[1:]) * one.dtype.itemsize <= limits.widest
        if one not in elsewhere
    }
    if not limits.is_worthwhile(narrow):
        return {}
    users: dict[Buffer, list[int]] = {}
    for number, nest in enumerate(nests):
        by_row = _accessed_by_row(nest)
        narrow -= (nest.loads | nest.stores).difference(by_row)
        for one in by_row:
            users.setdefault(one, []).append(number)
    alike: dict[object, list[Buffer]] = {}
    for one, numbers in users.items():
        if one in narrow:
            alike.setdefault((one.extents[0], one.dtype, *numbers), []).append(one)
    found: dict[Buffer, Column] = {}
    for record, group in enumerate(alike.values()):
        if limits.is_worthwhile(group):
            starts = list(accumulate((prod(one.extents[1:]) for one in group), initial=0))
            for one, start in zip(group, starts, strict=False):
                found[one] = Column(record, start, starts[-1])
    return found


def _accessed_by_row(nest: Nest) -> dict[Buffer, None]:
    """The buffers of which each step of a loop accesses rows, in order, and nothing else does."""
    found: dict[Buffer, None] = {}
    others = set(nest.scratch)
    for statement in nest.body:
        if nest.turns or not isinstance(statement, For) or statement.parallel:
            others |= buffers_of((statement,))
            continue
        step = Coefficients(statement.index)
        for one, position, _ in accesses((statement,)):
            along = [step.of(index) for index in position]
            if along[:1] in ([1], [-1]) and all(factor == 0 for factor in along[1:]):
                found[one] = None
            else:
                others.add(one)
    for each in walk(nest.body):
        if isinstance(each, Call | MatrixMultiply):
            others |= buffers_of((each,))
        if isinstance(each, Call):
            others.update(x.target for x in each.arguments if isinstance(x, Address))
    return {one: None for one in found if one not in others}

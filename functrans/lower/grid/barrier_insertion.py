"""Barrier insertion: a team synchronises where a thread reads what another has written.

Expects the kernel of a team, without barriers. Leaves it with barriers between any two statements
of which one writes what the other reads or writes, unless the first thread alone executes both
accesses. The analysis does not distinguish elements: two statements that access the same buffer are
assumed to conflict. A late store is also a write at the statement that waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import (
    Await,
    Barrier,
    Buffer,
    For,
    If,
    Kernel,
    Let,
    Statement,
    Store,
    While,
    local,
)
from functrans.loop.walk import Body, children, expressions, loaded, stored, walk
from functrans.records import NamedTuple

_BARRIER = Barrier()


class Touched(NamedTuple):
    """Reads and writes since the last barrier, and the threads that execute them."""

    read: frozenset[Buffer] = frozenset()  # by any thread
    written: frozenset[Buffer] = frozenset()  # by any thread
    # by the first thread, in stores that it alone executes
    first_read: frozenset[Buffer] = frozenset()
    first_written: frozenset[Buffer] = frozenset()  # in the same stores

    def __or__(self, other: Touched) -> Touched:
        return Touched(*(x | y for x, y in zip(self, other, strict=True)))

    def meets(self, other: Touched) -> bool:
        """Whether a barrier is needed between these accesses and other ones."""
        return bool(
            (self.written & (other._read | other._written))
            | (self._written & (other.read | other.written))
            | (self.read & (other.written | other.first_written))
            | (self.first_read & other.written)
        )

    def without(self, some: frozenset[Buffer]) -> Touched:
        """The same accesses without those to some of the buffers."""
        return Touched(*(each - some for each in self))

    @property
    def _read(self) -> frozenset[Buffer]:
        return self.read | self.first_read

    @property
    def _written(self) -> frozenset[Buffer]:
        return self.written | self.first_written


_NOTHING = Touched()


def with_barriers(kernel: Kernel) -> Kernel:
    """The kernel; if it is a team's, with barriers."""
    if kernel.team <= 1:
        return kernel
    return replace(kernel, body=_in_band(kernel, kernel.body, len(kernel.band)))


def _in_band(kernel: Kernel, body: Body, depth: int) -> Body:
    if depth:
        (loop,) = body
        assert isinstance(loop, For)
        return (replace(loop, body=_in_band(kernel, loop.body, depth - 1)),)
    # a team executes one iteration; what follows is another kernel
    late = {x.target for x in walk(kernel.body) if isinstance(x, Store) and x.late}
    insertion = _Insertion(frozenset((*kernel.private, *kernel.dealt)), frozenset(late))
    return insertion.statements(body, _NOTHING)[0]


class _Insertion:
    """Inserts barriers; accesses to private rows need none."""

    def __init__(self, private: frozenset[Buffer], late: frozenset[Buffer]) -> None:
        self.private = private
        self.late = late

    def statements(self, body: Sequence[Statement], before: Touched) -> tuple[Body, Touched]:
        """The statements with barriers, and the accesses since the last barrier."""
        done: list[Statement] = []
        for statement in chain.from_iterable(map(_bounds_before, body)):
            own = touched(statement).without(self.private)
            if any(isinstance(each, Await) for each in walk((statement,))):
                own = own | Touched(written=self.late)
            if before.meets(own):
                done.append(_BARRIER)
                before = _NOTHING
            inside, after = self._inside(statement, own)
            done.append(inside)
            before = before | after
        return tuple(done), before

    def _inside(self, statement: Statement, own: Touched) -> tuple[Statement, Touched]:
        # a slower thread may still be reading what the condition or the bounds depend on
        asked = Touched(read=_loaded(expressions(statement))).without(self.private)
        match statement:
            case For(lanes=1):
                body, after = self.statements(statement.body, asked)
                return replace(statement, body=self._around(body, after, own)), own
            case If():
                body, _ = self.statements(statement.body, asked)
                otherwise, _ = self.statements(statement.otherwise, asked)
                return replace(statement, body=body, otherwise=otherwise), own
            case While():
                prepare, after = self.statements(statement.prepare, _NOTHING)
                body, last = self.statements(statement.body, after | asked)
                body = self._around(body, last, own)
                return replace(statement, prepare=prepare, body=body), own
        return statement, own

    def _around(self, body: Body, last: Touched, own: Touched) -> Body:
        """The body of a loop, with a barrier if iterations conflict with the next ones."""
        return (*body, _BARRIER) if last.meets(own) else body


def _bounds_before(statement: Statement) -> Body:
    """A statement, preceded by the bounds of a dealt loop that writes what they read."""
    if not isinstance(statement, For) or statement.lanes == 1:
        return (statement,)
    bounds = expressions(statement)
    if not _loaded(bounds) & stored([statement]):
        return (statement,)
    start, stop = (local(bound.dtype, "bound") for bound in bounds)
    return Let((start, stop), bounds), replace(statement, start=start, stop=stop)


def touched(statement: Statement) -> Touched:
    """The reads and writes of a team's statement."""
    if isinstance(statement, Store):
        read = _loaded(expressions(statement))
        if statement.op is not None:
            read |= {statement.target}
        return Touched(first_read=read, first_written=frozenset({statement.target}))
    if isinstance(statement, (If, While)) or (isinstance(statement, For) and statement.lanes == 1):
        result = Touched(read=_loaded(expressions(statement)))
        for each in children(statement):
            result = result | touched(each)
        return result
    return Touched(frozenset(loaded([statement])), frozenset(stored([statement])))


def _loaded(roots: Sequence[Scalar]) -> frozenset[Buffer]:
    return frozenset(node.attribute for node in postorder(roots) if node.op == "load")

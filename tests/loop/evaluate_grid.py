"""Reference interpreter of kernels for a grid: blocks, and threads between barriers, in any order.

It executes kernels that have teams of threads (`functrans.loop.statements.Kernel`). The threads of
a team are coroutines that yield at barriers. Two accesses of an element without a barrier in
between, one of them a write, are a data race and a `Fault`, unless both are the same atomic
operation. So are divergent barriers, and matrix products that the threads of a warp do not execute
together.

Of what plays a GPU in the tests, only this one has machines that are made up: with warps of two
threads small arrays reach every form of a kernel. And it finds races that the verifier cannot,
where indices come from data, as those of a merge sort do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrans.loop.dealing import check_counts
from functrans.loop.domain import Fault
from functrans.loop.fragments import WARP
from functrans.loop.statements import (
    Assign,
    Await,
    Barrier,
    Buffer,
    For,
    If,
    Kernel,
    Let,
    MatrixMultiply,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import may_fail
from tests.loop.evaluate import Interpreter, Memory, combined, combined_in_pairs, evaluate

Order = Callable[[int], Iterable[int]]


class Wait(NamedTuple):
    """Where a thread waits for the others, and what it brings: its parts of sums, its status."""

    at: Barrier | Reduce | While
    parts: tuple[Any, ...] = ()


Thread = Generator[Wait, tuple[Any, ...], None]


def evaluate_grid(
    kernel: Kernel, memory: Sequence[Memory], sizes: Sequence[int], order: Order = range
) -> int:
    """Run a kernel on arrays; gives its status: 0, or how it has failed.

    Parameters
    ----------
    kernel : Kernel
    memory : sequence of Memory
        What its buffers are.
    sizes : sequence of int
    order : callable
        The order of so many teams, and of so many threads.

    Raises
    ------
    Fault
        If an element is read that was not written, or is not in its buffer; if threads race, or
        wait in different places.
    """
    if kernel.team == 1:
        return evaluate(kernel, memory, sizes, order=order)
    first = Interpreter(kernel, memory, sizes, None)
    band = kernel.band
    with np.errstate(all="ignore"):
        starts = [
            {**outside, band[-1].index: np.int64(number)}
            for outside, inside in first.chunks(band)
            for number in inside
        ] if band else [{}]  # fmt: skip
        body = band[-1].body if band else kernel.body
        for number in order(len(starts)):
            team = _Team(kernel, memory, sizes, starts[number])
            team.run(body, order)
            first.status = team.status or first.status
    return first.status


class _Team:
    """The threads that do one iteration of a band.

    Parameters
    ----------
    kernel : Kernel
    memory : sequence of Memory
    sizes : sequence of int
    known : dict
        The indices of the band.
    """

    def __init__(
        self, kernel: Kernel, memory: Sequence[Memory], sizes: Sequence[int], known: dict[Any, Any]
    ) -> None:
        self.private = kernel.private
        self.touched: dict[tuple[Buffer, tuple[int, ...]], dict[str, set[int]]] = {}
        self.dealt_rows = set(kernel.dealt)
        self.owners: dict[tuple[Buffer, tuple[int, ...]], int] = {}
        self.threads = [
            _Thread(self, number, kernel, memory, sizes) for number in range(kernel.team)
        ]
        self.threads[0].clear_scratch()
        for thread in self.threads:
            thread.memory = self.threads[0].memory
            thread.known = dict(known)

    @property
    def status(self) -> int:
        return next((each.status for each in self.threads if each.status), 0)

    def touch(self, thread: int, one: Buffer, at: tuple[int, ...], how: str) -> None:
        """Take note that a thread touches an element, which no other may have, but to do the same.

        ``how`` is ``"read"``, ``"write"``, or what an atomic store does.
        """
        if one in self.private and at[0] != thread:
            raise Fault(f"thread {thread} of a team touches {one} of thread {at[0]}")
        if one in self.dealt_rows:
            owner = self.owners.setdefault((one, at), thread)
            if owner != thread:
                raise Fault(
                    f"thread {thread} touches {one}[{', '.join(map(str, at))}], which is private "
                    f"to thread {owner}"
                )
            return
        touched = self.touched.setdefault((one, at), {})
        harmless = how if how != "write" else None
        others = {n for other, own in touched.items() if other != harmless for n in own} - {thread}
        if others:
            raise Fault(
                f"threads {min(others)} and {thread} of a team meet at "
                f"{one}[{', '.join(map(str, at))}] without a barrier between"
            )
        touched.setdefault(how, set()).add(thread)

    def run(self, body: Sequence[Statement], order: Order) -> None:
        running = [thread.team_statements(body) for thread in self.threads]
        given: tuple[Any, ...] | None = None
        while True:
            waits: dict[int, Wait | None] = {}
            for number in order(len(running)):
                try:
                    # a coroutine that has not begun takes nothing
                    waits[number] = running[number].send(given)  # type: ignore[arg-type]
                except StopIteration:
                    waits[number] = None
            places = {wait and wait.at for wait in waits.values()}
            if len(places) > 1:
                raise Fault("the threads of a team do not come to the same barrier")
            self._compare_products()
            (place,) = places
            match place:
                case None:
                    return
                case Reduce() | While():
                    given = _combined(place, [waits[n] for n in range(len(running))])
                case Barrier():
                    self.touched.clear()
                    given = ()

    def _compare_products(self) -> None:
        """See that the threads of each warp have come to the same products of matrices."""
        for first in range(0, len(self.threads), WARP):
            own, *others = [each.products for each in self.threads[first : first + WARP]]
            if own and len(others) < WARP - 1:
                raise Fault(f"a product of matrices is for {WARP} threads, not {len(others) + 1}")
            if any(other != own for other in others):
                raise Fault("the threads of a warp do not come to the same product of matrices")
        for thread in self.threads:
            thread.products.clear()


def _combined(place: Reduce | While, waits: Sequence[Wait | None]) -> tuple[Any, ...]:
    """What the parts of all threads come to."""
    parts = zip(*(wait.parts for wait in waits if wait is not None), strict=True)
    if isinstance(place, While):
        return tuple(map(any, parts))
    return tuple(combined_in_pairs(op, own) for op, own in zip(place.ops, parts, strict=True))


class _Thread(Interpreter):
    """One thread of a team."""

    def __init__(
        self,
        team: _Team,
        number: int,
        kernel: Kernel,
        memory: Sequence[Memory],
        sizes: Sequence[int],
    ) -> None:
        super().__init__(kernel, memory, sizes, None)
        self.team = team
        self.number = number
        self.products: list[tuple[Any, ...]] = []
        """The products of matrices that this thread has come to since it waited, and of what."""
        self.late: list[list[tuple[Buffer, tuple[int, ...], Any]]] = [[]]
        """Groups of stores that are not done yet."""

    def team_statements(self, body: Sequence[Statement]) -> Thread:
        """Statements that the threads of the team do together."""
        for statement in body:
            yield from self._team_statement(statement)

    def _team_statement(self, statement: Statement) -> Thread:
        match statement:
            case Barrier():
                yield Wait(statement)
            case Store() if self.number:
                return
            case For(lanes=lanes):
                start, stop = (int(self.value(x)) for x in (statement.start, statement.stop))
                if lanes > 1:
                    check_counts(statement, stop - start)
                    self.iterations(statement, range(start + self.number, stop, lanes))
                    return
                for number in range(start, stop):
                    self.known[statement.index] = np.int64(number)
                    yield from self.team_statements(statement.body)
            case Reduce() if statement.lanes > 1:
                results = yield Wait(statement, tuple(self._own_parts(statement)))
                self.known.update(zip(statement.targets, results, strict=True))
            case If():
                holds = self.value(statement.condition)
                yield from self.team_statements(statement.body if holds else statement.otherwise)
            case While():
                while True:
                    yield from self.team_statements(statement.prepare)
                    if not self.value(statement.condition):
                        break
                    if may_fail((statement,)):
                        # what a thread has failed at must not keep the others waiting
                        (failed,) = yield Wait(statement, (bool(self.team.status),))
                        if failed:
                            break
                    yield from self.team_statements(statement.body)
            case Store() | Let() | Assign() | Reduce() | Await():
                self.statement(statement)
            case _:
                raise Fault("a team calls no library routine")

    def _own_parts(self, statement: Reduce) -> list[Any]:
        """The parts of sums that this thread makes."""
        _, start, stop = statement.loops[-1]
        if statement.rounds:
            check_counts(statement, int(self.value(stop)) - int(self.value(start)))
        parts = self.identities(statement)
        for _ in self.offsets(statement, self.number, statement.lanes):
            self.statements(statement.body)
            terms = [self.value(value) for value in statement.values]
            parts = [
                combined(op, part, term)
                for op, part, term in zip(statement.ops, parts, terms, strict=True)
            ]
        return parts

    def _multiply(self, statement: MatrixMultiply) -> None:
        operands = (statement.left, statement.right)
        self.products.append((statement, *(self._corner(each.corner) for each in operands)))
        super()._multiply(statement)
        *before, first = self._corner(statement.sums)
        for number in range(first, first + statement.count):
            self.team.touch(self.number, statement.sums.target, (*before, number), "write")

    def wait(self, statement: Await) -> None:
        self.late.append([])
        while len(self.late) > statement.behind + 1:
            for one, at, value in self.late.pop(0):
                self._put(one, at, value)
                self.team.touch(self.number, one, at, "write")

    def _load(self, one: Buffer, at: tuple[int, ...]) -> Any:
        self.team.touch(self.number, one, at, "read")
        return super()._load(one, at)

    def _store(self, statement: Store, value: Any) -> None:
        at = self._position(statement.target, [self.value(i) for i in statement.indices])
        if statement.late:
            self.memory[statement.target].written[at] = False
            self.late[-1].append((statement.target, at, value))
        else:
            super()._store(statement, value)
        how = f"atomic {statement.op}" if statement.atomic else "write"
        self.team.touch(self.number, statement.target, at, how)

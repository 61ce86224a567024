"""Scalar expansion into registers: rows of which each thread needs only its own elements.

Expects a step. Leaves one with two kinds of rows that are private to threads:

- scratch that is written and read in loops that are dealt in the same way, so that no barrier is
  needed;
- elements that several such loops load from memory, which are loaded once.

They are in registers, and the printer unrolls the rounds of the loops over them. Longer ones are in
shared memory, to which they are copied asynchronously: all loads of a row are then in flight at the
same time, and take no registers. If the loop that loads an element last stores the same element of
a row of scratch, such as the exponentials of a softmax, the row is overwritten in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from functrans.loop.grid import Grid
from functrans.loop.nodes import ZERO, index
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Await,
    Buffer,
    For,
    Kernel,
    Reduce,
    Statement,
    Store,
    buffer,
    in_loops,
    load,
)
from functrans.loop.substitution import substituted
from functrans.loop.walk import (
    accesses,
    always_loaded,
    buffers_of,
    children,
    expressions,
    loaded,
    loops_of,
    stored,
    walk,
    with_bodies,
)
from functrans.lower.grid.dealing import bounds, dealt, is_dealt, is_plain, values_of, work_of
from functrans.lower.grid.sizes import Sizes
from functrans.lower.plan import Step

WORD = 4
"""The bytes of a register."""

_UNROLLED = 64
"""The most rounds of a copying loop that are unrolled: if elements of two bytes cannot be copied
asynchronously, sixteen or so of their loads are then in flight."""

_ANY = index("any")
"""Stands for the index of any loop."""


def with_register_rows(step: Step, grid: Grid) -> Step:
    """The step with rows in registers and in shared memory, as far as there is room."""
    if step.kernel.team <= 1 or step.kernel.private:
        return step  # the rows of a product have been placed already
    kernel = _Rows(step.kernel, Sizes(step.sizes, 0), grid).kernel()
    return replace(step, kernel=kernel)


class _Rows:
    """Finds the rows of a kernel that can be private to threads."""

    def __init__(self, kernel: Kernel, sizes: Sizes, grid: Grid) -> None:
        self.given = kernel
        self.sizes = sizes
        self.inside = kernel.band[-1].body if kernel.band else kernel.body
        self.loops = [each for each in dealt(self.inside, kernel.team) if is_plain(each)]
        self.room = min(grid.row_registers, grid.all_registers // kernel.team // 2)
        self.spare = max(self.room - grid.all_registers // kernel.team // 4, 0)
        # (as much for each thread as in the largest team, so that as many are resident)
        self.shared = grid.room_of_long_rows * kernel.team // grid.largest_team
        self.largest = grid.largest_unrolled
        self.simplify = Simplifier()
        self.long: dict[Buffer, Scalar] = {}

    def kernel(self) -> Kernel:
        given = self.given
        stops = self._stops()
        private: dict[Buffer, Scalar] = {}
        for row in given.scratch:
            stop = self._stop_of(row, stops)
            if stop is None or not self._place(row, stop, private):
                self.shared -= row.nbytes
        body, rows = self._with_cached(private)
        if not rows and not self.long:
            return given
        body = in_loops(given.band, self._in_rounds(body, {*rows.values()}))
        dealt = (*rows, *self.long)
        scratch = tuple(dict.fromkeys((*given.scratch, *dealt)))
        return replace(given, body=body, scratch=scratch, dealt=dealt, long=tuple(self.long))

    # -- private rows ---------------------------------------------------------------------------

    def _stops(self) -> dict[Scalar, Scalar]:
        """The stops of the loops whose indices are only used in dealt loops."""
        plain = set(self.loops)
        stops: dict[Scalar, Scalar] = {}
        others: set[Scalar] = set()
        for each in walk(self.inside):
            if not isinstance(each, (For, Reduce)):
                continue
            if each in plain:
                counter, _, stop = bounds(each)
                if stops.setdefault(counter, stop) is not stop:
                    others.add(counter)
            else:
                others.update(counter for counter, *_ in loops_of(each))
        return {counter: stop for counter, stop in stops.items() if counter not in others}

    def _stop_of(self, row: Buffer, stops: Mapping[Scalar, Scalar]) -> Scalar | None:
        """The stop of all loops that access a row, each the element of its iteration; or None."""
        found: set[Scalar | None] = set()
        for each in accesses(self.inside):
            if each.buffer is row:
                found.add(stops.get(each.position[0]) if len(each.position) == 1 else None)
        combining = any(
            isinstance(each, Store) and each.target is row and each.op is not None
            for each in walk(self.inside)
        )
        return next(iter(found)) if len(found) == 1 and not combining else None

    def _place(self, row: Buffer, stop: Scalar, rows: dict[Buffer, Scalar]) -> bool:
        """Put a row into registers or into shared memory, if there is room.

        It is in registers if two blocks can be resident then, or if it does not fit elsewhere.
        """
        has_space = row.nbytes <= self.shared
        if self._fits(stop, row.dtype.itemsize, rows.values(), self.spare if has_space else 0):
            rows[row] = stop
        elif has_space:
            self.shared -= row.nbytes
            self.long[row] = stop
        else:
            return False
        return True

    def _fits(self, stop: Scalar, itemsize: int, others: Iterable[Scalar], spare: int) -> bool:
        """Whether there are registers for one more row, and its loops can be unrolled."""
        rounds = self._rounds(stop)
        self.room -= rounds * max(itemsize // WORD, 1)
        unrolled = sum(
            self._rounds(each) * (work_of(loop, self.sizes.numbers) + 1)
            for loop in self.loops
            for each in [bounds(loop)[2]]
            if each is stop or each in {*others}
        )
        if self.room >= spare and unrolled <= self.largest:
            return True
        self.room += rounds * max(itemsize // WORD, 1)
        return False

    def _rounds(self, stop: Scalar) -> int:
        return -(-self.sizes.value(stop) // self.given.team)

    # -- repeated loads -------------------------------------------------------------------------

    def _with_cached(
        self, private: Mapping[Buffer, Scalar]
    ) -> tuple[tuple[Statement, ...], dict[Buffer, Scalar]]:
        """The statements, with repeated loads executed once; and all private rows."""
        rows = dict(private)
        body = list(self.inside)
        copied: dict[int, list[Statement]] = {}
        # (values that inner loops load may have changed)
        numbers = [n for n, each in enumerate(body) if each in set(self.loops)]
        readers: dict[tuple[Scalar, Scalar], list[int]] = {}
        for number in numbers:
            for key in self._cachable(body[number]):
                readers.setdefault(key, []).append(number)
        for (element, stop), where in readers.items():
            row = self._row(element, stop, body, where, rows) if len(where) > 1 else None
            if row is None:
                continue
            for number in where:
                statement = body[number]
                assert isinstance(statement, (For, Reduce))
                counter = bounds(statement)[0]
                (own,) = self.simplify.substitute([element], {_ANY: counter})
                values = {own: load(row, (counter,))}
                (made,) = substituted((statement,), values, self.simplify)
                assert isinstance(made, (For, Reduce))
                if number == where[0] and row in rows:
                    made = replace(made, body=(Store(row, (counter,), own), *made.body))
                body[number] = made
            if row in self.long:
                copied.setdefault(where[0], []).extend(self._copying(element, stop, row))
        done = (each for n, one in enumerate(body) for each in (*copied.get(n, ()), one))
        return tuple(done), rows

    def _row(
        self,
        element: Scalar,
        stop: Scalar,
        body: Sequence[Statement],
        where: Sequence[int],
        rows: dict[Buffer, Scalar],
    ) -> Buffer | None:
        """A row for elements that some of the statements load; None if there is no room."""
        one = element.attribute
        for row, its in (*rows.items(), *self.long.items()):
            if its is stop and row.dtype == one.dtype and self._is_free(row, element, body, where):
                return row
        row = buffer(f"{one.name}_row", one.dtype, (self.sizes.value(stop),))
        return row if self._place(row, stop, rows) else None

    def _is_free(
        self, row: Buffer, element: Scalar, body: Sequence[Statement], where: Sequence[int]
    ) -> bool:
        """Whether a row is unused until the last loop that loads an element overwrites it."""
        before, last = body[: where[-1]], body[where[-1]]
        if row in buffers_of(before) or not isinstance(last, For):
            return False
        (own,) = self.simplify.substitute([element], {_ANY: last.index})
        written = False
        for each in last.body:
            used = postorder([x for inside in walk((each,)) for x in expressions(inside)])
            stores = isinstance(each, Store) and each.target is row
            if own in used if written else row in loaded((each,)):
                return False
            if not stores and row in stored((each,)):
                return False
            written = written or stores
        return written

    def _copying(self, element: Scalar, stop: Scalar, row: Buffer) -> tuple[Statement, ...]:
        """A loop that copies elements to a row in shared memory asynchronously."""
        counter = index("k", self.sizes.value(stop))
        (own,) = self.simplify.substitute([element], {_ANY: counter})
        copy = Store(row, (counter,), own, late=True)
        loop = For(counter, ZERO, stop, (copy,), lanes=self.given.team)
        few = self._rounds(stop) <= _UNROLLED
        return self._with_rounds(loop, {stop} if few else set()), Await(0)

    def _cachable(self, statement: Statement) -> dict[tuple[Scalar, Scalar], None]:
        """Loads of arrays whose indices only depend on the loop's index and on the band's."""
        assert isinstance(statement, (For, Reduce))
        counter, _, stop = bounds(statement)
        allowed = {counter, *(loop.index for loop in self.given.band)}
        constant = set(self.given.buffers) - stored(self.inside)
        found: dict[tuple[Scalar, Scalar], None] = {}
        direct = (each for each in statement.body if not children(each))
        roots = [root for each in direct for root in expressions(each)]
        for node in always_loaded([*roots, *values_of(statement)]):
            leaves = [x for x in postorder(node.args) if not x.args]
            # (an index may itself be loaded)
            read = {x.attribute for x in postorder([node]) if x.op == "load"}
            if read <= constant and counter in leaves:
                if all(x.op in ("const", "size") or x in allowed for x in leaves):
                    (element,) = self.simplify.substitute([node], {counter: _ANY})
                    found[element, stop] = None
        return found

    # -- rounds ---------------------------------------------------------------------------------

    def _in_rounds(self, body: Sequence[Statement], stops: set[Scalar]) -> tuple[Statement, ...]:
        return tuple(self._with_rounds(each, stops) for each in body)

    def _with_rounds(self, statement: Statement, stops: set[Scalar]) -> Statement:
        if isinstance(statement, (For, Reduce)) and is_dealt(statement, self.given.team):
            stop = bounds(statement)[2]
            if is_plain(statement) and stop in stops:
                whole = self.sizes.value(stop) % self.given.team == 0
                return replace(statement, rounds=self._rounds(stop), whole=whole)
            return statement
        return with_bodies(statement, lambda body: self._in_rounds(body, stops))

"""Kernels of a grid as Numba-CUDA source: the code of one thread.

A thread executes an iteration of the band, or its share of one that a team executes. Its index in
the grid determines the loop indices of the band. Buffers are pointers to flat memory, in which bool
is stored as uint8 and half floats as uint16. Reductions that are dealt to a team are combined
through shared memory between warps, and by shuffles within a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import numpy as np

from functrans.emit.cuda.asynchronous import Copy, conditional, copies
from functrans.emit.cuda.flattening import flattened
from functrans.emit.cuda.fragments import multiplied
from functrans.emit.cuda.names import NAMES
from functrans.emit.cuda.rows import registers_of, stored_as
from functrans.emit.cuda.superwords import WIDEST, Group, groups, in_any_order
from functrans.emit.printer import Printer, computed
from functrans.loop.fragments import ROWS
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import BOOL, Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Await,
    Buffer,
    Call,
    For,
    If,
    Kernel,
    MatrixMultiply,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import always_loaded, may_fail, stored
from functrans.lower.grid.launch import Launch, ends, launch, shared_rows

INT32 = np.dtype(np.int32)


def emit(kernel: Kernel, grid: Grid, name: str = "kernel") -> str:
    """The source of a kernel as a function of a thread.

    Its arguments are the error flag (int64*), the buffers (pointers), and the sizes (int64).
    """
    shape = launch(kernel, grid)
    place = index("team", shape.teams)
    starts: dict[Buffer, Scalar] = {}
    if kernel.team > 1 and shape.teams > 1:
        for row in shared_rows(kernel):
            starts[row] = Scalar("mul", (place, const(row.count, INDEX)), INDEX)
    return _Printer(flattened(kernel, starts), shape, grid, place).function(name)


class _Printer(Printer):
    """Prints a kernel."""

    root, ratio = "sqrt({})", "ratio({}, {})"

    def __init__(
        self,
        kernel: Kernel,  # on flat memory
        shape: Launch,
        grid: Grid,
        place: Scalar,  # the index of the team in its block
    ) -> None:
        super().__init__(kernel, NAMES)
        self.shape = shape
        self.warp = grid.warp
        self.double_rows = grid.double_rows
        self.team = kernel.team
        self.together = kernel.team > 1
        """Whether all threads of a team execute the statement that is being printed."""
        self.constant = set(kernel.buffers) - stored(kernel.body)
        self.registers = registers_of(kernel)
        self.dealt_rows = set(kernel.dealt) - set(kernel.long)
        self.round = 0  # the round of a dealt loop that is being printed
        self.depth_of_loops = 0
        """The number of a team's loops around the statement that is being printed."""
        self.memory: list[str] = []
        self.parts: dict[tuple[int, str], str] = {}
        self.simplify = Simplifier()
        self.within = self.named(place)
        self.lane = self.unique("lane")

    def function(self, name: str) -> str:
        arguments = [self.names[one] for one in self.kernel.buffers]
        arguments += [f"n{slot}" for slot in range(self.kernel.sizes)]
        head = f"def {name}({', '.join(['flag', *arguments])}):"
        rows = shared_rows(self.kernel) if self.shape.shared else []
        starts = dict(zip(rows, (0, *ends(rows)), strict=False))
        for row in self.kernel.scratch:
            if row in self.registers:
                continue
            if row in self.dealt_rows:
                most = -(-row.count // self.team) + WIDEST
                kind = "uint8" if row.dtype == BOOL else computed(row.dtype)
                self.memory.append(f'    {self.names[row]} = local("{kind}", {most})')
                continue
            shared = self.together and row not in self.kernel.private
            count = row.count * (self.shape.teams if shared else 1)
            space = "shared" if shared else "local"
            if row in starts:
                space, count = "dynamic_shared", starts[row]
            self.memory.append(
                f'    {self.names[row]} = {space}("{stored_as(row.dtype)}", {count})'
            )
        with self._in_the_grid():
            band = self.kernel.band
            self.statements(band[-1].body if band else self.kernel.body)
        return "\n".join([head, *self.memory, *(self.lines or ["    pass"])]) + "\n"

    @contextmanager
    def _in_the_grid(self) -> Iterator[None]:
        """The iteration of the band that a thread executes, and its index in its team."""
        threads, teams, _ = self.shape
        iteration = self.unique("iteration")
        if self.together:
            within = teams > 1
            self.line(f"{self.lane} = {f'irem(thread(), {self.team})' if within else 'thread()'}")
            if within:
                self.line(f"{self.within} = idiv(thread(), {self.team})")
                self._number(iteration, f"block() * {teams} + {self.within}")
            else:
                self._number(iteration, "block()")
        else:
            self._number(iteration, f"block() * {threads} + thread()")
        band = self.kernel.band
        extents = [self._counted(self.texts([self._extent(loop)])[0]) for loop in band]
        total = extents[0] if extents else self._counted("1")
        for extent in extents[1:]:
            total = self._counted(f"{total} * {extent}")
        if self.together and teams == 1:
            self._band(band, extents, iteration)
            yield
            return
        with self.block(f"if {iteration} < {total}:"):
            self._band(band, extents, iteration)
            yield

    def _number(self, name: str, value: str) -> None:
        """A line that defines the index of an iteration."""
        self.line(f"{name} = {self._counted(value)}")

    def _counted(self, value: str) -> str:
        """An iteration's number, in 32 bits: 64-bit divisions take five times as long."""
        return f"np.uint32({value})" if self.kernel.narrow else value

    def _extent(self, loop: For) -> Scalar:
        assert loop.start is ZERO, "the loops of a band begin at 0"
        return loop.stop

    def _band(self, band: Sequence[For], extents: Sequence[str], iteration: str) -> None:
        """The loop indices of the band: quotients and remainders of the iteration's number."""
        rest = iteration
        for number in range(len(band) - 1, 0, -1):
            name, extent = self.named(band[number].index), extents[number]
            self.line(f"{name} = {self._index(f'irem({rest}, {extent})')}")
            if number > 1:
                quotient = self.unique("rest")
                self.line(f"{quotient} = idiv({rest}, {extent})")
                rest = quotient
            else:
                rest = f"idiv({rest}, {extent})"
        if band:
            self.line(f"{self.named(band[0].index)} = {self._index(rest)}")

    def _index(self, value: str) -> str:
        return f"np.int64({value})" if self.kernel.narrow else value

    # -- statements -----------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> None:
        for stores, run in groupby(statements, lambda each: isinstance(each, Store)):
            if not stores:
                super().statements(list(run))
            elif self.together:
                with self.block(f"if {self.lane} == 0:"):
                    self._stores([each for each in run if isinstance(each, Store)])
                self.forget()
            else:
                self._stores([each for each in run if isinstance(each, Store)])

    def _stores(self, stores: Sequence[Store]) -> None:
        """Stores in order; those to adjacent elements become one access."""
        for _, run in groupby(stores, lambda each: each.late):
            copied, rest = copies(list(run), self.constant, self.simplify)
            self._copies(copied)
            for together in in_any_order(rest, self.simplify):
                if together[0].op is not None:
                    super().statements(together)
                else:
                    self._together(together)

    def _copies(self, copied: Sequence[Copy]) -> None:
        for each in copied:
            operands = super().texts(each.operands)
            self.line(each.line(self.names[each.target], self.names[each.source], *operands))

    def _together(self, stores: Sequence[Store]) -> None:
        """Stores whose order does not matter, after all their values have been computed."""
        shared = [each for each in stores if each.target not in self.dealt_rows]
        kept = (each for each in shared if each.target not in self.registers)
        together = groups(kept, lambda each: (each.target, each.indices[0]), self.simplify)
        led = {group.members[0]: group.members for group in together}
        follow = {each for group in together for each in group.members[1:]}
        first = [each for each in shared if each not in follow]
        texts = self.texts([*(x.indices[0] for x in first), *(x.value for x in stores)])
        values = dict(zip(stores, texts[len(first) :], strict=True))
        for store in stores:
            if store.target in self.dealt_rows:
                place = self._register(store.target, store.indices[0])
                self.line(f"{place} = {self._in_parts(values[store], store.target.dtype)}")
        for store, place in zip(first, texts, strict=False):
            name, dtype = self.names[store.target], store.target.dtype
            members = led.get(store, (store,))
            numbers = [self.to_memory(values[each], dtype) for each in members]
            if len(members) > 1:
                self.line(f"store{len(members)}({name}, {place}, {', '.join(numbers)})")
            else:
                self.line(f"{self.place(store.target, [place])} = {numbers[0]}")
        self.forget()

    def texts(self, roots: Sequence[Scalar]) -> list[str]:
        """Expressions; before them, loads of adjacent elements are executed as one access."""
        for node in postorder(roots):
            if node.op == "load" and node.attribute in self.dealt_rows:
                place = self._register(node.attribute, node.args[0])
                self.scopes[-1][node] = self._from_parts(place, node.dtype)
        loads = (
            node
            for node in always_loaded(roots)
            if node.attribute not in self.registers
            and not any(node in scope for scope in self.scopes)
        )
        for group in groups(loads, lambda node: (node.attribute, node.args[0]), self.simplify):
            self._load(group)
        return super().texts(roots)

    def _register(self, one: Buffer, position: Scalar) -> str:
        """The register that holds an element of a row that is private to a thread.

        The rounds of the loop are unrolled, so that the element's position is a constant.
        """
        terms, constant = self.simplify.terms(position)
        (width,) = terms.values()
        return f"{self.names[one]}[{self.round * width + constant}]"

    def _load(self, group: Group) -> None:
        one, dtype = group.buffer, group.buffer.dtype
        (place,) = super().texts([group.first])
        words = [self.unique("x") for _ in group.members]
        kind = "read" if one in self.constant else "load"
        count = len(words)
        self.line(f"{', '.join(words)} = {kind}{count}({self.names[one]}, {place})")
        for word, node in zip(words, group.members, strict=True):
            self.scopes[-1][node] = self.read(word, dtype)

    def loop(self, statement: For, start: str, stop: str) -> None:
        if not self.together or statement.lanes == 1:
            super().loop(statement, start, stop)
            return
        self._deal(statement, statement.index, start, stop, lambda: self.statements(statement.body))
        self.forget()

    def _deal(
        self,
        statement: For | Reduce,
        counter: Scalar,
        start: str,
        stop: str,
        body: Callable[[], None],
    ) -> None:
        """A loop whose iterations are dealt to the threads of a team.

        A loop of few rounds is unrolled.
        """
        name = self.named(counter)
        first = self.lane if start == "0" else f"{start} + {self.lane}"
        if start == "0" and stop == str(self.team):
            self.line(f"{name} = {self.lane}")
            self.forget()
            with self._alone():
                body()
            return
        if not statement.rounds:
            with self.counting(name, first, stop, str(self.team)), self._alone():
                body()
            return
        for turn in range(statement.rounds):
            self.forget()
            self.round = turn
            self.line(f"{name} = {first} + {turn * self.team}" if turn else f"{name} = {first}")
            partly = turn == statement.rounds - 1 and not statement.whole
            with self._scope(f"if {name} < {stop}:" if partly else ""), self._alone():
                body()
        self.round = 0

    @contextmanager
    def _scope(self, head: str) -> Iterator[None]:
        """A scope for the lines that are printed inside, indented below a head if there is one."""
        if head:
            with self.block(head):
                yield
            return
        self.scopes.append({})
        yield
        self.scopes.pop()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        before, self.together = self.together, False
        yield
        self.together = before

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, If):
            copied = conditional(statement, self.constant, self.simplify)
            if copied:
                self._copies(copied)
                self.forget()
                return
        if not isinstance(statement, (For, While)):
            super().statement(statement)
            return
        self.depth_of_loops += 1
        super().statement(statement)
        self.depth_of_loops -= 1

    def leave(self, statement: While) -> None:
        if not self.together or not may_fail((statement,)):
            super().leave(statement)
            return
        # another thread of the team may have seen the failure earlier: all of them leave together
        failed = self.unique("failed")
        self.line(f"{failed} = np.int32(flag[0] != 0)")
        self._across([failed], ["or"], [INT32])
        (condition,) = self.texts((statement.condition,))
        self.line(f"if not {condition} or {failed} != np.int32(0):")
        self.line("    break")

    def barrier(self) -> None:
        self.line("barrier()" if self.team > self.warp else "warp_barrier()")

    def atomic(self, op: str, target: Buffer, indices: Sequence[str], value: str) -> None:
        (position,) = indices
        self.line(f"atomic_{op}({self.names[target]}, {position}, {value})")

    def wait(self, statement: Await) -> None:
        self.line(f"await_copies({statement.behind})")

    def multiply(self, statement: MatrixMultiply) -> None:
        corners = [each.corner for each in (statement.left, statement.right)]
        tiles = [self.names[each.target] for each in corners]
        places = self.texts([each.indices[0] for each in corners])
        (first,) = statement.sums.indices
        numbers = range(int(first.attribute), int(first.attribute) + statement.count)
        sums = [self.place(statement.sums.target, [str(number)]) for number in numbers]
        function = f"mma_{statement.dtype}"
        if statement.dtype == np.float64 and self.double_rows < ROWS:
            function += "_by_rows"
        for line in multiplied(statement, function, tiles, places, sums, self.lane, self.unique):
            self.line(line)

    def call(self, statement: Call) -> None:
        raise AssertionError(f"a kernel of a grid calls {statement.symbol}")

    # -- reductions -----------------------------------------------------------------------------

    def reduction(self, statement: Reduce) -> None:
        targets = [self.named(target) for target in statement.targets]
        self.start_of_sums(statement, targets)
        dealt = self.together and statement.lanes > 1
        self._terms(statement, targets, statement.loops, dealt)
        if dealt:
            dtypes = [target.dtype for target in statement.targets]
            self._across(targets, statement.ops, dtypes)
        self.forget()

    def _terms(
        self,
        statement: Reduce,
        targets: Sequence[str],
        loops: Sequence[tuple[Scalar, Scalar, Scalar]],
        dealt: bool,
    ) -> None:
        if not loops:
            self.terms(statement, targets)
            return
        (counter, *bounds), *inner = loops
        start, stop = self.texts(bounds)
        if inner or not dealt:
            with self.counting(self.named(counter), start, stop):
                self._terms(statement, targets, inner, dealt)
            return
        self._deal(statement, counter, start, stop, lambda: self.terms(statement, targets))

    def _across(
        self, names: Sequence[str], ops: Sequence[str], dtypes: Sequence[np.dtype[np.generic]]
    ) -> None:
        """Combine the values of a team's threads by halves; all threads get the result."""
        self._across_lanes(names, ops, dtypes, min(self.team, self.warp))
        if self.team <= self.warp:
            self._from_first(names)
            return
        warps = self.team // self.warp
        again = bool(self.depth_of_loops)
        rows = [self._parts(number, dtype, again) for number, dtype in enumerate(dtypes)]
        together = list(zip(names, dtypes, rows, strict=True))
        with self.block(f"if irem({self.lane}, {self.warp}) == 0:"):
            for name, dtype, row in together:
                self.line(f"{row}[idiv({self.lane}, {self.warp})] = {self._in_parts(name, dtype)}")
        self.line("barrier()")
        for name, dtype, row in together:
            self.line(f"{name} = {self._from_parts(f'{row}[irem({self.lane}, {warps})]', dtype)}")
        self._across_lanes(names, ops, dtypes, warps)
        self._from_first(names)
        if again:
            # the rows may be overwritten by the next reduction
            self.line("barrier()")

    def _across_lanes(
        self,
        names: Sequence[str],
        ops: Sequence[str],
        dtypes: Sequence[np.dtype[np.generic]],
        count: int,
    ) -> None:
        """Combine the values of the first lanes of each warp, neighbours first, in lane 0."""
        width = 1
        while width < count:
            for name, op, dtype in zip(names, ops, dtypes, strict=True):
                value = self.combined(op, dtype, name, f"shuffle_down({name}, {width})")
                self.line(f"{name} = {value}")
            width *= 2

    def _from_first(self, names: Sequence[str]) -> None:
        """Broadcast the value of the first lane to all lanes of a warp."""
        for name in names:
            self.line(f"{name} = shuffle({name}, 0)")

    def _parts(self, number: int, dtype: np.dtype[np.generic], again: bool) -> str:
        """A row of shared memory with one element for each warp; reductions in a loop share it."""
        kind = "uint8" if dtype == BOOL else str(computed(dtype))
        key = number, kind
        if not again or key not in self.parts:
            name = self.unique("parts")
            self.memory.append(f'    {name} = shared("{kind}", {self.team // self.warp})')
            if not again:
                return name
            self.parts[key] = name
        return self.parts[key]

    def _in_parts(self, value: str, dtype: np.dtype[np.generic]) -> str:
        return f"np.uint8({value})" if dtype == BOOL else value

    def _from_parts(self, place: str, dtype: np.dtype[np.generic]) -> str:
        return f"({place} != np.uint8(0))" if dtype == BOOL else place

    # -- memory ---------------------------------------------------------------------------------

    def read(self, place: str, dtype: np.dtype[np.generic]) -> str:
        return self._from_parts(super().read(place, dtype), dtype)

    def to_memory(self, value: str, dtype: np.dtype[np.generic]) -> str:
        return self._in_parts(super().to_memory(value, dtype), dtype)

    def place(self, one: Buffer, indices: Sequence[str]) -> str:
        if one not in self.registers:
            return super().place(one, indices)
        (position,) = indices
        key = one, position
        if key not in self.names:
            self.names[key] = self.unique(f"{self.names[one]}_{position}")
        return self.names[key]

    def place_of(self, one: Buffer, indices: Sequence[str]) -> str:
        if one in self.constant:
            return f"read({self.names[one]}, {indices[0]})"
        return super().place_of(one, indices)

"""Code emission for CPUs: statements of the loop language as the lines of a function.

Vector loops are written as vectors here and not left to LLVM's vectoriser: it refuses ordered float
reductions, loops with rare branches and outer loops, costs compile time, and fails silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from functrans.emit.llvm import polling
from functrans.emit.llvm.alignment import is_whole, whole_vectors
from functrans.emit.llvm.counters import counter_of
from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.horizontal import term, totals
from functrans.emit.llvm.interleave import store_all, stores_together
from functrans.emit.llvm.memory import Vector
from functrans.emit.llvm.parts import (
    Slots,
    accumulate,
    cleared,
    emit_in_parts,
    is_in_parts,
    largest_element,
)
from functrans.emit.llvm.prefetch import fetch_ahead, fetch_results, fetch_terms
from functrans.emit.llvm.search import search, sought
from functrans.emit.llvm.slots import Slot, new_slot, set_slot
from functrans.emit.llvm.store import store
from functrans.emit.llvm.text import Value, memory_type, register_type
from functrans.emit.llvm.unrolling import has_many_sums, is_written_out, rounds
from functrans.loop.affine import Coefficients
from functrans.loop.repetition import Use
from functrans.loop.scalar import Scalar
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import may_fail


class Statements:
    """Emits statements."""

    def __init__(
        self,
        expressions: Expressions,
        changing: set[Scalar],  # the locals that are assigned after they are declared
        depth: int,  # the number of loops around the current statement
        uses: Mapping[For, Use],  # the loops that are calls of procedures
    ) -> None:
        self.expressions = expressions
        self.writer = expressions.writer
        self.assigned = changing
        self.depth = depth
        self.uses = uses
        self.polls = False
        self.ahead: For | None = None
        """The loop around the current statement that prefetches what later iterations read."""

    def procedure(self, loop: For) -> tuple[str, bool]:
        """The name of the procedure that executes a loop, and whether it polls."""
        raise NotImplementedError

    # -- statements ---------------------------------------------------------------------------

    def statements(self, statements: tuple[Statement, ...]) -> None:
        with self.expressions.at_hand(statements):
            self._each_of(statements)

    def _each_of(self, statements: tuple[Statement, ...]) -> None:
        for statement in stores_together(statements):
            match statement:
                case tuple():
                    store_all(self.expressions, statement)
                case Store():
                    store(self.expressions, statement)
                case Let():
                    self._let(statement)
                case Assign():
                    self._assign(statement)
                case For() if polling.most(statement.start, statement.stop) == 0:
                    pass
                case For() if statement in self.uses and self.expressions.vector is None:
                    self._use(self.uses[statement])
                case For():
                    self.loop(statement)
                case Reduce():
                    self._reduce(statement)
                case If():
                    self._if(statement)
                case While():
                    self._while(statement)
                case Call():
                    self._call(statement)

    def _values(self, nodes: tuple[Scalar, ...]) -> list[Value]:
        """Values for locals; in a vector loop, with all lanes."""
        return [self.expressions.wide(node) for node in nodes]

    def _declare(self, target: Scalar, lanes: int) -> Slot:
        slot = new_slot(self.writer, target.dtype, lanes)
        self.expressions.slots[target] = slot
        vector = self.expressions.vector
        if vector is not None and lanes > 1:
            vector.factors.varying.add(target)
        return slot

    def _set(self, target: Scalar, value: Value) -> None:
        set_slot(self.writer, self.expressions.slots[target], target.dtype, value)

    def _bind(self, target: Scalar, value: Value) -> None:
        """Set a new local, which is a stack slot if it changes."""
        if target in self.assigned:
            self._declare(target, value.lanes)
            self._set(target, value)
        else:
            self.expressions.name(target, value)

    def _let(self, statement: Let) -> None:
        values = self._values(statement.values)
        for target, value in zip(statement.targets, values, strict=True):
            self._bind(target, value)

    def _assign(self, statement: Assign) -> None:
        values = self._values(statement.values)
        for target, value in zip(statement.targets, values, strict=True):
            self._set(target, value)
            self.expressions.forget(target)

    def _if(self, statement: If) -> None:
        condition = self.expressions.value(statement.condition)
        assert condition.lanes == 1, "a branch in a vector loop depends on the iteration"
        labels = [self.writer.name(kind) for kind in ("then", "else", "end")]
        self.writer.branch(condition.ref, labels[0], labels[1])
        for label, body in zip(labels, (statement.body, statement.otherwise), strict=False):
            self.writer.start(label)
            with self.expressions.scope():
                self.statements(body)
            self.writer.jump(labels[2])
        self.writer.start(labels[2])
        self.expressions.forget_changing()

    def _while(self, statement: While) -> None:
        writer, ex = self.writer, self.expressions
        assert ex.vector is None, "a while loop in a vector loop"
        again, body, look, end = (writer.name(kind) for kind in ("again", "do", "look", "end"))
        self.polls = True
        strip = polling.strip(writer, (*statement.prepare, *statement.body), self.depth == 0)
        left = writer.alloca("i64")
        writer.line(f"store i64 {strip}, ptr {left}")
        writer.jump(again)
        writer.start(again)
        ex.forget_changing()
        with ex.scope():
            self._nested(statement.prepare)
            goes_on = ex.value(statement.condition).ref
            if may_fail((statement,)):
                # after a failure, the loop's condition might never become false
                status = writer.define("load i64, ptr %flag")
                well = writer.define(f"icmp eq i64 {status}, 0")
                goes_on = writer.define(f"and i1 {goes_on}, {well}")
            writer.branch(goes_on, body, end)
            writer.start(body)
            self._nested(statement.body)
            fewer = writer.define(f"sub i64 {writer.define(f'load i64, ptr {left}')}, 1")
            writer.line(f"store i64 {fewer}, ptr {left}")
            writer.branch(writer.define(f"icmp eq i64 {fewer}, 0"), look, again)
            writer.start(look)
            writer.line(f"store i64 {strip}, ptr {left}")
            polling.look(writer, again)
        writer.start(end)
        ex.forget_changing()

    def _call(self, statement: Call) -> None:
        ex = self.expressions
        arguments = []
        for argument in statement.arguments:
            if isinstance(argument, Address):
                offset = ex.offset(argument.target, argument.indices, base=False)
                arguments.append(("ptr", ex.pointer(argument.target, offset)))
            elif isinstance(argument, bytes):
                text = argument.decode("ascii")
                ref = self.writer.constant(f"[{len(text) + 1} x i8]", f'c"{text}\\00"')
                arguments.append(("ptr", ref))
            else:
                kind = memory_type(argument.dtype)
                slot = self.writer.alloca(kind)
                value = ex.to_memory(ex.value(argument), argument.dtype)
                self.writer.line(f"store {kind} {value}, ptr {slot}")
                arguments.append(("ptr", slot))
        self.writer.call(statement.symbol, "void", arguments)
        ex.forget_changing()

    # -- loops --------------------------------------------------------------------------------

    def _nested(self, body: tuple[Statement, ...]) -> None:
        self.depth += 1
        self.statements(body)
        self.depth -= 1

    @contextmanager
    def _strips(self, start: str, stop: str, length: str) -> Iterator[str]:
        """A counting loop in strips, between which signals are polled; returns the counter."""
        self.polls, writer = True, self.writer
        strip, look, end = (writer.name(kind) for kind in ("strip", "look", "end"))
        before = writer.block
        writer.branch(writer.define(f"icmp slt i64 {start}, {stop}"), strip, end)
        writer.start(strip)
        first, place = "%" + writer.name("i"), writer.reserve()
        far = writer.define(f"add nsw i64 {first}, {length}")
        limit = writer.call("llvm.smin.i64", "i64", [("i64", far), ("i64", stop)])
        with self._loop(first, limit) as counter:
            yield counter
        writer.branch(writer.define(f"icmp slt i64 {limit}, {stop}"), look, end)
        writer.start(look)
        polling.look(writer, strip)
        writer.fill(place, f"{first} = phi i64 [ {start}, %{before} ], [ {limit}, %{look} ]")
        writer.start(end)

    @contextmanager
    def _loop(self, start: str, stop: str, step: int = 1, sums: bool = False) -> Iterator[str]:
        """A counting loop around the code that is emitted inside; returns the counter.

        With ``sums``, it carries accumulators from one iteration to the next.
        """
        writer = self.writer
        body, end = writer.name("loop"), writer.name("end")
        before = writer.block
        writer.branch(writer.define(f"icmp slt i64 {start}, {stop}"), body, end)
        writer.start(body)
        counter = "%" + writer.name("i")
        place = writer.reserve()
        self.expressions.forget_changing()
        with self.expressions.scope():
            yield counter
        count, derived = (counter, "") if sums else counter_of(writer, body, place, counter)
        following = writer.define(f"add nsw i64 {count}, {step}")
        values = f"[ {start}, %{before} ], [ {following}, %{writer.block} ]"
        writer.fill(place, f"{count} = phi i64 {values}{derived}")
        writer.branch(writer.define(f"icmp slt i64 {following}, {stop}"), body, end)
        writer.start(end)
        self.expressions.forget_changing()

    def _use(self, use: Use) -> None:
        """A call of a procedure. If that was interrupted, the function returns, too."""
        ex, writer = self.expressions, self.writer
        name, polls = self.procedure(use.procedure)
        given = ["ptr %flag", *(f"ptr {ex.buffers[one]}" for one in use.buffers)]
        given += [f"{register_type(x.dtype)} {ex.value(x).ref}" for x in use.numbers]
        writer.line(f"call void @{name}({', '.join(given)})")
        if polls:
            self.polls, following = True, writer.name("good")
            polling.unless_stopped(writer, following)
            writer.start(following)
        ex.forget_changing()

    def loop(self, statement: For, bounds: tuple[str, str] | None = None) -> None:
        """A loop, or a part of its range."""
        if bounds is None:
            bounds = (
                self.expressions.scalar(statement.start),
                self.expressions.scalar(statement.stop),
            )
        if statement.lanes > 1:
            self._vector_for(statement, bounds)
            return
        ex = self.expressions
        if ex.vector is not None and polling.is_short(self.writer, statement):
            loop = self._loop(*bounds)
        else:
            length = polling.strip(self.writer, statement.body, self.depth == 0)
            is_one = polling.is_one_strip(statement, length)
            loop = self._loop(*bounds) if is_one else self._strips(*bounds, length)
        around = self.ahead
        if statement.ahead:
            self.ahead = statement
        with loop as counter, ex.bound(statement.index, counter):
            self._nested(statement.body)
        self.ahead = around

    def _vector_for(self, statement: For, bounds: tuple[str, str]) -> None:
        start, stop = bounds
        lanes, ex = statement.lanes, self.expressions
        ex.compute_invariant(statement, statement.index)
        if statement.repeatable and not statement.whole:
            with whole_vectors(ex, statement, start, stop, self._loop) as base:
                with self._vector(statement.index, lanes, base):
                    ex.load_together(statement.body)
                    self._fetch_ahead(statement.body)
                    self.statements(statement.body)
            return
        for base, mask in self._blocks(start, stop, statement, lanes):
            if is_in_parts(statement):
                emit_in_parts(ex, self._loop, statement, base, None if mask is None else stop)
                continue
            with self._vector(statement.index, lanes, base, mask):
                if mask is None:
                    ex.load_together(statement.body)
                fetch_results(ex, statement.body)
                self._fetch_ahead(statement.body)
                self.statements(statement.body)

    def _fetch_ahead(self, body: tuple[Statement, ...]) -> None:
        if self.ahead is not None:
            fetch_ahead(self.expressions, body, self.ahead)

    @contextmanager
    def _vector(
        self, index: Scalar, lanes: int, base: str, mask: str | None = None
    ) -> Iterator[None]:
        ex = self.expressions
        assert ex.vector is None, "a vector loop inside of another"
        ex.vector = Vector(index, lanes, base, Coefficients(index))
        ex.mask = mask
        yield
        ex.vector = None
        ex.mask = None

    def _blocks(
        self, start: str, stop: str, statement: For | Reduce, lanes: int
    ) -> Iterator[tuple[str, str | None]]:
        """The vectors of a range: a loop over whole vectors, then the masked remainder."""
        writer, sums = self.writer, isinstance(statement, Reduce)
        if is_whole(statement, start, stop, lanes):
            with self._loop(start, stop, lanes, sums) as counter:
                yield counter, None
            return
        if sums and statement.repeatable:
            last = writer.define(f"sub nsw i64 {stop}, {lanes}")
            with self._loop(start, stop, lanes, sums) as counter:
                yield writer.call("llvm.smin.i64", "i64", [("i64", counter), ("i64", last)]), None
            return
        whole = writer.define(f"sub nsw i64 {stop}, {lanes - 1}")
        with self._loop(start, whole, lanes, sums) as counter:
            yield counter, None
        count = writer.define(f"sub nsw i64 {stop}, {start}")
        if lanes & (lanes - 1):
            over = writer.define(f"srem i64 {count}, {lanes}")
            done = writer.define(f"sub nsw i64 {count}, {over}")
        else:
            done = writer.define(f"and i64 {count}, {-lanes}")
        base = writer.define(f"add nsw i64 {start}, {done}")
        rest, end = writer.name("rest"), writer.name("end")
        writer.branch(writer.define(f"icmp slt i64 {base}, {stop}"), rest, end)
        writer.start(rest)
        left = writer.define(f"sub nsw i64 {stop}, {base}")
        mask = self.expressions.remainder(left, lanes, largest_element(statement))
        with self.expressions.scope():
            yield base, mask
        writer.jump(end)
        writer.start(end)
        self.expressions.forget_changing()

    def _reduce(self, statement: Reduce) -> None:
        ex = self.expressions
        vector = ex.vector
        assert vector is None or statement.lanes == 1, "a vector reduction in a vector loop"
        lanes = vector.lanes if vector is not None else statement.lanes
        condition = sought(statement) if statement.lanes > 1 else None
        if condition is not None:
            self._search(statement, condition)
            return
        sums = [*zip(statement.targets, statement.ops, statement.values, strict=True)]
        slots = cleared(ex, sums, lanes, in_vector_loop=vector is not None)
        self._reduce_nest(statement, statement.loops, slots, lanes)
        if lanes == 1 or vector is not None:
            ex.slots.update(slots)
            if vector is not None:
                vector.factors.varying.update(slots)
        else:
            places = [slot.place for slot in slots.values()]
            found = totals(ex.operations, statement, places, lanes)
            for target, total in zip(statement.targets, found, strict=True):
                self._bind(target, total)
        ex.forget_changing()

    def _search(self, statement: Reduce, condition: Scalar) -> None:
        # more vectors at a time would hide the latency of a minimum, which a search has not
        statement = replace(statement, lanes=max(statement.lanes // 2, 2), repeatable=False)
        ex, ((index, start, stop),) = self.expressions, statement.loops
        ex.compute_places([condition], index)
        ex.compute_invariant(statement, index)
        blocks = self._blocks(ex.scalar(start), ex.scalar(stop), statement, statement.lanes)
        self._bind(statement.targets[0], search(ex, statement, condition, blocks, self._vector))
        ex.forget_changing()

    def _reduce_nest(
        self,
        statement: Reduce,
        loops: tuple[tuple[Scalar, Scalar, Scalar], ...],
        slots: Slots,
        lanes: int,
    ) -> None:
        ex = self.expressions
        (index, start, stop), *inner = loops
        bounds = ex.scalar(start), ex.scalar(stop)
        if not inner and not statement.body:
            ex.compute_places(statement.values, index, has_many_sums(ex, statement))
        if not inner:
            ex.compute_invariant(statement, index)
        if inner:
            with self._loop(*bounds) as counter, ex.bound(index, counter):
                self._reduce_nest(statement, tuple(inner), slots, lanes)
        elif (ex.vector is not None or lanes == 1) and is_written_out(statement, start, stop):
            for number in range(start.attribute, stop.attribute):
                with ex.scope(), ex.bound(index, str(number)):
                    self._accumulate(statement, slots)
        elif ex.vector is not None or lanes == 1:
            for _ in rounds(ex, self._loop, statement, bounds):
                fetch_terms(ex, statement)
                self._accumulate(statement, slots)
        else:
            for base, mask in self._blocks(*bounds, statement, lanes):
                with self._vector(index, lanes, base, mask):
                    self._accumulate(statement, slots, mask)

    def _accumulate(self, statement: Reduce, slots: Slots, mask: str | None = None) -> None:
        # in an enclosing vector loop, masked lanes may hold any value: they are never stored
        ex = self.expressions
        self._nested(statement.body)
        given = zip(statement.ops, statement.values, statement.targets, strict=True)
        values = [term(ex, op, x, to.dtype, statement.lanes, mask) for op, x, to in given]
        for target, op, value in zip(statement.targets, statement.ops, values, strict=True):
            accumulate(ex, slots[target], target.dtype, op, value, mask)

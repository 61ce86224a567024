"""Value numbering: scalar expressions as LLVM code, each computed once within its scope.

Inside a vector loop, a value either has one lane, if it is the same in every iteration, or as many
lanes as the vector.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrans.emit.llvm.calls import Calls
from functrans.emit.llvm.memory import Frame, stays
from functrans.emit.llvm.slots import Slot, read
from functrans.emit.llvm.text import BOOL, Value, Writer, literal, register_type, steps
from functrans.loop.failures import OUT_OF_BOUNDS
from functrans.loop.functions import Function
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, Let, Reduce, Store
from functrans.loop.walk import always_loaded, expressions

FEW_REGISTERS, MANY_REGISTERS = 12, 24
"""The most loads that are moved out of a vector loop: three quarters of 16 and of 32 registers."""


class Expressions(Calls):
    """Emits expressions, and remembers which values have been computed."""

    def __init__(
        self,
        writer: Writer,
        buffers: dict[Buffer, str],  # the pointer to each buffer
        sizes: list[str],
        # the buffers that the kernel both reads and writes: a store to one makes values that were
        # loaded from it outdated
        changing: set[Buffer],
        called: set[Function],  # the functions that are called, and not inlined where they occur
    ) -> None:
        super().__init__(writer, buffers, changing, called)
        self.sizes = sizes
        self.extents = 0  # the first sizes are extents, which are never 0
        self.indices: dict[Scalar, str] = {}
        self.slots: dict[Scalar, Slot] = {}
        self.parameters = 1
        self._bodies: dict[tuple[Scalar, bool], Scalar] = {}
        self._sources: dict[Scalar, frozenset[Buffer | Scalar]] = {}
        """The changing buffers and the locals that an expression reads."""

    @staticmethod
    def of_parameters(writer: Writer, lanes: int) -> Expressions:
        """Expressions of a function's parameters alone."""
        inner = Expressions(writer, {}, [], set(), set())
        inner.parameters = lanes
        return inner

    # -- known values -------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Any:
        """A scope: values that are computed inside are forgotten afterwards."""
        self.frames.append(Frame())
        yield
        self.frames.pop()

    @contextmanager
    def bound(self, index: Scalar, ref: str) -> Any:
        """The inside of a loop: later loops over the same index have other values of it."""
        self.indices[index] = ref
        yield
        del self.indices[index]

    def forget_changing(self) -> None:
        """Forget all values that depend on memory or locals that change."""
        self.epoch += 1
        self.forgotten = self.epoch

    def forget(self, changed: Buffer | Scalar) -> None:
        """Forget the values that depend on a buffer or local, which has just changed."""
        self.epoch += 1
        self.changed[changed] = self.epoch

    def name(self, target: Scalar, value: Value) -> None:
        """Bind a local that is never changed to a value."""
        self._sources[target] = frozenset()
        for base in (False, True):
            self.frames[-1].values[target, base] = value
        if self.vector is not None and value.lanes > 1:
            self.vector.factors.varying.add(target)

    def given(self, node: Scalar, ref: str) -> None:
        """Bind an index or local of the function's callers to a parameter."""
        if node.op == "index":
            self.indices[node] = ref
        elif node.op == "local":
            self.name(node, Value(ref, 1))

    def lookup(self, node: Scalar, base: bool) -> Value | None:
        key = (node, base)
        for frame in reversed(self.frames):
            value = frame.values.get(key)
            if value is not None:
                epoch = frame.changing.get(key)
                if epoch is None or all(epoch >= self.version(x) for x in self._sources[node]):
                    return value
                return None
        return None

    def remember(self, node: Scalar, base: bool, value: Value) -> None:
        frame = self.frames[-1]
        frame.values[node, base] = value
        if self._read(node):
            frame.changing[node, base] = self.epoch

    def _read(self, node: Scalar) -> frozenset[Buffer | Scalar]:
        """The changing buffers and the locals that an expression reads."""
        if node in self._sources:
            return self._sources[node]
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [arg for arg in top.args if arg not in self._sources]
            if missing and top not in self._sources:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in self._sources:
                found = frozenset().union(*(self._sources[arg] for arg in top.args))
                if top.op == "local":
                    found |= {top}
                elif top.op == "load" and top.attribute in self.changing:
                    found |= {top.attribute}
                self._sources[top] = found
        return self._sources[node]

    # -- values -------------------------------------------------------------------------------

    def scalar(self, node: Scalar) -> str:
        """The value as a scalar: in a vector loop, that of the first lane."""
        return self.value(node, base=self.vector is not None).ref

    def wide(self, node: Scalar) -> Value:
        """The value as a vector with all lanes of the vector loop."""
        value = self.value(node)
        lanes = self.vector.lanes if self.vector is not None else 1
        return self.operations.spread(value, node.dtype, lanes)

    def value(self, root: Scalar, base: bool = False) -> Value:
        """The value of an expression; emits the operations that have not been emitted before.

        With ``base``, every load and index is taken in the first lane only.
        """
        found = self.lookup(root, base)
        stack = [root] if found is None else []
        while stack:
            node = stack[-1]
            operands = self._needed_first(node)
            found_for = [(arg, self.lookup(arg, base)) for arg in operands]
            missing = [arg for arg, value in found_for if value is None]
            if missing:
                stack += missing
                continue
            known = [value for _, value in found_for if value is not None]
            stack.pop()
            if self.lookup(node, base) is None:
                found = self._emit(node, base, known)
                self.remember(node, base, found)
        assert found is not None
        return found

    def _emit(self, node: Scalar, base: bool, operands: list[Value]) -> Value:
        match node.op:
            case "const":
                return Value(literal(node.attribute, node.dtype), 1)
            case "zero":
                return Value(literal(0, node.dtype), 1)
            case "parameter":
                return Value(f"%p{node.attribute}", self.parameters)
            case "size":
                return Value(self.sizes[node.attribute], 1)
            case "index":
                return self._index(node, base)
            case "local":
                return self._local(node)
            case "load":
                if base or self.vector is None:
                    return self.load_one(node, base)
                return self.load(node, self.vector)
            case "lookup":
                return self.table(node, base)
            case "guard":
                return self._guard(node, base)
            case "unlikely":
                return self._unlikely(node, base)
            case "checked":
                return self._checked(node, base)
            case "required":
                return self._required(node, base)
            case "apply" if self._is_inlined(node):
                return operands[0]
            case "apply" if not node.attribute.instruction:
                return self.call(node, base)
            case "fold":
                raise AssertionError("a fold must have become a Reduce before it is printed")
        op = node.attribute.instruction if node.op == "apply" else node.op
        return self.operations.apply(op, node.dtype, operands, [arg.dtype for arg in node.args])

    def _known(self, node: Scalar, base: bool) -> Value:
        value = self.lookup(node, base)
        assert value is not None
        return value

    def _index(self, node: Scalar, base: bool) -> Value:
        vector = self.vector
        if vector is None or node is not vector.index:
            return Value(self.indices[node], 1)
        if base:
            return Value(vector.base, 1)
        kind = register_type(INDEX, vector.lanes)
        first = self.operations.spread(Value(vector.base, 1), INDEX, vector.lanes)
        ref = self.writer.define(f"add nsw {kind} {first.ref}, {steps(vector.lanes)}")
        return Value(ref, vector.lanes)

    def _local(self, node: Scalar) -> Value:
        return read(self.writer, self.slots[node], node.dtype)

    def compute_invariant(self, statement: For | Reduce, index: Scalar) -> None:
        """Loop-invariant code motion of numbers: compute those that do not depend on an index.

        LLVM leaves them inside the loop if they take comparisons, and often loads, too.
        """
        order = postorder([x for each in (statement, *statement.body) for x in expressions(each)])
        loads = self._executed_loads(statement)
        varying = {index}
        for node in order:
            is_inner = node.op == "index" and not self._is_bound(node)
            if is_inner or (stays(node) and node not in loads) or self._read(node):
                varying.add(node)
            elif not varying.isdisjoint(node.args):
                varying.add(node)
        left = FEW_REGISTERS if "rounds" in self.writer.instructions else MANY_REGISTERS
        for node in order:
            if node in varying and node.op not in ("guard", "unlikely"):
                for x in node.args:
                    if x.args and x.dtype.kind == "f" and x not in varying:
                        is_new = self.lookup(x, False) is None
                        if x.op != "load" or (is_new and left):
                            left -= x.op == "load"
                            self.value(x)

    def _executed_loads(self, statement: For | Reduce) -> set[Scalar]:
        """The loads that a vector loop executes in each iteration, of which it has at least one.

        Loops with sums inside need their registers for these.
        """
        body = statement.body
        match statement:
            case For(repeatable=True):
                is_executed = True
            case For(start=Scalar(op="const"), stop=stop):
                # an extent that is an argument is larger than any number that is a constant
                is_size = stop.op == "size" and stop.attribute < self.extents
                is_executed = is_size or stop.op == "const"
            case _:
                is_executed = False
        if is_executed and all(isinstance(each, (Let, Store)) for each in body):
            return set(always_loaded(x for each in body for x in expressions(each)))
        return set()

    def _is_bound(self, index: Scalar) -> bool:
        """Whether code is being emitted inside the loop over an index."""
        return index in self.indices or (self.vector is not None and index is self.vector.index)

    # -- branches -----------------------------------------------------------------------------

    def _guard(self, node: Scalar, base: bool) -> Value:
        condition, value, otherwise = node.args
        test = self._known(condition, base)
        if test.lanes == 1:
            return self._branch(
                test.ref,
                node.dtype,
                lambda: self.value(value, base),
                lambda: self.value(otherwise, base),
            )
        lanes = test.lanes
        taken = self._masked(test.ref, lanes, value)
        other = self._masked(self.operations.inverse(test).ref, lanes, otherwise)
        return self.operations.select(test, taken, other, node.dtype)

    def _masked(self, condition: str, lanes: int, node: Scalar) -> Value:
        """A value that is used only in lanes in which the condition holds."""
        outer, by_data = self.mask, self.masked_by_data
        kind = register_type(BOOL, lanes)
        if outer is not None:
            condition = self.writer.define(f"and {kind} {outer}, {condition}")
        self.mask, self.masked_by_data = condition, True
        with self.scope():
            value = self.value(node)
        self.mask, self.masked_by_data = outer, by_data
        return value

    def _branch(
        self,
        condition: str,
        dtype: np.dtype[Any],
        yes: Callable[[], Value],
        no: Callable[[], Value],
    ) -> Value:
        """A branch that computes one of two values."""
        writer = self.writer
        labels = [writer.name(kind) for kind in ("yes", "no", "join")]
        writer.branch(condition, labels[0], labels[1])
        arms: list[tuple[Value, int, str]] = []
        for label, compute in zip(labels, (yes, no), strict=False):
            writer.start(label)
            with self.scope():
                value = compute()
            # if the other arm turns out to be a vector, this value is broadcast in its own block
            arms.append((value, len(writer.lines), writer.block))
            writer.line(f"br label %{labels[2]}")
        lanes = max(value.lanes for value, _, _ in arms)
        incoming = []
        shift = 0
        for value, place, block in arms:
            if value.lanes != lanes:
                tail = writer.lines[place + shift :]
                del writer.lines[place + shift :]
                before = len(writer.lines)
                value = self.operations.spread(value, dtype, lanes)
                shift += len(writer.lines) - before
                writer.lines.extend(tail)
            incoming.append(f"[ {value.ref}, %{block} ]")
        writer.start(labels[2])
        kind = register_type(dtype, lanes)
        return Value(writer.define(f"phi {kind} {', '.join(incoming)}"), lanes)

    def _unlikely(self, node: Scalar, base: bool) -> Value:
        condition, rare, common = node.args
        test = self._known(condition, base)
        usual = self._known(common, base)
        if test.lanes == 1:
            return self._branch(
                test.ref, node.dtype, lambda: self.rarely(rare, base), lambda: usual
            )
        anywhere = self.operations.anywhere(test)

        def mixed() -> Value:
            computed = self.rarely(rare, base)
            return self.operations.select(test, computed, usual, node.dtype)

        return self._branch(anywhere, node.dtype, mixed, lambda: usual)

    def _body(self, node: Scalar) -> Scalar:
        """The operations of a function on some operands."""
        key = node, self.vector is not None
        if key not in self._bodies:
            self._bodies[key] = node.attribute.at(node.args, self.vector is not None)
        return self._bodies[key]

    def _checked(self, node: Scalar, base: bool) -> Value:
        """An index that must be in bounds: out of bounds, set the error flag and use 0 instead."""
        position, extent = (self._known(arg, base) for arg in node.args)
        lanes = max(position.lanes, extent.lanes)
        position = self.operations.spread(position, INDEX, lanes)
        extent = self.operations.spread(extent, INDEX, lanes)
        kind = register_type(INDEX, lanes)
        define = self.writer.define
        outside = Value(define(f"icmp uge {kind} {position.ref}, {extent.ref}"), lanes)
        zero = self.operations.constant(0, INDEX, lanes)

        def safe() -> Value:
            return self.operations.select(outside, zero, position, INDEX)

        if self.mask is not None:  # lanes that are masked out may be out of bounds
            self._fail_if(outside, OUT_OF_BOUNDS)
            return safe()

        def failed() -> Value:
            self.writer.line(f"store i64 {OUT_OF_BOUNDS}, ptr %flag")
            return safe()

        anywhere = self.operations.anywhere(outside)
        return self._branch(anywhere, INDEX, failed, lambda: position)

    def _required(self, node: Scalar, base: bool) -> Value:
        """A value that requires a condition: if it does not hold, set the error flag."""
        condition, value = (self._known(arg, base) for arg in node.args)
        self._fail_if(self.operations.inverse(condition), node.attribute)
        return value

    def _fail_if(self, bad: Value, status: int) -> None:
        """Set the error flag if a condition holds in any active lane."""
        if bad.lanes > 1 and self.mask is not None:
            both = [bad, Value(self.mask, bad.lanes)]
            bad = self.operations.apply("and", BOOL, both, [BOOL, BOOL])
        anywhere = self.operations.anywhere(bad)
        failed, go_on = self.writer.name("bad"), self.writer.name("good")
        self.writer.branch(anywhere, failed, go_on)
        self.writer.start(failed)
        self.writer.line(f"store i64 {status}, ptr %flag")
        self.writer.jump(go_on)
        self.writer.start(go_on)

    def _needed_first(self, node: Scalar) -> tuple[Scalar, ...]:
        """The operands to compute before a node: not those that only one branch needs."""
        if node.op in ("load", "fold"):
            return ()
        if node.op == "guard":
            return node.args[:1]
        if node.op == "unlikely":
            return (node.args[0], node.args[2])
        if node.op == "apply" and self._is_inlined(node):
            return (self._body(node),)
        return node.args

    def _is_inlined(self, node: Scalar) -> bool:
        """Whether a function's operations are emitted: not its call, nor an instruction for it."""
        function = node.attribute
        return function not in self.called and function.instruction not in self.writer.instructions

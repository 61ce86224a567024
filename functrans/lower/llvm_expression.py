"""Scalar expressions as LLVM code: values, loads and branches, in a loop or in a vector of one.

Inside a vector loop a value either has one lane (it is the same in every iteration) or as many as
the vector. A load becomes a plain load, a vector load, a load with shuffles or a gather, by how
its place in memory moves with the loop index.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functrans.ir.nodes import INDEX
from functrans.ir.scalar import Scalar
from functrans.lower.affine import Coefficients
from functrans.lower.llvm_scalar import Operations
from functrans.lower.llvm_text import (
    BOOL,
    Value,
    Writer,
    literal,
    memory_type,
    register_type,
    splat_literal,
    suffix,
)
from functrans.lower.loops import Buffer

LARGEST_SHUFFLED_STRIDE = 8
"""Up to this stride, neighbours are loaded as whole vectors and shuffled apart."""


@dataclass
class Vector:
    """The vector loop that code is being emitted in."""

    index: Scalar
    lanes: int
    base: str
    """The loop index in the first lane."""
    factors: Coefficients


@dataclass
class Frame:
    """What is known at a point of the code, and dominates what follows."""

    values: dict[tuple[Scalar, bool], Value] = field(default_factory=dict)
    wide_loads: dict[Any, str] = field(default_factory=dict)
    changing: dict[tuple[Scalar, bool], int] = field(default_factory=dict)


class Expressions:
    """Emits expressions; remembers what has been computed.

    Parameters
    ----------
    writer : Writer
    buffers : dict
        The pointer to each buffer.
    sizes : list of str
    changing : set of Buffer
        The buffers that the kernel both reads and writes: what was loaded from them is forgotten
        at each store.
    """

    def __init__(
        self, writer: Writer, buffers: dict[Buffer, str], sizes: list[str], changing: set[Buffer]
    ) -> None:
        self.writer = writer
        self.operations = Operations(writer)
        self.buffers = buffers
        self.sizes = sizes
        self.changing = changing
        self.frames = [Frame()]
        self.indices: dict[Scalar, str] = {}
        self.slots: dict[Scalar, tuple[str, int]] = {}
        self.vector: Vector | None = None
        self.mask: str | None = None
        self.masked_by_data = False
        self.epoch = 0
        self._changes: dict[Scalar, bool] = {}

    # -- what is known ------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Any:
        """What is computed inside is forgotten afterwards."""
        self.frames.append(Frame())
        yield
        self.frames.pop()

    def forget_changing(self) -> None:
        """Memory or a local has changed: do not reuse what was read before."""
        self.epoch += 1

    def name(self, target: Scalar, value: Value) -> None:
        """Let a local that is never changed stand for a value."""
        self._changes[target] = False
        for base in (False, True):
            self.frames[-1].values[target, base] = value
        if self.vector is not None and value.lanes > 1:
            self.vector.factors.varying.add(target)

    def _lookup(self, node: Scalar, base: bool) -> Value | None:
        key = (node, base)
        for frame in reversed(self.frames):
            value = frame.values.get(key)
            if value is not None:
                if frame.changing.get(key, self.epoch) == self.epoch:
                    return value
                return None
        return None

    def _remember(self, node: Scalar, base: bool, value: Value) -> None:
        frame = self.frames[-1]
        frame.values[node, base] = value
        if self._is_changing(node):
            frame.changing[node, base] = self.epoch

    def _is_changing(self, node: Scalar) -> bool:
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self._changes:
                stack.pop()
                continue
            missing = [arg for arg in top.args if arg not in self._changes]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._changes[top] = (
                top.op == "local"
                or (top.op == "load" and top.attribute in self.changing)
                or any(self._changes[arg] for arg in top.args)
            )
        return self._changes[node]

    # -- values -------------------------------------------------------------------------------

    def scalar(self, node: Scalar) -> str:
        """The value in the first lane; outside of vector loops, the value."""
        return self.value(node, base=self.vector is not None).ref

    def wide(self, node: Scalar) -> Value:
        """The value with all the lanes of the vector loop."""
        value = self.value(node)
        lanes = self.vector.lanes if self.vector is not None else 1
        return self.operations.spread(value, node.dtype, lanes)

    def value(self, root: Scalar, base: bool = False) -> Value:
        """Emit what is missing of an expression.

        With ``base``, every load and index is taken in the first lane only.
        """
        stack = [root]
        while stack:
            node = stack[-1]
            if self._lookup(node, base) is not None:
                stack.pop()
                continue
            missing = [arg for arg in _needed_first(node) if self._lookup(arg, base) is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._remember(node, base, self._emit(node, base))
        found = self._lookup(root, base)
        assert found is not None
        return found

    def _emit(self, node: Scalar, base: bool) -> Value:
        match node.op:
            case "const":
                return Value(literal(node.attribute, node.dtype), 1)
            case "zero":
                return Value(literal(0, node.dtype), 1)
            case "size":
                return Value(self.sizes[node.attribute], 1)
            case "index":
                return self._index(node, base)
            case "local":
                return self._local(node)
            case "load":
                if base or self.vector is None:
                    return self._load_one(node, base)
                return self._load(node, self.vector)
            case "lookup":
                return self._table(node, base)
            case "guard":
                return self._guard(node, base)
            case "unlikely":
                return self._unlikely(node, base)
            case "checked":
                return self._checked(node, base)
            case "fold":
                raise AssertionError("a fold must have become a Reduce before it is printed")
        args = [self._known(arg, base) for arg in node.args]
        return self.operations.apply(node.op, node.dtype, args, [arg.dtype for arg in node.args])

    def _known(self, node: Scalar, base: bool) -> Value:
        value = self._lookup(node, base)
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
        steps = "<" + ", ".join(f"i64 {lane}" for lane in range(vector.lanes)) + ">"
        return Value(self.writer.define(f"add nsw {kind} {first.ref}, {steps}"), vector.lanes)

    def _local(self, node: Scalar) -> Value:
        slot, lanes = self.slots[node]
        kind = register_type(node.dtype, lanes)
        return Value(self.writer.define(f"load {kind}, ptr {slot}"), lanes)

    # -- memory -------------------------------------------------------------------------------

    def offset(self, target: Buffer, indices: tuple[Scalar, ...], base: bool) -> Value:
        """The place of an element, counted in elements from the start of its buffer."""
        if not indices:
            return Value("0", 1)
        total = self.value(indices[0], base)
        for extent, position in zip(target.shape[1:], indices[1:], strict=True):
            factor = self.value(extent, base)
            term = self.value(position, base)
            if total.ref != "0":
                total = self.operations.apply("mul", INDEX, [total, factor], [INDEX, INDEX])
            if total.ref == "0":
                total = term
            elif term.ref != "0":
                total = self.operations.apply("add", INDEX, [total, term], [INDEX, INDEX])
        return total

    def pointer(self, target: Buffer, offset: Value) -> str:
        kind = memory_type(target.dtype)
        lanes = "i64" if offset.lanes == 1 else f"<{offset.lanes} x i64>"
        return self.writer.define(
            f"getelementptr inbounds {kind}, ptr {self.buffers[target]}, {lanes} {offset.ref}"
        )

    def from_memory(self, ref: str, dtype: np.dtype[Any], lanes: int) -> str:
        if dtype != BOOL:
            return ref
        zero = splat_literal("0", "i8", lanes)
        return self.writer.define(f"icmp ne {memory_type(BOOL, lanes)} {ref}, {zero}")

    def to_memory(self, value: Value, dtype: np.dtype[Any]) -> str:
        if dtype != BOOL:
            return value.ref
        return self.writer.define(
            f"zext {register_type(BOOL, value.lanes)} {value.ref} to "
            f"{memory_type(BOOL, value.lanes)}"
        )

    def _load_one(self, node: Scalar, base: bool) -> Value:
        source: Buffer = node.attribute
        pointer = self.pointer(source, self.offset(source, node.args, base))
        kind = memory_type(source.dtype)
        loaded = self.writer.define(
            f"load {kind}, ptr {pointer}, align {source.dtype.itemsize}"
        )
        return Value(self.from_memory(loaded, source.dtype, 1), 1)

    def _load(self, node: Scalar, vector: Vector) -> Value:
        source: Buffer = node.attribute
        stride = vector.factors.of_element(source, node.args)
        if stride == 0 and not self.masked_by_data:
            return self._load_one(node, base=False)
        if stride == 1:
            return self._load_vector(node, vector)
        if stride is not None and 1 < stride <= LARGEST_SHUFFLED_STRIDE and self.mask is None:
            shuffled = self._load_shuffled(node, vector, stride)
            if shuffled is not None:
                return shuffled
        return self._gather(node, vector)

    def _load_vector(self, node: Scalar, vector: Vector) -> Value:
        source: Buffer = node.attribute
        pointer = self.pointer(source, self.offset(source, node.args, base=True))
        kind = memory_type(source.dtype, vector.lanes)
        align = source.dtype.itemsize
        if self.mask is None:
            loaded = self.writer.define(f"load {kind}, ptr {pointer}, align {align}")
        else:
            name = f"llvm.masked.load.{_memory_suffix(source.dtype, vector.lanes)}.p0"
            loaded = self.writer.call(
                name,
                kind,
                [
                    ("ptr", pointer),
                    ("i32", str(align)),
                    (register_type(BOOL, vector.lanes), self.mask),
                    (kind, "zeroinitializer"),
                ],
            )
        return Value(self.from_memory(loaded, source.dtype, vector.lanes), vector.lanes)

    def _load_shuffled(self, node: Scalar, vector: Vector, stride: int) -> Value | None:
        """Load whole rows of ``stride`` neighbours, and pick this element of each.

        Only if the last axes are exactly such rows, so that all of what is loaded exists. The
        other elements of the rows are picked from the same load.
        """
        source: Buffer = node.attribute
        column, place, axis = 0, 1, len(node.args)
        while axis and node.args[axis - 1].op == "const":
            axis -= 1
            column += place * int(node.args[axis].attribute)
            place *= int(source.shape[axis].attribute) if source.shape[axis].op == "const" else 0
        if place != stride or axis == 0 or vector.factors.of(node.args[axis - 1]) != 1:
            return None
        rows = node.args[:axis]
        key = (source, rows, self.epoch if source in self.changing else None)
        total = stride * vector.lanes
        kind = memory_type(source.dtype, total)
        wide = next((f.wide_loads[key] for f in reversed(self.frames) if key in f.wide_loads), None)
        if wide is None:
            zero = Scalar("const", (), INDEX, 0)
            start = rows + (zero,) * (len(node.args) - axis)
            pointer = self.pointer(source, self.offset(source, start, base=True))
            wide = self.writer.define(
                f"load {kind}, ptr {pointer}, align {source.dtype.itemsize}"
            )
            self.frames[-1].wide_loads[key] = wide
        lanes = ", ".join(f"i32 {column + stride * lane}" for lane in range(vector.lanes))
        picked = self.writer.define(
            f"shufflevector {kind} {wide}, {kind} poison, <{vector.lanes} x i32> <{lanes}>"
        )
        return Value(self.from_memory(picked, source.dtype, vector.lanes), vector.lanes)

    def _gather(self, node: Scalar, vector: Vector) -> Value:
        source: Buffer = node.attribute
        offset = self.offset(source, node.args, base=False)
        if offset.lanes == 1 and not self.masked_by_data:
            return self._load_one(node, base=False)
        offset = self.operations.spread(offset, INDEX, vector.lanes)
        pointers = self.pointer(source, offset)
        kind = memory_type(source.dtype, vector.lanes)
        lanes = vector.lanes
        loaded = self.writer.call(
            f"llvm.masked.gather.{_memory_suffix(source.dtype, lanes)}.v{lanes}p0",
            kind,
            [
                (f"<{lanes} x ptr>", pointers),
                ("i32", str(source.dtype.itemsize)),
                (register_type(BOOL, lanes), self.mask or splat_literal("true", "i1", lanes)),
                (kind, "zeroinitializer"),
            ],
        )
        return Value(self.from_memory(loaded, source.dtype, lanes), lanes)

    def _table(self, node: Scalar, base: bool) -> Value:
        """An element of a constant table."""
        position = self._known(node.args[0], base)
        element = register_type(node.dtype)
        entries = ", ".join(f"{element} {literal(x, node.dtype)}" for x in node.attribute)
        table = self.writer.constant(f"[{len(node.attribute)} x {element}]", f"[{entries}]")
        kind = register_type(node.args[0].dtype, position.lanes)
        pointer = self.writer.define(
            f"getelementptr inbounds {element}, ptr {table}, {kind} {position.ref}"
        )
        lanes = position.lanes
        if lanes == 1:
            return Value(self.writer.define(f"load {element}, ptr {pointer}"), 1)
        vector_type = register_type(node.dtype, lanes)
        name = f"llvm.masked.gather.{suffix(node.dtype, lanes)}.v{lanes}p0"
        arguments = [
            (f"<{lanes} x ptr>", pointer),
            ("i32", str(node.dtype.itemsize)),
            # a lane that is masked out may hold any index
            (register_type(BOOL, lanes), self.mask or splat_literal("true", "i1", lanes)),
            (vector_type, "zeroinitializer"),
        ]
        return Value(self.writer.call(name, vector_type, arguments), lanes)

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
        kind = register_type(BOOL, lanes)
        ones = splat_literal("true", "i1", lanes)
        inverse = self.writer.define(f"xor {kind} {test.ref}, {ones}")
        other = self._masked(inverse, lanes, otherwise)
        return self.operations.select(test, taken, other, node.dtype)

    def _masked(self, condition: str, lanes: int, node: Scalar) -> Value:
        """A value of which only the lanes where the condition holds will be used."""
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
        """Compute one of two values."""
        writer = self.writer
        labels = [writer.name(kind) for kind in ("yes", "no", "join")]
        writer.branch(condition, labels[0], labels[1])
        arms: list[tuple[Value, int, str]] = []
        for label, compute in zip(labels, (yes, no), strict=False):
            writer.start(label)
            with self.scope():
                value = compute()
            # where the other arm turns out to have lanes, this one is spread in its own block
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
                test.ref, node.dtype, lambda: self.value(rare, base), lambda: usual
            )
        kind = register_type(BOOL, test.lanes)
        anywhere = self.writer.call(
            f"llvm.vector.reduce.or.v{test.lanes}i1", "i1", [(kind, test.ref)]
        )

        def mixed() -> Value:
            return self.operations.select(test, self.value(rare, base), usual, node.dtype)

        return self._branch(anywhere, node.dtype, mixed, lambda: usual)

    def _checked(self, node: Scalar, base: bool) -> Value:
        """An index that must be in bounds: if it is not, set the flag and use 0 instead."""
        position, extent = (self._known(arg, base) for arg in node.args)
        lanes = max(position.lanes, extent.lanes)
        position = self.operations.spread(position, INDEX, lanes)
        extent = self.operations.spread(extent, INDEX, lanes)
        kind = register_type(INDEX, lanes)
        define = self.writer.define
        outside = define(f"icmp uge {kind} {position.ref}, {extent.ref}")
        bits = register_type(BOOL, lanes)
        bad = outside
        if lanes > 1:
            if self.mask is not None:
                bad = define(f"and {bits} {outside}, {self.mask}")
            bad = self.writer.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [(bits, bad)])
        failed, go_on = self.writer.name("bad"), self.writer.name("good")
        self.writer.branch(bad, failed, go_on)
        self.writer.start(failed)
        self.writer.line("store i64 1, ptr %flag")
        self.writer.jump(go_on)
        self.writer.start(go_on)
        zero = splat_literal("0", "i64", lanes)
        safe = define(f"select {bits} {outside}, {kind} {zero}, {kind} {position.ref}")
        return Value(safe, lanes)


def _memory_suffix(dtype: np.dtype[Any], lanes: int) -> str:
    return suffix(np.dtype(np.int8) if dtype == BOOL else dtype, lanes)


def _needed_first(node: Scalar) -> tuple[Scalar, ...]:
    """The operands to compute before the node: not what only a branch needs."""
    if node.op in ("load", "fold"):
        return ()
    if node.op == "guard":
        return node.args[:1]
    if node.op == "unlikely":
        return (node.args[0], node.args[2])
    return node.args

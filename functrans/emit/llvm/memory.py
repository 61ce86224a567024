"""Instruction selection for loads.

In a vector loop, a load becomes a scalar load, a vector load, a load with shuffles or a gather,
depending on how its position in memory changes with the loop index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from functrans.emit.llvm.scalar import Operations
from functrans.emit.llvm.text import (
    BOOL,
    Value,
    Writer,
    everywhere,
    in_memory,
    literal,
    memory_type,
    register_type,
    splat_literal,
    steps,
    suffix,
)
from functrans.emit.llvm.transposition import Neighbours, neighbours, transposed
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.statements import Buffer, Statement
from functrans.records import dataclass

_NOT_MOVED = frozenset({"load", "guard", "unlikely", "checked", "required"})
"""Operations that are not hoisted out of loops."""

LARGEST_SHUFFLED_STRIDE = 8
"""Up to this stride, whole rows are loaded as vectors, from which shuffles pick the elements."""


@dataclass
class Vector:
    """The vector loop for which code is being emitted."""

    index: Scalar
    lanes: int
    base: str
    """The loop index in the first lane."""
    factors: Coefficients
    together: Mapping[Scalar, Neighbours] = field(default_factory=dict)
    """For strided loads: the loads of adjacent elements with which they are executed."""


@dataclass
class Frame:
    """The values that are known at a point of the code: their definitions dominate what follows."""

    values: dict[tuple[Scalar, bool], Value] = field(default_factory=dict)
    wide_loads: dict[Any, str] = field(default_factory=dict)
    changing: dict[tuple[Scalar, bool], int] = field(default_factory=dict)


def pointers_to(buffers: Sequence[Buffer]) -> dict[Buffer, str]:
    """The name of the pointer to each parameter; columns of a record have that to the first one."""
    shared: dict[int, str] = {}
    found: dict[Buffer, str] = {}
    for number, one in enumerate(buffers):
        own = f"%b{number}"
        found[one] = own if one.column is None else shared.setdefault(one.column.record, own)
    return found


class Memory:
    """Emits loads."""

    def __init__(
        self,
        writer: Writer,
        buffers: dict[Buffer, str],  # the pointer to each buffer
        # the buffers that the kernel both reads and writes: a store to one makes values that were
        # loaded from it outdated
        changing: set[Buffer],
    ) -> None:
        self.writer = writer
        self.operations = Operations(writer)
        self.buffers = buffers
        first: dict[int, int] = {}  # the first column of each record, to which pointers point
        self.shifts = {
            one: one.column.start - first.setdefault(one.column.record, one.column.start)
            for one in buffers
            if one.column is not None
        }
        """The elements from the pointer to a column."""
        self.changing = changing
        self.frames = [Frame()]
        self.vector: Vector | None = None
        self.mask: str | None = None
        self.masked_by_data = False
        self.remainders: dict[str, str] = {}
        """For masks of the first lanes of a vector: their number, at most all, and at least 0."""
        self.epoch = 0
        """The number of changes so far."""
        self.forgotten = 0
        """The epoch in which any memory or local may have changed last."""
        self.changed: dict[Buffer | Scalar, int] = {}
        """The epoch in which a buffer or local was changed last since then."""

    def version(self, source: Buffer | Scalar) -> int:
        """The epoch in which a buffer or local was changed last."""
        return max(self.forgotten, self.changed.get(source, 0))

    def remainder(self, left: str, lanes: int, itemsize: int) -> str:
        """The mask of a vector of which so many elements are left.

        LLVM compares again at each use, in the fewest instructions if numbers have the size of
        the elements.
        """
        define, count = self.writer.define, left
        number: np.dtype[Any] = INDEX
        if itemsize < INDEX.itemsize:
            number = np.dtype("i4")
            count = define(f"trunc i64 {left} to i32")
        spread = self.operations.spread(Value(count, 1), number, lanes).ref
        numbers = steps(lanes, kind=register_type(number))
        mask = define(f"icmp slt {register_type(number, lanes)} {numbers}, {spread}")
        self.remainders[mask] = left
        return mask

    def value(self, root: Scalar, base: bool = False) -> Value:
        """The value of an expression; with ``base``, in the first lane."""
        raise NotImplementedError

    def lookup(self, node: Scalar, base: bool) -> Value | None:
        """The value of an expression, if it is known."""
        raise NotImplementedError

    def remember(self, node: Scalar, base: bool, value: Value) -> None:
        """Remember the value of an expression."""
        raise NotImplementedError

    def offset(self, target: Buffer, indices: tuple[Scalar, ...], base: bool) -> Value:
        """The offset of an element from the start of its buffer, in elements."""
        return self.value(place(target, indices), base)

    def compute_places(self, values: Sequence[Scalar], index: Scalar, hidden: bool = False) -> None:
        """Loop-invariant code motion of addresses: compute what does not depend on a loop's index.

        LLVM leaves the multiplications of row offsets inside the loop if there are many of them, or
        replaces them by a chain of additions, unless they are ``hidden`` from it.
        """
        vector = self.vector
        for node in postorder(values):
            if node.op != "load" or not node.args:
                continue
            is_one = vector is None or vector.factors.of_element(node.attribute, node.args) == 0
            found = postorder([place(node.attribute, node.args)])
            inside = {index}
            inside.update(x for x in found if not inside.isdisjoint(x.args))
            for x in found:
                is_free = x.op == "mul" and x.dtype == INDEX and x not in inside
                if not is_free or any(map(stays, postorder([x]))):
                    continue
                known = self.lookup(x, not is_one)
                offset = self.value(x, base=not is_one)
                if hidden and known is None and offset.lanes == 1:
                    same = self.writer.define(f'call i64 asm "", "=r,0"(i64 {offset.ref})')
                    self.remember(x, not is_one, Value(same, 1))

    def pointer(self, target: Buffer, offset: Value) -> str:
        return self._address(target, offset, "inbounds ")

    def _address(self, target: Buffer, offset: Value, inbounds: str = "") -> str:
        """The address of an element; in a record, with the place of the column added last.

        It is a constant then, which needs no instruction, and all columns share the other part.
        """
        kind, lanes = memory_type(target.dtype), register_type(INDEX, offset.lanes)
        place = f"ptr {self.buffers[target]}, {lanes} {offset.ref}"
        address = self.writer.define(f"getelementptr {inbounds}{kind}, {place}")
        if target not in self.shifts:
            return address
        many = "ptr" if offset.lanes == 1 else f"<{offset.lanes} x ptr>"
        shifted = f"{many} {address}, i64 {self.shifts[target]}"
        return self.writer.define(f"getelementptr {inbounds}{kind}, {shifted}")

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

    def load_one(self, node: Scalar, base: bool) -> Value:
        source: Buffer = node.attribute
        pointer = self.pointer(source, self.offset(source, node.args, base))
        kind = memory_type(source.dtype)
        loaded = self.writer.define(f"load {kind}, ptr {pointer}, align {source.dtype.itemsize}")
        return Value(self.from_memory(loaded, source.dtype, 1), 1)

    def load(self, node: Scalar, vector: Vector) -> Value:
        source: Buffer = node.attribute
        stride = vector.factors.of_element(source, node.args)
        if stride == 0 and not self.masked_by_data:
            return self.load_one(node, base=False)
        if stride == 1:
            return self._load_vector(node, vector)
        if stride == -1 and self.mask is None:
            return self._load_backwards(node, vector)
        if node in vector.together and self.mask is None:
            return self._load_transposed(node, vector.together[node], vector)
        if stride is not None and 1 < stride <= LARGEST_SHUFFLED_STRIDE:
            shuffled = self._load_shuffled(node, vector, stride)
            if shuffled is not None:
                return shuffled
        if stride is not None and self.mask is None and 2 <= abs(stride) <= LARGEST_SHUFFLED_STRIDE:
            return self._load_strided(node, vector, stride)
        return self._gather(node, vector, stride)

    def _load_vector(self, node: Scalar, vector: Vector) -> Value:
        source: Buffer = node.attribute
        pointer = self.pointer(source, self.offset(source, node.args, base=True))
        loaded = self._load_wide(source, pointer, 1, vector.lanes)
        return Value(self.from_memory(loaded, source.dtype, vector.lanes), vector.lanes)

    def _load_wide(self, source: Buffer, pointer: str, count: int, lanes: int) -> str:
        """Load ``count`` adjacent elements for each lane; none for those that are masked out."""
        total, align = count * lanes, source.dtype.itemsize
        kind, masks = memory_type(source.dtype, total), register_type(BOOL, lanes)
        if self.mask is None:
            return self.writer.define(f"load {kind}, ptr {pointer}, align {align}")
        mask = self.mask
        if count > 1:
            mask = self.writer.chosen((mask, mask), masks, [n // count for n in range(total)])
        arguments = [
            ("ptr", pointer),
            ("i32", str(align)),
            (register_type(BOOL, total), mask),
            (kind, "zeroinitializer"),
        ]
        name = f"llvm.masked.load.{suffix(in_memory(source.dtype), total)}.p0"
        return self.writer.call(name, kind, arguments)

    def _load_backwards(self, node: Scalar, vector: Vector) -> Value:
        """Load the vector that ends at the first lane's element, and reverse it."""
        lanes = vector.lanes
        loaded, kind = self._loaded_at(node, 1 - lanes, lanes), memory_type(node.dtype, lanes)
        picked = self.writer.chosen((loaded, loaded), kind, range(lanes - 1, -1, -1))
        return Value(self.from_memory(picked, node.dtype, lanes), lanes)

    def _load_strided(self, node: Scalar, vector: Vector, stride: int) -> Value:
        """Load all elements from the first to the last in as many vectors, and pick every n-th.

        The last of these vectors overlaps the one before, so that nothing outside is loaded.
        """
        lanes, step = vector.lanes, abs(stride)
        span = step * (lanes - 1) + 1
        first = span - 1 if stride < 0 else 0
        kind = memory_type(node.dtype, lanes)
        starts = [min(number * lanes, span - lanes) for number in range(step)]
        picked = self._loaded_at(node, starts[0] - first, lanes)
        where = [first + stride * lane for lane in range(lanes)]
        for number in range(1, step):
            part = self._loaded_at(node, starts[number] - first, lanes)
            before = number * lanes
            source = [x if x < before else lanes + x - starts[number] for x in where]
            source = [min(x, 2 * lanes - 1) for x in source]
            picked = self.writer.chosen((picked, part), kind, source)
            where = [lane if x < before + lanes else x for lane, x in enumerate(where)]
        return Value(self.from_memory(picked, node.dtype, lanes), lanes)

    def _loaded_at(self, node: Scalar, distance: int, lanes: int) -> str:
        """The vector of adjacent elements at a distance from the first lane's element."""
        source: Buffer = node.attribute
        first = self.first_place(source, node.args)
        start = self.writer.define(
            f"getelementptr {memory_type(source.dtype)}, ptr {first}, i64 {distance}"
        )
        kind = memory_type(source.dtype, lanes)
        return self.writer.define(f"load {kind}, ptr {start}, align {source.dtype.itemsize}")

    def _load_shuffled(self, node: Scalar, vector: Vector, stride: int) -> Value | None:
        """Load whole rows of ``stride`` adjacent elements, and pick this load's element of each.

        Only if the last axes are exactly such rows, so that everything that is loaded exists. The
        other elements of the rows are picked from the same loads.
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
        key = (source, rows, self.mask, self.version(source) if source in self.changing else None)
        total = stride * vector.lanes
        kind = memory_type(source.dtype, total)
        wide = next((f.wide_loads[key] for f in reversed(self.frames) if key in f.wide_loads), None)
        if wide is None:
            zero = Scalar("const", (), INDEX, 0)
            start = rows + (zero,) * (len(node.args) - axis)
            pointer = self.pointer(source, self.offset(source, start, base=True))
            wide = self._load_wide(source, pointer, stride, vector.lanes)
            self.frames[-1].wide_loads[key] = wide
        picked = self.writer.chosen((wide, "poison"), kind, range(column, total, stride))
        return Value(self.from_memory(picked, source.dtype, vector.lanes), vector.lanes)

    def load_together(self, body: Sequence[Statement]) -> None:
        """Group the loads of adjacent elements in a loop's body, to be executed together."""
        vector = self.vector
        assert vector is not None
        if vector.lanes & (vector.lanes - 1):
            return  # such vectors are not transposed by halves
        vector.together = neighbours(body, vector.factors, vector.lanes)

    def _load_transposed(self, node: Scalar, together: Neighbours, vector: Vector) -> Value:
        """Load a vector of adjacent elements for each lane, and transpose these vectors."""
        count, lanes, dtype = len(together.loads), vector.lanes, node.dtype
        kind = memory_type(dtype, count)
        rows = [
            self.writer.define(f"load {kind}, ptr {place}, align {dtype.itemsize}")
            for place in self._first_of_each(together, vector)
        ]
        length = count
        while length < lanes:
            # several blocks of rows lie side by side in one vector
            kind = memory_type(dtype, length)
            rows = [
                self.writer.chosen((rows[n], rows[n + count]), kind, range(2 * length))
                for n in range(len(rows))
                if not n & count
            ]
            length *= 2
        columns = transposed(self.writer, rows, memory_type(dtype, lanes), lanes)
        for each, column in zip(together.loads, columns, strict=True):
            value = Value(self.from_memory(column, dtype, lanes), lanes)
            self.remember(each, False, value)
            if each is node:
                found = value
        return found

    def _first_of_each(self, together: Neighbours, vector: Vector) -> Iterator[str]:
        """For each lane, the pointer to the first of the adjacent elements."""
        first, define = together.loads[0], self.writer.define
        source: Buffer = first.attribute
        element = memory_type(source.dtype)
        if together.step is None:
            offset = self.offset(source, first.args, base=False)
            places = self.operations.spread(offset, INDEX, vector.lanes).ref
            for lane in range(vector.lanes):
                one = define(f"extractelement <{vector.lanes} x i64> {places}, i64 {lane}")
                yield self.pointer(source, Value(one, 1))
            return
        step = self.value(together.step, base=True).ref
        place = self.first_place(source, first.args)
        for lane in range(vector.lanes):
            if lane:
                place = define(f"getelementptr {element}, ptr {place}, i64 {step}")
            yield place

    def first_place(self, target: Buffer, indices: tuple[Scalar, ...]) -> str:
        """The pointer to the first lane's element, to which strides are added for the others."""
        # not inbounds: if lanes are masked out, the first one may be outside the buffer
        return self._address(target, self.offset(target, indices, base=True))

    def places(self, target: Buffer, first: str, stride: int, lanes: int) -> str:
        """The pointers to the elements in all lanes."""
        kind = memory_type(target.dtype)
        return self.writer.define(
            f"getelementptr {kind}, ptr {first}, <{lanes} x i64> {steps(lanes, stride)}"
        )

    def _gather(self, node: Scalar, vector: Vector, stride: int | None) -> Value:
        source: Buffer = node.attribute
        if stride:
            first = self.first_place(source, node.args)
            pointers = self.places(source, first, stride, vector.lanes)
        else:
            offset = self.offset(source, node.args, base=False)
            if offset.lanes == 1:
                alone = not self.masked_by_data
                return self.load_one(node, base=False) if alone else self._load_if_any(node, vector)
            offset = self.operations.spread(offset, INDEX, vector.lanes)
            if stride is None and self.mask is None and self._is_in_cache(node, vector):
                return self._loaded_singly(source, offset)
            pointers = self.pointer(source, offset)
        loaded = self._masked_gather(pointers, in_memory(source.dtype), vector.lanes)
        return Value(self.from_memory(loaded, source.dtype, vector.lanes), vector.lanes)

    def _load_if_any(self, node: Scalar, vector: Vector) -> Value:
        """Load one element for all lanes if any is active; a gather would load it for each."""
        source, define = node.attribute, self.writer.define
        kind = f"<1 x {memory_type(source.dtype)}>"
        pointer = self.pointer(source, self.offset(source, node.args, base=False))
        any_lane = self.operations.anywhere(Value(str(self.mask), vector.lanes))
        arguments = [
            ("ptr", pointer),
            ("i32", str(source.dtype.itemsize)),
            ("<1 x i1>", define(f"insertelement <1 x i1> poison, i1 {any_lane}, i64 0")),
            (kind, "zeroinitializer"),
        ]
        name = f"llvm.masked.load.v1{suffix(in_memory(source.dtype))}.p0"
        loaded = define(f"extractelement {kind} {self.writer.call(name, kind, arguments)}, i64 0")
        return Value(self.from_memory(loaded, source.dtype, 1), 1)

    def _is_in_cache(self, node: Scalar, vector: Vector) -> bool:
        """Whether single loads are faster than a gather: from a row, or from a small table.

        Those that miss the caches wait for each other.
        """
        small = all(extent.op == "const" for extent in node.attribute.shape)
        factors = [vector.factors.of(place) for place in node.args[:-1]]
        in_row = bool(factors) and all(factor == 0 for factor in factors)
        return (small or in_row) and "loads" in self.writer.instructions

    def _loaded_singly(self, source: Buffer, offset: Value) -> Value:
        """A vector of elements that are loaded one by one."""
        define, dtype, loaded = self.writer.define, in_memory(source.dtype), "poison"
        kind, element = register_type(dtype, offset.lanes), register_type(dtype)
        for lane in range(offset.lanes):
            place = define(f"extractelement <{offset.lanes} x i64> {offset.ref}, i64 {lane}")
            pointer = self.pointer(source, Value(place, 1))
            one = define(f"load {element}, ptr {pointer}, align {dtype.itemsize}")
            loaded = define(f"insertelement {kind} {loaded}, {element} {one}, i64 {lane}")
        return Value(self.from_memory(loaded, source.dtype, offset.lanes), offset.lanes)

    def _masked_gather(self, pointers: str, dtype: np.dtype[Any], lanes: int) -> str:
        """A gather of the active lanes; the other lanes hold any value."""
        kind = register_type(dtype, lanes)
        arguments = [
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(dtype.itemsize)),
            (register_type(BOOL, lanes), self.mask or everywhere(lanes)),
            (kind, "zeroinitializer"),
        ]
        name = f"llvm.masked.gather.{suffix(dtype, lanes)}.v{lanes}p0"
        return self.writer.call(name, kind, arguments)

    def table(self, node: Scalar, base: bool) -> Value:
        """An element of a constant table; a vector of adjacent ones is loaded as one."""
        vector, element, (place,) = self.vector, register_type(node.dtype), node.args
        adjacent = 1
        if vector and not base and self.mask is None and vector.factors.of(place) == 1:
            adjacent = vector.lanes if node.dtype != BOOL else 1
        position = self.value(place, base or adjacent > 1)
        entries = ", ".join(f"{element} {literal(x, node.dtype)}" for x in node.attribute)
        table = self.writer.constant(f"[{len(node.attribute)} x {element}]", f"[{entries}]")
        kind = register_type(place.dtype, position.lanes)
        pointer = self.writer.define(
            f"getelementptr inbounds {element}, ptr {table}, {kind} {position.ref}"
        )
        lanes = position.lanes
        if lanes == 1:
            loaded = f"load {register_type(node.dtype, adjacent)}, ptr {pointer}"
            return Value(self.writer.define(f"{loaded}, align {node.dtype.itemsize}"), adjacent)
        return Value(self._masked_gather(pointer, node.dtype, lanes), lanes)


def stays(node: Scalar) -> bool:
    """Whether a node may fail or change, so that it is not hoisted out of a loop."""
    divides = node.op in ("idiv", "irem") and node.args[1].op not in ("const", "size")
    return divides or node.op in _NOT_MOVED


def place(target: Buffer, indices: tuple[Scalar, ...]) -> Scalar:
    """The offset of an element as an expression, so that equal offsets are computed once."""
    total, rows = ZERO, ZERO
    if target.column is not None:
        rows = _folded("mul", indices[0], const(target.column.pitch, INDEX))
        indices = ZERO, *indices[1:]
    for extent, position in zip(target.shape, indices, strict=True):
        # an empty buffer is never read: its offset is constant
        total = _folded("add", _folded("mul", total, extent), position)
    return _folded("add", rows, total)


def _folded(op: str, x: Scalar, y: Scalar) -> Scalar:
    """A sum or product of indices; of constants, a constant, which takes no instruction."""
    if x is ZERO or y is ZERO:
        return ZERO if op == "mul" else x if y is ZERO else y
    if x.op == y.op == "const":
        a, b = x.attribute, y.attribute
        return const(a + b if op == "add" else a * b, INDEX)
    return Scalar(op, (x, y), INDEX)

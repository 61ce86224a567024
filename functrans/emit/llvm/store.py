"""Instruction selection for stores: scalar, contiguous, strided and scattered."""

from __future__ import annotations

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.text import BOOL, Value, in_memory, memory_type, register_type, suffix
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Store


def store(ex: Expressions, statement: Store) -> None:
    """Store a value, or in a vector loop the vector of values."""
    write(ex, statement, stored_value(ex, statement))


def stored_value(ex: Expressions, statement: Store) -> Value:
    """What is stored: the value, or its sum with what is in memory."""
    value = ex.wide(statement.value)
    if statement.op is None:
        return value
    before = ex.wide(Scalar("load", statement.indices, statement.target.dtype, statement.target))
    return ex.operations.accumulate(statement.op, statement.target.dtype, before, value)


def write(ex: Expressions, statement: Store, value: Value) -> None:
    """Store what is computed already."""
    assert not statement.atomic, "iterations meet in an element, which are another thread's each"
    target, indices, vector = statement.target, statement.indices, ex.vector
    stride = 1 if vector is None else vector.factors.of_element(target, indices)
    if stride == 1:
        offset = ex.offset(target, indices, base=vector is not None)
        if value.lanes > 1 and target in ex.changing and ex.writer.is_slow_if_masked(value.ref):
            hidden = ex.writer.define(f'call i64 asm "", "=r,0"(i64 {offset.ref})')
            offset = Value(hidden, 1)
        _write(ex, ex.pointer(target, offset), target, value)
    elif stride:
        _step(ex, ex.first_place(target, indices), stride, target, value)
    else:
        offset = ex.offset(target, indices, base=False)
        assert offset.lanes == value.lanes, "a vector loop stores to one place"
        _scatter(ex, ex.pointer(target, offset), target, value)
    if target in ex.changing:
        ex.forget(target)
        if stride == 1 and ex.mask is None:
            # what is read there is what was written (store-to-load forwarding)
            ex.remember(Scalar("load", indices, target.dtype, target), False, value)


def _write(ex: Expressions, pointer: str, target: Buffer, value: Value) -> None:
    ref = ex.to_memory(value, target.dtype)
    kind = memory_type(target.dtype, value.lanes)
    align = target.dtype.itemsize
    mask = ex.mask
    if mask is None or value.lanes == 1:
        ex.writer.line(f"store {kind} {ref}, ptr {pointer}, align {align}")
        return
    is_power = value.lanes & (value.lanes - 1) == 0
    if mask in ex.remainders and is_power and "pieces" in ex.writer.instructions:
        _in_pieces(ex, pointer, target, value.lanes, ref, ex.remainders[mask])
        return
    name = f"llvm.masked.store.{suffix(in_memory(target.dtype), value.lanes)}.p0"
    bits = register_type(BOOL, value.lanes)
    arguments = [(kind, ref), ("ptr", pointer), ("i32", str(align)), (bits, mask)]
    ex.writer.call(name, "void", arguments)


def _in_pieces(
    ex: Expressions, pointer: str, target: Buffer, lanes: int, ref: str, count: str
) -> None:
    """Store the first elements of a vector, in pieces: their number as a sum of powers of two."""
    writer, element, align = ex.writer, memory_type(target.dtype), target.dtype.itemsize
    whole, length = memory_type(target.dtype, lanes), lanes
    while length:
        bit = writer.define(f"and i64 {count}, {length}")
        first = ref
        if length == 1:
            first = writer.define(f"extractelement {whole} {ref}, i64 0")
        elif length < lanes:
            first = writer.chosen((ref, ref), whole, range(length))
        kind = memory_type(target.dtype, length)
        before, piece, after = writer.block, writer.name("piece"), writer.name("after")
        writer.branch(writer.define(f"icmp ne i64 {bit}, 0"), piece, after)
        writer.start(piece)
        writer.line(f"store {kind} {first}, ptr {pointer}, align {align}")
        if 1 < length < lanes:
            rest = writer.chosen((ref, ref), whole, range(length, 2 * length))
            beyond = writer.define(f"getelementptr {element}, ptr {pointer}, i64 {length}")
        writer.jump(after)
        writer.start(after)
        if 1 < length < lanes:
            ref = writer.define(f"phi {kind} [ {first}, %{before} ], [ {rest}, %{piece} ]")
            pointer = writer.define(f"phi ptr [ {pointer}, %{before} ], [ {beyond}, %{piece} ]")
            whole = kind
        length //= 2


def _step(ex: Expressions, first: str, stride: int, target: Buffer, value: Value) -> None:
    """Store to elements with a stride."""
    if ex.mask is not None:
        places = ex.places(target, first, stride, value.lanes)
        _scatter(ex, places, target, value)
        return
    ref, lanes = ex.to_memory(value, target.dtype), value.lanes
    kind, element = memory_type(target.dtype, lanes), memory_type(target.dtype)
    if stride == -1 and lanes > 1:
        turned = ex.writer.chosen((ref, ref), kind, range(lanes - 1, -1, -1))
        last = ex.writer.define(f"getelementptr {element}, ptr {first}, i64 {1 - lanes}")
        ex.writer.line(f"store {kind} {turned}, ptr {last}, align {target.dtype.itemsize}")
        return
    for lane in range(lanes):
        one = ex.writer.define(f"extractelement {kind} {ref}, i64 {lane}")
        place = ex.writer.define(f"getelementptr {element}, ptr {first}, i64 {stride * lane}")
        ex.writer.line(f"store {element} {one}, ptr {place}, align {target.dtype.itemsize}")


def _scatter(ex: Expressions, pointers: str, target: Buffer, value: Value) -> None:
    lanes = value.lanes
    ref = ex.to_memory(value, target.dtype)
    kind = memory_type(target.dtype, lanes)
    mask = ex.mask
    if mask is not None:
        name = f"llvm.masked.scatter.{suffix(in_memory(target.dtype), lanes)}.v{lanes}p0"
        arguments = [
            (kind, ref),
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(target.dtype.itemsize)),
            (register_type(BOOL, lanes), mask),
        ]
        ex.writer.call(name, "void", arguments)
        return
    # single stores: scatter instructions are not faster, where they exist
    element = memory_type(target.dtype)
    for lane in range(lanes):
        one = ex.writer.define(f"extractelement {kind} {ref}, i64 {lane}")
        place = ex.writer.define(f"extractelement <{lanes} x ptr> {pointers}, i64 {lane}")
        ex.writer.line(f"store {element} {one}, ptr {place}, align {target.dtype.itemsize}")

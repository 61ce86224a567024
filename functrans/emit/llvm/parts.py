"""Vectors in parts: unroll-and-jam of vector loops whose number of lanes is no power of two.

LLVM splits a vector of 24 elements that a loop carries from one iteration to the next into single
elements. Here, such a vector is emitted as several, of 16 and 8 elements, and every statement is
executed for all of these parts before the next statement. So a reduction is one loop, with an
accumulator for each part, and loads the operands that are the same in all lanes once.

A rest of 5 elements in 13 is no power of two. Its part, elements 5 to 12, overlaps the part before
it, elements 0 to 7. Elements in both are computed twice, with the same bits; none needs a mask.

With AVX-512, a last part of at most 16 bytes, as of 4 elements in 20, would take as long as one of
32 where units have half the size of a register. So if it adds up products, four terms are added at
once: the lanes of a whole vector are the columns of the part, for each of the four terms. One
factor of a product does not depend on the column; four of its elements are loaded as a vector, and
each is repeated. After the loop, the four sums of a column are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.horizontal import halved
from functrans.emit.llvm.memory import Frame, Vector, stays
from functrans.emit.llvm.slots import LOGICAL, Slot, combine_held, new_slot, read, set_slot
from functrans.emit.llvm.store import stored_value, write
from functrans.emit.llvm.text import Value, register_type
from functrans.emit.llvm.unrolling import Loop, has_many_sums
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import For, Reduce, Store
from functrans.loop.walk import walk
from functrans.records import dataclass

OVERLAPPING = 32
"""The fewest bytes of a rest that are several parts, and not one that overlaps."""
NARROW = 16
"""The most bytes of a last part that adds up several terms at once."""
TOGETHER = 4
"""The number of these terms."""


Sums = Sequence[tuple[Scalar, str, Scalar]]
"""The accumulators of a reduction, each with its operation and term."""

Slots = dict[Scalar, Slot]
"""The memory of accumulators."""


def is_in_parts(statement: For) -> bool:
    """Whether the vectors of a loop are in parts: it reduces, and its lanes are no power of two."""
    has_sums = any(isinstance(each, Reduce) for each in statement.body)
    return has_sums and statement.lanes & (statement.lanes - 1) != 0


def largest_element(statement: For | Reduce) -> int:
    """The bytes of the largest elements that a loop stores or adds up."""
    found = [each.target.dtype for each in walk(statement.body) if isinstance(each, Store)]
    if isinstance(statement, Reduce):
        found += [target.dtype for target in statement.targets]
    return max((dtype.itemsize for dtype in found), default=INDEX.itemsize)


@dataclass
class Part:
    """A part of a vector: its lanes, mask, known values and accumulators."""

    vector: Vector
    mask: str | None
    frame: Frame = field(default_factory=Frame)
    slots: Slots = field(default_factory=dict)

    @contextmanager
    def entered(self, ex: Expressions, *frames: Frame) -> Iterator[None]:
        """Emit code for this part, with the values that are already computed for it."""
        assert ex.vector is None, "a vector loop inside of another"
        ex.vector, ex.mask = self.vector, self.mask
        ex.slots.update(self.slots)
        ex.frames += (self.frame, *frames)
        yield
        del ex.frames[-1 - len(frames) :]
        ex.vector = ex.mask = None


def emit_in_parts(ex: Expressions, loop: Loop, statement: For, base: str, stop: str | None) -> None:
    """Emit one vector iteration, of reductions and stores; masked if there is a ``stop``."""
    parts = [*_parts(ex, statement, base, stop)]
    for each in statement.body:
        if isinstance(each, Reduce):
            _reduce(ex, loop, each, parts)
            continue
        assert isinstance(each, Store), "vectors in parts are of reductions"
        values = []
        for part in parts:
            with part.entered(ex):
                values.append(stored_value(ex, each))
        # what is added to memory was read for all parts before one of them, which may overlap
        for part, value in zip(parts, values, strict=True):
            with part.entered(ex):
                write(ex, each, value)


def _parts(ex: Expressions, statement: For, base: str, stop: str | None) -> Iterator[Part]:
    """The parts of a vector, of powers of two, the largest first."""
    define, size, first = ex.writer.define, largest_element(statement), 0
    while first < statement.lanes:
        rest = statement.lanes - first
        lanes = 1 << rest.bit_length() - 1
        if first and rest * size < OVERLAPPING:
            lanes = max(1 << (rest - 1).bit_length(), 2)  # a single element has no mask
            first = statement.lanes - lanes
        own = define(f"add nsw i64 {base}, {first}")
        mask = None
        if stop is not None:
            left = define(f"sub nsw i64 {stop}, {own}")
            for op, limit in ("smax", 0), ("smin", lanes):
                left = ex.writer.call(f"llvm.{op}.i64", "i64", [("i64", left), ("i64", str(limit))])
            mask = ex.remainder(left, lanes, largest_element(statement))
        yield Part(Vector(statement.index, lanes, own, Coefficients(statement.index)), mask)
        first += lanes


def _reduce(ex: Expressions, loop: Loop, statement: Reduce, parts: Sequence[Part]) -> None:
    """Emit a reduction as one loop, with an accumulator for each part."""
    ((index, start, stop),) = statement.loops
    assert not statement.body
    sums = [*zip(statement.targets, statement.ops, statement.values, strict=True)]
    lane, hidden = parts[0].vector.index, has_many_sums(ex, statement)
    if hidden:  # once, and not by each part anew
        shared = [x for x in postorder(statement.values) if lane not in postorder([x])]
        ex.compute_places(shared, index, hidden)
    for part in parts:
        with part.entered(ex):
            part.slots.update(cleared(ex, sums, part.vector.lanes))
            ex.compute_places(statement.values, index, hidden)
    first, end = ex.value(start).ref, ex.value(stop).ref
    has_quarters = "quarters" in ex.writer.instructions
    factors = _factors(sums, index, parts[-1].vector) if has_quarters else None
    if factors is not None:
        first = _reduce_together(ex, loop, (index, first, end), sums, factors, parts)
    with loop(first, end, sums=True) as counter, ex.bound(index, counter):
        _add_term(ex, sums, parts)
    for part in parts:
        part.vector.factors.varying.update(statement.targets)
    ex.forget_changing()


def cleared(ex: Expressions, sums: Sums, lanes: int, in_vector_loop: bool = True) -> Slots:
    """Accumulators of a number of lanes."""
    slots = {}
    for target, op, value in sums:
        nothing = ex.operations.constant(identity(op, target.dtype), target.dtype, lanes)
        carried = value if in_vector_loop and op in LOGICAL else None
        slots[target] = new_slot(ex.writer, target.dtype, lanes, carried)
        set_slot(ex.writer, slots[target], target.dtype, nothing)
    return slots


def _add_term(ex: Expressions, sums: Sums, parts: Sequence[Part]) -> None:
    """Add a term to the accumulators of all parts."""
    frames = [Frame() for _ in parts]
    for target, op, value in sums:
        for part, frame in zip(parts, frames, strict=True):
            with part.entered(ex, frame):
                accumulate(ex, part.slots[target], target.dtype, op, ex.wide(value))


def accumulate(
    ex: Expressions,
    slot: Slot,
    dtype: np.dtype[Any],
    op: str,
    value: Value,
    mask: str | None = None,
) -> None:
    """Add a value to an accumulator, in the lanes of a mask."""
    lanes = slot.lanes
    if slot.held and mask is None:
        combine_held(ex.writer, slot, op, value)
        return
    old = read(ex.writer, slot, dtype)
    fuses = op == "add" and dtype.kind == "f"
    if mask is not None and not fuses:
        nothing = ex.operations.constant(identity(op, dtype), dtype, lanes)
        value = ex.operations.select(Value(mask, lanes), value, nothing, dtype)
    new = ex.operations.accumulate(op, dtype, old, value)
    if mask is not None and fuses:
        # nothing comes between a product and its sum, which are one operation
        new = ex.operations.select(Value(mask, lanes), new, old, dtype)
    set_slot(ex.writer, slot, dtype, new)


def _factors(sums: Sums, index: Scalar, last: Vector) -> list[tuple[Scalar, Scalar]] | None:
    """The factors of each term, first the one without columns, if terms are added together."""
    places = Coefficients(index)
    found = []
    for target, op, value in sums:
        if op != "add" or value.op != "mul" or last.lanes * target.dtype.itemsize > NARROW:
            return None
        by_column = [last.index in postorder([x]) for x in value.args]
        if sorted(by_column) != [False, True]:
            return None
        left, right = value.args if by_column[1] else value.args[::-1]
        for x in postorder([left]):
            is_load = x.op == "load"
            if places.of_element(x.attribute, x.args) not in (0, 1) if is_load else stays(x):
                return None
        found.append((left, right))
    return found


def _reduce_together(
    ex: Expressions,
    loop: Loop,
    over: tuple[Scalar, str, str],  # the index of the terms, their start and stop
    sums: Sums,
    factors: Sequence[tuple[Scalar, Scalar]],
    parts: Sequence[Part],
) -> str:
    """Emit a loop over groups of terms; returns the first term that is left."""
    define, (index, start, stop) = ex.writer.define, over
    *others, last = parts
    count = last.vector.lanes
    lanes, dtype = count * TOGETHER, sums[0][0].dtype
    slots = cleared(ex, sums, lanes)
    along = Part(Vector(index, TOGETHER, start, Coefficients(index)), None)
    with along.entered(ex):
        ex.compute_places([left for left, _ in factors], index)
    length = ("i64", define(f"sub nsw i64 {stop}, {start}"))
    length = ("i64", ex.writer.call("llvm.smax.i64", "i64", [length, ("i64", "0")]))
    whole = define(f"and i64 {length[1]}, {-TOGETHER}")
    end = define(f"add nsw i64 {start}, {whole}")
    with loop(start, end, TOGETHER, sums=True) as counter:
        rows: dict[Scalar, list[str]] = {right: [] for _, right in factors}
        for number in range(TOGETHER):
            with ex.bound(index, define(f"add nsw i64 {counter}, {number}")):
                _add_term(ex, sums, others)
                with last.entered(ex, Frame()):
                    for right, found in rows.items():
                        found.append(ex.wide(right).ref)
        wide = {right: _joined(ex, found, dtype, count) for right, found in rows.items()}
        along.vector.base, frame = counter, Frame()
        for (target, op, _), (left, right) in zip(sums, factors, strict=True):
            with along.entered(ex, frame):
                four = ex.wide(left).ref
            numbers = [lane // count for lane in range(lanes)]
            pair, kind = (four, four), register_type(dtype, TOGETHER)
            repeated = Value(ex.writer.chosen(pair, kind, numbers), lanes)
            product = ex.operations.apply("mul", dtype, [repeated, wide[right]], [dtype] * 2)
            accumulate(ex, slots[target], dtype, op, product)
    for target, op, _ in sums:
        total = read(ex.writer, slots[target], dtype)
        while total.lanes > count:
            total = halved(ex.operations, op, dtype, total)
        accumulate(ex, last.slots[target], dtype, op, total)
    return end


def _joined(ex: Expressions, vectors: Sequence[str], dtype: np.dtype[Any], lanes: int) -> Value:
    """Vectors one behind the other, as one vector; their number is a power of two."""
    while len(vectors) > 1:
        kind, lanes = register_type(dtype, lanes), 2 * lanes
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [ex.writer.chosen(pair, kind, range(lanes)) for pair in pairs]
    return Value(vectors[0], lanes)

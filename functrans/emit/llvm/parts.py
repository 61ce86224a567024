"""Vectors in parts: unroll-and-jam of vector loops whose number of lanes is no power of two.

LLVM splits a vector of 24 elements that a loop carries from one iteration to the next into single
elements. Here, such a vector is emitted as several, of 16 and 8 elements, and every statement is
executed for all of these parts before the next statement. So a reduction is one loop, with an
accumulator for each part, and loads the operands that are the same in all lanes once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import Frame, Vector
from functrans.emit.llvm.store import store
from functrans.emit.llvm.text import Value, register_type
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import Scalar
from functrans.loop.statements import For, Reduce, Store
from functrans.loop.walk import walk

Loop = Callable[[str, str], AbstractContextManager[str]]


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
    slots: dict[Scalar, tuple[str, int]] = field(default_factory=dict)

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
        for part in parts:
            with part.entered(ex):
                store(ex, each)


def _parts(ex: Expressions, statement: For, base: str, stop: str | None) -> Iterator[Part]:
    """The parts of a vector, of powers of two, the largest first."""
    assert statement.lanes % 2 == 0, "a part of a single element has no mask"
    define, first = ex.writer.define, 0
    while first < statement.lanes:
        lanes = 1 << (statement.lanes - first).bit_length() - 1
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
    writer, sums = (
        ex.writer,
        [*zip(statement.targets, statement.ops, statement.values, strict=True)],
    )
    for part in parts:
        lanes = part.vector.lanes
        with part.entered(ex):
            for target, op, _ in sums:
                kind = register_type(target.dtype, lanes)
                nothing = ex.operations.constant(identity(op, target.dtype), target.dtype, lanes)
                part.slots[target] = writer.alloca(kind), lanes
                writer.line(f"store {kind} {nothing.ref}, ptr {part.slots[target][0]}")
            ex.compute_places(statement.values, index)
    bounds = ex.value(start).ref, ex.value(stop).ref
    with loop(*bounds) as counter, ex.bound(index, counter):
        frames = [Frame() for _ in parts]
        for target, op, value in sums:
            for part, frame in zip(parts, frames, strict=True):
                with part.entered(ex, frame):
                    slot, lanes = part.slots[target]
                    kind, found = register_type(target.dtype, lanes), ex.wide(value)
                    old = Value(writer.define(f"load {kind}, ptr {slot}"), lanes)
                    new = ex.operations.accumulate(op, target.dtype, old, found)
                    writer.line(f"store {kind} {new.ref}, ptr {slot}")
    for part in parts:
        part.vector.factors.varying.update(statement.targets)
    ex.forget_changing()

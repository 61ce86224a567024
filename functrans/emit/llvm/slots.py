"""Stack slots: memory for numbers that change, which LLVM keeps in registers (mem2reg).

Without mask registers, a vector of conditions that a loop carries from one iteration to the next
would be taken apart into single bits. So it is held as integers, 0 or -1, as wide as the numbers
that are compared: what vector instructions give as the result of a comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.emit.llvm.text import BOOL, Value, Writer, memory_type, register_type
from functrans.loop.scalar import Scalar, postorder
from functrans.records import NamedTuple

LOGICAL = {
    "or": "or", "max": "or", "add": "or", "and": "and", "min": "and", "mul": "and", "xor": "xor"
}  # fmt: skip
"""The bitwise operation on conditions that a reduction by each operation amounts to."""


class Slot(NamedTuple):
    """Memory on the stack for a scalar, or for a vector of them."""

    place: str
    lanes: int
    held: str = ""
    """The type of integers that stand for conditions."""


def new_slot(writer: Writer, dtype: np.dtype[Any], lanes: int, value: Scalar | None = None) -> Slot:
    """A slot for values of a dtype. With a ``value``, a loop combines such values in it."""
    held = ""
    if value is not None and dtype == BOOL and lanes > 1 and "pieces" in writer.instructions:
        conditions = (x for x in postorder([value]) if x.dtype == BOOL and x.op != "load")
        width = max((y.dtype.itemsize for x in conditions for y in x.args), default=BOOL.itemsize)
        held = memory_type(np.dtype(f"i{width}"), lanes)
    return Slot(writer.alloca(held or register_type(dtype, lanes)), lanes, held)


def read(writer: Writer, slot: Slot, dtype: np.dtype[Any]) -> Value:
    """The value in a slot."""
    loaded = writer.define(
        f"load {slot.held or register_type(dtype, slot.lanes)}, ptr {slot.place}"
    )
    if slot.held:
        loaded = writer.define(f"icmp slt {slot.held} {loaded}, zeroinitializer")
    return Value(loaded, slot.lanes)


def set_slot(writer: Writer, slot: Slot, dtype: np.dtype[Any], value: Value) -> None:
    """Change what is in a slot."""
    kind, ref = register_type(dtype, slot.lanes), value.ref
    if slot.held:
        kind, ref = slot.held, writer.define(f"sext {kind} {ref} to {slot.held}")
    writer.line(f"store {kind} {ref}, ptr {slot.place}")


def combine_held(writer: Writer, slot: Slot, op: str, conditions: Value) -> None:
    """Combine the conditions in a slot with others, as integers."""
    kind = register_type(BOOL, slot.lanes)
    term = writer.define(f"sext {kind} {conditions.ref} to {slot.held}")
    before = writer.define(f"load {slot.held}, ptr {slot.place}")
    both = writer.define(f"{LOGICAL[op]} {slot.held} {before}, {term}")
    writer.line(f"store {slot.held} {both}, ptr {slot.place}")

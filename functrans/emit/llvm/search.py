"""Linear search: the first index at which a condition holds, a vector of them at a time.

It is written as a minimum of indices (argmax and argmin), which no later index can lower, so the
loop ends at the first vector that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.text import BOOL, Value, register_type
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Reduce
from functrans.loop.walk import may_fail

Blocks = Iterator[tuple[str, str | None]]
InVector = Callable[[Scalar, int, str, str | None], AbstractContextManager[None]]


def sought(statement: Reduce) -> Scalar | None:
    """The condition at whose first index a reduction ends, or at the loop's extent; or None."""
    if statement.ops != ("min",) or len(statement.loops) > 1 or statement.values[0].op != "where":
        return None
    if may_fail((statement,)):
        return None  # later indices may be errors
    (condition, found, none), ((index, start, stop),) = statement.values[0].args, statement.loops
    extent: int = index.attribute[2] or 0
    is_whole = start is ZERO and stop.op in ("const", "size") and extent > 0
    if not is_whole or found.dtype.kind not in "iu" or extent > np.iinfo(found.dtype).max:
        return None
    is_extent = none.attribute == extent if none.op == "const" else _plain(none) is stop
    return condition if _plain(found) is index and is_extent else None


def _plain(number: Scalar) -> Scalar:
    """A number before conversions."""
    while number.op == "convert":
        (number,) = number.args
    return number


def search(
    ex: Expressions, statement: Reduce, condition: Scalar, blocks: Blocks, vector: InVector
) -> Value:
    """Emit the loop; returns the first index, in the type of the reduction's result."""
    writer, lanes = ex.writer, statement.lanes
    ((index, _, stop),) = statement.loops
    slot, end = writer.alloca("i64"), writer.name("found")
    writer.line(f"store i64 {ex.scalar(stop)}, ptr {slot}")
    kind = register_type(BOOL, lanes)
    for base, mask in blocks:
        with vector(index, lanes, base, mask):
            holds = ex.wide(condition).ref
        if mask is not None:
            holds = writer.define(f"and {kind} {holds}, {mask}")
        bits = writer.define(f"bitcast {kind} {holds} to i{lanes}")
        here, further = writer.name("here"), writer.name("further")
        writer.branch(writer.define(f"icmp ne i{lanes} {bits}, 0"), here, further)
        writer.start(here)
        word = f"i{lanes}", bits
        lane = writer.call(f"llvm.cttz.i{lanes}", word[0], [word, ("i1", "true")])
        if lanes != 64:
            lane = writer.define(f"{'zext' if lanes < 64 else 'trunc'} i{lanes} {lane} to i64")
        place = writer.define(f"add nsw i64 {base}, {lane}")
        writer.line(f"store i64 {place}, ptr {slot}")
        writer.jump(end)
        writer.start(further)
    writer.jump(end)
    writer.start(end)
    first, dtype = Value(writer.define(f"load i64, ptr {slot}"), 1), statement.targets[0].dtype
    return first if dtype == INDEX else ex.operations.apply("convert", dtype, [first], [INDEX])

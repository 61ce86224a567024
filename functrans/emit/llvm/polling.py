"""Polling for signals: loops that stop early when the user presses Ctrl-C.

While a loop of machine code runs, Python does not see signals. So the loop is divided into strips
(strip-mining), between which it calls a function of the runtime (`functrans.run.call.steps`), whose
address follows the status. If the status then says so, the kernel returns immediately, because code
after the loop may rely on everything that the loop would have written. The iterations themselves do
not change, and take as long as before; a strip takes about a hundred microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from functrans.emit.llvm.text import Writer
from functrans.loop.failures import INTERRUPTED
from functrans.loop.nodes import ZERO
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Call, For, If, Reduce, Statement, While
from functrans.loop.walk import loops_of

STOPPED: Final = "interrupted"
"""The label of the block that returns early."""

_STRIP = 1 << 16
"""The number of operations of a strip, roughly."""

_STATEMENT = 4  # in operations; for a loop of unknown trip count, and for a library routine:
_UNKNOWN = 64
_ROUTINE = 1 << 13


def strip(writer: Writer, body: tuple[Statement, ...], is_outermost: bool) -> str:
    """The number of iterations between two polls.

    Inner loops, which start often, do not compute it; they poll by themselves.
    """
    if not is_outermost:
        inner = any(isinstance(each, (For, Reduce, While, Call)) for each in _all(body))
        return str(_STRIP >> 10 if inner else _STRIP >> 3)
    work = _work(writer, body)
    if isinstance(work, int):
        return str(max(1, _STRIP // work))
    length = writer.define(f"udiv i64 {_STRIP}, {work}")
    return writer.call("llvm.umax.i64", "i64", [("i64", length), ("i64", "1")])


def is_one_strip(loop: For, length: str) -> bool:
    """Whether a loop ends before its first poll, so that its code is that of a plain loop."""
    iterations = most(loop.start, loop.stop)
    return iterations is not None and length.isdigit() and iterations <= int(length)


def most(start: Scalar, stop: Scalar) -> int | None:
    """An upper bound of the number of integers in a range; None if none is found."""
    match stop.op:
        case "const" if start.op == "const":
            return max(0, int(stop.attribute) - int(start.attribute))
        case "add" if stop.args[0] == start and stop.args[1].op == "const":
            return max(0, int(stop.args[1].attribute))
        case "sub" if start == ZERO:
            return most(stop.args[1], stop.args[0])
        case "min" | "max":
            found = [most(start, each) for each in stop.args]
            known = [each for each in found if each is not None]
            if stop.op == "min":
                return min(known, default=None)
            return max(known) if len(known) == len(found) else None
    return None


def is_short(writer: Writer, loop: For) -> bool:
    """Whether a loop in a vector loop, whose iterations are usually few, needs no strips."""
    work = _work(writer, (loop,))
    return isinstance(work, int) and work <= _STRIP


def look(writer: Writer, goes_on: str) -> None:
    """Poll, and return if the program is to stop; ends the block."""
    place = writer.define("getelementptr i64, ptr %flag, i64 1")
    function = writer.define(f"load ptr, ptr {place}")
    writer.line(f"call void {function}(ptr %flag) cold")
    unless_stopped(writer, goes_on)


def unless_stopped(writer: Writer, goes_on: str) -> None:
    """Return if the program is to stop; ends the block."""
    status = writer.define("load i64, ptr %flag")
    stopped = writer.define(f"icmp eq i64 {status}, {INTERRUPTED}")
    writer.branch(stopped, STOPPED, goes_on)


def _all(body: Iterable[Statement]) -> Iterable[Statement]:
    for each in body:
        yield each
        if isinstance(each, If):
            yield from _all((*each.body, *each.otherwise))


def _work(writer: Writer, body: Iterable[Statement]) -> int | str:
    """The estimated number of operations of statements, at least 1."""
    total: int | str = 1
    for each in body:
        match each:
            case For() | Reduce():
                once = _work(writer, each.body)
                if isinstance(each, Reduce):
                    once = _sum(writer, once, _STATEMENT)
                extents = [_extent(writer, start, stop) for _, start, stop in loops_of(each)]
                count = _product(writer, [*extents, once])
                total = _sum(writer, total, _quotient(writer, count, each.lanes))
            case While():
                once = _work(writer, (*each.prepare, *each.body))
                total = _sum(writer, total, _product(writer, [_UNKNOWN, once]))
            case If():
                total = _sum(writer, total, _work(writer, (*each.body, *each.otherwise)))
            case Call():
                total = _sum(writer, total, _ROUTINE)
            case _:
                total = _sum(writer, total, _STATEMENT)
    return total


def _extent(writer: Writer, start: Scalar, stop: Scalar) -> int | str:
    """The number of iterations of a loop, if its ends are constants or arguments."""
    first, last = _known(start), _known(stop)
    if first is None or last is None:
        return _UNKNOWN
    if isinstance(first, int) and isinstance(last, int):
        return max(0, last - first)
    return last if first == 0 else writer.define(f"sub i64 {last}, {first}")


def _known(end: Scalar) -> int | str | None:
    if end.op == "const":
        return int(end.attribute)
    return f"%s{end.attribute}" if end.op == "size" else None


def _sum(writer: Writer, a: int | str, b: int | str) -> int | str:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return writer.define(f"add i64 {a}, {b}")


def _product(writer: Writer, factors: Iterable[int | str]) -> int | str:
    total: int | str = 1
    for factor in factors:
        if isinstance(total, int) and isinstance(factor, int):
            total *= factor
        else:
            total = factor if total == 1 else writer.define(f"mul i64 {total}, {factor}")
    return total


def _quotient(writer: Writer, count: int | str, lanes: int) -> int | str:
    if isinstance(count, int):
        return count // lanes
    return writer.define(f"lshr i64 {count}, {lanes.bit_length() - 1}") if lanes > 1 else count

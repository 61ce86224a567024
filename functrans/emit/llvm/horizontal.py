"""Horizontal reductions: the lanes of vectors are combined to one element each.

Of several vectors, two become one, with the halves of both side by side, until one vector holds the
elements of all. So 16 sums of 16 lanes take 15 additions, and not four each. The lanes of each are
combined in the same order as those of a vector alone: by halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.scalar import Operations
from functrans.emit.llvm.text import BOOL, Value, register_type
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Reduce

COUNTED = (8, 16, 32, 64)
"""The lanes of conditions that are counted as the bits of an integer."""

BLOCK = 16
"""Bytes of a block of a vector: shuffles within blocks are faster than others."""

FEWEST = 4
"""The fewest vectors that are combined together (measured: two take longer with AVX2)."""


def term(
    ex: Expressions, op: str, value: Scalar, dtype: np.dtype[Any], lanes: int, mask: str | None
) -> Value:
    """The vector that a reduction over ``lanes`` adds to its accumulators.

    Of conditions, it is a population count: the number of those that hold, in the first lane. Where
    numbers as wide as the sum are compared, the result of the comparison is added as it is.
    """
    (condition, *_) = value.args if value.op == "convert" else (value,)
    is_number = condition.dtype != BOOL or condition.dtype == dtype
    if op != "add" or is_number or lanes not in COUNTED or _width(condition) >= dtype.itemsize:
        return ex.wide(value)
    define, call, kind = ex.writer.define, ex.writer.call, f"i{lanes}"
    conditions, bits = register_type(BOOL, lanes), ex.wide(condition).ref
    if mask is not None:
        bits = define(f"and {conditions} {bits}, {mask}")
    word = define(f"bitcast {conditions} {bits} to {kind}")
    found = Value(call(f"llvm.ctpop.{kind}", kind, [(kind, word)]), 1)
    count = ex.operations.apply("convert", dtype, [found], [np.dtype(f"u{lanes // 8}")])
    first = f"{register_type(dtype)} {count.ref}, i64 0"
    return Value(
        define(f"insertelement {register_type(dtype, lanes)} zeroinitializer, {first}"), lanes
    )


def _width(condition: Scalar) -> int:
    """The bytes of the numbers that a condition compares."""
    compared = () if condition.op == "load" else condition.args
    return max((x.dtype.itemsize for x in compared), default=1)


def totals(ops: Operations, statement: Reduce, slots: Sequence[str], lanes: int) -> Iterator[Value]:
    """The results of a vector reduction, whose accumulators are in slots."""
    sums = zip(statement.ops, (target.dtype for target in statement.targets), slots, strict=True)
    for (op, dtype), run in groupby(sums, lambda each: each[:2]):
        kind, define = register_type(dtype, lanes), ops.writer.define
        vectors = [Value(define(f"load {kind}, ptr {slot}"), lanes) for *_, slot in run]
        while vectors:
            count = min(1 << len(vectors).bit_length() - 1, lanes)
            count = count if count >= FEWEST else 1
            yield from _combined(ops, op, dtype, vectors[:count])
            vectors = vectors[count:]


def _combined(
    ops: Operations, op: str, dtype: np.dtype[Any], vectors: Sequence[Value]
) -> Iterator[Value]:
    """The elements of a power of two of vectors, at most as many as there are lanes."""
    define, (first, *others) = ops.writer.define, vectors
    if dtype == BOOL and op in ("or", "and"):
        # as an integer with as many bits as there are lanes
        for each in vectors:
            bits = define(f"bitcast <{each.lanes} x i1> {each.ref} to i{each.lanes}")
            test = "ne" if op == "or" else "eq"
            yield Value(define(f"icmp {test} i{each.lanes} {bits}, {-(op == 'and')}"), 1)
        return
    found = _side_by_side(ops, op, dtype, vectors, first.lanes)
    while found.lanes > max(len(vectors), 2):
        found = halved(ops, op, dtype, found, len(vectors))
    kind = register_type(dtype, found.lanes)
    elements = [f"extractelement {kind} {found.ref}, i64 {i}" for i in range(found.lanes)]
    single = [Value(define(element), 1) for element in elements]
    yield from single if others else (ops.apply(op, dtype, single, [dtype] * 2),)


def _side_by_side(
    ops: Operations, op: str, dtype: np.dtype[Any], vectors: Sequence[Value], lanes: int
) -> Value:
    """A vector with a part for each vector, in order, whose lanes are still to be combined.

    Parts shorter than a block do not leave it.
    """
    if len(vectors) == 1:
        return vectors[0]
    part, block = lanes // len(vectors), min(BLOCK // dtype.itemsize, lanes)
    within = lanes if part >= block else block
    own = within // part  # the number of parts that two vectors bring together
    x, y = (
        _side_by_side(ops, op, dtype, [v for n, v in enumerate(vectors) if n % own in half], lanes)
        for half in (range(own // 2), range(own // 2, own))
    )
    low = [
        lane
        for start in range(0, lanes, within)
        for base in (start, lanes + start)
        for first in range(base, base + within, 2 * part)
        for lane in range(first, first + part)
    ]
    return _with_those_beyond(ops, op, dtype, (x.ref, y.ref), lanes, low, part)


def halved(ops: Operations, op: str, dtype: np.dtype[Any], vector: Value, parts: int = 1) -> Value:
    """The two halves of a vector, combined, or those of each of its parts."""
    half = vector.lanes // (2 * parts)
    low = [lane for lane in range(vector.lanes) if not lane & half]
    pair = vector.ref, "poison"
    return _with_those_beyond(ops, op, dtype, pair, vector.lanes, low, half)


def _with_those_beyond(
    ops: Operations,
    op: str,
    dtype: np.dtype[Any],
    pair: tuple[str, str],
    lanes: int,
    low: Sequence[int],
    distance: int,
) -> Value:
    """Some lanes of two vectors, combined with those at a distance beyond."""
    kind = register_type(dtype, lanes)
    high = [lane + distance for lane in low]
    found = [Value(ops.writer.chosen(pair, kind, each), len(low)) for each in (low, high)]
    return ops.apply(op, dtype, found, [dtype] * 2)

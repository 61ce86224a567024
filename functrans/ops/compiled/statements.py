"""Statements for `emit` rules: nests of loops, names, and conditions for a call to succeed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from functrans.loop.failures import SINGULAR
from functrans.loop.nodes import INDEX, ZERO, index, required
from functrans.loop.scalar import BOOL, Scalar, const, ne
from functrans.loop.statements import (
    Address,
    Buffer,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    load,
    local,
)
from functrans.loop.target import Target


def nest(
    loops: Sequence[Scalar], body: Sequence[Statement], *, parallel: bool = False
) -> tuple[Statement, ...]:
    """Nested loops; no statements if one of the loops has no iterations."""
    if any(loop.attribute[2] == 0 for loop in loops):
        return ()
    for loop in reversed(loops):
        stop = const(loop.attribute[2], INDEX)
        body = (For(loop, ZERO, stop, tuple(body), parallel=parallel),)
    return tuple(body)


def vectorised(
    loop: Scalar, stores: Store | Sequence[Store], target: Target
) -> tuple[Statement, ...]:
    """A vectorised loop of independent iterations, none of which is executed twice."""
    extent: int = loop.attribute[2]
    body = (stores,) if isinstance(stores, Store) else tuple(stores)
    largest = max(max(x.target.dtype.itemsize, x.value.dtype.itemsize) for x in body)
    lanes = target.lanes(largest)
    while lanes > max(extent, 1):
        lanes //= 2
    lanes = max(lanes, 1)
    stop = const(extent, INDEX)
    return (For(loop, ZERO, stop, body, lanes=lanes, whole=extent % lanes == 0),)


def dealt(
    loops: Sequence[Scalar], body: Sequence[Statement], target: Target
) -> tuple[Statement, ...]:
    """Loops of independent iterations, which are divided among the threads of a team."""
    statements = tuple(body)
    for loop in reversed(loops):
        extent: int = loop.attribute[2]
        if not extent:
            return ()
        lanes = min(target.lanes(1), extent)
        statements = (For(loop, ZERO, const(extent, INDEX), statements, lanes=lanes),)
    return statements


def loop_or_body(
    name: str, extent: int, body: Callable[[Scalar], tuple[Statement, ...]]
) -> tuple[Statement, ...]:
    """A loop, or its body alone for a single iteration."""
    if extent == 1:
        return body(ZERO)
    i = index(name, extent)
    return (For(i, ZERO, const(extent, INDEX), body(i)),)


def shared(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """Statements of which the iterations of loops are divided among threads."""
    return tuple(replace(each, parallel=True) if isinstance(each, For) else each for each in body)


def start_of(memory: Buffer) -> Address:
    """The address of the first element of an array."""
    return Address(memory, (ZERO,) * len(memory.shape))


def let(*values: Scalar) -> tuple[tuple[Scalar, ...], Let]:
    """Bind numbers to locals."""
    names = tuple(local(x.dtype, "x") for x in values)
    return names, Let(names, values)


def ensure(condition: Scalar, status: int) -> Let:
    """Fail unless a condition holds."""
    return Let((local(BOOL, "well"),), (required(condition, condition, status),))


def ensure_regular(triangles: Buffer, at: Sequence[Scalar]) -> tuple[Statement, ...]:
    """Fail if a triangular matrix, at an index of the leading axes, has a zero on its diagonal."""
    n = triangles.extents[-1]
    i, regular = index("i", n), local(BOOL, "regular")
    is_not_zero = ne(load(triangles, (*at, i, i)), 0)
    fold = Reduce((regular,), ("and",), (is_not_zero,), ((i, ZERO, const(n, INDEX)),))
    return fold, ensure(regular, SINGULAR)

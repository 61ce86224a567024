"""Interleaved stores: vectors for neighbouring indices, transposed in registers.

Each of some stores of a vector loop writes to places that are equally far apart, and together they
write to neighbours. So a few numbers from each vector, transposed, are neighbours in memory, and
become one store in the place of many.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import place
from functrans.emit.llvm.store import store
from functrans.emit.llvm.text import memory_type
from functrans.emit.llvm.transposition import chosen, transposed
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, Store

LONGEST = 16
"""So many vectors at most are transposed together."""


def stores_together(
    statements: Sequence[Statement], changing: Container[Buffer]
) -> Iterator[Statement | tuple[Store, ...]]:
    """Statements in order, with those together that store to one buffer.

    None of their values follows from what another one stores: they are known before, or the buffer
    is not one of those that are ``changing``, which are read too.
    """
    run: list[Store] = []
    for each in statements:
        if not isinstance(each, Store) or not _is_free(each, changing):
            yield from _as_run(run)
            run = []
            yield each
            continue
        if run and each.target is not run[0].target:
            yield from _as_run(run)
            run = []
        run.append(each)
    yield from _as_run(run)


def _is_free(each: Store, changing: Container[Buffer]) -> bool:
    return each.op is None and (each.value.op == "local" or each.target not in changing)


def _as_run(run: list[Store]) -> Iterator[Statement | tuple[Store, ...]]:
    if len(run) > 1:
        yield tuple(run)
    else:
        yield from run


def store_all(ex: Expressions, run: Sequence[Store]) -> None:
    """Store numbers to places in one buffer."""
    simplify = Simplifier()
    rest = list(run)
    while rest:
        count = _neighbours(ex, rest, simplify)
        if count == 1:
            store(ex, rest[0])
        else:
            _transposed(ex, rest[:count])
        rest = rest[count:]


def _neighbours(ex: Expressions, run: Sequence[Store], simplify: Simplifier) -> int:
    """How many of the first stores are to neighbours: one, or a power of two of them."""
    vector, first = ex.vector, run[0]
    if vector is None or ex.mask is not None:
        return 1
    stride = vector.factors.of_element(first.target, first.indices)
    if stride is None or stride < 2:
        return 1
    most = min(stride, len(run), vector.lanes, LONGEST)
    found = 1
    while found < most and _gap(first, run[found], simplify) == found:
        found += 1
    count = 1 << (found.bit_length() - 1)
    # pairs are worth it only where there is nothing between them
    return count if count >= 4 or count == stride else 1


def _gap(first: Store, other: Store, simplify: Simplifier) -> int | None:
    """How much further on in memory another store is, if that is known."""
    places = [place(each.target, each.indices) for each in (other, first)]
    gap = simplify(places[0] - places[1])
    return int(gap.attribute) if gap.op == "const" else None


def _transposed(ex: Expressions, run: Sequence[Store]) -> None:
    """Store vectors as rows: of a block of as many lanes, one after the other."""
    assert ex.vector is not None
    target, lanes = run[0].target, ex.vector.lanes
    stride = ex.vector.factors.of_element(target, run[0].indices)
    assert stride is not None
    vectors = [ex.to_memory(ex.wide(each.value), target.dtype) for each in run]
    first = ex.first_place(target, run[0].indices)
    element, count = memory_type(target.dtype), len(run)
    whole = memory_type(target.dtype, lanes)
    if count == 2:
        pairs = [lane for i in range(lanes) for lane in (i, lanes + i)]
        both = chosen(ex.writer, (vectors[0], vectors[1]), whole, pairs)
        kind = memory_type(target.dtype, 2 * lanes)
        ex.writer.line(f"store {kind} {both}, ptr {first}, align {target.dtype.itemsize}")
        if target in ex.changing:
            ex.forget_changing()
        return
    row_type = memory_type(target.dtype, count)
    for block in range(0, lanes, count):
        rows = vectors
        if count < lanes:
            lanes_of_block = range(block, block + count)
            rows = [chosen(ex.writer, (each, "poison"), whole, lanes_of_block) for each in vectors]
        for lane, row in enumerate(transposed(ex.writer, rows, row_type)):
            here = ex.writer.define(
                f"getelementptr {element}, ptr {first}, i64 {stride * (block + lane)}"
            )
            ex.writer.line(f"store {row_type} {row}, ptr {here}, align {target.dtype.itemsize}")
    if target in ex.changing:
        ex.forget_changing()

"""Interleaved stores: vectors for adjacent elements, transposed in registers.

Several stores in a vector loop have the same stride, and write to adjacent elements in each
iteration. The vectors of their values are transposed in registers, after which each vector holds
adjacent elements, so that few contiguous stores replace many scattered ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import place
from functrans.emit.llvm.store import store
from functrans.emit.llvm.text import memory_type
from functrans.emit.llvm.transposition import step_between, transposed
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, Store

LONGEST = 16
"""The largest number of vectors that are transposed together."""

LONGEST_ROW = 8
"""The most elements of a row that a loop writes whole, so that its vectors are interleaved. Vectors
have at least twice as many lanes: shorter ones take more shuffles than they save stores."""


SHORT_ROWS = 8
"""The fewest rows of bytes in a vector for which vectors are interleaved as a whole, and not
transposed block by block. Measured: 4 and 8 columns take 0.2 to 0.4 of the time (four rows in a
vector 1.2)."""

HALVES = ((0, 4, 2, 6), (1, 5, 3, 7))
"""The lanes of two vectors of four that interleave their halves."""


def stores_together(statements: Sequence[Statement]) -> Iterator[Statement | tuple[Store, ...]]:
    """Statements, with consecutive stores to one buffer as one run.

    No value of such a store depends on another one, since none is computed from that buffer.
    """
    run: list[Store] = []
    for each in statements:
        if not isinstance(each, Store) or not _is_free(each):
            yield from _as_run(run)
            run = []
            yield each
            continue
        if run and each.target is not run[0].target:
            yield from _as_run(run)
            run = []
        run.append(each)
    yield from _as_run(run)


def _is_free(each: Store) -> bool:
    read = postorder((each.value, *each.indices))
    return each.op is None and all(x.op != "load" or x.attribute is not each.target for x in read)


def _as_run(run: list[Store]) -> Iterator[Statement | tuple[Store, ...]]:
    if len(run) > 1:
        yield tuple(run)
    else:
        yield from run


def store_all(ex: Expressions, run: Sequence[Store]) -> None:
    """Emit a run of stores to one buffer."""
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
    """The number of stores at the start that write to adjacent elements, and are emitted together.

    One, or a power of two, or as many as there are elements between two iterations.
    """
    vector, first = ex.vector, run[0]
    if vector is None or ex.mask is not None:
        return 1
    step = step_between(first.target, first.indices, vector.factors, simplify)
    if step is None:
        return 1
    # a size that is an argument exceeds all constants, and stores of two lanes do not overlap
    stride = int(step.attribute) if step.op == "const" else None
    if stride is not None and stride < 2:
        return 1
    most = min(len(run), vector.lanes, LONGEST, LONGEST if stride is None else stride)
    found = 1
    while found < most and _gap(first, run[found], simplify) == found:
        found += 1
    if stride is not None and found == stride <= min(LONGEST_ROW, vector.lanes // 2):
        return found
    count = 1 << (found.bit_length() - 1)
    return count if count >= 4 else 1  # pairs are profitable only if they leave no gaps


def _gap(first: Store, other: Store, simplify: Simplifier) -> int | None:
    """The distance in memory between two stores; None if it is not known."""
    places = [place(each.target, each.indices) for each in (other, first)]
    gap = simplify(places[0] - places[1])
    return int(gap.attribute) if gap.op == "const" else None


def _transposed(ex: Expressions, run: Sequence[Store]) -> None:
    """Store vectors as the rows of a block: transposed, one after the other."""
    assert ex.vector is not None
    target, lanes = run[0].target, ex.vector.lanes
    vectors = [ex.to_memory(ex.wide(each.value), target.dtype) for each in run]
    first = ex.first_place(target, run[0].indices)
    element, count = memory_type(target.dtype), len(run)
    whole = memory_type(target.dtype, lanes)
    step = step_between(target, run[0].indices, ex.vector.factors, Simplifier())
    assert step is not None
    is_short = target.dtype.itemsize == 1 and count * SHORT_ROWS <= lanes
    if count & (count - 1) or count == 2 or (is_short and step == const(count, INDEX)):
        joined = _interleaved(ex, vectors, whole, target, lanes)
        kind = memory_type(target.dtype, count * lanes)
        ex.writer.line(f"store {kind} {joined}, ptr {first}, align {target.dtype.itemsize}")
        if target in ex.changing:
            ex.forget(target)
        return
    row_type = memory_type(target.dtype, count)
    stride, here = ex.value(step, base=True).ref, first
    for block in range(0, lanes, count):
        rows = vectors
        if count < lanes:
            lanes_of_block = range(block, block + count)
            rows = [ex.writer.chosen((each, "poison"), whole, lanes_of_block) for each in vectors]
        for lane, row in enumerate(transposed(ex.writer, rows, row_type)):
            if block or lane:
                here = ex.writer.define(f"getelementptr {element}, ptr {here}, i64 {stride}")
            ex.writer.line(f"store {row_type} {row}, ptr {here}, align {target.dtype.itemsize}")
    if target in ex.changing:
        ex.forget(target)


def _interleaved(
    ex: Expressions, vectors: Sequence[str], kind: str, target: Buffer, lanes: int
) -> str:
    """One long vector of the first lanes of some vectors, then of their second lanes, and so on."""
    count, length, joined = len(vectors), lanes, list(vectors)
    if count & (count - 1) == 0:
        # vectors with half of them between: the last order is that of two
        while len(joined) > 2:
            half, order = len(joined) // 2, _alternating(2, length)
            pairs = zip(joined[:half], joined[half:], strict=True)
            joined = [ex.writer.chosen(pair, kind, order) for pair in pairs]
            length *= 2
            kind = memory_type(target.dtype, length)
        pair, order = (joined[0], joined[1]), _alternating(2, length)
        if length == 4 and target.dtype.itemsize == 8 and "pieces" in ex.writer.instructions:
            # within halves of a register, then halves: LLVM takes six shuffles across halves
            pair = ex.writer.chosen(pair, kind, HALVES[0]), ex.writer.chosen(pair, kind, HALVES[1])
            order = [0, 1, 4, 5, 2, 3, 6, 7]
        return ex.writer.chosen(pair, kind, order)
    while len(joined) > 2:
        joined += ["poison"] * (len(joined) % 2)
        pairs = zip(joined[::2], joined[1::2], strict=True)
        joined = [ex.writer.chosen(pair, kind, range(2 * length)) for pair in pairs]
        length *= 2
        kind = memory_type(target.dtype, length)
    return ex.writer.chosen((joined[0], joined[1]), kind, _alternating(count, lanes))


def _alternating(count: int, lanes: int) -> list[int]:
    """The order of lanes that takes one of each vector in turn."""
    return [lanes * n + lane for lane in range(lanes) for n in range(count)]

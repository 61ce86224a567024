"""Loop peeling for alignment: vectors of the size of a cache line are stored at whole lines.

A vector across two cache lines takes two accesses. Where a loop begins is known at run time only,
and differs between rows if these are not a multiple of a cache line. So the first vector of a loop
whose iterations may be repeated overlaps the second one, which begins where a line does. Of
narrower vectors few cross lines, and finding out where a loop begins costs more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.unrolling import Loop
from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.scalar import postorder
from functrans.loop.statements import For, Let, Reduce, Store
from functrans.loop.walk import scalars

LINE = 64
"""The bytes of a cache line."""
FEWEST = 24
"""The fewest vectors of a loop for this, since there may be one more."""
MOST = 32
"""The most operations of a body, which accesses to memory would not delay otherwise."""


def is_whole(loop: For | Reduce, start: str, stop: str, lanes: int) -> bool:
    """Whether a range is known to be a whole number of vectors, so that no code for a rest follows.

    LLVM would not find that out before it has analysed the loops in it.
    """
    is_known = start.isdigit() and stop.isdigit()
    return loop.whole or (is_known and (int(stop) - int(start)) % lanes == 0)


@contextmanager
def whole_vectors(
    ex: Expressions, loop: For, start: str, stop: str, counting: Loop
) -> Iterator[str]:
    """A vector loop whose iterations may be repeated; returns where a vector begins."""
    define, call = ex.writer.define, ex.writer.call
    last = define(f"sub nsw i64 {stop}, {loop.lanes}")
    first = _aligned_start(ex, loop, start, stop)
    # a thread's part of the range may have fewer iterations than lanes
    least = call("llvm.smin.i64", "i64", [("i64", start), ("i64", last)])
    with counting(first, stop, loop.lanes) as counter:
        base = call("llvm.smin.i64", "i64", [("i64", counter), ("i64", last)])
        if first != start:
            base = call("llvm.smax.i64", "i64", [("i64", base), ("i64", least)])
        yield base


def _aligned_start(ex: Expressions, loop: For, start: str, stop: str) -> str:
    """The start of a peeled vector loop: an aligned index, at or before the first iteration.

    It is the first iteration itself unless the loop is long and stores to adjacent elements.
    """
    store, extent = _store(loop), loop.index.attribute[2]
    if store is None or (extent is not None and extent < FEWEST * loop.lanes):
        return start
    define, size = ex.writer.define, store.target.dtype.itemsize
    with ex.scope(), ex.bound(loop.index, start):
        place = ex.pointer(store.target, ex.offset(store.target, store.indices, base=True))
    address = define(f"ptrtoint ptr {place} to i64")
    beyond = define(f"and i64 {address}, {LINE - 1}")
    elements = define(f"lshr i64 {beyond}, {size.bit_length() - 1}")
    count = define(f"sub nsw i64 {stop}, {start}")
    is_long = define(f"icmp sge i64 {count}, {FEWEST * loop.lanes}")
    missing = define(f"select i1 {is_long}, i64 {elements}, i64 0")
    return define(f"sub nsw i64 {start}, {missing}")


def _store(loop: For) -> Store | None:
    """A store to adjacent elements, in a loop of few operations; or None."""
    if not all(isinstance(each, (Store, Let)) for each in loop.body):
        return None
    if node_count(x for x in scalars(loop.body) if x.args) > MOST:
        return None
    own = Coefficients(loop.index)
    for each in loop.body:
        if (
            isinstance(each, Store)
            and each.target.dtype.itemsize.bit_count() == 1
            and loop.lanes * each.target.dtype.itemsize >= LINE
            and own.of_element(each.target, each.indices) == 1
            and all(node.op not in ("load", "local") for node in postorder(each.indices))
        ):
            return each
    return None

"""Software prefetching: lines of memory are asked for before they are needed.

Hardware prefetches what follows in memory, but not across pages. So it helps neither the copy of a
matrix's columns, whose rows are in a page each, nor stores of a tile's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import place, stays
from functrans.emit.llvm.unrolling import has_many_sums
from functrans.loop.nodes import as_index
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Let, Reduce, Statement, Store

LINE = 64
"""The bytes of a cache line."""


def fetch_results(ex: Expressions, body: Sequence[Statement]) -> None:
    """Prefetch the lines in which several sums will be stored, while they are added up."""
    vector = ex.vector
    assert vector is not None
    if not any(isinstance(each, Reduce) and has_many_sums(ex, each) for each in body):
        return
    later = {x for each in body if isinstance(each, (Let, Reduce)) for x in each.targets}
    for each in body:
        if isinstance(each, Store):
            found = postorder(each.indices)
            if later.isdisjoint(found) and not any(map(stays, found)):
                offset = ex.offset(each.target, each.indices, base=True)
                nbytes = vector.lanes * each.target.dtype.itemsize
                first = ex.pointer(each.target, offset)
                for byte in 0, nbytes - 1:
                    _fetch(ex, ex.writer.define(f"getelementptr i8, ptr {first}, i64 {byte}"))


def fetch_ahead(ex: Expressions, body: Sequence[Statement], loop: For) -> None:
    """Prefetch the vectors that the same statements will read in a later iteration of a loop."""
    values = [each.value for each in body if isinstance(each, Store)]
    for _, first in _vectors_ahead(ex, values, loop.index, loop.ahead):
        _fetch(ex, first)


def fetch_terms(ex: Expressions, statement: Reduce) -> None:
    """Prefetch all lines of the vectors of which later terms of a reduction are made."""
    if statement.ahead and ex.vector is not None:
        index, _, _ = statement.loops[-1]
        for node, first in _vectors_ahead(ex, statement.values, index, statement.ahead):
            for byte in range(0, ex.vector.lanes * node.dtype.itemsize, LINE):
                _fetch(ex, ex.writer.define(f"getelementptr i8, ptr {first}, i64 {byte}"))


def _vectors_ahead(
    ex: Expressions, values: Sequence[Scalar], index: Scalar, ahead: int
) -> Iterator[tuple[Scalar, str]]:
    """The contiguous vectors that values are made of, and their addresses iterations later."""
    vector = ex.vector
    assert vector is not None
    later = {index: index + as_index(ahead)}
    for node in postorder(values):
        if node.op != "load":
            continue
        at = place(node.attribute, node.args)
        found = postorder([at])
        if (
            vector.factors.of_element(node.attribute, node.args) == 1
            and index in found
            and not any(map(stays, found))
        ):
            (then,) = Simplifier().substitute([at], later)
            yield node, ex.pointer(node.attribute, ex.value(then, base=True))


def _fetch(ex: Expressions, line: str) -> None:
    """Prefetch a line to be read or written, into all caches."""
    hints = [("i32", "0"), ("i32", "3"), ("i32", "1")]
    ex.writer.call("llvm.prefetch.p0", "void", [("ptr", line), *hints])

"""Software prefetching: lines of memory are asked for before they are needed.

Hardware prefetches what follows in memory, but not across pages. So it helps neither the copy of a
matrix's columns, whose rows are in a page each, nor stores of a tile's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import place, stays
from functrans.emit.llvm.unrolling import has_many_sums
from functrans.loop.affine import Coefficients
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
    for _, first in _loads_ahead(ex, values, loop.index, loop.ahead, 1):
        _fetch(ex, first)


def fetch_terms(ex: Expressions, statement: Reduce) -> None:
    """Prefetch the lines in which later terms of a reduction are: of vectors, and of scalars.

    Scalars of a term, such as the rows of a packed tile, share a line, which is fetched once.
    """
    vector = ex.vector
    if not statement.ahead or vector is None:
        return
    index, _, _ = statement.loops[-1]
    for node, first in _loads_ahead(ex, statement.values, index, statement.ahead, 1):
        for byte in range(0, vector.lanes * node.dtype.itemsize, LINE):
            _fetch(ex, ex.writer.define(f"getelementptr i8, ptr {first}, i64 {byte}"))
    along, seen = Coefficients(index), set()
    for node, first in _loads_ahead(ex, statement.values, index, statement.ahead, 0):
        stride = along.of_element(node.attribute, node.args) or 0
        if node.attribute not in seen and 2 * abs(stride) * node.dtype.itemsize >= LINE:
            seen.add(node.attribute)
            _fetch(ex, first)


def _loads_ahead(
    ex: Expressions, values: Sequence[Scalar], index: Scalar, ahead: int, step: int
) -> Iterator[tuple[Scalar, str]]:
    """The loads that values are made of, and their addresses iterations later.

    Those of which a vector's elements are a ``step`` apart: contiguous vectors, or scalars.
    """
    vector = ex.vector
    assert vector is not None
    later = {index: index + as_index(ahead)}
    for node in postorder(values):
        if node.op != "load":
            continue
        at = place(node.attribute, node.args)
        found = postorder([at])
        if (
            vector.factors.of_element(node.attribute, node.args) == step
            and index in found
            and not any(map(stays, found))
        ):
            (then,) = Simplifier().substitute([at], later)
            yield node, ex.pointer(node.attribute, ex.value(then, base=True))


def _fetch(ex: Expressions, line: str) -> None:
    """Prefetch a line to be read or written, into all caches."""
    hints = [("i32", "0"), ("i32", "3"), ("i32", "1")]
    ex.writer.call("llvm.prefetch.p0", "void", [("ptr", line), *hints])

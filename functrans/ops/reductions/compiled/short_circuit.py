"""Short-circuit evaluation of any, all, and argmax and argmin of booleans, on a CPU.

A line is searched block by block, up to the first block with an element that decides the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from functrans.ir.graph import Eqn
from functrans.loop.nodes import INDEX, ZERO, fold, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import BOOL, Scalar, const, convert, maximum, minimum, postorder, where
from functrans.loop.statements import Assign, For, Let, Statement, Store, While, local
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission, Position
from functrans.ops.compiled.statements import nest
from functrans.records import NamedTuple


class ShortCircuit(NamedTuple):
    """Thresholds of short-circuit evaluation."""

    block: int = 1 << 12
    """The elements of a block, all of which are read even if the first one decides. Measured."""


_SHORT = np.dtype(np.int32)


def are_long(eqn: Eqn, target: Target) -> bool:
    """Whether booleans are combined along the last axes, in lines of several blocks."""
    x, axes = eqn.inputs[0].aval, eqn.params["axes"]
    before = x.ndim - len(axes)
    is_last = set(axes) == set(range(before, x.ndim))
    fewest = 2 * target[ShortCircuit].block
    return is_last and x.dtype == BOOL and prod(x.shape[before:]) >= fewest


def emit(decisive: bool, at: Emission) -> None:
    """Whether any element along the last axes is true, or all are: until one is ``decisive``.

    Elements that are computed are all reduced: threads share this loop, and so may other results.
    """
    x, line = at.eqn.inputs[0].aval, at.loops(at.eqn.outputs[0].aval.shape)
    extents = x.shape[len(line) :]
    if at.element(0, (*line, *(ZERO,) * len(extents))).op != "load":
        op = "or" if decisive else "and"
        every = fold(op, extents, lambda *rest: at.element(0, (*line, *rest)))
        at.compute(at.result(), line, range(len(line)), [Element(line, every)])
        return
    search = _search(decisive, at)
    _store(at, search, (), search.found if decisive else ~search.found)


def emit_position(decisive: bool, at: Emission) -> None:
    """The position of the first true element along the last axis, or of the first false one."""
    search = _search(decisive, at)
    none = const(search.length, _SHORT)  # a vector holds twice as many short indices
    first = fold(
        "min",
        [search.length],
        lambda k: where(search.decides(k), convert(k, _SHORT), none),
    )
    lanes = at.target.lanes(_SHORT.itemsize)
    within, (place,) = lower_folds([convert(first, INDEX)], lanes, at.simplify, at.target)
    _store(at, search, within, where(search.found, search.begin + place, ZERO))


class _Search(NamedTuple):
    """A search for the first block of a line with a decisive element."""

    line: Position  # the loops over lines
    length: int  # the number of indices of a block along the first axis of its line
    statements: tuple[Statement, ...]
    found: Scalar  # whether a decisive element was found
    begin: Scalar  # where the last block that was searched begins
    decides: Callable[[Scalar], Scalar]  # whether an element of that block is decisive


def _search(decisive: bool, at: Emission) -> _Search:
    x, lines = at.eqn.inputs[0].aval, at.eqn.outputs[0].aval.shape
    line = tuple(index("line", n) for n in lines)
    outer, *inner = x.shape[len(lines) :]
    length = min(max(at.target[ShortCircuit].block // prod(inner), 1), outer)
    block, found = local(INDEX, "block"), local(BOOL, "found")
    last = -(-outer // length) - 1
    # the last block begins earlier instead of ending earlier; bounds of the number spare divisions
    begin = minimum(minimum(maximum(block, ZERO), last) * length, outer - length)

    def element(k: Scalar, *rest: Scalar) -> Scalar:
        return at.element(0, (*line, begin + k, *rest))

    def decides(x: Scalar) -> Scalar:
        return x if decisive else ~x

    together = fold("or" if decisive else "and", [length, *inner], element)
    loads = (node.dtype.itemsize for node in postorder([together]) if node.op == "load")
    lanes = at.target.lanes(max(loads, default=1))
    step, (value,) = lower_folds([decides(together)], lanes, at.simplify, at.target)
    search = While(
        prepare=(*step, Assign((found,), (value,))),
        condition=~found & (block < last),
        body=(Assign((block,), (block + 1,)),),
        most=last + 1,
    )
    start = Let((block, found), (ZERO, const(False, BOOL)))
    return _Search(line, length, (start, search), found, begin, lambda k: decides(element(k)))


def _store(at: Emission, search: _Search, statements: Sequence[Statement], value: Scalar) -> None:
    stored = Store(at.result(), search.line, at.simplify(value))
    rows = nest(search.line, (*search.statements, *statements, stored))
    threaded = (replace(each, parallel=True) if isinstance(each, For) else each for each in rows)
    at.call(tuple(threaded), uncounted=at.eqn.inputs[0].aval.size)

"""Dynamic slices: slices with traced bounds whose size is static.

The bounds of ``x[i : i + 3]`` are affine in the same traced integers, and differ by a constant,
which is the size of the result. The position of such a window is data. The window must lie inside
the array: where NumPy would return fewer elements, an `IndexError` is raised at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import TracerIndexError
from functrans.ir.graph import Eqn, Literal, Var
from functrans.ops.arrays.structural import astype, iota, move_axis
from functrans.ops.elementwise.arithmetic import add, multiply, negative, subtract
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import less
from functrans.ops.indexing.gather import gather, scatter_set
from functrans.ops.indexing.within import within
from functrans.records import NamedTuple
from functrans.trace.absent import UNKNOWN
from functrans.trace.replacement import for_cause
from functrans.trace.source import here
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer

_INDEX = np.dtype(np.int64)

_DEPTH = 64
"""The most nested sums that are analysed."""


class Window(NamedTuple):
    """A window along an axis: the elements at ``positions``, which are data and distinct."""

    axis: int
    positions: Any


def is_unknown(bound: Any) -> bool:
    """Whether a bound of a slice is known only at run time."""
    return isinstance(bound, Tracer) and bound._known_value is UNKNOWN


def has_unknown_bounds(item: Any) -> bool:
    """Whether an entry of an index is a slice with a traced bound, or step."""
    return isinstance(item, slice) and any(map(is_unknown, (item.start, item.stop, item.step)))


def window_of(of: slice, extent: int, axis: int) -> Window:
    """The window of a slice with traced bounds; TracerIndexError if its size is unknown."""
    step = 1 if of.step is None else of.step
    if is_unknown(step) or int(step) < 1:
        _refuse(of)
    for bound in (of.start, of.stop):
        if bound is None or (isinstance(bound, Tracer) and bound.dtype not in _WIDE):
            _refuse(of)
    first, last = _affine(of.start), _affine(of.stop)
    if first.terms != last.terms:
        _refuse(of)
    size = len(range(0, last.offset - first.offset, int(step)))
    start, stop = (astype(bound, _INDEX) for bound in (of.start, of.stop))
    steps = int(step) * iota(size=size, dtype=_INDEX)
    if size == 0:
        return Window(axis, steps)
    # in NumPy a negative start with a nonnegative stop counts from the end of the array
    from_end = select(less(stop, 0), start + extent, -1)
    begin = select(less(start, 0), from_end, start)
    starts = max(extent - (size - 1) * int(step), 0)
    return Window(axis, within(begin, extent=starts) + steps)


def read_window(x: Any, window: Window) -> Any:
    """The elements of the window, along its axis."""
    return move_axis(gather(x, window.positions, axes=(window.axis,)), 0, window.axis)


def write_window(x: Any, window: Window, new: Any) -> Any:
    """``x`` with other elements in the window."""
    updates = move_axis(new, window.axis, 0)
    return scatter_set(x, updates, window.positions, axes=(window.axis,), unique=True)


_WIDE = (np.dtype(np.int32), np.dtype(np.int64))
"""Dtypes in which sums of indices neither overflow nor wrap around below 0."""


def _refuse(of: slice) -> None:
    bound = next(filter(is_unknown, (of.stop, of.start, of.step)))
    advice = (
        "For n elements from a traced start on, write x[start : start + n] with a number n, or "
        "make the argument static: jit(f, static_argnums=...)."
    )
    owner = bound._owner
    computed = owner.comes_from_an_array(bound._variable)
    raise TracerIndexError(
        f"the bounds of a slice must be known, they decide its size{here()}; this "
        f"one is traced by {owner.kind}.\n{for_cause(advice, owner.cause, computed)}"
    )


# -- the difference of two bounds ------------------------------------------------------------------


class Affine(NamedTuple):
    """An affine combination of variables, with integer coefficients and a constant."""

    terms: dict[Var, int]
    offset: int

    def plus(self, other: Affine, factor: int) -> Affine:
        terms = dict(self.terms)
        for var, count in other.terms.items():
            terms[var] = terms.get(var, 0) + factor * count
        return Affine(
            {var: count for var, count in terms.items() if count},
            self.offset + factor * other.offset,
        )


def _affine(bound: Any) -> Affine:
    if not isinstance(bound, Tracer) or not is_unknown(bound):
        return Affine({}, int(bound))
    return _of_variable(bound._owner, bound._variable, _DEPTH)


def _of_variable(trace: Trace, var: Var, depth: int) -> Affine:
    outer = trace.outside_of(var)
    if isinstance(outer, Tracer):
        return _affine(outer)
    eqn = trace.maker(var) if depth else None
    parts = _parts(eqn) if eqn is not None else None
    if parts is None:
        return Affine({var: 1}, 0)
    total = Affine({}, 0)
    for atom, factor in parts:
        term = (
            Affine({}, int(atom.value))
            if isinstance(atom, Literal)
            else _of_variable(trace, atom, depth - 1)
        )
        total = total.plus(term, factor)
    return total


def _parts(eqn: Eqn) -> Sequence[tuple[Any, int]] | None:
    """The terms of an affine equation and their coefficients; its dtype must not wrap around."""
    if eqn.outputs[0].aval.dtype not in _WIDE:
        return None
    operands = eqn.inputs
    if eqn.primitive is add:
        return [(operands[0], 1), (operands[1], 1)]
    if eqn.primitive is subtract:
        return [(operands[0], 1), (operands[1], -1)]
    if eqn.primitive is negative:
        return [(operands[0], -1)]
    if eqn.primitive is multiply:
        for number, other in (operands, operands[::-1]):
            if isinstance(number, Literal):
                return [(other, int(number.value))]
    return None

"""Structural zeros of tangents, which keep 0 times an infinite derivative from becoming NaN.

The tangent of ``where(mask, x, 1)`` is 0 outside of the mask, and so is that of its square root,
even where the root's derivative is infinite. A tangent that is structurally 0 at some elements has
a support: a boolean array that is False there. Supports are moved like the elements, and applied
where a derivative may be infinite. (Reverse mode uses `functrans.ops.arrays.masked`.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Var
from functrans.ir.primitive import Primitive
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import embed_p, slice_p, update_slice_p
from functrans.ops.arrays.structural import (
    broadcast_to,
    broadcast_to_p,
    full_p,
    reshape_p,
    transpose_p,
)
from functrans.ops.elementwise.choice import (
    clip,
    fmax,
    fmin,
    masked,
    maximum,
    minimum,
    select,
    unexceeded,
)
from functrans.ops.elementwise.compare import greater_equal, less_equal
from functrans.ops.elementwise.logic import isnan, logical_and, logical_or
from functrans.ops.indexing.gather import gather, scatter_set

Support = bool | Callable[[], Any]
"""True for all elements, False for none, or a memoised function that returns the mask."""

_MOVES = frozenset(
    (
        reshape_p, transpose_p, broadcast_to_p, slice_p, embed_p, update_slice_p, concatenate_p,
        gather, scatter_set,
    )
)  # fmt: skip


class Supports:
    """The supports of the tangents of a graph's variables, computed in forward order."""

    def __init__(self) -> None:
        self._partial: dict[Var, Support] = {}

    def of_operands(self, eqn: Eqn, tangents: Sequence[Any]) -> list[Support]:
        """The support of each operand's tangent."""
        return [
            False if t is None else self._of(atom)
            for atom, t in zip(eqn.inputs, tangents, strict=True)
        ]

    def _of(self, atom: Atom) -> Support:
        return self._partial.get(atom, True) if isinstance(atom, Var) else True

    def push(self, eqn: Eqn, operands: Sequence[Any], supports: Sequence[Support]) -> None:
        """Record the supports of the tangents of an equation's results."""
        found = _pushed(eqn, operands, supports)
        if found is not True:
            for var in eqn.outputs:
                self._partial[var] = found


def _pushed(eqn: Eqn, operands: Sequence[Any], supports: Sequence[Support]) -> Support:
    primitive = eqn.primitive
    shape = eqn.outputs[0].aval.shape
    if primitive is select:
        if supports[1] is True and supports[2] is True:
            return True
        # a mask may have fewer axes than the operands
        return deferred(
            lambda: broadcast_to(select(operands[0], *map(_truths, supports[1:])), shape=shape)
        )
    if primitive in _WINNERS and any(s is not True for s in supports):
        return deferred(lambda: _won(_WINNERS[primitive](*operands), supports, shape))
    if primitive.elementwise:
        if any(s is True for s in supports):
            return True
        return deferred(lambda: _any_of([_truths(s) for s in supports if s is not False], shape))
    if primitive not in _MOVES:
        return True
    (moved,) = primitive.linear_groups(len(operands))
    if primitive is not embed_p and all(supports[i] is True for i in moved):
        return True

    def follow() -> Any:
        arguments = list(operands)
        for i in moved:
            given = supports[i]
            shape = eqn.inputs[i].aval.shape
            arguments[i] = _filled(shape, given) if isinstance(given, bool) else given()
        return primitive(*arguments, **eqn.params)

    return deferred(follow)


def _clip_winners(x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    raised = maximum(x, low)
    below = unexceeded(high, raised)
    return unexceeded(x, low) & below, unexceeded(low, x) & below, unexceeded(raised, high)


_WINNERS: dict[Primitive, Callable[..., Sequence[Any]]] = {
    maximum: lambda x, y: (unexceeded(x, y), unexceeded(y, x)),
    minimum: lambda x, y: (unexceeded(y, x), unexceeded(x, y)),
    fmax: lambda x, y: (greater_equal(x, y) | isnan(y), greater_equal(y, x) | isnan(x)),
    fmin: lambda x, y: (less_equal(x, y) | isnan(y), less_equal(y, x) | isnan(x)),
    clip: _clip_winners,
}
"""Masks of the elements where each operand contributes to the result of a selection."""


def _won(winners: Sequence[Any], supports: Sequence[Support], shape: tuple[int, ...]) -> Any:
    parts = [
        wins if support is True else logical_and(wins, _truths(support))
        for wins, support in zip(winners, supports, strict=True)
        if support is not False
    ]
    return _any_of(parts, shape)


def _filled(shape: tuple[int, ...], value: bool) -> Any:
    return full_p(shape=shape, value=value, dtype=np.dtype(np.bool_))


def _truths(support: Support) -> Any:
    return support if isinstance(support, bool) else support()


def _any_of(truths: Sequence[Any], shape: tuple[int, ...]) -> Any:
    result = truths[0]
    for more in truths[1:]:
        result = logical_or(result, more)
    return broadcast_to(result, shape=shape)


def deferred(make: Callable[[], Any]) -> Callable[[], Any]:
    """A memoised function without arguments: the value is computed at the first call."""
    made: list[Any] = []

    def value() -> Any:
        if not made:
            made.append(make())
        return made[0]

    return value


def tangent_by_parts(
    jvp: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    outs: Sequence[Any],
    supports: Sequence[Support],
) -> Any:
    """The tangent of an elementwise primitive; each operand contributes 0 outside its support."""
    total = None
    for i, (tangent, support) in enumerate(zip(tangents, supports, strict=True)):
        if tangent is None:
            continue
        alone = [tangent if j == i else None for j in range(len(tangents))]
        part = jvp(primals, alone, outs)
        if part is not None and support is not True:
            part = masked(_truths(support), part)
        if part is not None:
            total = part if total is None else total + part
    return total

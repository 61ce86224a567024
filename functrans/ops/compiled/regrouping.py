"""Delinearisation: loops over the axes that a value had before a reshape.

In loops over the axes of a reshaped value, divisions compute the index before the reshape, and
conditions on the quotients select the part of a join. Loops over the axes before the reshape need
no division, and write contiguous memory in the same order.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import prod
from typing import Any

from functrans.ir.graph import Atom, Eqn, Var
from functrans.ir.types import Shape

MOST_BETWEEN = 32
"""The most equations that are searched from a value to the reshape that it is computed from."""


def regrouped(
    atom: Atom, producers: Mapping[Any, Eqn], in_memory: Container[Atom]
) -> tuple[Var, Eqn] | None:
    """A variable of the shape before the reshapes that a value is computed from, and its equation.

    None without such a reshape, or if operands were reshaped from different shapes.
    """
    found = reshape_in(atom, producers, in_memory)
    if found is None or not isinstance(atom, Var):
        return None
    shape = found.inputs[0].aval.shape
    assert found.primitive.regroups is not None
    var = Var(atom.aval.update(shape=shape))
    return var, Eqn(found.primitive, (atom,), (var,), found.primitive.regroups(shape))


def reshape_in(atom: Atom, producers: Mapping[Any, Eqn], in_memory: Container[Atom]) -> Eqn | None:
    """The reshape that an elementwise value is computed from, if all have one operand shape."""
    waiting, seen = [atom], {atom}
    found: dict[Shape, Eqn] = {}
    while waiting and len(seen) <= MOST_BETWEEN:
        one = waiting.pop()
        eqn = producers.get(one) if isinstance(one, Var) and one not in in_memory else None
        if eqn is None:
            continue
        if eqn.primitive.scalar is not None:
            own = [x for x in eqn.inputs if x.aval.shape == atom.aval.shape and x not in seen]
            waiting += own
            seen.update(own)
        elif eqn.primitive.regroups is not None:
            shape = eqn.inputs[0].aval.shape
            if _are_merged(shape, atom.aval.shape):
                found[shape] = eqn
    return next(iter(found.values())) if len(found) == 1 else None


def _are_merged(before: Shape, after: Shape) -> bool:
    """Whether a reshape merges several axes into one, whose index divisions would take apart."""
    return any(len(axes) > 1 for axes in merged_axes(before, after) or ())


def merged_axes(before: Shape, after: Shape) -> list[tuple[int, ...]] | None:
    """The axes that each axis of a reshaped array consists of; None if the reshape divides an axis.

    Axes of one element are left out.
    """
    left = [axis for axis, extent in enumerate(before) if extent != 1]
    merged: list[tuple[int, ...]] = []
    for extent in after:
        axes: tuple[int, ...] = ()
        while prod(before[axis] for axis in axes) < extent and left:
            axes += (left.pop(0),)
        if prod(before[axis] for axis in axes) != extent:
            return None
        merged.append(axes)
    return None if left else merged

"""Symmetry detection: matrix products of which one half suffices.

``X.T @ X`` is symmetric, and so is ``X.T @ (d[:, None] * X)``. The terms of an element of the
product are written as products of factors: if exchanging the row and column indices gives the same
factors, the result is symmetric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from functrans.ir.graph import Atom, Eqn
from functrans.ir.primitive import Primitive
from functrans.ops.arrays.structural import broadcast_to_p, reshape_p, transpose_p
from functrans.ops.elementwise.arithmetic import multiply
from functrans.ops.elementwise.power import square
from functrans.optimise.machine.sums.factors import aligned

Names = tuple[str | int | None, ...]
"""The index along each axis of a value: ROW, COLUMN, or a number for a contracted axis; None if
the axis has one element."""

Factor = tuple[Atom, Names]

ROW, COLUMN = "row", "column"

_exchange: dict[str | int | None, str] = {ROW: COLUMN, COLUMN: ROW}

MOST_FACTORS = 16


def is_symmetric(operands: Sequence[tuple[Atom, Names]], producers: Mapping[Atom, Eqn]) -> bool:
    """Whether a product of operands, given with the names of their axes, is symmetric."""
    factors: Counter[Factor] = Counter()
    for atom, axes in operands:
        factors.update(_factors(atom, axes, producers))
    if len(factors) > MOST_FACTORS:
        return False
    exchanged: Counter[Factor] = Counter()
    for (atom, axes), count in factors.items():
        exchanged[atom, tuple(_exchange.get(axis, axis) for axis in axes)] += count
    return factors == exchanged


def _factors(atom: Atom, axes: Names, producers: Mapping[Atom, Eqn]) -> Counter[Factor]:
    """The factors of an element of a value."""
    found: Counter[Factor] = Counter()
    stack = [(atom, axes)]
    while stack:
        one, names = stack.pop()
        maker = producers.get(one)
        behind = _BEHIND.get(maker.primitive) if maker is not None else None
        reached = behind(maker, names) if maker is not None and behind is not None else None
        if reached is None or len(found) > MOST_FACTORS:
            found[one, names] += 1
        else:
            stack += reached
    return found


def _multiplied(maker: Eqn, names: Names) -> list[Factor]:
    return [(x, aligned(x, names)) for x in maker.inputs]


def _transposed(maker: Eqn, names: Names) -> list[Factor]:
    permutation = maker.params["permutation"]
    return [(maker.inputs[0], tuple(names[permutation.index(i)] for i in range(len(names))))]


def _reshaped(maker: Eqn, names: Names) -> list[Factor] | None:
    """Through a reshape that only inserts or removes axes of one element."""
    before, after = maker.inputs[0].aval.shape, maker.outputs[0].aval.shape
    if [n for n in before if n != 1] != [n for n in after if n != 1]:
        return None
    kept = (axis for axis, extent in zip(names, after, strict=True) if extent != 1)
    return [(maker.inputs[0], tuple(next(kept) if n != 1 else None for n in before))]


_BEHIND: dict[Primitive, Callable[[Eqn, Names], list[Factor] | None]] = {
    multiply: _multiplied,
    square: lambda maker, names: _multiplied(maker, names) * 2,
    broadcast_to_p: _multiplied,
    transpose_p: _transposed,
    reshape_p: _reshaped,
}
"""By primitive: the operands of a product, or of a move, with the names of their axes; None if
the equation does more."""

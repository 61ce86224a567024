"""Products of matrices that come out symmetric: of those, half is computed.

``X.T @ X`` is symmetric, and so is ``X.T @ (d[:, None] * X)``. What is looked at is the product of
two elements, as a product of factors: if exchanging the row and the column of the result gives the
same factors, the result is symmetric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from functrans.ir.graph import Atom, Eqn

Names = tuple[str | int | None, ...]
"""What each axis of a value is indexed by: ROW, COLUMN, or a number for what is summed; None where
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
        reached = _through(maker, names) if maker is not None else None
        if reached is None or len(found) > MOST_FACTORS:
            found[one, names] += 1
        else:
            stack += reached
    return found


def _through(maker: Eqn, names: Names) -> list[tuple[Atom, Names]] | None:
    """The factors that an equation multiplies, or the one that it moves; None if it does more."""
    name, (first, *_) = maker.primitive.name, maker.inputs or (None,)
    shape = maker.outputs[0].aval.shape
    if name in ("multiply", "square"):
        both = maker.inputs if name == "multiply" else maker.inputs * 2
        return [(x, _aligned(x, shape, names)) for x in both]
    if name == "transpose":
        assert first is not None
        places = maker.params["permutation"]
        return [(first, tuple(names[places.index(i)] for i in range(len(places))))]
    if name == "broadcast_to":
        assert first is not None
        return [(first, _aligned(first, shape, names))]
    if name == "reshape":
        assert first is not None
        kept = [axis for axis, extent in zip(names, shape, strict=True) if extent != 1]
        if [n for n in first.aval.shape if n != 1] != [n for n in shape if n != 1]:
            return None
        rest = iter(kept)
        return [(first, tuple(next(rest) if n != 1 else None for n in first.aval.shape))]
    return None


def _aligned(atom: Atom, shape: Sequence[int], names: Names) -> Names:
    """The names of the axes of an operand that is broadcast."""
    own = atom.aval.shape
    last = names[len(names) - len(own) :]
    return tuple(None if n == 1 else name for n, name in zip(own, last, strict=True))

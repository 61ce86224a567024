"""Array linearisation: reads through a reshape get a single index, with fewer divisions.

Expects the statements of a nest. Leaves, for some of its buffers, the linear index of each access.
The kernel's buffer then has one axis, along which adjacent elements are loaded as vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from functrans.loop.linear_places import DIVISIONS, divides, linear_place
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Address, Buffer, Call, MatrixMultiply, Statement
from functrans.loop.substitution import Position
from functrans.loop.walk import accesses, scalars, walk

Places = Mapping[Position, Scalar]
"""The linear indices of elements, by their positions."""


def linear_places(
    body: Sequence[Statement],
    # buffers that are stored in others; here, the others are the keys
    homes: Mapping[Buffer, Buffer],
    apart: Collection[Buffer],  # those that are not linearised
) -> dict[Buffer, Places]:
    """The linear indices of all accesses to those buffers for which they need fewer divisions."""
    if not any(node.op in DIVISIONS for node in scalars(body)):
        return {}
    places: dict[Buffer, dict[Position, None]] = {}
    for one, position, _ in accesses(body):
        places.setdefault(homes.get(one, one), {})[position] = None
    apart = set(apart)
    for each in walk(body):
        match each:
            case Call():
                addressed = [x.target for x in each.arguments if isinstance(x, Address)]
                apart.update(homes.get(x, x) for x in (*each.reads, *each.writes, *addressed))
            case MatrixMultiply():
                return {}
    simplify = Simplifier()
    found: dict[Buffer, Places] = {}
    for one, positions in places.items():
        if one not in apart and len(one.shape) > 1 and any(map(divides, positions)):
            linear = {at: linear_place(one, at, simplify) for at in positions}
            if len(_divisions(linear.values())) < len(_divisions(chain.from_iterable(positions))):
                found[one] = linear
    return found


def _divisions(indices: Iterable[Scalar]) -> set[Scalar]:
    return {node for node in postorder(indices) if node.op in DIVISIONS}

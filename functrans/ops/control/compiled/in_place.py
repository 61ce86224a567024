"""In-place update of a loop's carry: a step that changes a few elements does not copy the others.

Where the next carry is the present one but at one position (the slot `at_position`), and nothing
else reads it, the body gives the value and the position, and the loop writes them to the carry's
only buffer when all else of the step is done. So whatever reads the carry in that step finds the
old elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from functrans.ir.graph import Eqn, Graph, Var, prune
from functrans.loop.nodes import index
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, Store, load
from functrans.ops.compiled.statements import nest
from functrans.ops.indexing.positions import pull_indices

RATIO = 8
"""A carry is updated in place if it has at least this many times the elements that are written;
below that lanes and locals do better. Chosen, not measured: copies cost nothing there."""


class Updates(NamedTuple):
    """The body of a loop whose updates are left to the loop.

    Parameters
    ----------
    body : Graph
        In the place of a carry that is updated it gives the value of the first update. Behind all
        its results are the other operands of the updates, for one carry after the other.
    of : dict
        The equations that update a carry, one after the other, by the carry's number.
    """

    body: Graph
    of: dict[int, list[Eqn]]


def updates_in_place(body: Graph, carry: Sequence[Var], least: int) -> Updates:
    """Take the updates of carries out of a body.

    A carry that is updated in place has at least as many elements.
    """
    read = Counter([*(x for eqn in body.eqns for x in eqn.inputs), *body.outputs])
    makers = {eqn.outputs[0]: eqn for eqn in body.eqns if eqn.primitive.at_position is not None}
    found = {}
    for number, (before, after) in enumerate(zip(carry, body.outputs, strict=False)):
        chain: list[Eqn] = []
        while after in makers and read[after] == 1:
            chain.insert(0, makers[after])
            after = chain[0].inputs[0]
        size = sum(eqn.inputs[1].aval.size for eqn in chain)
        if after is before and size and before.aval.size >= max(least, RATIO * size):
            found[number] = chain
    if not found:
        return Updates(body, {})
    outputs = [found[i][0].inputs[1] if i in found else x for i, x in enumerate(body.outputs)]
    more = [
        x for chain in found.values() for eqn in chain for x in eqn.inputs[1 + (eqn is chain[0]) :]
    ]
    return Updates(prune(Graph(body.inputs, body.eqns, [*outputs, *more])), found)


def written(
    eqn: Eqn, target: Buffer, given: Sequence[Buffer], simplify: Simplifier
) -> tuple[Statement, ...]:
    """The value in its place: statements on the carry's buffer, from a value and its position."""
    operands = [target, *given]
    loops = tuple(index("w", extent) for extent in given[0].extents)
    axes = eqn.params["axes"]
    avals = [x.aval for x in eqn.inputs]
    at = pull_indices(lambda number, i: load(operands[number], i), 2, (), avals[0], avals[2:], axes)
    rest = iter(loops)
    where = dict(zip(axes, at, strict=True))
    place = tuple(
        simplify(where[axis]) if axis in where else next(rest) for axis in range(avals[0].ndim)
    )
    assert eqn.primitive.at_position is not None
    result = eqn.primitive.at_position(load(target, place), load(given[0], loops))
    return nest(loops, (Store(target, place, simplify(result)),))

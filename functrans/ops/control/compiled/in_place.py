"""In-place update of a loop's carry: a step that changes a few elements does not copy the others.

If the next carry differs from the present one at a few positions only (the slot `at_position`), and
nothing else reads the next carry, the body returns the values and the positions, and the loop
writes the values to the carry's only buffer at the end of the step. So all other reads of the carry
in that step find the old elements.

The same buffer also serves if the statements of a step read each element of the carry before they
write it, and not afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from functrans.ir.graph import Eqn, Graph, Var, prune
from functrans.ir.types import Shape
from functrans.loop.aliasing import Aliasing, Copies
from functrans.loop.nodes import index
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, Store, load
from functrans.ops.compiled.statements import nest
from functrans.ops.indexing.positions import index_shape, pull_indices
from functrans.records import NamedTuple

RATIO = 8
"""The least ratio of a carry's elements to written elements for an in-place update; below it, the
carry is better held in locals, where copies are free. Not measured."""


class Updates(NamedTuple):
    """The body of a loop, with the updates of carries removed."""

    # In place of an updated carry it returns the value of the first update. Its results are
    # followed by the other operands of the updates, by carry.
    body: Graph
    # the equations that update each carry, in order, by the carry's number
    of: dict[int, list[Eqn]]


def updates_in_place(body: Graph, carry: Sequence[Var], least: int, most: int | None) -> Updates:
    """Remove the updates of carries from a body.

    Carries with fewer than ``least`` elements are not updated in place, nor are carries at more
    than ``most`` positions, one after another.
    """
    read = Counter([*(x for eqn in body.eqns for x in eqn.inputs), *body.outputs])
    makers = {
        eqn.outputs[0]: eqn
        for eqn in body.eqns
        if eqn.primitive.at_position is not None
        and (most is None or prod(_index_shape(eqn)) <= most)
    }
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


def in_one_buffer(
    statements: tuple[Statement, ...], before: Buffer, after: Buffer, least: int
) -> tuple[Statement, ...] | None:
    """The statements of a step, if its next carry may overwrite the carry; else None.

    A carry of fewer than ``least`` bytes is overwritten only if this costs no vectors: if the step
    copies it, and then changes the copy.
    """
    copied = Copies(before, after).removed(statements)
    changed = Aliasing(before, after).block(copied)
    return changed if changed is copied or after.nbytes >= least else None


def written(
    eqn: Eqn, target: Buffer, given: Sequence[Buffer], simplify: Simplifier
) -> tuple[Statement, ...]:
    """Statements that write an updated value to the carry's buffer."""
    operands = [target, *given]
    loops = tuple(index("w", extent) for extent in given[0].extents)
    axes = eqn.params["axes"]
    avals = [x.aval for x in eqn.inputs]
    ndim = len(_index_shape(eqn))
    at = pull_indices(
        lambda number, i: load(operands[number], i), 2, loops[:ndim], avals[0], avals[2:], axes
    )
    rest = iter(loops[ndim:])
    where = dict(zip(axes, at, strict=True))
    place = tuple(
        simplify(where[axis]) if axis in where else next(rest) for axis in range(avals[0].ndim)
    )
    assert eqn.primitive.at_position is not None
    result = eqn.primitive.at_position(load(target, place), load(given[0], loops))
    return nest(loops, (Store(target, place, simplify(result)),))


def _index_shape(eqn: Eqn) -> Shape:
    return index_shape([x.aval for x in eqn.inputs[2:]])

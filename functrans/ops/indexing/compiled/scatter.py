"""Scatters: updates are written one after the other to a copy of the array."""

from __future__ import annotations

from functrans.loop.nodes import index
from functrans.loop.reductions import lower_folds
from functrans.loop.statements import Store
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.indexing.positions import pull_indices


def emit(combine: str | None, at: Emission) -> None:
    """Updates in order: where an element is set twice, the last one wins.

    ``combine`` is the scalar operation of an update with what is there; None takes its place.
    """
    x, updates, *indices = (operand.aval for operand in at.eqn.inputs)
    axes: tuple[int, ...] = at.eqn.params["axes"]
    target = at.copied(0)
    loops = tuple(index("u", n) for n in updates.shape)
    ndim = updates.ndim - (x.ndim - len(axes))
    found = pull_indices(at.element, 2, loops[:ndim], x, indices, axes)
    own, rest = dict(zip(axes, found, strict=True)), iter(loops[ndim:])
    position = [own[axis] if axis in own else next(rest) for axis in range(x.ndim)]
    values = [at.element(1, loops), *position]
    before, (value, *position) = lower_folds(values, 1, at.simplify, at.target)
    store = Store(target, tuple(position), value, combine)
    if before or updates.size == 0 or len(loops) == ndim or x.ndim - 1 in axes:
        statements = nest(loops, (*before, store))
    else:  # the numbers of a row go to places of their own: their order does not matter
        statements = nest(loops[:-1], vectorised(loops[-1], store, at.target))
    at.call(statements, work=16 * at.eqn.inputs[-1].aval.size)

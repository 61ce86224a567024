"""Sums over concatenated arrays, part by part: the norm of raveled parameters, for example.

To read an element of a joined array at a variable index, code has to find out which part it belongs
to. The sum over a joined array is the sum over the parts' sums, each of which can be decomposed
further (`functrans.optimise.machine.sums.factored`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import is_float
from functrans.loop.target import Target
from functrans.ops.arrays.shape import Joins, concatenate_p
from functrans.ops.arrays.structural import reduce_sum
from functrans.ops.elementwise.arithmetic import add
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.sums.factors import Factoring
from functrans.optimise.rewrite import Rule
from functrans.records import NamedTuple
from functrans.trace.stage import Environment, apply

MOST_BETWEEN = 8
"""The largest number of elementwise operations between a joined array and its sum."""


class _Sum(NamedTuple):
    """A sum, the joined array that it is over, and the elementwise operations between them."""

    eqn: Eqn
    joined: Eqn
    between: Sequence[Eqn]

    def results(self, values: Environment) -> list[Any]:
        """The sum of the parts' sums."""
        parts = [part for part in self.joined.inputs if part.aval.size]
        return [reduce(add, [self._of(part, values) for part in parts])]

    def _of(self, part: Atom, values: Environment) -> Any:
        own = Environment({self.joined.outputs[0]: values.read(part)})
        for eqn in (*self.between, self.eqn):
            outs = apply(eqn, [own.read(atom) for atom in eqn.inputs])
            own.update(zip(eqn.outputs, outs, strict=True))
        return own[self.eqn.outputs[0]]


def of_joined_arrays(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that compute sums over long joined arrays part by part."""
    sums = ((eqn, _sum_of(eqn, graph.makers, target)) for eqn in graph.eqns)
    return {eqn: each.results for eqn, each in sums if each is not None}


def _sum_of(eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target) -> _Sum | None:
    """The equation as a sum over a joined array; None if it is not one."""
    if eqn.primitive not in (reduce_sum, dot_general) or not is_float(eqn.outputs[0].aval.dtype):
        return None
    between: dict[Eqn, None] = {}
    found = {_joined(x, producers, between) for x in eqn.inputs}
    joined = found.pop()
    if found or joined is None or not _is_summed(eqn, joined.params["axis"]):
        return None
    size, parts = joined.outputs[0].aval.size, len(joined.inputs)
    if size < max(target[Factoring].worth_factoring, parts * target[Joins].small):
        return None
    return _Sum(eqn, joined, tuple(between))


def _joined(atom: Atom, producers: Mapping[Atom, Eqn], between: dict[Eqn, None]) -> Eqn | None:
    """The joined array from which a value is computed by the elementwise ``between``."""
    maker = producers.get(atom)
    if maker is None or maker.primitive is concatenate_p:
        return maker
    if maker.primitive.scalar is None or len(between) > MOST_BETWEEN:
        return None
    arrays = [x for x in maker.inputs if isinstance(x, Var)]
    if any(x.aval.shape != atom.aval.shape for x in arrays):
        return None
    found = {_joined(x, producers, between) for x in arrays}
    between[maker] = None
    return found.pop() if len(found) == 1 else None


def _is_summed(eqn: Eqn, axis: int) -> bool:
    if eqn.primitive is reduce_sum:
        return axis in eqn.params["axes"]
    return (axis, axis) in zip(*eqn.params["contract"], strict=True)

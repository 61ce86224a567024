"""Rematerialisation within a memory budget: choose residuals that save the most recomputation.

A greedy choice: values with the most arithmetic per byte are kept first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from functrans.ir.graph import Atom, Eqn, Var, inner_graphs
from functrans.ops.control.residuals import flops_of, is_move
from functrans.records import NamedTuple


class Budget(NamedTuple):
    """A policy of `checkpoint` that keeps at most ``nbytes`` bytes of residuals."""

    nbytes: int

    def chosen(
        self,
        eqns: Sequence[Eqn],
        needed: Iterable[Var],  # the values that the backward pass reads
    ) -> list[Var]:
        """The residuals to keep, of the values that a backward pass reads or recomputes from."""
        makers = {var: eqn for eqn in eqns for var in eqn.outputs}
        wanted = [var for var in needed if var in makers]
        candidates = [
            (work / nbytes_of(var), var)
            for var in _recomputed(wanted, makers, set())
            if (work := work_of(makers[var])) and nbytes_of(var)
        ]
        # among equal ones the last, whose recomputation needs the earlier ones
        order = {var: number for number, var in enumerate(makers)}
        candidates.sort(key=lambda each: (-each[0], -order[each[1]]))
        kept: set[Var] = set()
        left = self.nbytes
        for _, var in candidates:
            if nbytes_of(var) <= left and var in _recomputed(wanted, makers, kept):
                kept.add(var)
                left -= nbytes_of(var)
        # a value that is only read by kept values is not needed any more
        read = _needed(wanted, makers, kept)
        return [var for var in makers if var in kept and var in read]


def _recomputed(wanted: Sequence[Var], makers: Mapping[Var, Eqn], kept: set[Var]) -> set[Var]:
    """The values that are recomputed to obtain ``wanted`` if ``kept`` are residuals."""
    found: set[Var] = set()
    waiting = [*wanted]
    while waiting:
        var = waiting.pop()
        if var in found or var in kept or var not in makers:
            continue
        found.add(var)
        waiting += [atom for atom in makers[var].inputs if isinstance(atom, Var)]
    return found


def _needed(wanted: Sequence[Var], makers: Mapping[Var, Eqn], kept: set[Var]) -> set[Var]:
    """The values that are wanted, or that recomputed values read."""
    again = _recomputed(wanted, makers, kept)
    operands = {atom for var in again for atom in makers[var].inputs if isinstance(atom, Var)}
    return {*wanted, *operands}


def work_of(eqn: Eqn) -> int:
    """An estimate of an equation's arithmetic, inner loops included; 0 for data movement."""
    inner = list(inner_graphs(eqn))
    if inner:
        steps = int(eqn.params.get("length") or 1)
        return steps * sum(work_of(each) for graph in inner for each in graph.eqns)
    if is_move(eqn.primitive):
        return 0
    return flops_of(eqn) or sum(prod(atom.aval.shape) for atom in eqn.inputs)


def nbytes_of(atom: Atom) -> int:
    """The bytes that a value has in memory."""
    return int(prod(atom.aval.shape) * atom.aval.dtype.itemsize)

"""Rematerialisation within a memory budget: choose residuals that save the most recomputation.

A greedy choice by work for each byte: what was most work to compute, for its size, is kept first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Atom, Eqn, Var, inner_graphs
from functrans.ops.control.residuals import flops_of, is_move


class Budget(NamedTuple):
    """A policy of `checkpoint`: so many bytes may be kept.

    Parameters
    ----------
    nbytes : int
    """

    nbytes: int

    def chosen(self, eqns: Sequence[Eqn], needed: Iterable[Var]) -> list[Var]:
        """The values to keep, of those that a backward pass needs or computes others from.

        Parameters
        ----------
        eqns : sequence of Eqn
        needed : iterable of Var
            What the backward pass mentions.
        """
        makers = {var: eqn for eqn in eqns for var in eqn.outputs}
        wanted = [var for var in needed if var in makers]
        candidates = [
            (work / _nbytes(var), var)
            for var in _done_again(wanted, makers, set())
            if (work := work_of(makers[var])) and _nbytes(var)
        ]
        # of equal ones the last, which needs others to be computed
        order = {var: number for number, var in enumerate(makers)}
        candidates.sort(key=lambda each: (-each[0], -order[each[1]]))
        kept: set[Var] = set()
        left = self.nbytes
        for _, var in candidates:
            if _nbytes(var) <= left and var in _done_again(wanted, makers, kept):
                kept.add(var)
                left -= _nbytes(var)
        # what is behind others that are kept is of no use any more
        read = _read(wanted, makers, kept)
        return [var for var in makers if var in kept and var in read]


def _done_again(wanted: Sequence[Var], makers: Mapping[Var, Eqn], kept: set[Var]) -> set[Var]:
    """The values that are computed again for others, if some are kept."""
    found: set[Var] = set()
    waiting = [*wanted]
    while waiting:
        var = waiting.pop()
        if var in found or var in kept or var not in makers:
            continue
        found.add(var)
        waiting += [atom for atom in makers[var].inputs if isinstance(atom, Var)]
    return found


def _read(wanted: Sequence[Var], makers: Mapping[Var, Eqn], kept: set[Var]) -> set[Var]:
    """The values that are needed, or that those which are computed again are computed from."""
    again = _done_again(wanted, makers, kept)
    operands = {atom for var in again for atom in makers[var].inputs if isinstance(atom, Var)}
    return {*wanted, *operands}


def work_of(eqn: Eqn) -> int:
    """Roughly the arithmetic of an equation, loops and all; 0 of what moves elements."""
    inner = list(inner_graphs(eqn))
    if inner:
        steps = int(eqn.params.get("length") or 1)
        return steps * sum(work_of(each) for graph in inner for each in graph.eqns)
    if is_move(eqn.primitive):
        return 0
    return flops_of(eqn) or sum(prod(atom.aval.shape) for atom in eqn.inputs)


def _nbytes(atom: Atom) -> int:
    return int(prod(atom.aval.shape) * atom.aval.dtype.itemsize)

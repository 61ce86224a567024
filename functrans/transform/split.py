"""Partial evaluation: what can be computed from some of the inputs, and what is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.ir.primitive import EqnSplit


class Split(NamedTuple):
    """A graph in two parts.

    Parameters
    ----------
    known : Graph
        From the known inputs to the outputs that depend on nothing else, and the residuals.
    unknown : Graph
        From the residuals and the unknown inputs to the other outputs.
    unknown_out : tuple of bool
        Which outputs of the whole are the unknown part's.
    """

    known: Graph
    unknown: Graph
    unknown_out: tuple[bool, ...]


@lru_cache(maxsize=2048)
def split(graph: Graph, unknown_in: tuple[bool, ...]) -> Split:
    """Split a graph by what depends on the unknown inputs.

    An equation with inner graphs may be split itself, by its primitive's ``split`` slot.
    """
    unknown: set[Atom] = {v for v, flag in zip(graph.inputs, unknown_in, strict=True) if flag}
    known_eqns: list[Eqn] = []
    unknown_eqns: list[Eqn] = []
    for eqn in graph.eqns:
        flags = tuple(atom in unknown for atom in eqn.inputs)
        if not any(flags):
            known_eqns.append(eqn)
        elif eqn.primitive.split is not None and not all(flags):
            parts = eqn.primitive.split(flags, transform=split, **eqn.params)
            before, after = _split_eqn(eqn, flags, parts)
            known_eqns.append(before)
            unknown_eqns.append(after)
            unknown.update(after.outputs)
        else:
            unknown_eqns.append(eqn)
            unknown.update(eqn.outputs)

    whole = Graph(graph.inputs, unknown_eqns, graph.outputs)
    whole = prune(Graph(whole.inputs, whole.eqns, [a for a in whole.outputs if a in unknown]))
    residuals = _free_variables(whole, unknown)
    known = Graph(
        [v for v, flag in zip(graph.inputs, unknown_in, strict=True) if not flag],
        known_eqns,
        [*(a for a in graph.outputs if a not in unknown), *residuals],
    )
    rest = Graph(
        [*residuals, *(v for v, flag in zip(graph.inputs, unknown_in, strict=True) if flag)],
        whole.eqns,
        whole.outputs,
    )
    return Split(prune(known), rest, tuple(atom in unknown for atom in graph.outputs))


def _split_eqn(eqn: Eqn, flags: Sequence[bool], parts: EqnSplit) -> tuple[Eqn, Eqn]:
    residuals = [Var(aval) for aval in parts.residuals]
    known_in = [a for a, flag in zip(eqn.inputs, flags, strict=True) if not flag]
    unknown_in = [a for a, flag in zip(eqn.inputs, flags, strict=True) if flag]
    known_out = [v for v, flag in zip(eqn.outputs, parts.unknown_out, strict=True) if not flag]
    unknown_out = [v for v, flag in zip(eqn.outputs, parts.unknown_out, strict=True) if flag]
    return (
        Eqn(parts.known[0], known_in, [*known_out, *residuals], parts.known[1], eqn.source),
        Eqn(parts.unknown[0], [*residuals, *unknown_in], unknown_out, parts.unknown[1], eqn.source),
    )


def _free_variables(graph: Graph, unknown: set[Atom]) -> list[Var]:
    """The known variables that the equations mention, each once, in the order of first use."""
    free: dict[Var, None] = {}
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom not in unknown:
                free[atom] = None
    return list(free)

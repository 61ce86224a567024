"""Partial evaluation: the part of a graph that depends only on some inputs, and the rest."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.ir.check import typechecked
from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined, prune, rewriting
from functrans.ir.primitive import EqnSplit
from functrans.ops.arrays.structural import is_zeros
from functrans.records import NamedTuple


class Split(NamedTuple):
    """A graph, partially evaluated into two parts."""

    # maps the known inputs to the outputs that depend only on these, and the residuals
    known: Graph
    unknown: Graph  # maps the residuals and the unknown inputs to the other outputs
    unknown_out: tuple[bool, ...]  # which outputs of the whole graph the unknown part computes


@rewriting(2048)
@typechecked
def split(graph: Graph, unknown_in: tuple[bool, ...]) -> Split:
    """Split a graph into a known part, and a part that depends on the unknown inputs.

    An equation with inner graphs may itself be split, by its primitive's ``split`` slot.
    """
    unknown: set[Atom] = {v for v, flag in zip(graph.inputs, unknown_in, strict=True) if flag}
    known_eqns: list[Eqn] = []
    unknown_eqns: list[Eqn] = []
    became: dict[Atom, Atom] = {}

    def place(eqn: Eqn) -> None:
        if unknown.isdisjoint(eqn.inputs):
            known_eqns.append(eqn)
        else:
            unknown_eqns.append(eqn)
            unknown.update(eqn.outputs)

    for eqn in graph.eqns:
        operands = [became.get(atom, atom) for atom in eqn.inputs]
        if any(new is not old for new, old in zip(operands, eqn.inputs, strict=True)):
            eqn = Eqn(eqn.primitive, operands, eqn.outputs, eqn.params, eqn.source)
        flags = tuple(atom in unknown for atom in operands)
        if eqn.primitive.split is None or all(flags) or not any(flags):
            place(eqn)
            continue
        parts = eqn.primitive.split(flags, transform=split, **eqn.params)
        before, after, results = _split_eqn(eqn, flags, parts)
        known_eqns += before
        for part in after:
            place(part)
        became.update(results)

    outputs = [became.get(atom, atom) for atom in graph.outputs]
    whole = Graph(graph.inputs, unknown_eqns, outputs)
    whole = prune(Graph(whole.inputs, whole.eqns, [a for a in whole.outputs if a in unknown]))
    residuals = _free_variables(whole, unknown)
    known = Graph(
        [v for v, flag in zip(graph.inputs, unknown_in, strict=True) if not flag],
        known_eqns,
        [*(a for a in outputs if a not in unknown), *residuals],
    )
    rest = Graph(
        [*residuals, *(v for v, flag in zip(graph.inputs, unknown_in, strict=True) if flag)],
        whole.eqns,
        whole.outputs,
    )
    return Split(prune(known), rest, tuple(atom in unknown for atom in outputs))


@rewriting(2048)
@typechecked
def split_linear(graph: Graph, unknown_in: tuple[bool, ...]) -> Split:
    """Split a graph that is linear in the unknown inputs.

    Zeros are not residuals: the unknown part creates its own, so that it is recognised as linear
    where zeros are joined with unknown values.
    """
    known, unknown, unknown_out = split(graph, unknown_in)
    makers: dict[Atom, Eqn] = {
        var: eqn for eqn in known.eqns if is_zeros(eqn) for var in eqn.outputs
    }
    count = len(unknown.inputs) - sum(unknown_in)
    first = len(known.outputs) - count
    residuals = list(zip(unknown.inputs[:count], known.outputs[first:], strict=True))
    own = [
        Eqn(maker.primitive, (), (var,), maker.params)
        for var, atom in residuals
        if (maker := makers.get(atom)) is not None
    ]
    kept = [(var, atom) for var, atom in residuals if atom not in makers]
    outputs = [*known.outputs[:first], *(atom for _, atom in kept)]
    inputs = [*(var for var, _ in kept), *unknown.inputs[count:]]
    return Split(
        prune(Graph(known.inputs, known.eqns, outputs)),
        Graph(inputs, [*own, *unknown.eqns], unknown.outputs),
        unknown_out,
    )


def _split_eqn(
    eqn: Eqn, flags: Sequence[bool], parts: EqnSplit
) -> tuple[list[Eqn], list[Eqn], dict[Atom, Atom]]:
    """Inline both parts of an equation: their equations, and a substitution for its results."""
    known_in = [a for a, flag in zip(eqn.inputs, flags, strict=True) if not flag]
    unknown_in = [a for a, flag in zip(eqn.inputs, flags, strict=True) if flag]
    before, known = inlined(parts.known, known_in, eqn.source)
    count = len(parts.unknown_out) - sum(parts.unknown_out)
    after, unknown = inlined(parts.unknown, [*known[count:], *unknown_in], eqn.source)
    from_known, from_unknown = iter(known[:count]), iter(unknown)
    return before, after, {
        var: next(from_unknown if flag else from_known)
        for var, flag in zip(eqn.outputs, parts.unknown_out, strict=True)
    }  # fmt: skip


def _free_variables(graph: Graph, unknown: set[Atom]) -> list[Var]:
    """The known variables that the unknown equations read, in the order of first use."""
    free: dict[Var, None] = {}
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom not in unknown:
                free[atom] = None
    return list(free)

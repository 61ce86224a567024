"""Transposition of linear graphs, the second half of reverse mode.

Cotangents are propagated from outputs to inputs; zero cotangents are absent. Equations that do not
depend on the linear inputs are computed first, forwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.errors import NotDifferentiableError
from functrans.ir.check import typechecked
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, rewriting
from functrans.ir.types import Aval
from functrans.ops.arrays.masked import Masked, added, applied
from functrans.ops.arrays.structural import absent_like, cast, is_zeros
from functrans.ops.control.layout import spread
from functrans.records import NamedTuple
from functrans.trace.source import located
from functrans.trace.stage import Environment, at_source_of, replay, rewrite
from functrans.transform.split import split


class Transposed(NamedTuple):
    """A graph from the nonlinear inputs and the outputs' cotangents to those of linear inputs.

    ``nonzero``: which linear inputs have a cotangent; the others are left out. Outputs of the
    original that do not depend on the linear inputs have no cotangent: they are the first outputs.
    """

    graph: Graph
    nonzero: tuple[bool, ...]


@rewriting(2048)
@typechecked
def transpose_graph(
    graph: Graph,
    linear: tuple[bool, ...],  # for each input, whether the outputs are linear in it
    # for each output, whether its cotangent is given (otherwise it is zero); by default, all
    given: tuple[bool, ...] | None = None,
    # whether linear inputs without a cotangent get zeros, so that none is left out
    instantiate: bool = False,
) -> Transposed:
    """The transpose of a graph, with respect to the inputs that it is ``linear`` in."""
    parts = split(graph, linear)
    if given is None:
        given = (True,) * len(graph.outputs)
    nonzero: list[bool] = []

    def run(*inputs: Any) -> list[Any]:
        count = len(linear) - sum(linear)
        values = replay(parts.known, inputs[:count])
        constant = len(parts.unknown_out) - sum(parts.unknown_out)
        residuals = values[constant:]
        cotangents = _select(inputs[count:], given, parts.unknown_out)
        results = pull_back(parts.unknown, residuals, cotangents)
        if instantiate:
            avals = parts.unknown.in_avals[len(residuals) :]
            results = [
                absent_like(aval) if ct is None else ct
                for aval, ct in zip(avals, results, strict=True)
            ]
        nonzero.extend(ct is not None for ct in results)
        return [*values[:constant], *(ct for ct in results if ct is not None)]

    nonlinear_avals = [a for a, flag in zip(graph.in_avals, linear, strict=True) if not flag]
    cotangent_avals = [a for a, flag in zip(graph.out_avals, given, strict=True) if flag]
    return Transposed(rewrite(run, [*nonlinear_avals, *cotangent_avals]), tuple(nonzero))


def _select(cotangents: Sequence[Any], given: Sequence[bool], wanted: Sequence[bool]) -> list[Any]:
    """The cotangents of the wanted outputs; None for those that are not given."""
    return [ct for ct, flag in zip(spread(cotangents, given), wanted, strict=True) if flag]


def pull_back(graph: Graph, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of the last inputs of a graph, in which it is linear.

    The first inputs are the residuals. Every equation depends on a linear input.
    """
    known = Environment(zip(graph.inputs, residuals, strict=False))
    pending: dict[Atom, Any] = {}

    def is_linear(atom: Atom) -> bool:
        return isinstance(atom, Var) and atom not in known

    def give(atom: Atom, cotangent: Any) -> None:
        if cotangent is not None and is_linear(atom):
            before = pending.get(atom)
            pending[atom] = cotangent if before is None else added(before, cotangent)

    for atom, cotangent in zip(graph.outputs, cotangents, strict=True):
        give(atom, cotangent)
    for eqn in reversed(graph.eqns):
        arriving = [pending.pop(var, None) for var in eqn.outputs]
        if any(ct is not None for ct in arriving):
            operands = [a.aval if is_linear(a) else known.read(a) for a in eqn.inputs]
            with at_source_of(eqn, "cotangent"):
                leaving = _transpose_eqn(eqn, operands, arriving)
                for atom, cotangent in zip(eqn.inputs, leaving, strict=True):
                    give(atom, cotangent)
    return [
        None if ct is None else applied(ct)
        for ct in (pending.get(v) for v in graph.inputs[len(residuals) :])
    ]


def _transpose_eqn(eqn: Eqn, operands: Sequence[Any], arriving: Sequence[Any]) -> Sequence[Any]:
    primitive = eqn.primitive
    if primitive.transpose is None:
        raise NotDifferentiableError(
            f"{primitive.name} has no transpose{located(eqn.source)}: it has forward-mode "
            "derivatives only (jvp, jacfwd). The rule of a custom_jvp must be linear in the "
            "tangents"
        )
    if primitive.higher_order:
        return primitive.transpose(
            [applied(ct) for ct in arriving], *operands, transform=transpose_graph, **eqn.params
        )
    if primitive.several:
        return primitive.transpose([applied(ct) for ct in arriving], *operands, **eqn.params)
    moving = {i for i, x in enumerate(operands) if isinstance(x, Aval)}
    if not any(moving.issubset(group) for group in primitive.linear_groups(len(operands))):
        raise NotDifferentiableError(
            f"{primitive.name} is not linear in the operands that it is to be transposed in"
            f"{located(eqn.source)}: the rule of a custom_jvp must be linear in the tangents"
        )
    (cotangent,) = arriving
    if not isinstance(cotangent, Masked) or primitive.elementwise:
        return primitive.transpose(cotangent, *operands, **eqn.params)
    if primitive.transpose_moves:
        values = primitive.transpose(cotangent.value, *operands, **eqn.params)
        masks = primitive.transpose(cotangent.whole_mask(), *operands, **eqn.params)
        return [
            None if v is None else cotangent._replace(mask=m, value=v)
            for v, m in zip(values, masks, strict=True)
        ]
    totals = primitive.transpose(cotangent.apply(), *operands, **eqn.params)
    if not primitive.transpose_adds:
        return totals
    ones = cast(cotangent.whole_mask(), dtype=cotangent.value.dtype)
    counts = primitive.transpose(ones, *operands, **eqn.params)
    return [
        None if total is None else cotangent.summed(count > 0, total)
        for total, count in zip(totals, counts, strict=True)
    ]


def check_linear(
    graph: Graph, linear: Sequence[bool], what: str, are_zero: Sequence[bool] = ()
) -> None:
    """Raise if, by the primitives' slots, an output is not linear in the linear inputs.

    ``are_zero`` says which inputs are known to be zeros.
    """
    moving: set[Atom] = {v for v, flag in zip(graph.inputs, linear, strict=True) if flag}
    zeros: set[Atom] = {v for v, flag in zip(graph.inputs, are_zero, strict=False) if flag}
    for eqn in _needed(graph):
        flags = [atom in moving for atom in eqn.inputs]
        groups = eqn.primitive.linear_groups(len(flags))
        if not any(flags):
            if is_zeros(eqn) or any(g and _others_are_zero(eqn, g, (), zeros) for g in groups):
                zeros.update(eqn.outputs)
            continue
        moving.update(eqn.outputs)
        operands = tuple(i for i, flag in enumerate(flags) if flag)
        if not eqn.primitive.higher_order and not any(
            set(operands) <= set(group) and _others_are_zero(eqn, group, operands, zeros)
            for group in groups
        ):
            raise NotDifferentiableError(
                f"{what} is not linear in its arguments: {eqn.primitive.name} is applied to "
                f"them{located(eqn.source)}"
            )
    for atom in graph.outputs:
        if atom not in moving and not _is_zero(atom, zeros):
            raise NotDifferentiableError(
                f"{what} is not linear in its arguments: a result does not depend on them"
            )


def _needed(graph: Graph) -> list[Eqn]:
    """The equations that an output depends on."""
    needed: set[Atom] = set(graph.outputs)
    eqns = []
    for eqn in reversed(graph.eqns):
        if not needed.isdisjoint(eqn.outputs):
            needed.update(eqn.inputs)
            eqns.append(eqn)
    return eqns[::-1]


def _others_are_zero(
    eqn: Eqn, group: Sequence[int], operands: Sequence[int], zeros: set[Atom]
) -> bool:
    others = [eqn.inputs[i] for i in group if i not in operands]
    return all(_is_zero(atom, zeros) for atom in others)


def _is_zero(atom: Atom, zeros: set[Atom]) -> bool:
    return bool(atom.value == 0) if isinstance(atom, Literal) else atom in zeros

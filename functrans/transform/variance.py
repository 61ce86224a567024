"""Variance along a named axis: which values differ from lane to lane (a dataflow analysis).

A value varies if it is computed from a varying value; the result of a collective is as the
collective declares. Derivatives need this: if a value that is equal in all lanes (a weight) is
combined with a varying one (an example), its cotangent is the sum over all lanes. `explicit`
inserts a `pvary` at each such place, whose transpose is that sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from functrans.errors import AxesError
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, any_eqn, inner_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_inexact
from functrans.ops.collectives.collectives import VARYING, is_along, pvary
from functrans.ops.control.layout import Flags, Scan, cut, either, fixpoint
from functrans.ops.control.while_loop import While
from functrans.records import NamedTuple
from functrans.trace.absent import UNKNOWN
from functrans.trace.axes import INVARIANT, Names, Scope, scope
from functrans.trace.source import located
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer


class Explicit(NamedTuple):
    """A graph in which varying values are combined only with varying ones; which outputs vary."""

    graph: Graph
    varying: Flags


class _Typed(NamedTuple):
    """An equation after the type rule, with the operands that must vary and the results that do."""

    eqn: Eqn
    wanted: Flags
    varying: Flags


def explicit(
    graph: Graph,
    varying: Sequence[bool],  # which inputs vary
    axis: Mapping[str, Any],  # the parameters of collectives along the axis
    wanted: Sequence[bool] | None = None,  # the outputs that must vary
    # the input that is the number of the lane, if no collective in the graph has it as operand
    lane: Var | None = None,
) -> Explicit:
    """Insert a `pvary` wherever an invariant value is combined with a varying one."""
    lane = lane or lane_of(graph, axis["name"])
    flags = dict(zip(graph.inputs, varying, strict=True))
    own: dict[Atom, Var] = {}
    same: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []

    def varies(atom: Atom) -> bool:
        return not isinstance(atom, Literal) and flags[atom]

    def each_lanes_own(atom: Atom) -> Atom:
        # constants and integers are not differentiated
        if isinstance(atom, Literal) or varies(atom) or not is_inexact(atom.aval.dtype):
            return atom
        if atom not in own:
            assert lane is not None
            own[atom] = Var(atom.aval.update())
            eqns.append(Eqn(pvary, (atom, lane), (own[atom],), axis))
        return own[atom]

    for eqn in graph.eqns:
        inputs = [same.get(atom, atom) for atom in eqn.inputs]
        if eqn.primitive is pvary and is_along(eqn, axis["name"]) and varies(inputs[0]):
            same[eqn.outputs[0]] = inputs[0]  # varies already
            continue
        typed = _typed(eqn, tuple(map(varies, inputs)), axis)
        operands = [
            each_lanes_own(atom) if flag else atom
            for atom, flag in zip(inputs, typed.wanted, strict=True)
        ]
        new = typed.eqn
        eqns.append(Eqn(new.primitive, operands, eqn.outputs, new.params, eqn.source))
        flags.update(zip(eqn.outputs, typed.varying, strict=True))
    results = [same.get(atom, atom) for atom in graph.outputs]
    found = tuple(map(varies, results))
    wanted = found if wanted is None else tuple(wanted)
    outputs = [
        each_lanes_own(atom) if flag else atom for atom, flag in zip(results, wanted, strict=True)
    ]
    return Explicit(Graph(graph.inputs, eqns, outputs), either(found, wanted))


def lane_of(graph: Graph, name: str) -> Var | None:
    """The variable of a graph that is the lane's number along an axis, if one is used."""
    for eqn in graph.eqns:
        if is_along(eqn, name):
            (_, number) = eqn.inputs
            return number if isinstance(number, Var) else None
        for inner in inner_graphs(eqn):
            lane = lane_of(inner, name)
            if lane is not None:
                # an inner graph takes the last operands, or the first ones if a rule's follow
                first = 0 if "rule" in eqn.params else len(eqn.inputs) - len(inner.inputs)
                outer = eqn.inputs[first + inner.inputs.index(lane)]
                return outer if isinstance(outer, Var) else None
    return None


def _typed(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    """Apply the type rule to an equation whose operands vary as the flags tell."""
    primitive = eqn.primitive
    if is_along(eqn, axis["name"]):
        takes_varying = primitive.name not in ("pvary", "own_part")
        return _Typed(eqn, (takes_varying, False), (primitive.collective == VARYING,))
    if not _holds_collective(eqn, axis["name"]):
        some = any(flags)
        return _Typed(eqn, (some,) * len(flags), (some,) * len(eqn.outputs))
    rule = _RULES.get(primitive.name, _refused)
    return rule(eqn, flags, axis)


def _holds_collective(eqn: Eqn, name: str, besides: Primitive | None = None) -> bool:
    def is_one(inner: Eqn) -> bool:
        return is_along(inner, name) and inner.primitive is not besides

    return any(any_eqn(g, is_one) for g in inner_graphs(eqn))


def _refused(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    raise AxesError(
        f"a collective along {axis['name']!r} is inside of {eqn.primitive.name}"
        f"{located(eqn.source)}, and it is not known how its rule treats what varies along the "
        "axis: call the collective outside of it"
    )


def _of_call(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    graph: Graph = eqn.params["graph"]
    found = explicit(graph, flags, axis)
    new = Eqn(eqn.primitive, eqn.inputs, eqn.outputs, {**eqn.params, "graph": found.graph})
    return _Typed(new, flags, found.varying)


def _of_custom(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    # a rule that is not traced yet, since no derivative is being taken
    is_traced = isinstance(eqn.params["rule"], tuple)
    return (_refused if is_traced else _of_call)(eqn, flags, axis)


def _lanes_of(graphs: Sequence[Graph], name: str) -> list[Var]:
    """The lane's number in graphs with the same operands, some of which use it."""
    place = next(
        graph.inputs.index(lane) for graph in graphs if (lane := lane_of(graph, name)) is not None
    )
    return [graph.inputs[place] for graph in graphs]


def _of_cond(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    if flags[0]:
        flags = _apart(eqn, axis, "the lanes choose different branches")
    branches: tuple[Graph, ...] = eqn.params["branches"]
    lanes = _lanes_of(branches, axis["name"])

    def typed(wanted: Flags | None) -> list[Explicit]:
        return [
            explicit(branch, flags[1:], axis, wanted, lane)
            for branch, lane in zip(branches, lanes, strict=True)
        ]

    varying = reduce(either, (branch.varying for branch in typed(None)))
    graphs = tuple(branch.graph for branch in typed(varying))
    new = Eqn(eqn.primitive, eqn.inputs, eqn.outputs, {**eqn.params, "branches": graphs})
    return _Typed(new, flags, varying)


def _of_scan(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    scan = Scan.of(eqn)
    if any(scan.parts(flags)[0]):
        flags = _apart(eqn, axis, "the lanes take different numbers of steps")
    steps, consts, init, xs = map(tuple, scan.parts(flags))

    def step(carry: Flags) -> tuple[Flags, Explicit]:
        found = explicit(scan.body, (*consts, *carry, *xs), axis)
        return found.varying[: len(carry)], found

    carry, found = fixpoint(init, step)
    varying = carry + found.varying[len(carry) :]
    body = explicit(scan.body, (*consts, *carry, *xs), axis, varying).graph
    new = Eqn(eqn.primitive, eqn.inputs, eqn.outputs, scan.but(body=body).params)
    return _Typed(new, (*steps, *consts, *carry, *xs), varying)


def _of_while(eqn: Eqn, flags: Flags, axis: Mapping[str, Any]) -> _Typed:
    loop = While.of(eqn)
    consts, init = map(tuple, cut(flags, loop.n_consts))
    in_cond, in_body = _lanes_of((loop.cond, loop.body), axis["name"])

    def step(carry: Flags) -> tuple[Flags, Explicit]:
        found = explicit(loop.body, (*consts, *carry), axis, lane=in_body)
        return found.varying[: len(carry)], found

    carry, found = fixpoint(init, step)
    stacks = found.varying[len(carry) :]
    body = explicit(loop.body, (*consts, *carry), axis, carry + stacks, in_body).graph
    (goes_on,) = explicit(loop.cond, (*consts, *carry), axis, lane=in_cond).varying
    if goes_on and not all(flags):
        apart = _apart(eqn, axis, "the lanes take different numbers of steps")
        return _of_while(eqn, apart, axis)
    new = Eqn(eqn.primitive, eqn.inputs, eqn.outputs, {**eqn.params, "body": body})
    return _Typed(new, (*consts, *carry), (*carry, False, *stacks))


def _apart(eqn: Eqn, axis: Mapping[str, Any], why: str) -> Flags:
    """The flags of operands where lanes go different ways: each gets its own, before they part."""
    if _holds_collective(eqn, axis["name"], besides=pvary):
        raise AxesError(
            f"a collective along {axis['name']!r} is inside of {eqn.primitive.name}"
            f"{located(eqn.source)}, where {why}: it would wait for lanes that never come. What a "
            "branch or a loop depends on must be the same in all lanes (lax.psum, lax.pmax)"
        )
    return (True,) * len(eqn.inputs)


_RULES: dict[str, Callable[[Eqn, Flags, Mapping[str, Any]], _Typed]] = {
    "checkpoint": _of_call,
    "cond": _of_cond,
    "counted_scan": _of_scan,
    "custom_jvp": _of_custom,
    "custom_vjp": _of_custom,
    "jit": _of_call,
    "scan": _of_scan,
    "step": _of_call,
    "while_loop": _of_while,
}


# -- of values that are traced ---------------------------------------------------------------------


def variance(x: Any) -> Names:
    """The enclosing named axes along which a value varies."""
    known = scope()
    if known is None or not isinstance(x, Tracer):
        return INVARIANT
    trace: Trace = x._owner
    if not _is_within(trace, known):
        return INVARIANT
    lifted = trace.lift(x)
    assert isinstance(lifted, Tracer)
    return _of_trace(trace, known)[lifted._variable]


def _is_within(trace: Any, known: Scope) -> bool:
    """Whether a trace started within a named axis; values traced outside of all axes are shared."""
    begun = [axis.lane._owner for axis in known.axes.values()]
    while isinstance(trace, Trace):
        if trace in begun:
            return True
        trace = trace.parent
    return False


def of_outputs(graph: Graph, inputs: Sequence[Names]) -> list[Names]:
    """The axes along which the outputs of a graph vary, given those of the inputs."""
    known = scope()
    assert known is not None
    found = dict(zip(graph.inputs, inputs, strict=True))
    for eqn in graph.eqns:
        found.update(zip(eqn.outputs, _of_results(eqn, found, known), strict=True))
    return [INVARIANT if isinstance(x, Literal) else found[x] for x in graph.outputs]


def _of_trace(trace: Trace, known: Scope) -> dict[Var, Names]:
    """The axes along which each recorded value varies."""
    found = known.varying
    for i, var in enumerate(trace.inputs):
        if var not in found:
            operand = UNKNOWN if trace.operands is None else trace.operands[i]
            if operand is UNKNOWN:
                raise AxesError(
                    f"a derivative is taken inside of {trace.kind}, under a vmap with a named "
                    "axis, and it is not known whether its arguments vary along the axis: take it "
                    "outside"
                )
            found[var] = variance(operand)
    for var, outer in trace.captures:
        if var not in found:
            found[var] = variance(outer)
    for eqn in trace.eqns:
        if not all(var in found for var in eqn.outputs):
            found.update(zip(eqn.outputs, _of_results(eqn, found, known), strict=True))
    return found


def _of_results(eqn: Eqn, found: Mapping[Var, Names], known: Scope) -> Sequence[Names]:
    operands = [INVARIANT if isinstance(x, Literal) else found[x] for x in eqn.inputs]
    results = [INVARIANT] * len(eqn.outputs)
    for name in known.axes:
        flags = tuple(name in names for names in operands)
        if any(flags):
            varying = _typed(eqn, flags, known.axes[name].params).varying
            results = [
                names | {name} if flag else names
                for names, flag in zip(results, varying, strict=True)
            ]
    return results

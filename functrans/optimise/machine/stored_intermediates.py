"""Stored intermediates: costly values that a loop recomputes are stacked by the loop before it.

Partial evaluation stores the fewest bytes of residuals for the backward pass of a scan, which
recomputes other values. But computing an exponential takes longer than storing and reading its
result, if all residuals fit into a cache. So the equations that do not depend on the carry are
divided again, by a minimum cut whose costs are times: some values are computed only by the forward
pass, which stacks them. This is not done in loops whose work is in matrix products, whose matrices
the stacks would evict from the caches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.loop.target import Target
from functrans.ops.compiled.elements import pattern
from functrans.ops.control.residuals import choose, flops_of, is_cheap
from functrans.ops.control.scan import scan_p
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.loops import Const, Loop, Row, Stacked
from functrans.optimise.rewrite import bits


class Storing(NamedTuple):
    """When values are stored rather than recomputed.

    Measured: all (chains of elementwise functions, an LSTM with diagonal weights).
    """

    operations: int = 32
    """As many operations take about as long as to store and read an element."""
    largest: int = 6 << 20
    """The most bytes that a loop reads of another: more leaves the caches."""
    largest_narrow: int = 16 << 20
    """The same where no value is wider than `narrow`: rows of successive steps are neighbours in
    memory then, which processors fetch ahead."""
    narrow: int = 256
    """The most bytes of a narrow value."""
    products: int = 2
    """The most operations of a step's products for each of its elementwise operations."""


def store_intermediates(graph: Graph, target: Target) -> Graph:
    """Stack costly values in the scan that stacks what another scan computes them from.

    Expects scans without duplicates.
    Leaves scans that recompute only cheap values, or values whose stacks would be too large.
    """
    if sum(eqn.primitive is scan_p for eqn in graph.eqns) < 2:
        return graph
    for reader in [eqn for eqn in graph.eqns if eqn.primitive is scan_p]:
        graph = _stored(graph, reader, target[Storing])
    return graph


def _stored(graph: Graph, reader: Eqn, limits: Storing) -> Graph:
    """The graph, in which a scan may read more stacked values, and recompute fewer."""
    place: dict[Atom, int] = {var: i for i, eqn in enumerate(graph.eqns) for var in eqn.outputs}
    loop, length = Loop(reader), reader.params["length"]
    makers = [graph.eqns[place[row.outer]] for row in loop.rows if row.outer in place]
    scans = [x for x in makers if x.primitive is scan_p and x.params["length"] == length]
    if not scans:
        return graph
    writer, before = Loop(scans[0]), place[scans[0].outputs[0]]
    if any(_multiplies_matrices(each.body, limits) for each in (loop, writer)):
        return graph
    stacks: dict[Atom, Atom] = {each.result: each.out for each in writer.stacked}
    others = {x for eqn in graph.eqns if eqn is not reader for x in eqn.inputs}
    others.update(graph.outputs)
    # values that both loops may read, by their names in the reading loop
    operands: list[Const | Row] = [*loop.consts, *loop.rows]
    given = [x for x in operands if place.get(x.outer, -1) < before]
    read = [row for row in loop.rows if row.outer in stacks]
    early = _without_carry(loop, [*(_name(x) for x in given), *(row.inner for row in read)])
    late = set(loop.body).difference(early)
    wanted: list[Atom] = [x for eqn in loop.body if eqn in late for x in eqn.inputs]
    wanted += _results(loop)
    made = {var for eqn in early for var in eqn.outputs}
    own = {row.inner for row in read if row.outer not in others}
    needed = [x for x in dict.fromkeys(wanted) if isinstance(x, Var) and x in made | own]
    at_hand = [*(_name(x) for x in given), *(row.inner for row in read if row.inner not in own)]

    def work(eqn: Eqn) -> int:
        own = pattern(eqn).work if eqn.primitive.elementwise else 0
        return own * _bytes(eqn.outputs[0]) // limits.operations

    kept, _ = choose(early, needed, at_hand, work)
    new = [var for var in kept if var in made]
    sizes = [*map(_bytes, kept)]
    is_narrow = max(sizes, default=0) <= limits.narrow
    most = limits.largest_narrow if is_narrow else limits.largest
    if not new or sum(sizes) * length > most:
        return graph
    names = _shared(given, writer) | {row.inner: stacks[row.outer] for row in read}
    _append(writer, prune(Graph((), early, new)).eqns, names)
    for var in new:
        result = Var(var.aval.update(shape=(length, *var.aval.shape)))
        writer.stacked.append(Stacked(names[var], result))
        loop.rows.append(Row(var, result))
    loop.body = [eqn for eqn in loop.body if set(eqn.outputs).isdisjoint(new)]
    _drop_unread(loop)
    others.update(row.outer for row in loop.rows)
    writer.stacked = [each for each in writer.stacked if each.result in others]
    changed = {scans[0]: writer.rebuilt(), reader: loop.rebuilt()}
    return Graph(graph.inputs, [changed.get(eqn, eqn) for eqn in graph.eqns], graph.outputs)


def _multiplies_matrices(body: Sequence[Eqn], limits: Storing) -> bool:
    """Whether products are most of a step's operations."""
    products = sum(flops_of(eqn) for eqn in body if eqn.primitive is dot_general)
    others = sum(
        pattern(eqn).work * eqn.outputs[0].aval.size for eqn in body if eqn.primitive.elementwise
    )
    return products > limits.products * others


def _bytes(var: Var) -> int:
    return var.aval.size * var.aval.dtype.itemsize


def _name(operand: Const | Row) -> Var:
    return operand.inner[0] if isinstance(operand, Const) else operand.inner


def _results(loop: Loop) -> list[Atom]:
    return [*(c.out for c in loop.carry), *(s.out for s in loop.stacked)]


def _without_carry(loop: Loop, known: Sequence[Var]) -> list[Eqn]:
    """The equations of a body that can be computed from some operands, and are cheap to move."""
    at_hand, found = set[Atom](known), []
    for eqn in loop.body:
        known_inputs = all(isinstance(x, Literal) or x in at_hand for x in eqn.inputs)
        if known_inputs and is_cheap(eqn.primitive):
            found.append(eqn)
            at_hand.update(eqn.outputs)
    return found


def _shared(given: Sequence[Const | Row], writer: Loop) -> dict[Atom, Atom]:
    """The names of operands of another loop in this one, which may become operands."""
    consts = {each.outer: each.inner[0] for each in writer.consts}
    rows = {each.outer: each.inner for each in writer.rows}
    names: dict[Atom, Atom] = {}
    for each in given:
        theirs, name = consts if isinstance(each, Const) else rows, _name(each)
        if each.outer not in theirs:
            theirs[each.outer] = own = Var(name.aval)
            if isinstance(each, Const):
                writer.consts.append(Const((own,), each.outer))
            else:
                writer.rows.append(Row(own, each.outer))
        names[name] = theirs[each.outer]
    return names


def _append(loop: Loop, eqns: Sequence[Eqn], names: dict[Atom, Atom]) -> None:
    """Add equations to a body, in its names, except those that it has already."""

    def key(eqn: Eqn, inputs: Sequence[Atom]) -> Hashable:
        operands = (bits(x) if isinstance(x, Literal) else x for x in inputs)
        avals = tuple((x.aval.shape, x.aval.dtype) for x in inputs)
        return eqn.primitive, tuple(operands), avals, eqn.primitive.keyed(eqn.params)

    known = {key(eqn, eqn.inputs): eqn for eqn in loop.body}
    for eqn in eqns:
        inputs = [names.get(x, x) for x in eqn.inputs]
        same = known.get(key(eqn, inputs))
        if same is None:
            outputs = [Var(var.aval) for var in eqn.outputs]
            same = Eqn(eqn.primitive, inputs, outputs, eqn.params, eqn.source)
            known[key(eqn, inputs)] = same
            loop.body.append(same)
        names.update(zip(eqn.outputs, same.outputs, strict=True))


def _drop_unread(loop: Loop) -> None:
    """Remove equations and rows that nothing in the body reads."""
    outputs = _results(loop)
    loop.body = list(prune(Graph((), loop.body, outputs)).eqns)
    read = {x for eqn in loop.body for x in eqn.inputs} | set(outputs)
    loop.rows = [row for row in loop.rows if row.inner in read]

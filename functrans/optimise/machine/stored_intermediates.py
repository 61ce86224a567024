"""Residual selection by time: a scan stacks costly values that the backward scan would recompute.

Partial evaluation stores the fewest bytes of residuals for the backward pass of a scan, which
recomputes other values. But computing an exponential takes longer than storing and reading its
result, if all residuals fit into a cache. So the equations that do not depend on the carry are
divided again, by a minimum cut whose costs are times: some values are computed only by the forward
pass, which stacks them. This is not done in loops whose work is in matrix products, whose matrices
the stacks would evict from the caches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.loop.target import Target
from functrans.ops.compiled.elements import pattern
from functrans.ops.control.residuals import choose, flops_of, is_cheap
from functrans.ops.control.scan import scan_p
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.loops import Const, Loop, Row, Stacked
from functrans.optimise.rewrite import bits
from functrans.records import NamedTuple


class Storing(NamedTuple):
    """Thresholds of residual selection: when values are stored rather than recomputed.

    Measured: all (chains of elementwise functions, an LSTM with diagonal weights).
    """

    operations: int = 32
    """As many operations take about as long as to store and read an element."""
    largest: int = 6 << 20
    """The most bytes that a loop reads of another: more leaves the caches."""
    largest_narrow: int = 64 << 20
    """The same where no value is wider than `narrow`: rows of successive steps are neighbours in
    memory then, which processors fetch ahead."""
    narrow: int = 256
    """The most bytes of a narrow value."""
    products: int = 2
    """The most operations of a step's products for each of its elementwise operations."""


def store_intermediates(graph: Graph, target: Target) -> Graph:
    """Stack costly values in the forward scan, instead of recomputing them in the backward scan.

    Expects scans without duplicates.
    Leaves scans that recompute only cheap values, or values whose stacks would be too large.
    """
    if sum(eqn.primitive is scan_p for eqn in graph.eqns) < 2:
        return graph
    for reader in [eqn for eqn in graph.eqns if eqn.primitive is scan_p]:
        graph = _stored(graph, reader, target[Storing])
    return graph


def _stored(graph: Graph, eqn: Eqn, limits: Storing) -> Graph:
    """The graph, in which a scan may read more stacked values, and recompute fewer."""
    pair = _pair(graph, eqn)
    if pair is None or _multiplies_matrices(pair, limits):
        return graph
    stored = _worth_storing(pair, limits)
    if not stored:
        return graph
    _store(pair, stored)
    changed = {pair.writer.eqn: pair.writer.rebuilt(), eqn: pair.reader.rebuilt()}
    return Graph(graph.inputs, [changed.get(each, each) for each in graph.eqns], graph.outputs)


class _Pair(NamedTuple):
    """A scan, and an earlier one of as many steps whose stacked results it reads."""

    reader: Loop
    writer: Loop
    given: list[Const | Row]  # the reader's operands that the writer can read, too
    read: list[Row]  # the reader's rows that the writer stacks
    needed_elsewhere: set[Atom]  # what is read by others than the reader


def _pair(graph: Graph, eqn: Eqn) -> _Pair | None:
    """A scan with the first scan of as many steps that computes some of its rows."""
    place: dict[Atom, int] = {var: i for i, each in enumerate(graph.eqns) for var in each.outputs}
    reader, length = Loop(eqn), eqn.params["length"]
    for row in reader.rows:
        maker = graph.eqns[place[row.outer]] if row.outer in place else None
        if maker is None or maker.primitive is not scan_p or maker.params["length"] != length:
            continue
        writer, start = Loop(maker), place[maker.outputs[0]]
        stacked = {each.result for each in writer.stacked}
        operands: list[Const | Row] = [*reader.consts, *reader.rows]
        given = [x for x in operands if place.get(x.outer, -1) < start]
        read = [each for each in reader.rows if each.outer in stacked]
        elsewhere = {x for each in graph.eqns if each is not eqn for x in each.inputs}
        return _Pair(reader, writer, given, read, elsewhere.union(graph.outputs))
    return None


def _worth_storing(pair: _Pair, limits: Storing) -> list[Var]:
    """Values that take less time to store than to recompute; none if they leave the caches."""
    loop = pair.reader
    given, read = [_name(x) for x in pair.given], [row.inner for row in pair.read]
    early = _without_carry(loop, [*given, *read])
    made = {var for eqn in early for var in eqn.outputs}
    late = [eqn for eqn in loop.body if made.isdisjoint(eqn.outputs)]
    # a row that only this loop reads need not be stacked any more, if others are
    own = {row.inner for row in pair.read if row.outer not in pair.needed_elsewhere}
    may_be_stored: set[Atom] = {*made, *own}
    wanted = [x for eqn in late for x in eqn.inputs] + loop.results
    needed = [x for x in dict.fromkeys(wanted) if isinstance(x, Var) and x in may_be_stored]
    at_hand = [*given, *(var for var in read if var not in own)]

    def work(eqn: Eqn) -> int:
        operations = pattern(eqn).work if eqn.primitive.elementwise else 0
        return operations * _bytes(eqn.outputs[0]) // limits.operations

    kept, _ = choose(early, needed, at_hand, work)
    sizes = [_bytes(var) for var in kept]
    is_narrow = max(sizes, default=0) <= limits.narrow
    most = limits.largest_narrow if is_narrow else limits.largest
    return [var for var in kept if var in made] if sum(sizes) * loop.length <= most else []


def _store(pair: _Pair, stored: Sequence[Var]) -> None:
    """Compute and stack values in the writer, and read them in the reader."""
    reader, writer = pair.reader, pair.writer
    stacks: dict[Atom, Atom] = {each.result: each.out for each in writer.stacked}
    names = _shared(pair.given, writer) | {row.inner: stacks[row.outer] for row in pair.read}
    _append(writer, prune(Graph((), reader.body, stored)).eqns, names)
    for var in stored:
        result = writer.stack_of(var)
        writer.stacked.append(Stacked(names[var], result))
        reader.rows.append(Row(var, result))
    reader.body = [eqn for eqn in reader.body if set(eqn.outputs).isdisjoint(stored)]
    _drop_unread(reader)
    needed = pair.needed_elsewhere.union(row.outer for row in reader.rows)
    writer.stacked = [each for each in writer.stacked if each.result in needed]


def _multiplies_matrices(pair: _Pair, limits: Storing) -> bool:
    """Whether products are most of a step's operations in one of the loops."""

    def are_products(body: Sequence[Eqn]) -> bool:
        products = sum(flops_of(eqn) for eqn in body if eqn.primitive is dot_general)
        elementwise = [eqn for eqn in body if eqn.primitive.elementwise]
        others = sum(pattern(eqn).work * eqn.outputs[0].aval.size for eqn in elementwise)
        return products > limits.products * others

    return are_products(pair.reader.body) or are_products(pair.writer.body)


def _bytes(var: Var) -> int:
    return var.aval.size * var.aval.dtype.itemsize


def _name(operand: Const | Row) -> Var:
    return operand.inner[0] if isinstance(operand, Const) else operand.inner


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
    """Add equations to a body, in its names, except those that it has already.

    Each is added right after its operands: what is computed from these already may be computed in
    the same loop, and share operations with it.
    """

    def key(eqn: Eqn, inputs: Sequence[Atom]) -> Hashable:
        operands = (bits(x) if isinstance(x, Literal) else x for x in inputs)
        avals = tuple((x.aval.shape, x.aval.dtype) for x in inputs)
        return eqn.primitive, tuple(operands), avals, eqn.primitive.keyed(eqn.params)

    known = {key(eqn, eqn.inputs): eqn for eqn in loop.body}
    groups: list[list[Eqn]] = [[], *([eqn] for eqn in loop.body)]
    place: dict[Atom, int] = {x: i for i, eqn in enumerate(loop.body, 1) for x in eqn.outputs}
    for eqn in eqns:
        inputs = [names.get(x, x) for x in eqn.inputs]
        same = known.get(key(eqn, inputs))
        if same is None:
            outputs = [Var(var.aval) for var in eqn.outputs]
            same = eqn.but(inputs=inputs, outputs=outputs)
            known[key(eqn, inputs)] = same
            number = max((place.get(x, 0) for x in inputs), default=0)
            groups[number].append(same)
            place.update(dict.fromkeys(outputs, number))
        names.update(zip(eqn.outputs, same.outputs, strict=True))
    loop.body = [eqn for group in groups for eqn in group]


def _drop_unread(loop: Loop) -> None:
    """Remove equations and rows that nothing in the body reads."""
    loop.prune()
    read = {x for eqn in loop.body for x in eqn.inputs}.union(loop.results)
    loop.rows = [row for row in loop.rows if row.inner in read]

"""Dead code and common subexpression elimination across loops and branches.

Transforms generate such code: a derivative that does not need a value still has the loop stack it,
a residual may also be a result, and a carry may be passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.ops.arrays.known import known_integers
from functrans.ops.arrays.structural import full_p
from functrans.ops.control.cond import cond_p
from functrans.ops.control.layout import Scan
from functrans.ops.control.scan import scan_p
from functrans.ops.control.while_loop import While, while_p
from functrans.optimise.rewrite import Rewriter, everywhere
from functrans.records import NamedTuple


def is_loop(eqn: Eqn) -> bool:
    """Whether an equation applies its inner graph repeatedly, to a carry."""
    return eqn.primitive.higher_order and "n_carry" in eqn.params


def is_long_scan(eqn: Eqn) -> bool:
    """Whether an equation is a scan of several steps."""
    return eqn.primitive is scan_p and eqn.params["length"] > 1


class Const(NamedTuple):
    """A loop-invariant operand.

    ``inner`` are its names in the body and, for a while loop, in the condition.
    """

    inner: tuple[Var, ...]
    outer: Atom


class Carry(NamedTuple):
    """A value that each step passes to the next: its ``out`` is the ``inner`` of the next step."""

    inner: tuple[Var, ...]
    init: Atom
    out: Atom
    result: Var


class Row(NamedTuple):
    """A scanned operand: each step reads its own slice."""

    inner: Var
    outer: Atom


class Stacked(NamedTuple):
    """A stacked result: one value for each step."""

    out: Atom
    result: Var


class Loop:
    """The equation of a loop, with operands, body variables and results grouped by their roles."""

    def __init__(self, eqn: Eqn) -> None:
        self.eqn = eqn
        loop = While.of(eqn) if eqn.primitive is while_p else Scan.of(eqn)
        body, n_carry = loop.body, loop.n_carry
        cond = loop.cond if isinstance(loop, While) else None
        before, consts, init, rows = loop.parts(eqn.inputs)
        self.before = list(before)
        graphs = [body] if cond is None else [body, cond]
        named = len(consts) + n_carry
        names = list(zip(*(g.inputs[:named] for g in graphs), strict=True))
        self.consts = [Const(*pair) for pair in zip(names[: len(consts)], consts, strict=True)]
        carried = names[len(consts) :], init, body.outputs[:n_carry], eqn.outputs[:n_carry]
        self.carry = [Carry(*each) for each in zip(*carried, strict=True)]
        self.rows = [Row(*row) for row in zip(body.inputs[named:], rows, strict=True)]
        # the number of steps is a while loop's last result, after the carry
        self.count = list(eqn.outputs[n_carry : n_carry + (cond is not None)])
        stacks = eqn.outputs[n_carry + len(self.count) :]
        self.stacked = [Stacked(*s) for s in zip(body.outputs[n_carry:], stacks, strict=True)]
        self.body = list(body.eqns)
        self.cond = cond

    @property
    def length(self) -> int:
        """The number of steps of a scan."""
        return self.eqn.params["length"]

    @property
    def results(self) -> list[Atom]:
        """What the body returns: the next carry, and what is stacked."""
        return [*(c.out for c in self.carry), *(s.out for s in self.stacked)]

    def stack_of(self, x: Atom) -> Var:
        """A new variable for the values of all steps of a scan."""
        return Var(x.aval.update(shape=(self.length, *x.aval.shape)))

    def prune(self) -> None:
        """Remove the equations of the body that its results do not need."""
        self.body = list(prune(Graph((), self.body, self.results)).eqns)

    def rebuilt(self) -> Eqn:
        """The equation that corresponds to the current state."""
        params = dict(self.eqn.params)
        named: list[Const | Carry] = [*self.consts, *self.carry]
        params["body"] = Graph(
            [*(x.inner[0] for x in named), *(row.inner for row in self.rows)],
            self.body,
            self.results,
        )
        if self.cond is not None:
            params["cond"] = Graph([x.inner[1] for x in named], self.cond.eqns, self.cond.outputs)
        params["n_consts"], params["n_carry"] = len(self.consts), len(self.carry)
        inputs = [
            *self.before,
            *(c.outer for c in self.consts),
            *(c.init for c in self.carry),
            *(row.outer for row in self.rows),
        ]
        outputs = [*(c.result for c in self.carry), *self.count, *(s.result for s in self.stacked)]
        return Eqn(self.eqn.primitive, inputs, outputs, params, self.eqn.source)

    def substitute(self, body: Mapping[Atom, Atom], cond: Mapping[Atom, Atom]) -> None:
        """Substitute atoms for variables, in the body and in the condition."""
        self.body = _substituted(self.body, body)
        self.carry = [c._replace(out=body.get(c.out, c.out)) for c in self.carry]
        self.stacked = [s._replace(out=body.get(s.out, s.out)) for s in self.stacked]
        if self.cond is not None and cond:
            outputs = [cond.get(x, x) for x in self.cond.outputs]
            self.cond = Graph((), _substituted(self.cond.eqns, cond), outputs)


def _substituted(eqns: Iterable[Eqn], atoms: Mapping[Atom, Atom]) -> list[Eqn]:
    return [
        eqn
        if atoms.keys().isdisjoint(eqn.inputs)
        else eqn.but(inputs=[atoms.get(x, x) for x in eqn.inputs])
        for eqn in eqns
    ]


# -- duplicates ------------------------------------------------------------------------------------


def merge_in_loops(graph: Graph) -> Graph:
    """Eliminate duplicates among a loop's operands, stacked values and unchanged carries.

    Expects any graph.
    Leaves loops that take each operand once, stack each value once, and carry only what changes.
    """
    if not any(map(is_loop, graph.eqns)):
        return graph
    out = Rewriter(graph)
    for eqn in out.keep_others(is_loop):
        loop = Loop(eqn)
        for result, atom in _merged(loop).items():
            out.replace(result, atom)
        merged = loop.rebuilt()
        out.keep(merged, merged.inputs)
    return out.graph_now()


def _merged(loop: Loop) -> dict[Var, Atom]:
    """Merge duplicates in a loop; returns the substitutes for the results that are removed."""
    results: dict[Var, Atom] = {}
    still = [c for c in loop.carry if c.out is c.inner[0]]
    loop.consts += [Const(c.inner, c.init) for c in still]
    loop.carry = [c for c in loop.carry if c.out is not c.inner[0]]
    results.update((c.result, c.init) for c in still)

    body: dict[Atom, Atom] = {}
    cond: dict[Atom, Atom] = {}
    consts: dict[Atom, Const] = {}
    for const in loop.consts:
        first = consts.setdefault(const.outer, const)
        if first is not const:
            body[const.inner[0]] = first.inner[0]
            cond.update(zip(const.inner[1:], first.inner[1:], strict=True))
    loop.consts = list(consts.values())
    rows: dict[Atom, Row] = {}
    for row in loop.rows:
        first_row = rows.setdefault(row.outer, row)
        if first_row is not row:
            body[row.inner] = first_row.inner
    loop.rows = list(rows.values())
    loop.substitute(body, cond)

    stacked: dict[Atom, Stacked] = {}
    for one in loop.stacked:
        first_stacked = stacked.setdefault(one.out, one)
        if first_stacked is not one:
            results[one.result] = first_stacked.result
    loop.stacked = list(stacked.values())
    return results


# -- constants -------------------------------------------------------------------------------------


def propagate_into_loops(graph: Graph) -> Graph:
    """Propagate constants into loops and branches: numbers, filled and short integer arrays.

    Expects any graph.
    Leaves no loop with an operand that is a known number, none whose elementwise equations read an
    operand that is filled with one, and no loop or branch with a short array of known integers.
    """
    makers = {eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.primitive is known_integers}
    producers: dict[Atom, Eqn] = {eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.outputs}
    eqns = []
    for eqn in graph.eqns:
        if is_loop(eqn):
            if any(isinstance(x, Literal) for x in eqn.inputs):
                eqn = _loop_with_numbers(Loop(eqn))
            if any(everywhere(x, producers) is not None for x in eqn.inputs):
                eqn = _loop_with_filled(Loop(eqn), producers)
        if not makers.keys().isdisjoint(eqn.inputs):
            if is_loop(eqn):
                eqn = _loop_with(Loop(eqn), makers)
            elif eqn.primitive is cond_p:
                eqn = _cond_with(eqn, makers)
        eqns.append(eqn)
    return Graph(graph.inputs, eqns, graph.outputs)


def _inside(maker: Eqn, var: Var) -> Eqn:
    """The equation of a constant, defining its variable in an inner graph."""
    return maker.but(inputs=(), outputs=(var,))


def _loop_with_numbers(loop: Loop) -> Eqn:
    known = [const for const in loop.consts if isinstance(const.outer, Literal)]
    loop.consts = [const for const in loop.consts if not isinstance(const.outer, Literal)]
    body: dict[Atom, Atom] = {const.inner[0]: const.outer for const in known}
    cond: dict[Atom, Atom] = {x: const.outer for const in known for x in const.inner[1:]}
    loop.substitute(body, cond)
    return loop.rebuilt()


def _loop_with_filled(loop: Loop, producers: Mapping[Atom, Eqn]) -> Eqn:
    """Elementwise equations fill their operands themselves, and read numbers after folding."""
    filled: dict[Atom, Atom] = {}
    for const in loop.consts:
        (var, *_), value = const.inner, everywhere(const.outer, producers)
        if value is not None:
            own = filled[var] = Var(var.aval)
            params = {"shape": own.aval.shape, "value": value, "dtype": own.aval.dtype}
            loop.body.insert(0, Eqn(full_p, (), (own,), params, loop.eqn.source))
    loop.body = [
        eqn.but(inputs=[filled.get(x, x) for x in eqn.inputs]) if eqn.primitive.elementwise else eqn
        for eqn in loop.body
    ]
    read = {x for eqn in loop.body for x in eqn.inputs} | set(loop.results)
    if loop.cond is not None:
        read |= {x for eqn in loop.cond.eqns for x in eqn.inputs} | set(loop.cond.outputs)
    loop.consts = [
        c for c in loop.consts if c.inner[0] not in filled or not read.isdisjoint(c.inner)
    ]
    loop.prune()
    return loop.rebuilt()


def _loop_with(loop: Loop, makers: Mapping[Any, Eqn]) -> Eqn:
    known = [const for const in loop.consts if const.outer in makers]
    loop.consts = [const for const in loop.consts if const.outer not in makers]
    loop.body = [*(_inside(makers[const.outer], const.inner[0]) for const in known), *loop.body]
    if loop.cond is not None:
        own = [_inside(makers[const.outer], const.inner[1]) for const in known]
        loop.cond = Graph((), [*own, *loop.cond.eqns], loop.cond.outputs)
    return loop.rebuilt()


def _cond_with(eqn: Eqn, makers: Mapping[Any, Eqn]) -> Eqn:
    index, *operands = eqn.inputs
    left = [i for i, x in enumerate(operands) if x not in makers]
    branches = []
    for each in eqn.params["branches"]:
        own = [
            _inside(makers[x], var)
            for var, x in zip(each.inputs, operands, strict=True)
            if x in makers
        ]
        branches.append(Graph([each.inputs[i] for i in left], [*own, *each.eqns], each.outputs))
    return eqn.but(
        inputs=[index, *(operands[i] for i in left)],
        params={**eqn.params, "branches": tuple(branches)},
    )


# -- dead code -------------------------------------------------------------------------------------


def prune_in_loops(graph: Graph) -> Graph:
    """Eliminate dead code in loops and branches, together with their unused results.

    Expects loops without duplicates, since one of two equal results may be used and the other not.
    Leaves loops and branches whose results are all used, and the equations that these need.
    """
    if not any(is_loop(eqn) or eqn.primitive is cond_p for eqn in graph.eqns):
        return graph
    read: set[Atom] = set(graph.outputs)
    kept = []
    for eqn in reversed(graph.eqns):
        if read.isdisjoint(eqn.outputs):
            continue
        if is_loop(eqn):
            eqn = pruned_loop(Loop(eqn), read)
        elif eqn.primitive is cond_p:
            eqn = _pruned_cond(eqn, read)
        kept.append(eqn)
        read.update(eqn.inputs)
    return Graph(graph.inputs, kept[::-1], graph.outputs)


def pruned_loop(loop: Loop, read: set[Atom]) -> Eqn:
    """A loop without what the results that are read do not need."""
    loop.stacked = [s for s in loop.stacked if s.result in read]
    decides = set() if loop.cond is None else _needed(loop.cond.eqns, loop.cond.outputs)[1]
    alive = [c for c in loop.carry if c.result in read or not decides.isdisjoint(c.inner)]
    while True:
        eqns, inside = _needed(loop.body, [*(c.out for c in alive), *(s.out for s in loop.stacked)])
        grown = [c for c in loop.carry if c in alive or c.inner[0] in inside]
        if len(grown) == len(alive):
            break
        alive = grown
    loop.carry = alive
    loop.body = eqns
    inside |= decides
    loop.consts = [c for c in loop.consts if not inside.isdisjoint(c.inner)]
    loop.rows = [row for row in loop.rows if row.inner in inside]
    return loop.rebuilt()


def _needed(eqns: Sequence[Eqn], outputs: Iterable[Atom]) -> tuple[list[Eqn], set[Any]]:
    """The equations that outputs need, and all atoms that these equations refer to."""
    read: set[Any] = set(outputs)
    kept = []
    for eqn in reversed(eqns):
        if not read.isdisjoint(eqn.outputs):
            kept.append(eqn)
            read.update(eqn.inputs)
    return kept[::-1], read


def _pruned_cond(eqn: Eqn, read: set[Atom]) -> Eqn:
    branches: tuple[Graph, ...] = eqn.params["branches"]
    results = [i for i, var in enumerate(eqn.outputs) if var in read]
    alive = [_needed(g.eqns, [g.outputs[i] for i in results]) for g in branches]
    operands = [
        i
        for i in range(len(branches[0].inputs))
        if any(g.inputs[i] in inside for g, (_, inside) in zip(branches, alive, strict=True))
    ]
    slim = tuple(
        Graph([g.inputs[i] for i in operands], eqns, [g.outputs[i] for i in results])
        for g, (eqns, _) in zip(branches, alive, strict=True)
    )
    index, *values = eqn.inputs
    return eqn.but(
        inputs=[index, *(values[i] for i in operands)],
        outputs=[eqn.outputs[i] for i in results],
        params={**eqn.params, "branches": slim},
    )

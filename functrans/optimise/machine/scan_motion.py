"""What a scan need not do step by step.

A contraction of what comes in with constants (the input's part of a recurrent network), or an
equation of linear algebra, is done for all steps at once before the loop; a carry that only adds up
contractions (the gradient of a weight) becomes one contraction over all steps after it. A few large
calls of BLAS, which threads share, take the place of many small ones. A carry that only adds up
what is scattered (the gradient of an embedding) is scattered into after the loop: a step then
touches no more than what it adds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, inlined, prune
from functrans.ir.primitive import registry
from functrans.ir.types import Aval
from functrans.ops.linalg.compiled.blas import sides

CONTRACTION = "dot_general"

from functrans.ops.linalg.factorisations import MATRICES
from functrans.transform.batch import batch_graph

SCAN = "scan"

SCATTER = "scatter_add"

SCATTERS = (SCATTER, "add_at")
"""The second adds one row; the rows of all steps are scattered."""

LEAST_WORK = 512
"""Multiplications of a step that are worth taking out of the loop."""

LARGEST_STACK = 1 << 28
"""Bytes of one array that holds what was made in all steps."""


@dataclass
class Parts:
    """A scan's equation, taken apart."""

    eqn: Eqn
    consts: list[Atom]
    init: list[Atom]
    xs: list[Atom]
    body: Graph

    @classmethod
    def of(cls, eqn: Eqn) -> Parts:
        first, second = eqn.params["n_consts"], eqn.params["n_consts"] + eqn.params["n_carry"]
        atoms = list(eqn.inputs)
        return cls(eqn, atoms[:first], atoms[first:second], atoms[second:], eqn.params["body"])

    @property
    def length(self) -> int:
        length: int = self.eqn.params["length"]
        return length

    def body_inputs(self) -> tuple[list[Var], list[Var], list[Var]]:
        inputs = list(self.body.inputs)
        first, second = len(self.consts), len(self.consts) + len(self.init)
        return inputs[:first], inputs[first:second], inputs[second:]

    def rebuilt(self, body: Graph, outputs: Sequence[Var]) -> Eqn:
        """The equation with another body, for the operands as they are now."""
        params = {
            **self.eqn.params,
            "body": prune(body),
            "n_consts": len(self.consts),
            "n_carry": len(self.init),
        }
        operands = [*self.consts, *self.init, *self.xs]
        return Eqn(self.eqn.primitive, operands, outputs, params, self.eqn.source)


def lighten(graph: Graph) -> Graph:
    """Take out of the scans of a graph what can be done at once."""
    if not any(eqn.primitive.name == SCAN for eqn in graph.eqns):
        return graph
    eqns: list[Eqn] = []
    atoms: dict[Atom, Atom] = {}
    for eqn in graph.eqns:
        operands = [atoms.get(x, x) for x in eqn.inputs]
        eqn = Eqn(eqn.primitive, operands, eqn.outputs, eqn.params, eqn.source)
        if eqn.primitive.name == SCAN and eqn.params["length"] > 1:
            before, eqn = _hoisted(eqn)
            eqn, after, results = _sunk(eqn)
            eqns += [*before, eqn, *after]
            atoms.update(results)
        else:
            eqns.append(eqn)
    return Graph(graph.inputs, eqns, [atoms.get(x, x) for x in graph.outputs])


def _worth(eqn: Eqn) -> bool:
    """Whether an equation is a contraction of some size."""
    if eqn.primitive.name != CONTRACTION or eqn.outputs[0].aval.dtype.kind != "f":
        return False
    free = sides(eqn)[1].free
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return prod(x) * prod(y[i] for i in free) >= LEAST_WORK


# -- before the loop -------------------------------------------------------------------------------


def _hoisted(eqn: Eqn) -> tuple[list[Eqn], Eqn]:
    """Equations for all steps at once, and the scan without them."""
    parts = Parts.of(eqn)
    consts, carry, xs = parts.body_inputs()
    free: set[Atom] = {*consts, *xs}
    stacked: set[Atom] = set(xs)
    wanted: list[Var] = []
    for inner in parts.body.eqns:
        operands = [x for x in inner.inputs if isinstance(x, Var)]
        if not operands or not free.issuperset(operands) or inner.primitive.batch is None:
            continue
        free.update(inner.outputs)
        if not stacked.isdisjoint(operands):
            stacked.update(inner.outputs)
        if (_worth(inner) or inner.primitive in MATRICES) and _fits(
            inner.outputs[0].aval, parts.length
        ):
            wanted += inner.outputs
    if not wanted:
        return [], eqn
    once = prune(Graph([*consts, *xs], parts.body.eqns, wanted))
    axes = (None,) * len(consts) + (0,) * len(xs)
    places = tuple(0 if var in stacked else None for var in wanted)
    batched, _ = batch_graph(once, axes, parts.length, places)
    before, results = inlined(batched, [*parts.consts, *parts.xs], eqn.source)
    new_consts = [var for var in wanted if var not in stacked]
    new_xs = [var for var in wanted if var in stacked]
    made = dict(zip(wanted, results, strict=True))
    parts.consts += [made[var] for var in new_consts]
    parts.xs += [made[var] for var in new_xs]
    rest = [inner for inner in parts.body.eqns if inner.outputs[0] not in made]
    body = Graph([*consts, *new_consts, *carry, *xs, *new_xs], rest, parts.body.outputs)
    return before, parts.rebuilt(body, eqn.outputs)


def _fits(aval: Aval, length: int) -> bool:
    return aval.size * aval.dtype.itemsize * length <= LARGEST_STACK


# -- after the loop --------------------------------------------------------------------------------


@dataclass
class Sum:
    """A carry that adds up a contraction or a sum of each step, or what it scatters.

    Parameters
    ----------
    number : int
        Which carry.
    reduction : Eqn
        The contraction, the ``reduce_sum`` or the ``scatter_add``.
    turned : list of Eqn
        The transposes between that and the addition.
    """

    number: int
    reduction: Eqn
    turned: list[Eqn]


def _sunk(eqn: Eqn) -> tuple[Eqn, list[Eqn], dict[Atom, Atom]]:
    """The scan without sums, the equations that make them, and what stands for its results."""
    parts = Parts.of(eqn)
    consts, carry, xs = parts.body_inputs()
    late = _late(parts)
    sums = _sums(parts, [x for maker in late.values() for x in maker.inputs])
    if not sums and not late:
        return eqn, [], {}
    n_carry = len(carry)
    carry_out, ys_out = list(parts.body.outputs[:n_carry]), list(parts.body.outputs[n_carry:])
    ys = list(eqn.outputs[n_carry:])
    stacks: dict[Atom, Atom] = dict(zip(xs, parts.xs, strict=True))
    stacks.update(zip(ys_out, ys, strict=True))
    after: list[Eqn] = []
    results: dict[Atom, Atom] = {}
    outer: dict[Atom, Atom] = dict(zip(consts, parts.consts, strict=True))
    wanted = [x for maker in late.values() for x in maker.inputs]
    wanted += [x for each in sums for x in _stacked_operands(each) if isinstance(x, Var)]
    for operand in wanted:
        if operand not in stacks and operand not in outer:
            shape = (parts.length, *operand.aval.shape)
            stack = Var(operand.aval.update(shape=shape))
            stacks[operand] = stack
            ys_out.append(operand)
            ys.append(stack)
    for number, maker in late.items():
        once = Graph([x for x in maker.inputs if isinstance(x, Var)], [maker], maker.outputs)
        axes = tuple(None if x in outer else 0 for x in maker.inputs)
        batched, _ = batch_graph(once, axes, parts.length, (0,))
        operands = [outer[x] if x in outer else stacks[x] for x in maker.inputs]
        made, (results[eqn.outputs[n_carry + number]],) = inlined(batched, operands, eqn.source)
        after += made
    for number in sorted(late, reverse=True):
        del ys_out[number], ys[number]
    at_hand = {**outer, **stacks}
    for each in sums:
        operands = [at_hand.get(x, x) for x in _stacked_operands(each)]
        result = eqn.outputs[each.number]
        results[result] = _added(each, parts.init[each.number], operands, after)
    gone = {each.number for each in sums}
    kept = [i for i in range(n_carry) if i not in gone]
    parts.init = [parts.init[i] for i in kept]
    body = Graph(
        [*consts, *(carry[i] for i in kept), *xs],
        parts.body.eqns,
        [*(carry_out[i] for i in kept), *ys_out],
    )
    outputs = [*(eqn.outputs[i] for i in kept), *ys]
    return parts.rebuilt(body, outputs), after, results


def _late(parts: Parts) -> dict[int, Eqn]:
    """Contractions that only make a row of ys, by its number."""
    makers = {var: eqn for eqn in parts.body.eqns for var in eqn.outputs}
    atoms = [*(x for eqn in parts.body.eqns for x in eqn.inputs), *parts.body.outputs]
    found: dict[int, Eqn] = {}
    for number, out in enumerate(parts.body.outputs[len(parts.init) :]):
        maker = makers.get(out) if isinstance(out, Var) else None
        if maker is None or atoms.count(out) != 1 or not _worth(maker):
            continue
        if all(isinstance(x, Var) and _fits(x.aval, parts.length) for x in maker.inputs):
            found[number] = maker
    return found


def _sums(parts: Parts, stacked: Sequence[Atom]) -> list[Sum]:
    """The carries that only add up, of which taking them out of the loop is worth it.

    ``stacked`` are values that will be there for all steps in any case.
    """
    consts, carry, xs = parts.body_inputs()
    makers = {var: eqn for eqn in parts.body.eqns for var in eqn.outputs}
    uses: dict[Atom, int] = {}
    for atom in (*(x for eqn in parts.body.eqns for x in eqn.inputs), *parts.body.outputs):
        uses[atom] = uses.get(atom, 0) + 1
    invariant: set[Atom] = set(consts)
    found: list[Sum] = []
    for number, own in enumerate(carry):
        out = parts.body.outputs[number]
        last = makers.get(out) if isinstance(out, Var) else None
        if last is None or last.primitive.name != "add" or uses.get(own) != 1:
            continue
        if own not in last.inputs or uses[out] != 1:
            continue
        (value,) = (x for x in last.inputs if x is not own)
        turned: list[Eqn] = []
        maker = makers.get(value) if isinstance(value, Var) else None
        while maker is not None and maker.primitive.name == "transpose" and uses[value] == 1:
            turned.insert(0, maker)
            value = maker.inputs[0]
            maker = makers.get(value) if isinstance(value, Var) else None
        if maker is None or uses[value] != 1 or value.aval.size != own.aval.size:
            continue
        if maker.primitive.name in SCATTERS:
            if not turned and _moves_with_the_steps(maker, makers, invariant):
                found.append(Sum(number, maker, turned))
        elif not any(isinstance(x, Literal) or x in invariant for x in maker.inputs):
            found.append(Sum(number, maker, turned))
    chosen = [each for each in found if _chosen(each) and _stackable(each, parts)]
    at_hand = {*xs, *parts.body.outputs[len(carry) :], *stacked}
    at_hand.update(x for each in chosen for x in each.reduction.inputs)
    for each in found:
        # what is stacked in any case may as well be summed there
        if each.reduction.primitive.name == "reduce_sum" and (chosen or stacked):
            if each.reduction.inputs[0] in at_hand:
                chosen.append(each)
    return chosen


def _chosen(each: Sum) -> bool:
    if each.reduction.primitive.name in SCATTERS:
        whole, given = (x.aval.size for x in each.reduction.inputs[:2])
        return whole >= LEAST_WORK and whole >= 2 * given
    return _worth(each.reduction)


def _moves_with_the_steps(
    scatter: Eqn, makers: Mapping[Var, Eqn], invariant: Container[Atom]
) -> bool:
    """Whether a scatter into zeros has values, and an index, of each step's own."""
    zeros, given, *indices = scatter.inputs
    maker = makers.get(zeros) if isinstance(zeros, Var) else None
    if maker is None or maker.primitive.name != "full" or maker.params["value"] != 0:
        return False
    own = [isinstance(x, Var) and x not in invariant for x in (given, *indices)]
    return own[0] and any(own[1:])


def _stacked_operands(each: Sum) -> Sequence[Atom]:
    """What a sum needs of all steps."""
    operands = each.reduction.inputs
    return operands[1:] if each.reduction.primitive.name in SCATTERS else operands


def _stackable(each: Sum, parts: Parts) -> bool:
    return all(_fits(x.aval, parts.length) for x in _stacked_operands(each))


def _added(each: Sum, init: Atom, operands: Sequence[Atom], after: list[Eqn]) -> Var:
    """The equations that add what all steps give to the first carry."""
    eqn = each.reduction
    out = Var(init.aval)
    if eqn.primitive.name in SCATTERS:
        params = {**eqn.params, "unique": False}
        after.append(Eqn(registry[SCATTER], (init, *operands), (out,), params, eqn.source))
    else:
        total = _total(each, operands, after)
        after.append(Eqn(registry["add"], (init, total), (out,), {}, eqn.source))
    return out


def _total(each: Sum, stacks: Sequence[Atom], after: list[Eqn]) -> Var:
    """The equations that add up over all steps."""
    eqn = each.reduction
    if eqn.primitive.name == "reduce_sum":
        params = {"axes": (0, *(axis + 1 for axis in eqn.params["axes"]))}
    else:
        contract, batch = (
            tuple(tuple(axis + 1 for axis in axes) for axes in eqn.params[name])
            for name in ("contract", "batch")
        )
        params = {"contract": tuple((0, *axes) for axes in contract), "batch": batch}
    out = Var(eqn.outputs[0].aval)
    after.append(Eqn(eqn.primitive, stacks, (out,), params, eqn.source))
    for turn in each.turned:
        turned = Var(turn.outputs[0].aval)
        after.append(Eqn(turn.primitive, (out,), (turned,), turn.params, turn.source))
        out = turned
    return out

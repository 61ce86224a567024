"""Loop-invariant code motion and loop distribution for scans.

Moved before the loop, and computed for all steps at once, are contractions of scanned operands with
constants (the input's part of a recurrent network), and equations of linear algebra that do not
depend on the carry. (If threads share the rows of a batch for all steps, the input's part stays in
the loop, and its matrix is packed: `functrans.optimise.machine.invariant_packing`.) Moved after the
loop are contractions that only compute results, and sums over the steps. A carry that only
accumulates contractions (the gradient of a weight) becomes one contraction over all steps; one that
only accumulates scatters (the gradient of an embedding, or of a table's columns) becomes one
scatter of all steps for each of them.

A few large products, which threads share, replace many small ones, and a step accesses only the
rows of a table that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from math import prod

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, inlined, prune
from functrans.loop.target import Target
from functrans.ops.arrays.known import known_integers
from functrans.ops.arrays.slicing import embed_p
from functrans.ops.arrays.structural import full_p, is_zeros, reduce_sum, transpose_p
from functrans.ops.elementwise.arithmetic import add
from functrans.ops.indexing.gather import scatter_add
from functrans.ops.linalg.compiled.blas import sides
from functrans.ops.linalg.contraction import dot_general
from functrans.ops.linalg.factorisations import MATRICES
from functrans.optimise.loops import Carry, Const, Loop, Row, Stacked, is_long_scan
from functrans.optimise.machine.invariant_packing import reads_panels, rows_stay_apart
from functrans.optimise.rewrite import Rewriter
from functrans.records import NamedTuple
from functrans.transform.batch import batch_graph


class Motion(NamedTuple):
    """Thresholds of motion out of loops. Not measured."""

    least_work: int = 512
    """The fewest multiplications of a step for which motion is profitable."""
    most_addends: int = 1
    """The largest number of terms of a carry that are moved; for batches, more would mix the
    samples."""
    least_sum: int = 1 << 62
    """The fewest elements that a step sums for which the sum is moved after the loop."""
    largest_stack: int = 1 << 28
    """The largest size in bytes of an array that stacks the values of all steps."""
    most_scatters: int = 8
    """The same if all of them are scatters."""
    least_rows: int = 16
    """The least ratio of all elements to those that a step scatters, if there are fewer than
    `least_work`. Measured (tables of 4 to 2000 numbers and rows, one loop and a batch)."""


MOVES = (transpose_p, embed_p)
"""Between a reduction and the addition to a carry."""


def move_out_of_scans(graph: Graph, target: Target) -> Graph:
    """Move loop-invariant code out of scans, and batch other work over all steps.

    Expects the final set of scans.
    Leaves scans without contractions that could be computed outside, for all steps at once.
    """
    out = Rewriter(graph)
    for eqn in out.keep_others(is_long_scan):
        before, eqn = _hoisted(eqn, target)
        eqn, after, results = _sunk(eqn, target[Motion])
        out.eqns += [*before, eqn, *after]
        for old, new in results.items():
            out.replace(old, new)
    return out.graph_now()


def _is_much(eqn: Eqn, limits: Motion) -> bool:
    """Whether an equation is a contraction that is large enough."""
    if eqn.primitive is not dot_general or eqn.outputs[0].aval.dtype.kind != "f":
        return False
    free = sides(eqn)[1].free
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return prod(x) * prod(y[i] for i in free) >= limits.least_work


def can_be_stacked(atoms: Sequence[Atom], loop: Loop, limits: Motion) -> bool:
    """Whether there is enough memory for the stacked values of all steps."""
    return all(
        x.aval.size * x.aval.dtype.itemsize * loop.length <= limits.largest_stack for x in atoms
    )


# -- before the loop -------------------------------------------------------------------------------


def _hoisted(eqn: Eqn, target: Target) -> tuple[list[Eqn], Eqn]:
    """Equations for all steps at once, and the scan without them."""
    loop, limits = Loop(eqn), target[Motion]
    consts, xs = [c.inner[0] for c in loop.consts], [row.inner for row in loop.rows]
    free: set[Atom] = {*consts, *xs}
    stacked: set[Atom] = set(xs)
    wanted: list[Var] = []
    apart = rows_stay_apart(loop)
    for inner in loop.body:
        operands = [x for x in inner.inputs if isinstance(x, Var)]
        if not operands or not free.issuperset(operands) or inner.primitive.batch is None:
            continue
        free.update(inner.outputs)
        if not stacked.isdisjoint(operands):
            stacked.update(inner.outputs)
        if apart and reads_panels(inner, consts, target):
            continue  # values for all steps are written to memory and read again
        if _is_much(inner, limits) or inner.primitive in MATRICES:
            if can_be_stacked(inner.outputs[:1], loop, limits):
                wanted += inner.outputs
    if not wanted:
        return [], eqn
    once = prune(Graph([*consts, *xs], loop.body, wanted))
    axes = (None,) * len(consts) + (0,) * len(xs)
    out_axes = tuple(0 if var in stacked else None for var in wanted)
    batched, _ = batch_graph(once, axes, eqn.params["length"], out_axes)
    operands_now = [*(c.outer for c in loop.consts), *(row.outer for row in loop.rows)]
    before, results = inlined(batched, operands_now, eqn.source)
    for var, result in zip(wanted, results, strict=True):
        if var in stacked:
            loop.rows.append(Row(var, result))
        else:
            loop.consts.append(Const((var,), result))
    made = set(wanted)
    loop.body = [inner for inner in loop.body if inner.outputs[0] not in made]
    loop.prune()
    return before, loop.rebuilt()


# -- after the loop --------------------------------------------------------------------------------


class Term(NamedTuple):
    """A term of a carry: a contraction or a sum of each step, or a scatter."""

    reduction: Eqn  # the contraction, the ``reduce_sum`` or the ``scatter_add``
    turned: list[Eqn]  # the moves between the reduction and the addition

    @property
    def stacked(self) -> Sequence[Atom]:
        """The operands of the reduction that have to be stacked."""
        operands = self.reduction.inputs
        return operands[1:] if self.reduction.primitive is scatter_add else operands


class Sum(NamedTuple):
    """A carry that only accumulates."""

    carry: Carry
    terms: list[Term]

    @property
    def stacked(self) -> list[Atom]:
        """The values that have to be stacked."""
        return [x for term in self.terms for x in term.stacked]


def _sunk(eqn: Eqn, limits: Motion) -> tuple[Eqn, list[Eqn], dict[Var, Atom]]:
    """The scan without its sums, the equations for these, and substitutes for its results."""
    loop = Loop(eqn)
    late = _late(loop, limits)
    sums = _sums(loop, [x for maker in late.values() for x in maker.inputs], limits)
    if not sums and not late:
        return eqn, [], {}
    loop.stacked = [each for each in loop.stacked if each.result not in late]
    outer: dict[Atom, Atom] = {c.inner[0]: c.outer for c in loop.consts}
    stacks: dict[Atom, Atom] = {row.inner: row.outer for row in loop.rows}
    stacks.update((each.out, each.result) for each in loop.stacked)
    wanted = [x for maker in late.values() for x in maker.inputs]
    wanted += [x for each in sums for x in each.stacked if isinstance(x, Var)]
    for operand in wanted:
        if operand not in stacks and operand not in outer:
            stacks[operand] = stack = loop.stack_of(operand)
            loop.stacked.append(Stacked(operand, stack))
    after: list[Eqn] = []
    results: dict[Var, Atom] = {}
    for result, maker in late.items():
        once = Graph([x for x in maker.inputs if isinstance(x, Var)], [maker], maker.outputs)
        axes = tuple(None if x in outer else 0 for x in maker.inputs)
        batched, _ = batch_graph(once, axes, loop.length, (0,))
        operands = [outer[x] if x in outer else stacks[x] for x in maker.inputs]
        made, (results[result],) = inlined(batched, operands, eqn.source)
        after += made
    at_hand = {**outer, **stacks}
    for each in sums:
        results[each.carry.result] = _added(each, at_hand, after)
    loop.carry = [c for c in loop.carry if c.result not in results]
    loop.prune()
    return loop.rebuilt(), after, results


def _late(loop: Loop, limits: Motion) -> dict[Var, Eqn]:
    """The contractions that only compute stacked results, by these results."""
    makers: dict[Atom, Eqn] = {var: eqn for eqn in loop.body for var in eqn.outputs}
    uses = _uses(loop)
    found: dict[Var, Eqn] = {}
    for each in loop.stacked:
        maker = makers.get(each.out)
        if maker is None or uses[each.out] != 1 or not _is_much(maker, limits):
            continue
        if all(isinstance(x, Var) for x in maker.inputs):
            if can_be_stacked(maker.inputs, loop, limits):
                found[each.result] = maker
    return found


def _uses(loop: Loop) -> Counter[Atom]:
    """The number of uses of each value of a body."""
    uses = Counter(x for eqn in loop.body for x in eqn.inputs)
    uses.update(loop.results)
    return uses


def _sums(loop: Loop, stacked: Sequence[Atom], limits: Motion) -> list[Sum]:
    """The carries that only accumulate and are profitable to move out of the loop.

    ``stacked`` are values that are stacked in any case.
    """
    found = _accumulations(loop, limits)
    chosen = [
        each
        for each in found
        if any(_is_much_to_add(term.reduction, limits) for term in each.terms)
        and can_be_stacked(each.stacked, loop, limits)
    ]
    at_hand = {*(row.inner for row in loop.rows), *(each.out for each in loop.stacked), *stacked}
    at_hand.update(x for each in chosen for term in each.terms for x in term.reduction.inputs)
    if chosen or stacked:
        # values that are stacked in any case can be summed after the loop, too
        known = {each.carry.result for each in chosen}
        left = [each for each in found if each.carry.result not in known]
        chosen += [x for x in left if all(_is_at_hand(term, at_hand) for term in x.terms)]
    return chosen


def _accumulations(loop: Loop, limits: Motion) -> list[Sum]:
    """The carries to which each step only adds terms that may be moved out of the loop."""
    makers: dict[Atom, Eqn] = {var: eqn for eqn in loop.body for var in eqn.outputs}
    uses = _uses(loop)
    invariant: set[Atom] = {c.inner[0] for c in loop.consts}
    invariant.update(v for v, eqn in makers.items() if eqn.primitive is known_integers)
    most = max(limits.most_addends, limits.most_scatters)
    found: list[Sum] = []
    for carry in loop.carry:
        value = _addend(carry, makers, uses)
        terms = [] if value is None else _terms(value, makers, uses, most)
        are_few = len(terms) <= limits.most_addends or all(
            term.reduction.primitive is scatter_add for term in terms
        )
        own = carry.inner[0]
        if terms and are_few and all(_may_be_moved(term, own, makers, invariant) for term in terms):
            found.append(Sum(carry, terms))
    return found


def _addend(carry: Carry, makers: Mapping[Atom, Eqn], uses: Mapping[Atom, int]) -> Atom | None:
    """The term that a step adds to a carry; None if the carry is used otherwise, too."""
    (own,), out = carry.inner, carry.out
    last = makers.get(out)
    if last is None or last.primitive is not add or own not in last.inputs:
        return None
    if uses[own] != 1 or uses[out] != 1:
        return None
    (value,) = (x for x in last.inputs if x is not own)
    return value


def _terms(
    value: Atom, makers: Mapping[Atom, Eqn], uses: Mapping[Atom, int], most: int
) -> list[Term]:
    """The terms of a value that is used once; none if there are more than ``most``."""
    turned: list[Eqn] = []
    maker = makers.get(value)
    while maker is not None and maker.primitive in MOVES and uses[value] == 1:
        turned.insert(0, maker)
        value = maker.inputs[0]
        maker = makers.get(value)
    if maker is None or uses[value] != 1:
        return []
    if maker.primitive is not add or most == 1:
        return [Term(maker, turned)]
    parts = [_terms(x, makers, uses, most - 1) for x in maker.inputs]
    terms = [Term(each.reduction, [*each.turned, *turned]) for part in parts for each in part]
    return terms if all(parts) and len(terms) <= most else []


def _may_be_moved(
    term: Term, own: Var, makers: Mapping[Atom, Eqn], invariant: Container[Atom]
) -> bool:
    """Whether a term is a sum or a scatter of values that change from step to step."""
    eqn = term.reduction
    if eqn.primitive is scatter_add:
        return _moves_with_the_steps(eqn, makers, invariant)
    if eqn.primitive not in (dot_general, reduce_sum):
        return False
    if eqn.outputs[0].aval.size != own.aval.size:
        return False
    return not any(isinstance(x, Literal) or x in invariant for x in eqn.inputs)


def _is_at_hand(term: Term, at_hand: Container[Atom]) -> bool:
    return term.reduction.primitive is reduce_sum and term.reduction.inputs[0] in at_hand


def _is_much_to_add(eqn: Eqn, limits: Motion) -> bool:
    if eqn.primitive is scatter_add:
        whole, given = (x.aval.size for x in eqn.inputs[:2])
        return whole >= max(2 * given, min(limits.least_work, limits.least_rows * given))
    if eqn.primitive is reduce_sum:
        return eqn.inputs[0].aval.size >= limits.least_sum
    return _is_much(eqn, limits)


def _moves_with_the_steps(
    scatter: Eqn, makers: Mapping[Atom, Eqn], invariant: Container[Atom]
) -> bool:
    """Whether a scatter into zeros has updates and an index that change from step to step."""
    zeros, given, *indices = scatter.inputs
    maker = makers.get(zeros)
    if not is_zeros(maker):
        return False
    own = [isinstance(x, Var) and x not in invariant for x in (given, *indices)]
    return own[0] and any(own[1:])


def _added(each: Sum, at_hand: Mapping[Atom, Atom], after: list[Eqn]) -> Atom:
    """Append equations that add the terms of all steps to the initial carry; returns the result."""
    out = each.carry.init
    for term in each.terms:
        eqn, before = term.reduction, out
        out = Var(before.aval)
        operands = [at_hand.get(x, x) for x in term.stacked]
        if eqn.primitive is scatter_add and not term.turned:
            params = {**eqn.params, "unique": False}
            after.append(Eqn(scatter_add, (before, *operands), (out,), params, eqn.source))
        else:
            total = _total(term, operands, after)
            after.append(Eqn(add, (before, total), (out,), {}, eqn.source))
    return out


def _total(term: Term, stacks: Sequence[Atom], after: list[Eqn]) -> Var:
    """Append equations that sum a term over all steps; returns the result."""
    eqn = term.reduction
    primitive = eqn.primitive
    if primitive is scatter_add:
        zeros = Var(eqn.outputs[0].aval)
        params = {"shape": zeros.aval.shape, "value": 0, "dtype": zeros.aval.dtype}
        after.append(Eqn(full_p, (), (zeros,), params, eqn.source))
        stacks = (zeros, *stacks)
        params = {**eqn.params, "unique": False}
    elif primitive is reduce_sum:
        params = {"axes": (0, *(axis + 1 for axis in eqn.params["axes"]))}
    else:
        contract, batch = (
            tuple(tuple(axis + 1 for axis in axes) for axes in eqn.params[name])
            for name in ("contract", "batch")
        )
        params = {"contract": tuple((0, *axes) for axes in contract), "batch": batch}
    out = Var(eqn.outputs[0].aval)
    after.append(Eqn(primitive, stacks, (out,), params, eqn.source))
    for turn in term.turned:
        turned = Var(turn.outputs[0].aval)
        after.append(turn.but(inputs=(out,), outputs=(turned,)))
        out = turned
    return out

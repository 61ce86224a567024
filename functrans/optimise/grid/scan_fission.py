"""Loop fission of scans: a recurrence that all samples of a batch share becomes its own loop.

The samples of a batch of recurrences can be processed in parallel if they do not interact. Often,
however, they share a recurrence: all Kalman filters of a batch with the same parameters have the
same covariance, which does not depend on the observations. In a single loop, each step has to wait
for the shared part. So the carry is partitioned into values with a batch axis and values without
one. If one of the two parts does not depend on the other, it is computed first, by a loop that
stacks the values that the other part reads. In reverse mode the order is reversed: the cotangents
of the samples come first, and are summed for the shared part.

The loop over the batch then becomes a single kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.loop.target import Target
from functrans.ops.control.scan import scan_p
from functrans.ops.elementwise.arithmetic import add
from functrans.ops.linalg.contraction import dot_general
from functrans.ops.linalg.factorisations import MATRICES
from functrans.optimise.loops import Carry, Loop, Row, Stacked, is_long_scan
from functrans.optimise.machine.scan_motion import Motion, can_be_stacked
from functrans.optimise.rewrite import Rewriter
from functrans.records import NamedTuple, dataclass


class Fission(NamedTuple):
    """Thresholds of scan fission. Not measured."""

    least_batch: int = 32  # the smallest batch for which the shared part is split off: one warp


def split_scans(graph: Graph, target: Target) -> Graph:
    """Split scans: the recurrence that the samples of a batch share gets a scan of its own.

    Expects scans with all that they do in their bodies.
    Leaves scans whose carries all have the axis of the batch, or none has.
    """
    if not any(eqn.primitive is scan_p for eqn in graph.eqns):
        return graph
    out = Rewriter(graph)
    for eqn in out.keep_others(is_long_scan):
        out.eqns += _split(eqn, target) or [eqn]
    return out.graph_now()


def _split(eqn: Eqn, target: Target) -> list[Eqn] | None:
    """The two scans of an equation; None if each part of its carry depends on the other."""
    loop = Loop(eqn)
    totals = [carry for carry in loop.carry if _adds_up(carry, loop)]
    others = [carry for carry in loop.carry if carry not in totals]
    for extent in _extents(others, target[Fission].least_batch):
        own = [carry for carry in others if extent in carry.init.aval.shape]
        shared = [carry for carry in others if extent not in carry.init.aval.shape]
        if not shared or not _is_much(loop, shared):
            continue
        for first, second, samples in ((shared, own, None), (own, shared, extent)):
            dependent = _dependent(loop, second)
            if any(carry.out in dependent for carry in first):
                continue
            early = [*first, *(total for total in totals if total.out not in dependent)]
            late = [carry for carry in loop.carry if carry not in early]
            parts = _Parts.of(loop, early, late, samples)
            if can_be_stacked(parts.handed_on, loop, target[Motion]):
                return parts.scans()
    return None


def _dependent(loop: Loop, carries: Iterable[Carry]) -> set[Atom]:
    """The values of a body that depend on the given carries."""
    found: set[Atom] = {carry.inner[0] for carry in carries}
    for eqn in loop.body:
        if not found.isdisjoint(eqn.inputs):
            found.update(eqn.outputs)
    return found


def _adds_up(carry: Carry, loop: Loop) -> bool:
    """Whether a carry is a running total that nothing in the loop reads."""
    (own,) = carry.inner
    users = [eqn for eqn in loop.body if own in eqn.inputs]
    return [(eqn.primitive, eqn.outputs[0]) for eqn in users] == [(add, carry.out)] and not any(
        x.out is own for x in loop.stacked
    )


def _extents(carries: Iterable[Carry], least: int) -> list[int]:
    """The extents that may be the batch size, largest first."""
    found = {extent for carry in carries for extent in carry.init.aval.shape}
    return sorted((extent for extent in found if extent >= least), reverse=True)


def _is_much(loop: Loop, carries: Iterable[Carry]) -> bool:
    """Whether computing these carries takes matrix products or factorisations.

    Cheaper carries, such as a counter or a random key, are computed by each sample in registers.
    """
    return any(
        eqn.primitive is dot_general or eqn.primitive in MATRICES
        for eqn in _made_for([carry.out for carry in carries], loop)
    )


def _made_for(values: Sequence[Atom], loop: Loop) -> Sequence[Eqn]:
    return prune(Graph((), loop.body, values)).eqns


@dataclass(frozen=True, eq=False)
class _Parts:
    """A partition of a loop's body: the first loop, and what depends on the second one's carry."""

    loop: Loop
    first: list[Carry]
    second: list[Carry]
    # the values that depend on the second part of the carry, or that are left to its loop
    later: set[Atom]
    handed_on: list[Var]  # the values of the first loop that the second one reads

    @classmethod
    def of(cls, loop: Loop, first: list[Carry], second: list[Carry], samples: int | None) -> _Parts:
        """The partition of a body.

        If the first part has ``samples`` samples, values that are computed from sums over them are
        left to the second loop.
        """
        later: set[Atom] = {carry.inner[0] for carry in second}
        earlier: set[Atom] = {carry.inner[0] for carry in first}
        made = _made_for([carry.out for carry in first], loop)
        carried = {x for eqn in made for x in eqn.outputs}
        for eqn in loop.body:
            is_left = samples is not None and carried.isdisjoint(eqn.outputs)
            is_left = is_left and not any(samples in x.aval.shape for x in eqn.inputs)
            depends = not earlier.isdisjoint(eqn.inputs)
            if not later.isdisjoint(eqn.inputs) or (depends and is_left):
                later.update(eqn.outputs)
            elif depends:
                earlier.update(eqn.outputs)
        needed = [x for eqn in loop.body if eqn.outputs[0] in later for x in eqn.inputs]
        needed += [carry.out for carry in second]
        handed_on = dict.fromkeys(x for x in needed if isinstance(x, Var) and x in earlier)
        return cls(loop, first, second, later, list(handed_on))

    def scans(self) -> list[Eqn]:
        """The two loops."""
        stacks = {x: self.loop.stack_of(x) for x in self.handed_on}
        before, after = Loop(self.loop.eqn), Loop(self.loop.eqn)
        before.carry = self.first
        before.stacked = [x for x in self.loop.stacked if x.out not in self.later]
        before.stacked += [Stacked(x, stack) for x, stack in stacks.items()]
        after.carry = self.second
        after.stacked = [x for x in self.loop.stacked if x.out in self.later]
        after.rows += [Row(x, stack) for x, stack in stacks.items()]
        after.body = [each for each in after.body if each.outputs[0] not in stacks]
        return [_with_what_it_needs(before), _with_what_it_needs(after)]


def _with_what_it_needs(loop: Loop) -> Eqn:
    """The equation of a loop, without unneeded equations and operands."""
    loop.prune()
    used: set[Atom] = {*loop.results, *(x for eqn in loop.body for x in eqn.inputs)}
    loop.consts = [const for const in loop.consts if const.inner[0] in used]
    loop.rows = [row for row in loop.rows if row.inner in used]
    return loop.rebuilt()

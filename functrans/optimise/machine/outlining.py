"""Outlining (procedural abstraction): repeated segments become calls of one inner graph.

Tracing unrolls loops: a program of a thousand equal steps is a thousand copies of a step, and
planning, printing and compiling them takes a thousand times as long. Repeated sequences of
equations of equal kinds are found like repeats in a text. Where their dataflow is equal, too, a few
steps (a segment) become one inner graph, which is compiled once and called for each segment.

Results of a segment go through memory. That is cheap if arrays are small, or if a segment does much
work. Elsewhere the graph remains as it is, because fusion across steps is more profitable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.primitive import LINEAR
from functrans.loop.target import Target
from functrans.ops.calls.call import step_p
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.emission import in_memory
from functrans.ops.elementwise.arithmetic import add, divide, multiply, subtract
from functrans.records import NamedTuple, dataclass


class Outlining(NamedTuple):
    """Repeated parts of a graph that become one inner graph, which is compiled once.

    Measured: all together (a hidden Markov model, a Kalman filter, both unrolled).
    """

    fewest: int = 4
    """The fewest repetitions for which a search is profitable."""
    least_code: int = 3000
    """The size of a graph, in nodes of scalar expressions, below which it compiles fast enough."""
    least_saved: int = 1000
    """The fewest nodes that outlining must save."""
    rounds: int = 3
    """The largest number of rounds of the search; each searches the result of the previous one."""
    most: float = 0.8
    """The share of saved code at which the search ends."""
    enough_code: int = 500
    """A segment of at least this many nodes is called at negligible cost."""
    enough_work: int = 4000
    """A segment of at least this many operations is called at negligible cost."""
    largest_array: int = 1024
    """The largest array, in elements, that remains in the first-level cache until it is read."""
    unrolled: int = 64
    """The largest number of elements for which code is unrolled, about."""
    code_of_a_call: int = 100
    """The code size, in nodes, of an equation that is computed from memory to memory."""
    code_of_a_function: int = 16
    """The code size, in nodes, of a function of many operations: if it is used often, it is
    called."""
    most_periods: int = 8
    """The largest number of different periods that are tried."""


WINDOWS = (2, 8, 32)
"""The lengths of the windows of kinds; the distances between equal windows give the periods."""

NUMBERS = frozenset({add, subtract, multiply, divide})
"""Operations that are as fast if a literal operand becomes a load."""

Member = tuple[Any, ...]

Users = dict[Atom, list[Eqn | None]]
"""The equations that use each value; None is for the caller."""


def outline(graph: Graph, target: Target) -> Graph:
    """Outline repeated segments: replace them by calls of one inner graph.

    Expects equations in their final form, all compiled, since their code sizes are estimated.
    Leaves calls of inner graphs instead of many equal segments.
    """
    limits = target[Outlining]
    costs = _Costs(target)
    # the best repeat that is found first may hide others
    for _ in range(limits.rounds):
        code = sum(map(costs.code, graph.eqns))
        if len(graph.eqns) < limits.fewest or code < limits.least_code:
            return graph
        before = graph
        for segments in _found(graph, costs, code):
            graph = segments.called(graph) or graph
        if graph is before:
            return graph
    return graph


def _found(graph: Graph, costs: _Costs, code: int) -> list[_Segments]:
    """Equal segments whose outlining is profitable."""
    users = _users(graph)
    best: list[_Segments] = []
    for eqns in (list(graph.eqns), _without_slices(graph, users)):
        found = [_alike(users, costs, steps) for steps in _repeats(eqns, costs)]
        found = [segments for segments in found if segments.worth(costs.limits.least_saved)]
        if _saved(found) > _saved(best):
            best = found
        if _saved(best) > costs.limits.most * code:
            break
    return best


def _saved(found: Sequence[_Segments]) -> int:
    return sum(segments.saved for segments in found)


def _alike(users: Users, costs: _Costs, steps: Sequence[Sequence[Eqn]]) -> _Segments:
    """The segments of a run, each of several steps; of fewer, if more segments are equal then."""
    limits = costs.limits
    middle = steps[len(steps) // 2]
    code, work = (sum(map(cost, middle)) for cost in (costs.code, costs.work))
    together = min(-(-limits.enough_code // max(code, 1)), -(-limits.enough_work // max(work, 1)))
    together = max(min(together, len(steps) // limits.fewest), 1)
    segments = _Segments(users, steps, together, code)
    while together > 1 and segments.saved < code * len(steps) // 2:
        together //= 2
        shorter = _Segments(users, steps, together, code)
        segments = max(segments, shorter, key=lambda each: each.saved)
    return segments


def _users(graph: Graph) -> Users:
    users: Users = {atom: [*readers] for atom, readers in graph.readers.items()}
    for atom in graph.outputs:
        users.setdefault(atom, []).append(None)
    return users


class _Costs:
    """Estimated costs of equations, computed once for each kind."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.limits = target[Outlining]
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[Eqn, int] = {}
        self._known: list[tuple[int, int, bool]] = []

    def kind(self, eqn: Eqn) -> int:
        """The number of an equation's kind, which does not depend on its operands."""
        kind = self._kinds.get(eqn)
        if kind is None:
            kind = self._kinds[eqn] = self._numbers.setdefault(_kind(eqn), len(self._known))
            if kind == len(self._known):
                self._known.append(_estimated(eqn, self.target))
        return kind

    def code(self, eqn: Eqn) -> int:
        """The estimated code size in nodes."""
        return self._known[self.kind(eqn)][0]

    def work(self, eqn: Eqn) -> int:
        """The estimated number of operations."""
        return self._known[self.kind(eqn)][1]

    def small(self, eqn: Eqn) -> bool:
        """Whether all its operands and results are small."""
        return self._known[self.kind(eqn)][2]


def _kind(eqn: Eqn) -> Hashable:
    """Equal for equations that differ only in their operands, or in the indices of slices."""
    params = () if _is_slice(eqn) else eqn.primitive.keyed(eqn.params)
    fixed = eqn.primitive not in NUMBERS
    operands = tuple(
        [
            (x.aval, x.key if fixed else None) if isinstance(x, Literal) else x.aval
            for x in eqn.inputs
        ]
    )
    return eqn.primitive, params, operands, tuple([var.aval for var in eqn.outputs])


def _is_slice(eqn: Eqn) -> bool:
    """Whether an equation reads or writes a slice, whose index may differ in each step."""
    return "index" in eqn.params and eqn.primitive.linear == LINEAR


def _estimated(eqn: Eqn, target: Target) -> tuple[int, int, bool]:
    limits = target[Outlining]
    elements = max(var.aval.size for var in eqn.outputs)
    small = all(x.aval.size <= limits.largest_array for x in (*eqn.inputs, *eqn.outputs))
    if eqn.primitive is step_p:
        return 0, 0, False
    if in_memory(eqn, target) or not eqn.primitive.by_elements:
        return limits.code_of_a_call, sum(x.aval.size for x in eqn.inputs), small
    own = pattern(eqn)
    work = own.cost * own.folds * elements
    code = min(own.cost, limits.code_of_a_function)
    if elements > limits.unrolled:
        return code, work, small
    return code * min(own.folds, limits.unrolled) * elements, work, small


def _without_slices(graph: Graph, users: Users) -> list[Eqn]:
    """The equations without those that only read or write slices of arrays that all steps share.

    Equal reads of different steps were merged by common subexpression elimination, so that they do
    not repeat.
    """
    apart: set[Eqn | None] = set()
    for eqn in graph.eqns:
        if _is_slice(eqn) or (
            eqn.primitive is add and any(graph.makers.get(x) in apart for x in eqn.inputs)
        ):
            apart.add(eqn)
    for eqn in reversed(graph.eqns):
        if eqn.primitive is add and apart.issuperset(users.get(eqn.outputs[0], (None,))):
            apart.add(eqn)
    return [eqn for eqn in graph.eqns if eqn not in apart]


# -- repeats in a sequence -------------------------------------------------------------------------


def _repeats(eqns: Sequence[Eqn], costs: _Costs) -> list[list[list[Eqn]]]:
    """Runs of repeated equations; for each run, its steps."""
    kinds = np.array(
        [costs.kind(eqn) if costs.small(eqn) else -1 - i for i, eqn in enumerate(eqns)]
    )
    code = np.cumsum([0, *map(costs.code, eqns)])
    free = np.ones(len(eqns), bool)
    found = []
    for _ in range(costs.limits.most_periods):
        best: tuple[int, list[tuple[int, int]]] = (0, [])
        most = 0
        for period in sorted(_periods(kinds, free)):
            saved = [
                (int(code[stop - period] - code[start]), (start, stop))
                for start, stop in _runs(kinds, free, period, costs.limits.fewest)
            ]
            worth = [(gain, run) for gain, run in saved if gain >= costs.limits.least_saved]
            total = sum(gain for gain, _ in worth)
            # a run that repeats with one period also repeats with its multiples
            if total > 1.05 * most:
                most, best = total, (period, [run for _, run in worth])
        period, runs = best
        if not runs:
            break
        for start, stop in runs:
            free[start:stop] = False
            first = start + _phase(eqns, start, stop, period)
            found.append(
                [list(eqns[i : i + period]) for i in range(first, stop - period + 1, period)]
            )
    return found


def _periods(kinds: np.ndarray[Any, Any], free: np.ndarray[Any, Any]) -> set[int]:
    """The most frequent distances between equal sequences of kinds."""
    found: set[int] = set()
    text = kinds.tolist()
    for window in WINDOWS:
        last: dict[Hashable, int] = {}
        distances: Counter[int] = Counter()
        for i in np.flatnonzero(free[: len(text) - window + 1]).tolist():
            key = tuple(text[i : i + window])
            if key in last:
                distances[i - last[key]] += 1
            last[key] = i
        found.update(distance for distance, _ in distances.most_common(4))
    return found


def _runs(
    kinds: np.ndarray[Any, Any], free: np.ndarray[Any, Any], period: int, fewest: int
) -> list[tuple[int, int]]:
    """The ranges in which a sequence repeats itself with a period, at least ``fewest`` times.

    Two ranges that overlap share less than a period, which stays with the first.
    """
    if len(kinds) < fewest * period:
        return []
    same = (kinds[period:] == kinds[:-period]) & free[period:] & free[:-period]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    found: list[tuple[int, int]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        begin = max(start, found[-1][1]) if found else start
        if stop - begin >= (fewest - 1) * period:
            found.append((begin, stop + period))
    return found


def _phase(eqns: Sequence[Eqn], start: int, stop: int, period: int) -> int:
    """The best start of a step: where the fewest elements are passed to the next step."""
    middle = start + (stop - start) // (2 * period) * period
    first, last = max(start, middle - 2 * period), min(stop, middle + 2 * period)
    made: dict[Atom, int] = {}
    until: dict[Atom, int] = {}
    for i in range(first, last):
        for atom in eqns[i].inputs:
            if atom in made:
                until[atom] = i
        made.update(dict.fromkeys(eqns[i].outputs, i))
    crossing = np.zeros(last - first + 1, np.int64)
    for atom, i in until.items():
        crossing[made[atom] + 1 - first] += atom.aval.size + 1
        crossing[i + 1 - first] -= atom.aval.size + 1
    at = np.cumsum(crossing)[middle - first : middle - first + period]
    return int(np.argmin(at))


# -- equal segments --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wiring:
    """The dataflow between the equations of a segment: equal for segments that compute the same."""

    # for each operand of each equation its source: the position of an equation inside and the index
    # of its result; the index of a variable from outside; or a literal
    operands: tuple[tuple[Member, ...], ...]
    outside: tuple[Atom, ...]  # the variables from outside, each once


class _Segments:
    """Candidate segments of a graph."""

    def __init__(
        self,
        users: Users,  # the equations that use each value
        steps: Sequence[Sequence[Eqn]],  # each a sequence of equations, of equal kinds
        together: int,  # the number of steps in a segment
        code: int,  # the nodes of a step
    ) -> None:
        self.users = users
        self.segments = [
            [eqn for step in steps[i : i + together] for eqn in step]
            for i in range(0, len(steps) - together + 1, together)
        ]
        self.code = code * together
        self._find_alike()

    def _find_alike(self) -> None:
        """Keep the segments with the most common dataflow, without equations that differ."""
        varying, apart = self._differences()
        self.apart = self._closed(apart)
        wirings = [self._wiring(segment, varying) for segment in self.segments]
        ((common, _),) = Counter(each.operands for each in wirings).most_common(1)
        chosen = [i for i, each in enumerate(wirings) if each.operands == common]
        self.varying = sorted(varying)
        self.segments = [self.segments[i] for i in chosen]
        self.wirings = [wirings[i] for i in chosen]
        self.results = self._results()

    def _inside(self, segment: Sequence[Eqn]) -> list[tuple[int, Eqn]]:
        return [(i, eqn) for i, eqn in enumerate(segment) if i not in self.apart]

    def _differences(self) -> tuple[set[tuple[int, int]], set[int]]:
        """The literal operands and the slice indices that differ between segments."""
        varying: set[tuple[int, int]] = set()
        apart: set[int] = set()
        first, *others = self.segments
        for i, eqn in enumerate(first):
            for number, x in enumerate(eqn.inputs):
                if isinstance(x, Literal):
                    for other in others:
                        same = other[i].inputs[number]
                        assert isinstance(same, Literal)
                        if same.key != x.key:
                            varying.add((i, number))
                            break
            if _is_slice(eqn):
                if any(other[i].params != eqn.params for other in others):
                    apart.add(i)
        return varying, apart

    def _closed(self, apart: set[int]) -> set[int]:
        """Equations left outside: slices, and those that would make a call depend on itself."""
        segment = self.segments[len(self.segments) // 2]
        apart = set(apart)
        made: dict[Atom, int] = {}
        follows: set[int] = set()
        for i, eqn in enumerate(segment):
            sources = [made[x] for x in eqn.inputs if x in made]
            if any(source in apart and source in follows for source in sources):
                apart.add(i)
            if sources:
                follows.add(i)
            made.update(dict.fromkeys(eqn.outputs, i))
        return apart

    def _wiring(self, segment: Sequence[Eqn], varying: set[tuple[int, int]]) -> _Wiring:
        made: dict[Atom, Member] = {}
        outside: dict[Atom, int] = {}
        operands = []
        for i, eqn in self._inside(segment):
            row: list[Member] = []
            for number, x in enumerate(eqn.inputs):
                if isinstance(x, Literal):
                    row.append(("varies",) if (i, number) in varying else ("literal", x.key))
                elif x in made:
                    row.append(made[x])
                else:
                    row.append(("outside", outside.setdefault(x, len(outside))))
            operands.append(tuple(row))
            made.update((var, ("inside", i, n)) for n, var in enumerate(eqn.outputs))
        return _Wiring(tuple(operands), tuple(outside))

    def _results(self) -> list[tuple[int, int]]:
        """The results of segments that are read outside of all segments."""
        found: dict[tuple[int, int], None] = {}
        for segment in self.segments:
            own: set[Eqn | None] = {eqn for _, eqn in self._inside(segment)}
            for i, eqn in self._inside(segment):
                for number, var in enumerate(eqn.outputs):
                    if not own.issuperset(self.users.get(var, ())):
                        found[i, number] = None
        return list(found)

    @property
    def saved(self) -> int:
        """The number of nodes that need not be compiled."""
        return self.code * (len(self.segments) - 1)

    def worth(self, least_saved: int) -> bool:
        """Whether outlining the segments is profitable."""
        return len(self.segments) > 1 and self.saved >= least_saved and bool(self.results)

    def called(self, graph: Graph) -> Graph | None:
        """The graph with calls in place of the segments; None if the calls depend on each other."""
        inner = self._inner()
        literals = [(i, number) for i, number in self.varying if i not in self.apart]
        calls: dict[Eqn, Eqn] = {}
        for segment, wiring in zip(self.segments, self.wirings, strict=True):
            operands = [*wiring.outside, *(segment[i].inputs[number] for i, number in literals)]
            outputs = [segment[i].outputs[number] for i, number in self.results]
            call = Eqn(step_p, operands, outputs, {"graph": inner}, segment[0].source)
            calls.update((eqn, call) for _, eqn in self._inside(segment))
        eqns = dict.fromkeys(calls.get(eqn, eqn) for eqn in graph.eqns)
        order = _in_order(list(eqns))
        return None if order is None else Graph(graph.inputs, order, graph.outputs)

    def _inner(self) -> Graph:
        """The inner graph, made from one of the segments."""
        segment, wiring = self.segments[0], self.wirings[0]
        atoms: dict[Atom, Atom] = {x: Var(x.aval) for x in wiring.outside}
        inputs = list(atoms.values())
        eqns: list[Eqn] = []
        numbers = set(self.varying)
        for i, eqn in self._inside(segment):
            operands = [atoms.get(x, x) for x in eqn.inputs]
            for number, x in enumerate(operands):
                if (i, number) in numbers:
                    operands[number] = Var(x.aval)
                    inputs.append(operands[number])
            outputs = [Var(var.aval) for var in eqn.outputs]
            atoms.update(zip(eqn.outputs, outputs, strict=True))
            eqns.append(eqn.but(inputs=operands, outputs=outputs))
        results = [atoms[segment[i].outputs[number]] for i, number in self.results]
        return Graph([x for x in inputs if isinstance(x, Var)], eqns, results)


def _in_order(eqns: Sequence[Eqn]) -> list[Eqn] | None:
    """A topological order close to the given one; None if there is a cycle."""
    made = {var: i for i, eqn in enumerate(eqns) for var in eqn.outputs}
    waiting = []
    readers: dict[int, list[int]] = {}
    for i, eqn in enumerate(eqns):
        needed = {made[x] for x in eqn.inputs if isinstance(x, Var) and x in made}
        waiting.append(len(needed))
        for source in needed:
            readers.setdefault(source, []).append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        i = heappop(ready)
        order.append(eqns[i])
        for reader in readers.get(i, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    return order if len(order) == len(eqns) else None

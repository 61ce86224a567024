"""Common subexpression elimination of loops: merge loops that pass through the same states.

A derivative contains its own copy of a loop, which also stores the residuals of each step. If the
original loop is still in the graph, because other values depend on its result, the copy can replace
it: it also computes what the original one stacks.

Copies are found by value numbering: equal numbers mean equal values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.optimise.loops import Carry, Const, Loop, Row, Stacked, is_loop, pruned_loop
from functrans.optimise.rewrite import Rewriter, bits

Names = dict[Atom, int]
"""The number of each variable."""


def merge_twins(graph: Graph) -> Graph:
    """Merge equal loops: remove a loop whose carry another one computes, too.

    Expects loops without duplicates, in which equal values have equal equations.
    Leaves no loop with a carry that another loop computes in all steps.
    """
    while (merged := _merge_one(graph)) is not None:
        graph = merged
    return graph


def _merge_one(graph: Graph) -> Graph | None:
    places = [i for i, eqn in enumerate(graph.eqns) if is_loop(eqn)]
    if len(places) < 2:
        return None
    numbering = _Numbering(graph)
    for first, second in combinations(places, 2):
        one, other = graph.eqns[first], graph.eqns[second]
        if numbering.kind(one) != numbering.kind(other):
            continue
        for small, large in ((one, other), (other, one)):
            found = _Comparison(numbering, Loop(small), Loop(large)).large_for_both()
            if found is None:
                continue
            merged, results = found
            order = _order(graph.eqns, first, second, merged)
            if order is not None:
                return _rewritten(graph, order, results)
    return None


def _order(eqns: Sequence[Eqn], first: int, second: int, merged: Eqn) -> list[Eqn] | None:
    """The equations, the merged loop in the first's position; None if that makes a cycle."""
    needed: set[Atom] = set(merged.inputs)
    before: list[Eqn] = []
    after: list[Eqn] = []
    for eqn in reversed(eqns[first + 1 : second]):
        if needed.isdisjoint(eqn.outputs):
            after.append(eqn)
        else:
            before.append(eqn)
            needed.update(eqn.inputs)
    if not needed.isdisjoint(eqns[first].outputs):
        return None
    return [*eqns[:first], *before[::-1], merged, *after[::-1], *eqns[second + 1 :]]


def _rewritten(graph: Graph, order: Iterable[Eqn], results: dict[Var, Var]) -> Graph:
    out = Rewriter(graph)
    for old, new in results.items():
        out.replace(old, new)
    for eqn in order:
        out.keep(eqn, out.inputs(eqn))
    return out.graph_now()


class _Numbering:
    """Value numbers for the variables of a graph and of its loops' bodies."""

    def __init__(self, graph: Graph) -> None:
        self.table: dict[Hashable, int] = {}
        self.names: Names = {var: self.fresh() for var in graph.inputs}
        self.enter(graph.eqns, self.names)

    def fresh(self) -> int:
        """A number that no other value has."""
        return self.table.setdefault(("fresh", len(self.table)), len(self.table))

    def of(self, atom: Atom, names: Names) -> int:
        if isinstance(atom, Literal):
            # weak or not: the types of results are already determined
            key = ("literal", bits(atom), atom.aval.dtype)
            return self.table.setdefault(key, len(self.table))
        return names[atom]

    def enter(self, eqns: Iterable[Eqn], names: Names) -> None:
        """Number the results of equations."""
        for eqn in eqns:
            for var in eqn.outputs:
                # a loop inside also stores residuals, which its other results do not need
                part = pruned_loop(Loop(eqn), {var}) if is_loop(eqn) else eqn
                operands = tuple(self.of(x, names) for x in part.inputs)
                key = (part.primitive, operands, part.primitive.keyed(part.params))
                place = key, part.outputs.index(var)
                names[var] = self.table.setdefault(place, len(self.table))

    def kind(self, eqn: Eqn) -> Hashable:
        """The key of a loop without its body; two loops are merged only if their keys are equal."""
        params = {
            name: value
            for name, value in eqn.params.items()
            if not isinstance(value, Graph) and name not in ("n_consts", "n_carry")
        }
        before = tuple(self.of(x, self.names) for x in Loop(eqn).before)
        return eqn.primitive, tuple(params.items()), before


class _Comparison:
    """Whether a large loop computes the carry of a small one."""

    def __init__(self, numbering: _Numbering, small: Loop, large: Loop) -> None:
        self.numbering = numbering
        self.small, self.large = small, large

    def large_for_both(self) -> tuple[Eqn, dict[Var, Var]] | None:
        """The large loop with the results of both, and which of these are the small one's."""
        shared, small, large = self._carried()
        if self._conditions_differ(shared):
            return None
        number = self.numbering.of
        partners = {shared[carry]: carry for carry in self.large.carry}
        pairs = [(c, partners[shared[c]]) for c in self.small.carry if shared[c] in partners]
        lone = [c for c in self.small.carry if shared[c] not in partners]
        values = {number(x, large): x for x in self._values(self.large)}
        results = {one.result: other.result for one, other in pairs}
        results.update(zip(self.small.count, self.large.count, strict=True))
        for carry in lone:
            last = values.get(number(carry.out, small))
            if last is None:
                return None
            inner = tuple(Var(x.aval) for x in carry.inner)
            values[number(carry.inner[0], small)] = inner[0]
            self.large.carry.append(carry._replace(inner=inner, out=last))
        if pairs:
            self._add_rest(small, values)
        stacked = {number(each.out, large): each.result for each in self.large.stacked}
        for each in self.small.stacked:
            wanted = number(each.out, small)
            if wanted not in values:
                return None
            if wanted not in stacked:
                stacked[wanted] = Var(each.result.aval)
                self.large.stacked.append(Stacked(values[wanted], stacked[wanted]))
            results[each.result] = stacked[wanted]
        return self.large.rebuilt(), results

    def _add_rest(self, small: Names, values: dict[int, Atom]) -> None:
        """Let the large loop compute what the small one stacks, from the state that both share."""
        graph = Graph((), self.small.body, [each.out for each in self.small.stacked])
        number = self.numbering.of
        rest = [
            eqn
            for eqn in prune(graph).eqns
            if any(number(x, small) not in values for x in eqn.outputs)
        ]
        read = {x for eqn in rest for x in eqn.inputs} | set(graph.outputs)
        for const in self.small.consts:
            if const.inner[0] in read and number(const.inner[0], small) not in values:
                inner = tuple(Var(x.aval) for x in const.inner)
                values[number(const.inner[0], small)] = inner[0]
                self.large.consts.append(Const(inner, const.outer))
        for row in self.small.rows:
            if row.inner in read and number(row.inner, small) not in values:
                values[number(row.inner, small)] = var = Var(row.inner.aval)
                self.large.rows.append(Row(var, row.outer))
        for eqn in rest:
            inputs = [x if isinstance(x, Literal) else values[small[x]] for x in eqn.inputs]
            outputs = [Var(x.aval) for x in eqn.outputs]
            values.update(zip((small[x] for x in eqn.outputs), outputs, strict=True))
            self.large.body.append(eqn.but(inputs=inputs, outputs=outputs))

    def _carried(self) -> tuple[dict[Carry, int], Names, Names]:
        """The numbers of both loops' carries and of their bodies.

        Carries that start equal are assumed to be equal, and told apart if their values for the
        next step differ, until no more do (partition refinement).
        """
        carries = [*self.small.carry, *self.large.carry]
        kinds: dict[Carry, Hashable] = {c: (self._outer(c.init), c.result.aval) for c in carries}
        while True:
            numbers = {kind: self.numbering.fresh() for kind in dict.fromkeys(kinds.values())}
            shared = {c: numbers[kinds[c]] for c in carries}
            small, large = self._body(self.small, shared), self._body(self.large, shared)
            for loop, names in ((self.small, small), (self.large, large)):
                kinds |= {c: (shared[c], self.numbering.of(c.out, names)) for c in loop.carry}
            if len(set(kinds.values())) == len(numbers):
                return shared, small, large

    def _outer(self, atom: Atom) -> int:
        return self.numbering.of(atom, self.numbering.names)

    def _body(self, loop: Loop, shared: dict[Carry, int]) -> Names:
        """The value numbers of a loop's body."""
        names: Names = {const.inner[0]: self._outer(const.outer) for const in loop.consts}
        for carry in loop.carry:
            names[carry.inner[0]] = shared[carry]
        for row in loop.rows:
            key = ("row", self._outer(row.outer))
            names[row.inner] = self.numbering.table.setdefault(key, len(self.numbering.table))
        self.numbering.enter(loop.body, names)
        return names

    def _conditions_differ(self, shared: dict[Carry, int]) -> bool:
        """Whether two while loops have different conditions."""
        if self.small.cond is None or self.large.cond is None:
            return False
        answers = []
        for loop in (self.small, self.large):
            assert loop.cond is not None
            names: Names = {const.inner[1]: self._outer(const.outer) for const in loop.consts}
            names.update((carry.inner[1], shared[carry]) for carry in loop.carry)
            self.numbering.enter(loop.cond.eqns, names)
            answers.append([self.numbering.of(x, names) for x in loop.cond.outputs])
        return answers[0] != answers[1]

    def _values(self, loop: Loop) -> Iterable[Atom]:
        yield from (carry.inner[0] for carry in loop.carry)
        yield from (row.inner for row in loop.rows)
        yield from (const.inner[0] for const in loop.consts)
        yield from (var for eqn in loop.body for var in eqn.outputs)

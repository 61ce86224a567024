"""Residuals of loops and branches: which values are stored, and which are recomputed.

A value that the backward pass needs can be stored, or recomputed from earlier values. Cheap
equations (elementwise ones, and data movement) may be recomputed; operands are available anyway.
The fewest bytes to store are then given by a minimum cut in the graph of the cheap equations,
between the values that cannot be recomputed and those that are needed. If operations are not free,
the cut may also run between a value and its operands: it then has the cost of the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import inf, prod

from functrans.ir.graph import Atom, Eqn, Var
from functrans.ir.primitive import Primitive
from functrans.trace.source import recomputed

MOVES = frozenset(
    [
        "broadcast_to", "concatenate", "constant", "full", "getitem", "iota", "reshape", "slice",
        "transpose", "unused",
    ]
)  # fmt: skip
"""Primitives without arithmetic: recomputing one costs no more than reading its result."""


def is_move(primitive: Primitive) -> bool:
    """Whether a primitive only makes, moves or repeats elements."""
    return primitive.name in MOVES


def is_cheap(primitive: Primitive) -> bool:
    """Whether a primitive is recomputed rather than stored."""
    return primitive.elementwise or is_move(primitive)


def flops_of(eqn: Eqn) -> int:
    """An estimate of the arithmetic of an operation; 0 for data movement, or if unknown."""
    results = sum(prod(var.aval.shape) for var in eqn.outputs)
    if "contract" in eqn.params:
        contracted = eqn.params["contract"][0]
        return int(2 * results * prod(eqn.inputs[0].aval.shape[axis] for axis in contracted))
    if eqn.primitive.elementwise:
        return int(results)
    if eqn.primitive.name.startswith(("reduce", "cum")):
        return int(prod(eqn.inputs[0].aval.shape))
    return 0


def choose(
    eqns: Sequence[Eqn],
    needed: Sequence[Var],  # the values that the backward pass reads
    at_hand: Iterable[Var],  # the values that the backward pass has in any case
    # How many bytes may be stored instead of computing a cheap equation again. By default, none:
    # the fewest bytes are stored.
    work: Callable[[Eqn], int] = lambda eqn: 0,
) -> tuple[list[Var], list[Eqn]]:
    """Choose the residuals, and the equations that compute the needed values from them."""
    maker = {var: eqn for eqn in eqns for var in eqn.outputs}
    free = set(at_hand)
    sinks = [v for v in needed if v not in free]
    kept = _Network(maker, free, sinks, work).minimum_cut()
    free.update(kept)
    again: set[Eqn] = set()
    waiting = list(needed)
    while waiting:
        var = waiting.pop()
        if var not in free and maker[var] not in again:
            again.add(maker[var])
            waiting += [atom for atom in maker[var].inputs if isinstance(atom, Var)]
    return kept, [recomputed(eqn) for eqn in eqns if eqn in again]


End = tuple[Var, int]
"""Flow enters a vertex at its lower end ``(var, 0)``, and leaves at its upper end ``(var, 1)``."""

Path = Sequence[tuple[End, End, float]]
"""Steps from one end to another, with their residual capacities."""


class _Network:
    """A flow network with values as vertices, whose capacities are their sizes.

    Flows are augmented from the sinks towards the sources, along shortest paths (the method of
    Edmonds and Karp).
    """

    def __init__(
        self,
        maker: Mapping[Var, Eqn],
        free: Set[Var],
        sinks: Sequence[Var],
        work: Callable[[Eqn], int],
    ) -> None:
        self.maker = maker
        self.free = free
        self.sinks = sinks
        # in the order of discovery, so that the result does not depend on addresses
        self.below: dict[Var, list[Var]] = {var: [] for var in sinks}
        waiting = list(self.below)
        while waiting:
            var = waiting.pop()
            for above in self.before(var):
                if above not in self.below:
                    self.below[above] = []
                    waiting.append(above)
                self.below[above].append(var)
        self.left = {var: _bytes(var) for var in self.below}
        self.unpaid = {var: inf if self.is_source(var) else work(maker[var]) for var in self.below}
        self.flow: dict[tuple[Var, Var], int] = {}

    def is_source(self, var: Var) -> bool:
        """Whether a value cannot be recomputed."""
        return var not in self.maker or not is_cheap(self.maker[var].primitive)

    def before(self, var: Var) -> list[Var]:
        """The values from which a value can be recomputed."""
        atoms: tuple[Atom, ...] = () if self.is_source(var) else self.maker[var].inputs
        return [a for a in dict.fromkeys(atoms) if isinstance(a, Var) and a not in self.free]

    def steps(self, end: End) -> Iterable[tuple[End, float]]:
        """The ends that flow from one end of a vertex can reach, with the residual capacities."""
        var, upper = end
        if upper:
            for above in self.before(var):
                yield (above, 0), inf
            yield (var, 0), _bytes(var) - self.left[var]
        else:
            yield (var, 1), self.left[var]
            for under in self.below[var]:
                yield (under, 1), self.flow.get((under, var), 0)

    def search(self) -> tuple[Set[End], Path]:
        """The ends that are reachable from the sinks, and a path to a source, if there is one."""
        came: dict[End, tuple[End, float] | None] = {(var, 0): None for var in self.sinks}
        queue = list(came)
        for end in queue:
            if end[1] and self.unpaid[end[0]]:
                path = list[tuple[End, End, float]]()
                while (before := came[end]) is not None:
                    path.append((before[0], end, before[1]))
                    end = before[0]
                return came.keys(), path
            for following, room in self.steps(end):
                if room > 0 and following not in came:
                    came[following] = (end, room)
                    queue.append(following)
        return came.keys(), ()

    def augment(self, path: Path) -> None:
        """Add as much flow along a path as there is room."""
        _, (source, _), _ = path[0]
        amount = int(min(self.unpaid[source], *(room for _, _, room in path)))
        self.unpaid[source] -= amount
        for (a, upper), (b, _), _ in path:
            if a is b:
                self.left[a] += amount if upper else -amount
            elif upper:
                self.flow[a, b] = self.flow.get((a, b), 0) + amount
            else:
                self.flow[b, a] -= amount

    def minimum_cut(self) -> list[Var]:
        """The set of values of least total size that separates the sources from the sinks.

        Of several such sets, the one nearest to the sinks, so that least is recomputed.
        """
        while True:
            reached, path = self.search()
            if not path:
                return [v for v in self.below if (v, 0) in reached and (v, 1) not in reached]
            self.augment(path)


def _bytes(var: Var) -> int:
    return max(1, abs(prod(var.aval.shape))) * var.aval.dtype.itemsize

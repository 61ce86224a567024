"""Recomputation: how often each value is computed, and which to materialise if too often.

Values that are not materialised are computed wherever they are used: at each tap of a convolution,
for each column of a product, and so on for each of their operands. How often that is, is known when
the expressions have been built. If they take many more operations than the graph, the values that
are computed most often are materialised as well, and the expressions are built again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from math import ceil, prod

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Aval
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.ops.arrays.known import known_integers
from functrans.ops.arrays.structural import broadcast_to_p, iota, reshape_p
from functrans.ops.compiled.elements import Index, Puller, pattern
from functrans.ops.compiled.emission import emitted
from functrans.ops.elementwise.arithmetic import add, multiply, subtract
from functrans.records import NamedTuple


class Recomputation(NamedTuple):
    """Thresholds of recomputation.

    Measured: `bound` (two convolutions of shifted products).
    """

    bound: int = 2
    """The ratio of executed operations to those of the graph, up to which nothing more is
    materialised."""
    often: int = 2
    """How often each element of a value may be computed."""
    little: int = 64
    """The inverse of the fraction of the graph's operations that must be saved to materialise a
    value."""
    rounds: int = 4
    """How often the expressions of a graph are rebuilt at most."""


def graph_work(graph: Graph, target: Target) -> int:
    """The operations of a graph if each element of each value is computed once.

    Of branches, the most expensive counts; a loop of unknown length counts as one step. Library
    calls are not counted, nor are parts of the program with plans of their own.
    """
    total = 0
    for eqn in graph.eqns:
        emit = emitted(eqn, target)
        if emit is not None:
            total += emit.operations(eqn, lambda inner: graph_work(inner, target))
        else:
            total += pattern(eqn).work * eqn.outputs[0].aval.size
    return total


_AFFINE = frozenset({iota, add, subtract, multiply, reshape_p, broadcast_to_p})


def index_arithmetic(graph: Graph) -> set[Atom]:
    """Index arrays that are affine functions of the position along their last axis.

    They are not materialised: each element is a part of an address, and a loop that reads or writes
    at such positions accesses memory with a constant stride. What is the same along the last axis
    may be any value.
    """
    found: set[Atom] = set()
    for eqn in graph.eqns:
        (out, *_) = eqn.outputs
        if eqn.primitive is known_integers and _counts(eqn.params["entries"]):
            found.add(out)
        if eqn.primitive in _AFFINE and out.aval.dtype == INDEX and out.aval.shape:
            varying = [x for x in eqn.inputs if (1, *x.aval.shape)[-1] != 1]
            moved = eqn.primitive is reshape_p and not _only_ones(eqn.inputs[0].aval, out.aval)
            squared = eqn.primitive is multiply and len(varying) > 1
            if found.issuperset(varying) and not moved and not squared:
                found.update(eqn.outputs)
    return found


def _counts(entries: tuple[int, ...]) -> bool:
    return entries == tuple(range(len(entries)))


def _only_ones(x: Aval, y: Aval) -> bool:
    """Whether two shapes differ in axes of one element only."""
    first, second = ([n for n in aval.shape if n != 1] for aval in (x, y))
    return first == second


class Evaluation(NamedTuple):
    """The evaluation of a whole value: the indices of its elements, and the loops around them."""

    atom: Atom
    positions: tuple[Index, ...]
    loops: tuple[Scalar, ...]


Element = tuple[Atom, Index]


class Recorder(Puller):
    """A puller that records from which elements each element is computed."""

    def __init__(self, producers: Mapping[Var, Eqn], buffers: dict[Var, Buffer]) -> None:
        super().__init__(producers, buffers)
        self.reads: dict[Element, list[Element]] = {}
        self._open: list[list[Element]] = [[]]

    def element(self, atom: Atom, position: Index) -> Scalar:
        self._open[-1].append((atom, position))
        return super().element(atom, position)

    def _compute(self, atom: Atom, position: Index, operands: list[Element]) -> Scalar:
        self._open.append(list(operands))
        value = super()._compute(atom, position, operands)
        self.reads[atom, position] = self._open.pop()
        return value

    def inside(self, element: Element) -> list[tuple[Var, Index]]:
        """The elements from which another one is computed, except loaded ones."""
        return [
            (atom, position)
            for atom, position in self.reads.get(element, ())
            if isinstance(atom, Var) and atom not in self.buffers
        ]


class Demand(NamedTuple):
    """The number of times that values are computed, in total and for each value that uses them."""

    times: Counter[Var]
    shares: dict[Var, Counter[Var]]


def demand(recorder: Recorder, made: Iterable[Evaluation]) -> Demand:
    """The number of elements of each value that are computed."""
    found = Demand(Counter(), {})
    for one in made:
        if isinstance(one.atom, Var) and one.atom in recorder.producers:
            _add(one, one.atom, recorder, found)
    return found


def _add(one: Evaluation, var: Var, recorder: Recorder, found: Demand) -> None:
    once = prod(loop.attribute[2] for loop in one.loops)
    times = {(var, position): once for position in one.positions}
    readers: dict[Element, Var] = {}
    for element in _readers_first(list(times), recorder):
        count = times.get(element, 0)
        if not count:
            continue  # a fold over an empty range
        found.times[element[0]] += count
        if element in readers:
            found.shares.setdefault(element[0], Counter())[readers[element]] += count
        again = count * pattern(recorder.producers[element[0]]).folds
        for read in recorder.inside(element):
            if again > times.get(read, 0):
                times[read] = again
                readers[read] = element[0]


def _readers_first(
    roots: list[tuple[Var, Index]], recorder: Recorder
) -> Iterable[tuple[Var, Index]]:
    """All elements from which some are computed, each after those that read it."""
    done: dict[tuple[Var, Index], None] = {}
    stack = list(roots)
    while stack:
        top = stack[-1]
        missing = [read for read in recorder.inside(top) if read not in done]
        if top not in done and missing:
            stack += missing
        else:
            done[stack.pop()] = None
    return reversed(done)


def expected_demand(graph: Graph, kept: Set[Var], target: Target) -> Demand:
    """A lower bound on the demand that does not need the expressions.

    Different windows of a value read different elements, and each product that sums over a value
    has a loop of its own; so these uses are added. All other uses may read the same element at the
    same time, and only the most frequent one counts. Repeated reads by one user, such as a product,
    count once.
    """
    found = Demand(Counter(), {})
    apart: dict[Var, Counter[Var]] = {}
    others: dict[Var, tuple[float, Var]] = {}
    for eqn in reversed(graph.eqns):
        if emitted(eqn, target) is not None:
            continue
        own = pattern(eqn)
        for var in eqn.outputs:
            readers, (most, reader) = apart.pop(var, Counter()), others.pop(var, (0, var))
            if most:
                readers[reader] += ceil(most)
            if var in kept or not any(readers.values()):
                times = var.aval.size
            else:
                found.shares[var] = readers
                times = sum(readers.values())
            found.times[var] = times
            for x, reads in zip(eqn.inputs, own.reads, strict=True):
                if not isinstance(x, Var):
                    continue
                again = times / max(var.aval.size, 1)
                elements = again * min(x.aval.size, var.aval.size * own.folds * reads)
                if eqn.primitive.transpose_moves or (own.folds > 1 and len(eqn.inputs) > 1):
                    apart.setdefault(x, Counter())[var] += ceil(elements)
                elif elements > others.get(x, (0, var))[0]:
                    others[x] = elements, var
    return found


def excessive(graph: Graph, asked: int, found: Demand, target: Target) -> set[Var]:
    """The values to materialise among those that are recomputed wherever they are used.

    Starting from the results, because the operands of a materialised value are then needed only
    once.
    """
    limits = target[Recomputation]
    costs = _costs(graph, found)
    share: dict[Var, float] = {}
    chosen: set[Var] = set()
    free = index_arithmetic(graph)
    for eqn in reversed(graph.eqns):
        for var in eqn.outputs:
            shares, times = found.shares.get(var), found.times[var]
            if not shares:
                continue
            now = sum(count * share.get(reader, 1.0) for reader, count in shares.items())
            size = var.aval.size
            saved = (now - size) * costs[var]
            if (
                now > limits.often * size
                and saved > _least_saving(var, asked, target)
                and _computes(eqn)
                and var not in free
            ):
                chosen.add(var)
                now = size
            share[var] = now / times
    return chosen


def _costs(graph: Graph, found: Demand) -> dict[Atom, float]:
    """The operations for an element of each value, including those for its operands."""
    costs: dict[Atom, float] = {}
    for eqn in graph.eqns:
        for var in eqn.outputs:
            if found.times[var]:
                inside = sum(
                    found.shares[x][var] / found.times[var] * costs.get(x, 0)
                    for x in set(eqn.inputs)
                    if isinstance(x, Var) and x in found.shares
                )
                costs[var] = pattern(eqn).work + inside
    return costs


def _least_saving(var: Var, asked: int, target: Target) -> float:
    """The least number of saved operations for which a value is materialised."""
    limits, size = target[Recomputation], var.aval.size
    is_far = size * var.aval.dtype.itemsize > target.cache
    return max(target.through_memory * size if is_far else 0, asked / limits.little)


def _computes(eqn: Eqn) -> bool:
    """Whether an equation does more than move elements."""
    return not eqn.primitive.transpose_moves and pattern(eqn).work > 0

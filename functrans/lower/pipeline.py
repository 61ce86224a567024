"""Graph to kernels: what a compiled program does, in order, and where its values live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from functrans.ir.graph import Graph, Var
from functrans.loop.operations import operations_of
from functrans.loop.statements import Buffer, Call, For, Kernel, buffer, serial
from functrans.loop.target import Fusion, Target
from functrans.loop.walk import loaded, stored
from functrans.lower.kernel.arena import place
from functrans.lower.kernel.batch_partition import in_parts
from functrans.lower.kernel.donation import donate
from functrans.lower.kernel.symbolic_sizes import generalise
from functrans.lower.nest.bodies import Bodies, Nest, within_bounds
from functrans.lower.nest.fusion import fuse
from functrans.lower.select.materialise import choose
from functrans.lower.select.recomputation import expected, graph_work, too_often
from functrans.lower.select.root import Root
from functrans.lower.select.roots import Roots, Subprogram
from functrans.lower.select.selection import select
from functrans.lower.select.split_reductions import in_blocks
from functrans.ops.compiled.emission import Inner
from functrans.optimise.machine.passes import rewritten


@dataclass(frozen=True, eq=False)
class Step:
    """A call of a kernel.

    Parameters
    ----------
    kernel : Kernel
    buffers : tuple of Buffer
        The program's buffers that it is called with.
    sizes : tuple of int
    extent : int
        The range of the kernel's parallel loop; 0 if it has none.
    work : int
        Roughly the number of scalar operations.
    """

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    sizes: tuple[int, ...]
    extent: int
    work: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A program: its steps, and its memory.

    Parameters
    ----------
    inputs, outputs : tuple of Buffer
        An output that overwrites a donated input is the same buffer.
    steps : tuple of Step
    offsets : dict
        Where in the arena each temporary is, in bytes.
    arena : int
        The size of the arena in bytes.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    offsets: dict[Buffer, int]
    arena: int

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels in the order in which they are first called."""
        return list(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def overwritten(self) -> dict[int, int]:
        """The inputs that results are written into, by number, and those outputs."""
        numbers = {x: number for number, x in enumerate(self.inputs)}
        return {numbers[x]: i for i, x in enumerate(self.outputs) if x in numbers}


def plan(graph: Graph, target: Target, donated: Sequence[int] = ()) -> Plan:
    """The plan of a graph whose primitives all have compiled forms; it follows from these alone.

    Parameters
    ----------
    graph : Graph
    target : Target
        The machine.
    donated : sequence of int
        The numbers of the inputs that results may overwrite.
    """
    inputs = tuple(buffer(f"in{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs))
    whole = rewritten(graph, target, outlined=not donated)
    done = _lowered(whole, inputs, target)
    nests, homes = donate(_parted(done.nests, target), [inputs[i] for i in donated], done.outputs)
    outputs = tuple(homes.get(one, one) for one in done.outputs)
    steps = _Steps(target, done.subprograms, homes).of(nests)
    offsets, arena = place([step.buffers for step in steps], {*inputs, *outputs}, target)
    return Plan(inputs, outputs, tuple(steps), offsets, arena)


def _parted(nests: Sequence[Nest], target: Target) -> list[Nest]:
    bounded = [within_bounds(nest, target) for nest in nests]
    if "batch_partition" not in target.stages:
        return bounded
    return [in_parts(nest, target) for nest in bounded]


class _Lowered(NamedTuple):
    """The nests that compute a graph, the subprograms among them, and where its outputs are."""

    nests: list[Nest]
    subprograms: dict[str, Subprogram]
    outputs: tuple[Buffer, ...]


def _lowered(graph: Graph, inputs: Sequence[Buffer], target: Target) -> _Lowered:
    """What a graph becomes that has been rewritten."""
    inner: list[Inner] = []

    def attempt(kept: set[Var]) -> Attempt:
        # the graphs inside are asked for in the same order each time
        done = iter(tuple(inner))

        def lower(body: Graph) -> Inner:
            found = next(done, None)
            if found is None:
                inner.append(found := _inner(body, target))
            return found

        return _attempt(select(graph, inputs, lower, kept, target))

    asked = graph_work(graph, target)
    limits = target.recomputation
    kept = choose(graph, target)
    kept |= too_often(graph, asked, expected(graph, kept, target), target)
    best = last = attempt(kept)
    for _ in range(limits.rounds):
        if best.work <= limits.bound * asked:
            break
        more = too_often(graph, asked, last.roots.demand(), target)
        if not more:
            break
        kept |= more
        last = attempt(kept)
        best = min(best, last, key=lambda each: each.work)
    return _Lowered(best.nests, best.roots.subprograms, tuple(best.roots.outputs))


class Attempt(NamedTuple):
    """The roots for some choice of what is kept, their nests, and how many operations these do."""

    roots: Roots
    nests: list[Nest]
    work: int


def _attempt(selected: Roots) -> Attempt:
    target, simplify = selected.target, selected.puller.simplify
    roots = selected.all
    if "split_reductions" in target.stages:
        cut = [in_blocks(root, selected.loops, target, simplify) for root in roots]
        roots = [part for parts in cut for part in parts]
    readers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for source in root.loads:
            readers.setdefault(source, []).append(root)
    bodies = Bodies(readers, target, simplify)
    nests = [built for nest in fuse(roots, target) for built in bodies.build(nest)]
    work = sum(operations_of(nest.body) for nest in nests)
    return Attempt(selected, list(merged(nests, target.fusion)), work)


def _inner(graph: Graph, target: Target) -> Inner:
    """The nests of a graph inside of another."""
    own = _buffers(graph)
    nests, _, outputs = _lowered(rewritten(graph, target), own, target)
    return Inner(
        tuple(statement for nest in nests for statement in nest.body),
        tuple(dict.fromkeys(row for nest in nests for row in nest.scratch)),
        own,
        outputs,
        sum(nest.work for nest in nests),
    )


def _buffers(graph: Graph) -> tuple[Buffer, ...]:
    """Buffers that stand for the inputs of an inner graph."""
    return tuple(buffer(f"x{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs))


class _Steps:
    """Makes the steps of nests; parts of a program that are called become kernels once.

    Parameters
    ----------
    target : Target
    subprograms : dict
        What the calls among the nests stand for.
    homes : dict
        The buffers that other ones live in.
    """

    def __init__(
        self,
        target: Target,
        subprograms: Mapping[str, Subprogram],
        homes: Mapping[Buffer, Buffer],
    ) -> None:
        self.target = target
        self.subprograms = subprograms
        self.homes = homes
        self._parts: dict[Graph, tuple[list[Step], tuple[Buffer, ...]]] = {}

    def of(self, nests: Sequence[Nest]) -> list[Step]:
        """The steps of nests, in order."""
        steps: list[Step] = []
        for nest in nests:
            first = nest.body[0]
            call = self.subprograms.get(first.symbol) if isinstance(first, Call) else None
            if call is not None:
                steps += self._called(call)
                continue
            kernel, arguments, sizes = generalise(nest.body, nest.scratch, self.homes, self.target)
            extent = int(first.stop.attribute) if kernel.parallel and isinstance(first, For) else 0
            steps.append(Step(kernel, tuple(arguments), tuple(sizes), extent, nest.work))
        return steps

    def _called(self, call: Subprogram) -> Iterator[Step]:
        """The steps of a part, on the buffers of a call."""
        if call.graph not in self._parts:
            own = _buffers(call.graph)
            done = _lowered(call.graph, own, self.target)
            steps = _Steps(self.target, {}, {}).of(_parted(done.nests, self.target))
            self._parts[call.graph] = steps, (*own, *done.outputs)
        steps, formal = self._parts[call.graph]
        actual = dict(zip(formal, (*call.operands, *call.results), strict=True))
        for step in steps:
            given = [actual.get(one, one) for one in step.buffers]
            yield replace(step, buffers=tuple(self.homes.get(one, one) for one in given))


def merged(nests: Sequence[Nest], limits: Fusion) -> Iterator[Nest]:
    """The nests, with runs of those that write parts of joins as one each, if threads are no use.

    A kernel for each part would take longer to compile, and be longer on its way.
    """

    def is_small(nest: Nest) -> bool:
        return nest.part and nest.work <= limits.small_part

    for small, run in groupby(nests, is_small):
        most = limits.most_parts if small else 1
        for taken in _handfuls(list(run), most, limits.most_buffers):
            if len(taken) == 1:
                yield taken[0]
                continue
            body = tuple(serial(each) for nest in taken for each in nest.body)
            scratch = tuple(row for nest in taken for row in nest.scratch)
            yield Nest(body, scratch, sum(nest.work for nest in taken))


def _handfuls(nests: Sequence[Nest], most: int, buffers: int) -> Iterator[list[Nest]]:
    """Runs of so many nests at most, that use so many buffers together or are alone."""
    taken: list[Nest] = []
    used: set[Buffer] = set()
    for nest in nests:
        own = {*loaded(nest.body), *stored(nest.body)}
        if taken and (len(taken) == most or len(used | own) > buffers):
            yield taken
            taken, used = [], set()
        taken.append(nest)
        used |= own
    if taken:
        yield taken

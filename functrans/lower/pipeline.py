"""Graph to kernels: what a compiled program does, in order, and where its values live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Graph, Var
from functrans.loop.operations import operations_of
from functrans.loop.statements import Buffer, Call, For, Kernel, buffer
from functrans.loop.target import Target
from functrans.loop.walk import loaded, stored
from functrans.lower.kernel.batch_partition import in_parts
from functrans.lower.kernel.donation import donate
from functrans.lower.kernel.symbolic_sizes import generalise
from functrans.lower.nest.bodies import Bodies, Nest, within_bounds
from functrans.lower.nest.fusion import MOST_BUFFERS, fuse
from functrans.lower.select.materialise import choose
from functrans.lower.select.recomputation import expected, graph_work, too_often
from functrans.lower.select.root import Root
from functrans.lower.select.roots import Roots, Subprogram
from functrans.lower.select.selection import select
from functrans.lower.select.split_reductions import in_blocks
from functrans.ops.compiled.emission import Inner
from functrans.optimise.machine.passes import rewritten

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

WORD = 8
"""Bytes: the least that a buffer takes."""

SMALL = 1024
"""Temporaries of so many bytes at most are not worth the search for the best place."""

SMALL_PART = 100_000
"""Scalar operations, up to which a part of a join shares a kernel with others."""

MOST_PARTS = 16

Life = tuple[int, int]
"""The first and the last step that use a buffer."""


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
    def overwritten(self) -> dict[int, int]:
        """The inputs that results are written into, by number, and those outputs."""
        numbers = {x: number for number, x in enumerate(self.inputs)}
        return {numbers[x]: i for i, x in enumerate(self.outputs) if x in numbers}


def schedule(graph: Graph, target: Target, donated: Sequence[int] = ()) -> Plan:
    """Plan a graph whose primitives all have compiled forms.

    Parameters
    ----------
    graph : Graph
    target : Target
    donated : sequence of int
        The numbers of the inputs that results may overwrite.
    """
    inputs = tuple(buffer(f"in{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs))
    whole = rewritten(graph, target, outlined=not donated)
    done = _lowered(whole, inputs, target)
    nests, homes = donate(_parted(done.nests), [inputs[i] for i in donated], done.outputs)
    outputs = tuple(homes.get(one, one) for one in done.outputs)
    steps = _Steps(target, done.subprograms, homes).of(nests)
    offsets, arena = place(steps, {*inputs, *outputs})
    return Plan(inputs, outputs, tuple(steps), offsets, arena)


def _parted(nests: Sequence[Nest]) -> list[Nest]:
    return [in_parts(within_bounds(nest)) for nest in nests]


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
    simplify = selected.puller.simplify
    roots = [part for root in selected.all for part in in_blocks(root, selected.loops, simplify)]
    readers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for source in root.loads:
            readers.setdefault(source, []).append(root)
    bodies = Bodies(readers, selected.target.vector_bytes, simplify)
    nests = [built for nest in fuse(roots) for built in bodies.build(nest)]
    work = sum(operations_of(nest.body) for nest in nests)
    return Attempt(selected, list(merged(nests)), work)


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
            kernel, arguments, sizes = generalise(nest.body, nest.scratch, self.homes)
            extent = int(first.stop.attribute) if kernel.parallel and isinstance(first, For) else 0
            steps.append(Step(kernel, tuple(arguments), tuple(sizes), extent, nest.work))
        return steps

    def _called(self, call: Subprogram) -> Iterator[Step]:
        """The steps of a part, on the buffers of a call."""
        if call.graph not in self._parts:
            own = _buffers(call.graph)
            done = _lowered(call.graph, own, self.target)
            steps = _Steps(self.target, {}, {}).of(_parted(done.nests))
            self._parts[call.graph] = steps, (*own, *done.outputs)
        steps, formal = self._parts[call.graph]
        actual = dict(zip(formal, (*call.operands, *call.results), strict=True))
        for step in steps:
            given = [actual.get(one, one) for one in step.buffers]
            yield replace(step, buffers=tuple(self.homes.get(one, one) for one in given))


def merged(nests: Sequence[Nest]) -> Iterator[Nest]:
    """The nests, with runs of those that write parts of joins as one each, if threads are no use.

    A kernel for each part would take longer to compile, and be longer on its way.
    """

    def is_small(nest: Nest) -> bool:
        return nest.part and nest.work <= SMALL_PART

    for small, run in groupby(nests, is_small):
        for taken in _handfuls(list(run), MOST_PARTS if small else 1):
            if len(taken) == 1:
                yield taken[0]
                continue
            body = tuple(
                replace(each, parallel=False) if isinstance(each, For) else each
                for nest in taken
                for each in nest.body
            )
            scratch = tuple(row for nest in taken for row in nest.scratch)
            yield Nest(body, scratch, sum(nest.work for nest in taken))


def _handfuls(nests: Sequence[Nest], most: int) -> Iterator[list[Nest]]:
    """Runs of so many nests at most, that use `MOST_BUFFERS` together or are alone."""
    taken: list[Nest] = []
    used: set[Buffer] = set()
    for nest in nests:
        own = {*loaded(nest.body), *stored(nest.body)}
        if taken and (len(taken) == most or len(used | own) > MOST_BUFFERS):
            yield taken
            taken, used = [], set()
        taken.append(nest)
        used |= own
    if taken:
        yield taken


def place(steps: Sequence[Step], elsewhere: set[Buffer]) -> tuple[dict[Buffer, int], int]:
    """Put the temporaries into one arena; those that are never alive together may share a place."""
    lives: dict[Buffer, Life] = {}
    for time, step in enumerate(steps):
        for used in step.buffers:
            if used not in elsewhere:
                lives[used] = lives.get(used, (time, time))[0], time
    sizes = {one: size_of(one) for one in lives}
    small = {one: life for one, life in lives.items() if sizes[one] <= SMALL}
    offsets, end = _in_slots(small, sizes)
    large = {one: life for one, life in lives.items() if sizes[one] > SMALL}
    above, end = _packed(large, sizes, end)
    return {one: offsets[one] if one in offsets else above[one] for one in lives}, end


def _in_slots(lives: dict[Buffer, Life], sizes: dict[Buffer, int]) -> tuple[dict[Buffer, int], int]:
    """Places that are handed on among buffers of one size: in linear time, as there may be many."""
    offsets: dict[Buffer, int] = {}
    free: dict[int, list[tuple[int, int]]] = {}
    end = 0
    # the largest first: then all lie at multiples of their sizes, or of a cache line
    for one in sorted(lives, key=lambda b: (-sizes[b], lives[b])):
        slots = free.setdefault(sizes[one], [])
        born, dies = lives[one]
        if slots and slots[0][0] < born:
            _, offsets[one] = heappop(slots)
        else:
            offsets[one] = end
            end += sizes[one]
        heappush(slots, (dies, offsets[one]))
    return offsets, -(-end // ALIGNMENT) * ALIGNMENT


def _packed(
    lives: dict[Buffer, Life], sizes: dict[Buffer, int], base: int
) -> tuple[dict[Buffer, int], int]:
    """Places above a base in as little memory as is easily found."""
    offsets: dict[Buffer, int] = {}
    end = base
    # the largest first: small ones fit into what is left between them
    for one in sorted(lives, key=lambda b: (-sizes[b], lives[b])):
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if lives[other][0] <= lives[one][1] and lives[one][0] <= lives[other][1]
        )
        offset = base
        for start, stop in taken:
            if offset + sizes[one] <= start:
                break
            offset = max(offset, stop)
        offsets[one] = offset
        end = max(end, offset + sizes[one])
    return offsets, end


def size_of(one: Buffer) -> int:
    """The bytes of a buffer, up to a multiple of the alignment; few numbers share a cache line."""
    count = prod(int(extent.attribute) for extent in one.shape) * one.dtype.itemsize
    if count <= ALIGNMENT // 2:
        return 1 << max(count - 1, WORD - 1).bit_length()
    return -(-count // ALIGNMENT) * ALIGNMENT

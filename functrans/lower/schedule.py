"""Graph to kernels: what a compiled program does, in order, and where its values live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Graph, Var
from functrans.loop.operations import operations_of
from functrans.loop.statements import Buffer, For, Kernel, buffer
from functrans.lower.blocks import in_blocks
from functrans.lower.bodies import Bodies, Nest, within_bounds
from functrans.lower.control import Inner
from functrans.lower.demand import BOUND, ROUNDS, graph_work, too_often
from functrans.lower.donation import donate
from functrans.lower.generalise import generalise
from functrans.lower.keeping import choose
from functrans.lower.nests import fuse
from functrans.lower.parts import in_parts
from functrans.lower.rewrites import rewritten
from functrans.lower.roots import Root, Rooting

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

SMALL = 1024
"""Temporaries of so many bytes at most are not worth the search for the best place."""

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


def schedule(graph: Graph, vector_bytes: int, donated: Sequence[int] = ()) -> Plan:
    """Plan a graph whose primitives all have compiled forms.

    Parameters
    ----------
    graph : Graph
    vector_bytes : int
        The size of a vector register of the machine.
    donated : sequence of int
        The numbers of the inputs that results may overwrite.
    """
    inputs = tuple(buffer(f"in{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs))
    nests, outputs = _nests(graph, inputs, vector_bytes)
    nests, homes = donate(
        [in_parts(within_bounds(nest)) for nest in nests], [inputs[i] for i in donated], outputs
    )
    outputs = tuple(homes.get(one, one) for one in outputs)
    steps = []
    for nest in nests:
        kernel, arguments, sizes = generalise(nest.body, nest.scratch, homes)
        first = nest.body[0]
        extent = int(first.stop.attribute) if kernel.parallel and isinstance(first, For) else 0
        steps.append(Step(kernel, tuple(arguments), tuple(sizes), extent, nest.work))
    offsets, arena = place(steps, {*inputs, *outputs})
    return Plan(inputs, outputs, tuple(steps), offsets, arena)


def _nests(
    graph: Graph, inputs: Sequence[Buffer], vector_bytes: int
) -> tuple[list[Nest], tuple[Buffer, ...]]:
    """The nests that compute a graph, and where its outputs are."""
    prepared = rewritten(graph)
    inner: list[Inner] = []

    def attempt(kept: set[Var]) -> Attempt:
        # the graphs inside are asked for in the same order each time
        done = iter(tuple(inner))

        def lower(body: Graph) -> Inner:
            found = next(done, None)
            if found is None:
                inner.append(found := _inner(body, vector_bytes))
            return found

        return _attempt(Rooting(prepared, inputs, lower, kept), vector_bytes)

    kept = choose(prepared)
    best = last = attempt(kept)
    asked = graph_work(prepared)
    for _ in range(ROUNDS):
        if best.work <= BOUND * asked:
            break
        more = too_often(prepared, asked, last.rooting.demand())
        if not more:
            break
        kept |= more
        last = attempt(kept)
        best = min(best, last, key=lambda each: each.work)
    return best.nests, tuple(best.rooting.outputs)


class Attempt(NamedTuple):
    """The roots for some choice of what is kept, their nests, and how many operations these do."""

    rooting: Rooting
    nests: list[Nest]
    work: int


def _attempt(rooting: Rooting, vector_bytes: int) -> Attempt:
    roots = [
        part
        for root in rooting.run()
        for part in in_blocks(root, rooting.loops, rooting.puller.simplify)
    ]
    readers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for source in root.loads:
            readers.setdefault(source, []).append(root)
    bodies = Bodies(readers, vector_bytes, rooting.puller.simplify)
    nests = [built for nest in fuse(roots) for built in bodies.build(nest)]
    work = sum(operations_of(nest.body) for nest in nests)
    return Attempt(rooting, nests, work)


def _inner(graph: Graph, vector_bytes: int) -> Inner:
    """The nests of a graph inside of another."""
    own = tuple(buffer(f"x{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs))
    nests, outputs = _nests(graph, own, vector_bytes)
    return Inner(
        tuple(statement for nest in nests for statement in nest.body),
        tuple(dict.fromkeys(row for nest in nests for row in nest.scratch)),
        own,
        outputs,
        sum(nest.work for nest in nests),
    )


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
    for one in sorted(lives, key=lambda b: lives[b]):
        slots = free.setdefault(sizes[one], [])
        born, dies = lives[one]
        if slots and slots[0][0] < born:
            _, offsets[one] = heappop(slots)
        else:
            offsets[one] = end
            end += sizes[one]
        heappush(slots, (dies, offsets[one]))
    return offsets, end


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
    """The bytes of a buffer, up to a multiple of the alignment."""
    count = prod(int(extent.attribute) for extent in one.shape) * one.dtype.itemsize
    return -(-count // ALIGNMENT) * ALIGNMENT

"""Graph to kernels: what a compiled program does, in order, and where its values live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby
from math import prod

from functrans.ir.graph import Graph
from functrans.loop.statements import Buffer, For, Kernel, buffer
from functrans.lower.blocks import in_blocks
from functrans.lower.bodies import Bodies, Nest
from functrans.lower.control import Inner
from functrans.lower.donation import donate
from functrans.lower.fitting import prepare
from functrans.lower.generalise import generalise
from functrans.lower.joins import joined
from functrans.lower.matrices import through_transposes
from functrans.lower.nests import fuse
from functrans.lower.orient import columns_first, swapped
from functrans.lower.parts import in_parts
from functrans.lower.roots import Root, Rooting
from functrans.lower.steps import lighten

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

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
        return {self.inputs.index(x): i for i, x in enumerate(self.outputs) if x in self.inputs}


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
    nests, homes = donate(list(map(in_parts, nests)), [inputs[i] for i in donated], outputs)
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

    def lower(inner: Graph) -> Inner:
        own = tuple(buffer(f"x{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(inner.inputs))
        nests, outputs = _nests(inner, own, vector_bytes)
        return Inner(
            tuple(statement for nest in nests for statement in nest.body),
            tuple(dict.fromkeys(row for nest in nests for row in nest.scratch)),
            own,
            outputs,
            sum(nest.work for nest in nests),
        )

    prepared = joined(prepare(columns_first(lighten(swapped(graph)))))
    rooting = Rooting(through_transposes(prepared), inputs, lower)
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
    return list(merged(nests)), tuple(rooting.outputs)


def merged(nests: Sequence[Nest]) -> Iterator[Nest]:
    """The nests, with runs of those that write parts of joins as one each, if threads are no use.

    A kernel for each part would take longer to compile, and be longer on its way.
    """

    def is_small(nest: Nest) -> bool:
        return nest.part and nest.work <= SMALL_PART

    for small, run in groupby(nests, is_small):
        left = list(run)
        while left:
            taken = left[: MOST_PARTS if small else 1]
            del left[: len(taken)]
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

"""A plan as launches: its kernels compiled and loaded, called with addresses on a stream.

The temporaries of a call share one allocation, at the plan's offsets. A sequence of launches that
occurs a second time with the same addresses is captured as a CUDA graph, and replayed from then on:
in a loop, the pool gives a program the same few addresses again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from functrans import config
from functrans.caches import Table, cached
from functrans.emit.cuda.kernel import emit
from functrans.emit.printer import in_memory
from functrans.errors import DeviceError
from functrans.locks import lock
from functrans.loop.grid import Grid
from functrans.loop.scalar import BOOL
from functrans.loop.statements import Buffer, Call, Kernel
from functrans.loop.target import Target
from functrans.loop.walk import may_fail
from functrans.lower.grid.launch import launch, least_blocks
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Plan, Step, called, iterations
from functrans.records import NamedTuple
from functrans.run.code.aside import side_by_side
from functrans.run.cuda.compile import Cubin, capability, compile_cubin
from functrans.run.cuda.driver import Driver, LaunchGraph, Stream
from functrans.run.cuda.libraries.bindings import are_installed
from functrans.run.cuda.libraries.handles import (
    BLAS_WORKSPACE,
    Handles,
    Workspace,
    handles_for,
    pooled,
)
from functrans.run.cuda.libraries.products import ALIGNED, LARGEST_WORKSPACE
from functrans.run.cuda.libraries.steps import LibraryStep, library_step
from functrans.run.cuda.libraries.table import capturable
from functrans.run.cuda.memory import allocate
from functrans.run.cuda.pending import WORD, Explain, Flag, Pending, brief
from functrans.run.cuda.resources import LEAST_SHARED_OF_A_BLOCK, MULTIPROCESSORS, within_reach

WORTH_A_GRAPH = 2
"""The fewest launches that are captured."""

GRAPHS = 8
"""The most graphs of a program: a loop whose results are its next operands alternates between two
pieces of memory."""

STREAMS = 64
"""The most streams for which a program keeps a status word."""

FEW_SPILLS = 32
"""The most bytes that a thread may spill to make room for another block: three or four addresses,
which are stored before a loop and loaded after it."""


def machine(architecture: str) -> Target:
    """The target of an NVIDIA GPU, with the installed libraries and the current configuration.

    The configuration determines whether results are reproducible, and the precision of products.
    """
    tf32 = config.matmul_precision == "tf32"
    return _machine(CUDA, architecture, are_installed(), config.deterministic, tf32)


@cached(64)
def _machine(
    base: Target, architecture: str, libraries: bool, deterministic: bool, tf32: bool
) -> Target:
    assert base.grid is not None
    known = MULTIPROCESSORS.get(architecture)
    grid = base.grid
    if known is not None:
        rows, room = known.double_rows, known.shared_of_a_block
        grid = grid._replace(largest_shared=room, double_rows=rows)
    else:
        grid = grid._replace(largest_shared=LEAST_SHARED_OF_A_BLOCK, double_tiles=())
    if capability(architecture) < (8, 0):
        # older tensor cores support fewer dtypes and other tiles, without asynchronous copies
        grid = grid._replace(warp_tiles=(), copied_tiles=(), double_tiles=(), long_rows=0)
    return replace(base, grid=grid, libraries=libraries, deterministic=deterministic, tf32=tf32)


class Compiled(NamedTuple):
    """A compiled kernel of a plan."""

    source: str
    cubin: Cubin


def compiled(kernel: Kernel, grid: Grid, architecture: str) -> Compiled:
    """The cubin of a kernel.

    Raises `DeviceError` if the packages that compile it are missing.
    """
    source = emit(kernel, grid)
    signature = (
        "int64*",
        *(f"{_in_memory(one)}*" for one in kernel.buffers),
        *["int64"] * kernel.sizes,
    )
    threads, _, shared = launch(kernel, grid)
    blocks = least_blocks(kernel)
    made = compile_cubin(source, signature, architecture, threads, blocks)
    if made.resources.spills > FEW_SPILLS and blocks > 1:
        # a single block that uses all registers is better
        made = compile_cubin(source, signature, architecture, threads)
    more = within_reach(made.resources, threads, architecture, shared)
    if more:
        denser = compile_cubin(source, signature, architecture, threads, more)
        if denser.resources.spills <= made.resources.spills:
            made = denser
    return Compiled(source, made)


def all_compiled(kernels: Sequence[Kernel], grid: Grid, architecture: str) -> list[Compiled]:
    """The cubins of kernels, compiled in parallel threads."""
    work = [partial(compiled, kernel, grid, architecture) for kernel in kernels]
    return side_by_side(work, config.threads)


def _in_memory(one: Buffer) -> str:
    return "uint8" if one.dtype == BOOL else str(in_memory(one.dtype))


Addresses = Callable[[Sequence[int]], tuple[int, ...]]


class Launch(NamedTuple):
    """A launch of a kernel."""

    kernel: Any  # the loaded kernel
    blocks: int
    threads: int
    # from the words of a call (the address of the flag, those of inputs, outputs, temporaries) to
    # those that it takes: the flag's and its buffers'
    addresses: Addresses
    sizes: tuple[int, ...]
    shared: int  # bytes of dynamic shared memory, in addition to those that the kernel declares


class LibraryCall(NamedTuple):
    """A call of a library."""

    step: LibraryStep
    # from the words of a call to the addresses of its buffers, as for `Launch`
    addresses: Addresses


class _Captured(NamedTuple):
    """A graph, and the workspaces and plans that its library calls use."""

    graph: LaunchGraph
    used: list[object]


class Launches:
    """A plan on a device."""

    def __init__(self, plan: Plan, grid: Grid, driver: Driver) -> None:
        self.driver = driver
        self.arena = plan.arena
        self.offsets = tuple(plan.offsets.values())
        self.may_fail = any(may_fail(kernel.body) for kernel in plan.kernels)
        buffers = [*plan.inputs, *plan.outputs, *plan.offsets]
        slots = {one: slot for slot, one in enumerate(buffers, start=1)}  # slot 0 is the flag's
        architecture = driver.properties.architecture
        driver.stream()  # makes current the device for which kernels are loaded
        kernels = [kernel for kernel in plan.kernels if kernel.team]
        loaded = {
            kernel: driver.load(made.cubin.code, made.cubin.name, launch(kernel, grid).shared)
            for kernel, made in zip(kernels, all_compiled(kernels, grid, architecture), strict=True)
        }
        self.launches = [
            _launch(step, turns, loaded[step.kernel], grid, slots)
            if step.kernel.team
            else _library_call(step, turns, slots)
            for step, turns in called(plan.schedule)
            if iterations(step.kernel, step.sizes)
        ]
        calls = [each.step.symbol for each in self.launches if isinstance(each, LibraryCall)]
        self.needs_room = bool(calls) and all(map(capturable, calls))
        """Whether library calls need a fixed workspace."""
        self.is_worth_a_graph = len(self.launches) >= WORTH_A_GRAPH and (
            self.needs_room or not calls
        )
        self._flags: Table[Stream, Flag] = Table(STREAMS)
        self._seen: Table[tuple[int, ...], None] = Table(2 * GRAPHS)
        self._graphs: Table[tuple[int, ...], _Captured] = Table(GRAPHS)
        self._lock = lock()

    def run(
        self,
        words: list[int],  # 0, then the addresses of the inputs and of the outputs; is changed
        stream: Stream,
        explain: Explain = brief,
    ) -> Pending:
        """Launch all kernels; returns the pending status, if they can fail."""
        flag = None
        if self.may_fail:
            flag = self._flag(stream)
            words[0] = flag.address
        if self.offsets:
            arena = allocate(self.driver, self.arena, stream)  # until this returns
            words += [arena.address + offset for offset in self.offsets]
        if self.needs_room:
            room = allocate(self.driver, LARGEST_WORKSPACE + BLAS_WORKSPACE, stream)
            words.append(room.address)
        if self.is_worth_a_graph:
            self._replay(tuple(words), stream)
        else:
            self._put(words, stream)
        return (flag.fetch(explain),) if flag else ()

    def _flag(self, stream: Stream) -> Flag:
        found = self._flags.get(stream)
        if found is None:
            found = Flag(stream)
            self._flags.remember(stream, found)
        return found

    def _replay(self, given: tuple[int, ...], stream: Stream) -> None:
        """Replay the graph of earlier launches with the same addresses."""
        # a graph that runs on one stream must not be updated for another
        with self._lock:
            found = self._graphs.get(given)
            if found is None and given not in self._seen:
                self._seen.remember(given, None)
                self._put(given, stream)
                return
            if found is None:
                found = self._capture(given, stream)
                self._graphs.remember(given, found)
            self.driver.replay(found.graph, stream)

    def _capture(self, given: tuple[int, ...], stream: Stream) -> _Captured:
        """Capture all launches as a graph, by an update of the oldest graph if there are many."""
        oldest = None
        if len(self._graphs) >= GRAPHS:
            oldest = self._graphs.pop(next(iter(self._graphs))).graph
        if not self.needs_room:
            captured = self.driver.capture(lambda within: self._put(given, within), oldest)
            return _Captured(captured, [])
        handles = handles_for(stream.handle)
        used: list[object] = []

        def record(within: Stream) -> None:
            with handles.captured(within.handle, given[-1] + LARGEST_WORKSPACE) as kept:
                self._put(given, within, handles)
            used.extend(kept)

        return _Captured(self.driver.capture(record, oldest), used)

    def _put(self, given: Sequence[int], stream: Stream, handles: Handles | None = None) -> None:
        put = self.driver.launch
        if given[0]:
            self.driver.fill(given[0], 0, WORD, stream)
        for each in self.launches:
            if isinstance(each, Launch):
                kernel, blocks, threads, addresses, sizes, shared = each
                put(kernel, blocks, threads, addresses(given) + sizes, stream, shared)
                continue
            with self._room(given, stream) as room:
                each.step(handles or handles_for(stream.handle), room, each.addresses(given))

    @contextmanager
    def _room(self, given: Sequence[int], stream: Stream) -> Iterator[Workspace]:
        """Workspace for library calls, shared by consecutive ones."""
        if self.needs_room:
            yield _Room(given[-1])
            return
        driver = self.driver
        with pooled(
            lambda nbytes: driver.allocate(nbytes, stream),
            lambda address: driver.free(address, stream),
        ) as room:
            yield room


class _Room:
    """A library's workspace of `LARGEST_WORKSPACE` bytes."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.left = LARGEST_WORKSPACE

    def __call__(self, nbytes: int) -> int:
        found = self.address + LARGEST_WORKSPACE - self.left
        self.left -= -(-nbytes // ALIGNED) * ALIGNED
        if self.left < 0:
            raise DeviceError(f"a library asks for {nbytes} bytes more than it was promised to")
        return found


def _library_call(step: Step, turns: tuple[int, ...], slots: dict[Buffer, int]) -> LibraryCall:
    (call,) = step.kernel.body
    assert isinstance(call, Call)
    prepared = library_step(call, step.kernel.buffers, (*step.sizes, *turns))
    return LibraryCall(prepared, _picked(slots[one] for one in step.buffers))


def _launch(
    step: Step, turns: tuple[int, ...], loaded: Any, grid: Grid, slots: dict[Buffer, int]
) -> Launch:
    shape = launch(step.kernel, grid)
    return Launch(
        loaded,
        shape.blocks(iterations(step.kernel, step.sizes)),
        shape.threads,
        _picked([0, *(slots[one] for one in step.buffers)]),
        (*step.sizes, *turns),
        shape.shared,
    )


def _picked(places: Iterable[int]) -> Addresses:
    """A function from words to the tuple of those at some positions."""
    found = tuple(places)
    return itemgetter(*found) if len(found) > 1 else lambda words: tuple(words[i] for i in found)

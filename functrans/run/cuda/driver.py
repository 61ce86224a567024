"""The driver interface: all requests to a GPU's driver, and which driver serves a device.

Streams, events, kernels and graphs are opaque objects; addresses, sizes and handles are plain
integers. So a driver is small, and there are others than `functrans.run.cuda.core`: tests have one
that checks lifetimes and stream order, and one that runs kernels in an emulator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from functrans.errors import DeviceError
from functrans.lazily import lazy
from functrans.locks import lock
from functrans.records import NamedTuple

if TYPE_CHECKING:
    import numpy as np

Event = Any
"""A point in the work of a stream."""

Kernel = Any
"""A loaded kernel."""

LaunchGraph = Any
"""A CUDA graph that was captured and instantiated: launches that are replayed as one."""


class Properties(NamedTuple):
    """Properties of a GPU."""

    name: str
    architecture: str  # the architecture of kernels: "sm_90"
    multiprocessors: int
    threads: int  # of a block, at most
    shared_bytes: int  # the most of a block, with opt-in


class MemoryState(NamedTuple):
    """The bytes of a GPU's memory: total, free, and in use by the pool."""

    total: int
    free: int
    used: int


class OutOfMemory(Exception):
    """Raised by `Driver.allocate`; `functrans.run.cuda.memory.allocate` converts it to an error."""


class Stream(Protocol):
    """An ordered queue of work on one device."""

    @property
    def driver(self) -> Driver:
        """The driver of its device."""

    @property
    def handle(self) -> int:
        """The ``CUstream``, for libraries and for other packages."""


class Driver(Protocol):
    """One GPU. All work is queued on streams; methods wait for it only where documented.

    Before a method is called, the same thread must have called `stream`, and since then no other
    driver's: that makes the device the thread's current one. Only `free`, `record` and `wait` may
    be called from any thread, since memory is freed wherever its last reference is dropped.
    """

    @property
    def device(self) -> str:
        """Its name: ``"cuda:0"``."""

    @property
    def ordinal(self) -> int:
        """The number in its name."""

    @property
    def properties(self) -> Properties:
        """The properties of the GPU."""

    # ---- streams and events

    def stream(self) -> Stream:
        """The calling thread's stream named `stream_name`; makes the device current.

        A thread has one stream of each name. Streams of different threads or names are not ordered
        with each other, and none is ordered with the default stream.
        """

    def transfers(self) -> Stream:
        """Another stream of the calling Python thread, for copies that wait for no kernel."""

    def foreign_stream(self, handle: int) -> Stream:
        """A stream of another package (1 is the legacy default stream), which owns it."""

    def record(self, stream: Stream, timed: bool = False) -> Event:
        """An event that happens when all present work on the stream is done."""

    def wait(self, stream: Stream, event: Event) -> None:
        """Make further work on the stream wait for an event, of any device."""

    def happened(self, event: Event) -> bool:
        """Whether an event has happened."""

    def reach(self, event: Event) -> None:
        """Wait until an event has happened.

        Raises `DeviceError` as `synchronize` does.
        """

    def elapsed(self, start: Event, stop: Event) -> float:
        """The seconds between two timed events, for which it waits."""

    def synchronize(self, stream: Stream | None = None) -> None:
        """Wait until all work on a stream, or on the whole device, is done.

        Raises `DeviceError` if a kernel failed: then this process cannot use the device any more.
        """

    # ---- memory

    def allocate(self, nbytes: int, stream: Stream) -> int:
        """The address of new memory, aligned to 256 bytes: stream-ordered, from a pool.

        Further work on the stream may use it.

        Raises `OutOfMemory` if there is too little memory. The pool is unchanged.
        """

    def free(
        self, address: int, stream: Stream, after: Sequence[Event] = (), nbytes: int = 0
    ) -> None:
        """Return memory to the pool in stream order, after some events, without waiting.

        Later allocations on that stream may reuse it; if its size is given, it may be kept for
        them.
        """

    def trim(self) -> None:
        """Return unused memory of the pool to the system."""

    def memory_state(self) -> MemoryState:
        """The free and the total memory of a device."""

    def ordinal_of(self, address: int) -> int:
        """The number of the GPU that an address is on."""

    # ---- copies

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Pinned host memory, as bytes, for asynchronous copies.

        The caller must keep it alive until these copies are done.
        """

    def copy_in(self, address: int, source: np.ndarray[Any, Any], stream: Stream) -> None:
        """Copy a C-contiguous array from the host.

        The array must be kept alive and unchanged until the stream is synchronized.
        """

    def copy_out(self, target: np.ndarray[Any, Any], address: int, stream: Stream) -> None:
        """Copy into a C-contiguous host array, asynchronously, in stream order."""

    def copy(self, to: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy within the device, between regions that do not overlap."""

    def copy_from(self, to: int, other: Driver, source: int, nbytes: int, stream: Stream) -> None:
        """Copy from another GPU, on a stream of this one."""

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        """Set bytes."""

    # ---- kernels

    def load(self, code: bytes, name: str, shared_bytes: int = 0) -> Kernel:
        """A kernel of a cubin, which may be launched with this much dynamic shared memory."""

    def launch(
        self,
        kernel: Kernel,
        blocks: int,
        threads: int,
        arguments: Sequence[int],
        stream: Stream,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a grid of blocks of threads.

        Each argument has eight bytes: an address, or an int64.
        """

    def capture(
        self,
        record: Callable[[Stream], object],
        # A graph to be updated to the new one, which is faster if only arguments differ. It must
        # not be used afterwards.
        graph: LaunchGraph | None = None,
    ) -> LaunchGraph:
        """Capture the work that a function puts on a stream, as a graph to be replayed.

        The work is not executed. The function may only launch, fill and copy within the device:
        memory is allocated before. Everything that the graph uses must be kept alive.
        """

    def replay(self, graph: LaunchGraph, stream: Stream) -> None:
        """Run a captured graph on a stream."""


# ---- which driver answers for a device -----------------------------------------------------------

_real = lazy("functrans.run.cuda.core:CoreDriver")
_count = lazy("functrans.run.cuda.core:count")

_opened: dict[int, Driver] = {}
_opening = lock()
_used_before_fork = False

_substitutes: ContextVar[dict[int, Driver] | None] = ContextVar("_substitutes", default=None)


@contextmanager
def using(*drivers: Driver) -> Iterator[None]:
    """Use these drivers, and no others, for their devices, within a block.

    A thread that is started inside must run in a copy of the context (`contextvars`).
    """
    token = _substitutes.set({driver.ordinal: driver for driver in drivers})
    try:
        yield
    finally:
        _substitutes.reset(token)


stream_name: ContextVar[str] = ContextVar("stream_name", default="")
"""The name of the calling thread's current stream; "" is its default one."""


@contextmanager
def named_stream(name: str) -> Iterator[None]:
    """Put work of the calling thread on its stream of that name, within a block, on each device."""
    if not isinstance(name, str) or not name:
        raise DeviceError(f'cuda_stream takes a name, as in cuda_stream("copies"), not {name!r}')
    token = stream_name.set(name)
    try:
        yield
    finally:
        stream_name.reset(token)


def driver(device: str = "cuda:0") -> Driver:
    """The driver of a device: ``"cuda:1"``; ``"cuda"`` is the first.

    Raises `DeviceError` if the device does not exist, or a package that is needed to use it is
    missing; the message explains how to get it.
    """
    ordinal = ordinal_of(device)
    substitutes = _substitutes.get()
    if substitutes is not None:
        found = substitutes.get(ordinal)
        if found is None:
            raise DeviceError(absent(device, sorted(substitutes)))
        return found
    if _used_before_fork:
        raise DeviceError(
            f"{device!r} cannot be used in a process that was forked from one that had used a GPU: "
            'start processes by multiprocessing.get_context("spawn")'
        )
    found = _opened.get(ordinal)
    if found is None:
        with _opening:
            found = _opened.get(ordinal)
            if found is None:
                number = _count(device)
                if ordinal >= number:
                    raise DeviceError(absent(device, range(number)))
                found = _opened[ordinal] = _real(ordinal)
    return found


def opened() -> list[Driver]:
    """The drivers of the devices that are in use."""
    substitutes = _substitutes.get()
    return (
        []
        if _used_before_fork
        else list((_opened if substitutes is None else substitutes).values())
    )


def count() -> int:
    """The number of usable GPUs; 0 if a package that is needed to use one is missing."""
    substitutes = _substitutes.get()
    if substitutes is not None:
        return len(substitutes)
    try:
        number: int = _count("cuda")
    except DeviceError:
        return 0
    return number


def there_is(device: str) -> bool:
    """Whether a GPU exists and can be used."""
    return ordinal_of(device) < count()


def full_name(device: str) -> str:
    """The full name of a GPU, which need not exist: ``"cuda:0"`` for ``"cuda"``."""
    return f"cuda:{ordinal_of(device)}"


def ordinal_of(device: Any) -> int:
    """The number in the name of a GPU."""
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind == "cuda" and ((number.isascii() and number.isdecimal()) or not colon):
            return int(number or "0")
    raise DeviceError(f'a device is "cuda", "cuda:0", "cuda:1", ... or "cpu", not {device!r}')


def name_of(device: str) -> str:
    """The full name of an existing device: ``"cuda:0"`` for ``"cuda"``."""
    return driver(device).device


def absent(device: str, ordinals: Sequence[int]) -> str:
    """The message about a missing GPU."""
    there = ", ".join(f'"cuda:{each}"' for each in ordinals) or "no GPU"
    are = "are" if len(ordinals) > 1 else "is"
    return f'there is no device "{device}" here: there {are} {there}'


def _after_fork_in_child() -> None:
    # CUDA does not survive a fork. The parent frees its own allocations.
    global _used_before_fork
    _used_before_fork = _used_before_fork or bool(_opened)


def inherited() -> bool:
    """Whether this process was forked from one that used GPUs."""
    return _used_before_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

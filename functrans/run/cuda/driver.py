"""The driver interface: all requests to a GPU's driver, and which driver serves a device.

Streams, events, kernels and graphs are handed back as they came; addresses, sizes and handles are
plain integers. So a driver is small, and there may be others than `functrans.run.cuda.core`: tests
have one that checks lifetimes and stream order, and one that runs kernels in an emulator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from functrans.errors import DeviceError
from functrans.lazily import lazy
from functrans.locks import lock

if TYPE_CHECKING:
    import numpy as np

Event = Any
"""A point in the work of a stream."""

Kernel = Any
"""A kernel that was loaded, ready to be launched."""

LaunchGraph = Any
"""A CUDA graph that was captured and instantiated: launches that are replayed as one."""


class Properties(NamedTuple):
    """Properties of a GPU."""

    name: str
    architecture: str  # what kernels are compiled for: "sm_90"
    multiprocessors: int
    threads: int  # of a block, at most
    shared_bytes: int  # of a block, at most: what has to be asked for included


class MemoryState(NamedTuple):
    """How many bytes of a GPU's memory there are, are free, and are in use by our pool."""

    total: int
    free: int
    used: int


class OutOfMemory(Exception):
    """Raised by `Driver.allocate`: `functrans.run.cuda.memory.allocate` makes an error of it."""


class Stream(Protocol):
    """A queue of work of one device: what is put there runs in that order."""

    @property
    def driver(self) -> Driver:
        """Whose it is."""

    @property
    def handle(self) -> int:
        """The ``CUstream``, for libraries and for other packages."""


class Driver(Protocol):
    """One GPU. All work is put on streams; nothing waits for it but what says so.

    Whoever calls a method has called `stream` on the same thread, and no other driver's since: that
    makes the device the current one of the thread. Only `free`, `record` and `wait` may be called
    from anywhere, since memory is freed wherever its last reference goes.
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
        """The stream of the calling Python thread by `stream_name`. Makes the device current.

        A thread has one of each name, always the same one. Streams of two threads are in no order,
        nor are those of two names, and none is ordered with the default stream.
        """

    def transfers(self) -> Stream:
        """Another stream of the calling Python thread, for copies that wait for no kernel."""

    def foreign_stream(self, handle: int) -> Stream:
        """A stream of another package (1 is the legacy default stream), as long as it has it."""

    def record(self, stream: Stream, timed: bool = False) -> Event:
        """An event that has happened once all is done that is on the stream by now."""

    def wait(self, stream: Stream, event: Event) -> None:
        """Have what is put on the stream from now on start after an event (of any device)."""

    def happened(self, event: Event) -> bool:
        """Whether an event has happened."""

    def reach(self, event: Event) -> None:
        """Wait until an event has happened.

        Raises
        ------
        DeviceError
            As `synchronize`.
        """

    def elapsed(self, start: Event, stop: Event) -> float:
        """The seconds between two timed events, for which it waits."""

    def synchronize(self, stream: Stream | None = None) -> None:
        """Wait until a stream, or the whole device, has done its work.

        Raises
        ------
        DeviceError
            If a kernel failed: the device is of no more use to this process.
        """

    # ---- memory

    def allocate(self, nbytes: int, stream: Stream) -> int:
        """The address of new memory, aligned to 256 bytes: stream-ordered, from a pool.

        It may be used by what is put on the stream from now on.

        Raises
        ------
        OutOfMemory
            If there is none. The pool is as it was.
        """

    def free(
        self, address: int, stream: Stream, after: Sequence[Event] = (), nbytes: int = 0
    ) -> None:
        """Give memory back to the pool once the stream comes there, after some events.

        Nothing waits for it. Memory that is allocated on that stream from now on may be the same;
        if it is said how much it is, it may be kept for that.
        """

    def trim(self) -> None:
        """Give what the pool has and does not use back to the system."""

    def memory_state(self) -> MemoryState:
        """How much memory there is."""

    def ordinal_of(self, address: int) -> int:
        """The number of the GPU that an address is on."""

    # ---- copies

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Memory of the host, as bytes, that the device copies from and to while Python goes on.

        It must stay until what was copied there has been: nothing waits for that.
        """

    def copy_in(self, address: int, source: np.ndarray[Any, Any], stream: Stream) -> None:
        """Copy a C-contiguous array from the host.

        The array must stay, and stay as it is, until the stream is synchronized.
        """

    def copy_out(self, target: np.ndarray[Any, Any], address: int, stream: Stream) -> None:
        """Copy into a C-contiguous array of the host, which is filled once the stream is there."""

    def copy(self, to: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy within the device: from one address to another that does not overlap with it."""

    def copy_from(self, to: int, other: Driver, source: int, nbytes: int, stream: Stream) -> None:
        """Copy from another GPU, on a stream of this one."""

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        """Set bytes."""

    # ---- kernels

    def load(self, code: bytes, name: str, shared_bytes: int = 0) -> Kernel:
        """A kernel of a cubin, which may be launched with so much dynamic shared memory."""

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

        Each argument is eight bytes: an address, or an int64.
        """

    def capture(
        self, record: Callable[[Stream], object], graph: LaunchGraph | None = None
    ) -> LaunchGraph:
        """Capture the work that a function puts on a stream, as a graph to be replayed.

        Nothing runs meanwhile. The function may launch, fill and copy within the device, no more:
        memory is allocated before. What the graph uses must stay as long as it is replayed.

        Parameters
        ----------
        record : callable
        graph : optional
            A graph that is made into the new one, which is quicker where they differ in arguments
            only. It is not to be used afterwards.
        """

    def replay(self, graph: LaunchGraph, stream: Stream) -> None:
        """Run what was captured, on a stream."""


# ---- which driver answers for a device -----------------------------------------------------------

_real = lazy("functrans.run.cuda.core:CoreDriver")
_count = lazy("functrans.run.cuda.core:count")

_opened: dict[int, Driver] = {}
_opening = lock()
_used_before_fork = False

_substitutes: ContextVar[dict[int, Driver] | None] = ContextVar("_substitutes", default=None)


@contextmanager
def using(*drivers: Driver) -> Iterator[None]:
    """Have these drivers, and no others, answer for their devices, here and in what is called.

    A thread that is started inside has to be run in a copy of the context (`contextvars`).
    """
    token = _substitutes.set({driver.ordinal: driver for driver in drivers})
    try:
        yield
    finally:
        _substitutes.reset(token)


stream_name: ContextVar[str] = ContextVar("stream_name", default="")
"""Of the stream that the calling thread puts work on; "" is that which it has anyway."""


@contextmanager
def named_stream(name: str) -> Iterator[None]:
    """Have work of the calling thread put on its stream of that name meanwhile, on each device."""
    if not isinstance(name, str) or not name:
        raise DeviceError(f'cuda_stream takes a name, as in cuda_stream("copies"), not {name!r}')
    token = stream_name.set(name)
    try:
        yield
    finally:
        stream_name.reset(token)


def driver(device: str = "cuda:0") -> Driver:
    """The driver of a device: ``"cuda:1"``; ``"cuda"`` is the first.

    Raises
    ------
    DeviceError
        If there is no such device, or what is needed to use it is missing: says what, and how to
        get it.
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
    """How many GPUs there are: 0, too, where what is needed to use one is missing."""
    substitutes = _substitutes.get()
    if substitutes is not None:
        return len(substitutes)
    try:
        number: int = _count("cuda")
    except DeviceError:
        return 0
    return number


def there_is(device: str) -> bool:
    """Whether there is such a GPU, and what is needed to use it."""
    return ordinal_of(device) < count()


def full_name(device: str) -> str:
    """The full name of a GPU, be it there or not: ``"cuda:0"`` for ``"cuda"``."""
    return f"cuda:{ordinal_of(device)}"


def ordinal_of(device: Any) -> int:
    """The number in the name of a GPU."""
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind == "cuda" and ((number.isascii() and number.isdecimal()) or not colon):
            return int(number or "0")
    raise DeviceError(f'a device is "cuda", "cuda:0", "cuda:1", ... or "cpu", not {device!r}')


def name_of(device: str) -> str:
    """The full name of a device that is there: ``"cuda:0"`` for ``"cuda"``."""
    return driver(device).device


def absent(device: str, ordinals: Sequence[int]) -> str:
    """The words about a GPU that is not there."""
    there = ", ".join(f'"cuda:{each}"' for each in ordinals) or "no GPU"
    are = "are" if len(ordinals) > 1 else "is"
    return f'there is no device "{device}" here: there {are} {there}'


def _after_fork_in_child() -> None:
    # CUDA does not survive a fork. What the parent had allocated is the parent's to free.
    global _used_before_fork
    _used_before_fork = _used_before_fork or bool(_opened)


def inherited() -> bool:
    """Whether the GPUs of this process are those of the one that it was forked from."""
    return _used_before_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

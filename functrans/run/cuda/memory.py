"""Stream-ordered memory: its owner, the streams that use it, and its return to the pool.

Memory is written on one stream and may be read on others. A reader's stream waits for the write,
once, by an event; readers do not wait for each other. When the last reference is dropped, the
memory is freed on the stream that wrote it, after events of the streams that read it. So no thread
waits for a GPU in order to free memory.

Memory of other packages is borrowed: its owner is released when this library's streams no longer
use it. Memory that was exported to another package may be in use on unknown streams: it is freed
after the next synchronization of the device, which is forced if there is much of it.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from functrans.caches import when_clear
from functrans.errors import DeviceError, DeviceMemoryError
from functrans.locks import lock
from functrans.run.call.memory import in_words
from functrans.run.cuda.driver import Driver, Event, OutOfMemory, Stream, inherited, opened

# Re-entrant, since the garbage collector may free memory at any point.
_ordering = lock()

_borrowed: deque[tuple[Driver, list[Event], Any]] = deque()
"""Owners of borrowed memory without references, and the events until which they are kept."""

MOST_SHOWN = 256 << 20
"""The most bytes of unreferenced exported memory, before the device is synchronized."""

_shown: deque[tuple[Driver, int, int, Stream]] = deque()
"""Unreferenced exported memory: its address, its size, and the stream on which it is freed."""

after_waiting: list[Callable[[Driver], None]] = []
"""Functions that release arrays, called after a device was synchronized for lack of memory."""


class Memory:
    """A piece of a GPU's memory, which is freed with its last reference."""

    __slots__ = (
        "__weakref__",
        "_readers",
        "_shown",
        "_written",
        "address",
        "driver",
        "nbytes",
        "owner",
        "stream",
    )

    def __init__(
        self,
        driver: Driver,
        address: int,  # 0 if it is empty, or was released
        nbytes: int,
        stream: Stream,  # the stream on which it was written
        owner: Any = None,  # the owner of borrowed memory; None for memory of the pool
    ) -> None:
        self.driver = driver
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        self.owner = owner
        self._readers: tuple[Stream, ...] = ()
        self._shown = False
        self._written: Event | None = None

    def was_written(self, event: Event) -> None:
        """Record the event after which it is written, and no longer used on its stream."""
        self._written = event

    @property
    def exclusive(self) -> bool:
        """Whether no other package can access it, so that it may be overwritten (donated)."""
        return self.owner is None and not self._shown

    def read(self, stream: Stream) -> None:
        """Make further work on a stream wait until it is written."""
        if stream is self.stream or stream in self._readers:
            return
        with _ordering:
            if stream is not self.stream and stream not in self._readers:
                event = self._written or self.stream.driver.record(self.stream)
                stream.driver.wait(stream, event)
                self._readers = (*self._readers, stream)

    def write(self, stream: Stream) -> None:
        """Make further work on a stream, which may write to it, wait for all other uses."""
        if stream is self.stream and not self._readers:
            return
        with _ordering:
            for other in {self.stream, *self._readers} - {stream}:
                stream.driver.wait(stream, other.driver.record(other))
            self.stream, self._readers, self._written = stream, (), None

    def show(self) -> None:
        """Record that it is exported: another package may use it on any stream."""
        self._shown = True

    def release(self) -> None:
        """Release it now; it must not be used any more."""
        with _ordering:
            address, self.address = self.address, 0
            owner, self.owner = self.owner, None
        if address:
            self._release(address, owner)

    def _release(self, address: int, owner: Any) -> None:
        if inherited():
            return
        if owner is not None:
            events = [each.driver.record(each) for each in (self.stream, *self._readers)]
            _borrowed.append((self.driver, events, owner))
            return
        if not (self._readers or self._shown):
            self.driver.free(address, self.stream, (), self.nbytes)
            return
        last, *others = (self.stream, *self._readers)
        if self._written is not None and others and others[0].driver is self.driver:
            last, *others = others  # this read came after the write, so the writing stream is done
        after = [each.driver.record(each) for each in others]
        if self._shown:
            for event in after:
                self.driver.wait(last, event)
            _shown.append((self.driver, address, self.nbytes, last))
            return
        self.driver.free(address, last, after, self.nbytes)

    def __del__(
        self,
        # bound here, since the end of the process empties modules
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        failed: type[DeviceError] = DeviceError,
    ) -> None:
        if not self.address or is_finalizing():  # the end of the process frees everything
            return
        try:
            self._release(self.address, self.owner)
        except failed:  # a failed device refuses all calls, and the failure was reported
            pass


def allocate(driver: Driver, nbytes: int, stream: Stream) -> Memory:
    """Allocate memory, to be written on a stream; the address of empty memory is 0.

    Raises `DeviceMemoryError` if there is too little memory, even after unused memory was returned.
    Earlier allocations remain valid.
    """
    if _borrowed:
        give_back()
    if not nbytes:
        return Memory(driver, 0, 0, stream)
    if _shown and sum(size for _, _, size, _ in _shown) > MOST_SHOWN:
        _waited_for(driver)
    try:
        return Memory(driver, driver.allocate(nbytes, stream), nbytes, stream)
    except OutOfMemory:
        pass
    return Memory(driver, _allocate_again(driver, nbytes, stream), nbytes, stream)


def keep(driver: Driver, event: Event, owner: Any) -> None:
    """Keep an object alive until an event has happened."""
    _borrowed.append((driver, [event], owner))


def give_back() -> None:
    """Release owners of borrowed memory that is no longer used, in order."""
    while _borrowed:
        try:
            kept = _borrowed.popleft()
        except IndexError:  # another thread has done it
            return
        driver, events, _ = kept
        if not all(map(driver.happened, events)):
            _borrowed.appendleft(kept)
            return


def _waited_for(driver: Driver) -> None:
    """Synchronize a device, and release everything that was kept until then."""
    driver.synchronize()
    for let_go in after_waiting:
        let_go(driver)
    for _ in range(len(_shown)):
        one = _shown.popleft()
        if one[0] is driver:
            driver.free(one[1], one[3])
        else:
            _shown.append(one)
    give_back()


def trim() -> None:
    """Return unused memory of the pools to the system."""
    for driver in opened():
        with suppress(DeviceError):  # a failed device has no memory to return
            driver.stream()
            _waited_for(driver)
            driver.trim()


when_clear.append(trim)


def _allocate_again(driver: Driver, nbytes: int, stream: Stream) -> int:
    """Retry an allocation, after garbage collection and trimming."""
    gc.collect()  # reference cycles, such as tracebacks, may hold arrays
    _waited_for(driver)
    driver.trim()
    try:
        return driver.allocate(nbytes, stream)
    except OutOfMemory:
        state = driver.memory_state()
    raise DeviceMemoryError(
        f"{driver.device} has no room for {in_words(nbytes)}: {in_words(state.free)} of "
        f"{in_words(state.total)} are free, and {in_words(state.used)} are in arrays of this "
        "process: delete arrays that are no longer needed, or compute on fewer rows at a time"
    )

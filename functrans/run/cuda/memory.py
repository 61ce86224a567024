"""Stream-ordered memory: its owner, the streams that use it, and its return to the pool.

Memory is written on one stream and may be read on others. A reader's stream waits for the writing,
once, by an event; readers do not wait for one another. When the last reference goes, the memory is
freed on the stream that wrote it, after events of the streams that read it. So no thread ever waits
for a GPU because something was freed.

Memory of other packages is borrowed: its owner is let go when our streams have done with it. Memory
that was shown to another package may be in use on streams that we know nothing of: it is freed when
the device has been waited for, for whatever reason, or when there is much of it.
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
from functrans.run.cuda.driver import Driver, Event, OutOfMemory, Stream, inherited, opened

# Re-entrant, since the garbage collector may free memory wherever Python is.
_ordering = lock()

_borrowed: deque[tuple[Driver, list[Event], Any]] = deque()
"""Owners of borrowed memory that nobody has any more, and the events that they are kept for."""

MOST_SHOWN = 256 << 20
"""Bytes that others may still use and nobody has any more, before the device is waited for."""

_shown: deque[tuple[Driver, int, int, Stream]] = deque()
"""Such memory: its address, its size, and the stream that it is freed on."""

after_waiting: list[Callable[[Driver], None]] = []
"""What lets go of arrays once a device has done all of its work, of which there was too much."""


class Memory:
    """A piece of a GPU's memory, which is freed with the last reference to it.

    Attributes
    ----------
    driver : Driver
        Of the GPU that it is on.
    address : int
        Where it begins; 0 if it is empty, or was released.
    nbytes : int
    stream : Stream
        On which it was written.
    owner : object
        Whose it is, if it is borrowed; None if it is of our pool.
    """

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
        self, driver: Driver, address: int, nbytes: int, stream: Stream, owner: Any = None
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
        """Note the event after which it is written, and not used any more on its stream."""
        self._written = event

    @property
    def exclusive(self) -> bool:
        """Whether no other package can see it, so that it may be overwritten (donated)."""
        return self.owner is None and not self._shown

    def read(self, stream: Stream) -> None:
        """Have what is put on a stream from now on find what was written here."""
        if stream is self.stream or stream in self._readers:
            return
        with _ordering:
            if stream is not self.stream and stream not in self._readers:
                event = self._written or self.stream.driver.record(self.stream)
                stream.driver.wait(stream, event)
                self._readers = (*self._readers, stream)

    def write(self, stream: Stream) -> None:
        """Have what is put on a stream from now on come after all other uses; it may write here."""
        if stream is self.stream and not self._readers:
            return
        with _ordering:
            for other in {self.stream, *self._readers} - {stream}:
                stream.driver.wait(stream, other.driver.record(other))
            self.stream, self._readers, self._written = stream, (), None

    def show(self) -> None:
        """Note that another package may use it from now on, on any stream."""
        self._shown = True

    def release(self) -> None:
        """Let it go now: nobody may use it any more."""
        with _ordering:
            address, self.address = self.address, 0
            owner, self.owner = self.owner, None
        if not address or inherited():
            return
        if owner is not None:
            events = [each.driver.record(each) for each in (self.stream, *self._readers)]
            _borrowed.append((self.driver, events, owner))
            return
        if not (self._readers or self._shown):
            self.driver.free(address, self.stream, nbytes=self.nbytes)
            return
        last, *others = (self.stream, *self._readers)
        if self._written is not None and others and others[0].driver is self.driver:
            last, *others = others  # which came after the writing: that stream has no more to do
        after = [each.driver.record(each) for each in others]
        if self._shown:
            for event in after:
                self.driver.wait(last, event)
            _shown.append((self.driver, address, self.nbytes, last))
            return
        self.driver.free(address, last, after, self.nbytes)

    def __del__(self) -> None:
        if sys.is_finalizing():  # the process gives all of it back
            return
        try:
            self.release()
        except DeviceError:  # a device that has failed refuses everything, and who waited was told
            pass


def allocate(driver: Driver, nbytes: int, stream: Stream) -> Memory:
    """Allocate bytes of memory, to be written on a stream; without an address if there are none.

    Raises
    ------
    DeviceMemoryError
        If there is no room, not even when what is not in use any more was given back. What was
        allocated before stays as it was.
    """
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
    """Keep something that nobody has any more until an event has happened."""
    _borrowed.append((driver, [event], owner))


def give_back() -> None:
    """Let go of owners of borrowed memory that our streams have done with, in order."""
    while _borrowed:
        try:
            kept = _borrowed.popleft()
        except IndexError:  # another thread was faster
            return
        driver, events, _ = kept
        if not all(map(driver.happened, events)):
            _borrowed.appendleft(kept)
            return


def _waited_for(driver: Driver) -> None:
    """Wait for a device, and let go of all that was kept until then."""
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
    """Give what the pools keep back to the system."""
    for driver in opened():
        with suppress(DeviceError):  # a device that has failed has nothing to give
            driver.stream()
            _waited_for(driver)
            driver.trim()


when_clear.append(trim)


def _allocate_again(driver: Driver, nbytes: int, stream: Stream) -> int:
    """Allocate once more, after garbage was collected and the pool has given back what it can."""
    gc.collect()  # cycles, such as tracebacks, may have arrays
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


def in_words(nbytes: int) -> str:
    """A number of bytes as people say it: ``"1.5 GB"``."""
    size = float(nbytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"

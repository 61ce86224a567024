"""A driver without a GPU: memory is the host's, and every use of it is checked.

What is put on a stream is done at once. So that this proves something about a GPU, which may do it
in any order that streams and events leave open, each use of memory is checked against *all* of
these orders: by vector clocks. Each stream counts what was put on it, an event is a copy of what a
stream is known to come after, and whoever waits for it knows that too. Two uses of the same memory,
of which one writes, must be in such an order; and so must be the use of memory and its being freed,
and its being freed and being given out again.

`Stub` raises `Misuse` at the call that is wrong. A test ends with ``stub.close()``, which finds
what was never freed. Kernels are Python functions: `Stub.kernels` has them by their names.

Of what plays a GPU in the tests, only this one knows of orders that did not happen: an event that
is not waited for, or memory that is freed too early, is found here and nowhere else.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functrans.run.cuda import driver
from functrans.run.cuda.driver import MemoryState, OutOfMemory, Properties

POISON = 0xA5
"""What memory is full of that was not written."""


class Misuse(AssertionError):
    """What a real GPU would not forgive, or not always."""


Clock = dict[Any, int]


def join(clock, other):
    for key, time in other.items():
        clock[key] = max(clock.get(key, 0), time)


@dataclass(eq=False)
class StubStream:
    driver: Any
    handle: int
    name: str
    capturing: list | None = None
    clock: Clock = field(default_factory=dict)
    """What is known to be done before what is put here next."""

    def __repr__(self):
        return self.name


@dataclass(eq=False)
class StubEvent:
    driver: Any
    clock: Clock
    timed: bool


@dataclass(eq=False)
class Block:
    """A piece of memory that was given out, and the last uses of it by each stream."""

    memory: np.ndarray
    address: int
    nbytes: int
    written: Clock = field(default_factory=dict)
    read: Clock = field(default_factory=dict)
    freed: bool = False
    ever_written: bool = False


@dataclass(frozen=True)
class StubKernel:
    name: str
    shared_bytes: int


@dataclass(eq=False)
class StubGraph:
    launches: list
    replaced: bool = False


@dataclass(frozen=True)
class Launch:
    """One launch, as it came."""

    kernel: StubKernel
    blocks: int
    threads: int
    arguments: tuple[int, ...]
    shared_bytes: int


class Stub:
    """A GPU of so many bytes.

    Attributes
    ----------
    calls : list of str
        What was called, by name, in order.
    launches : list of Launch
        What ran.
    kernels : dict
        What launches do: functions of the stub and the arguments. Others do nothing; they are taken
        to write the arguments that are addresses where nothing was written yet, and to read the
        others. ``writes[name]`` has the positions of those that a kernel writes, to say it exactly.
    """

    def __init__(self, ordinal=0, capacity=1 << 30):
        self.ordinal = ordinal
        self.device = f"cuda:{ordinal}"
        self.capacity = capacity
        self.properties = Properties("stub", "sm_90", 132, 1024, 227 << 10)
        self.calls = []
        self.launches = []
        self.kernels = {}
        self.writes = {}
        self.free_for_others = capacity
        self.delayed_events = False
        self._handles = itertools.count(1000 * (ordinal + 1))
        self._threads = threading.local()
        self._foreign = {}
        self._streams = []
        self._blocks = {}  # what is given out, by address
        self._pool = []  # freed, and kept: used again first, as a real pool does
        self._addresses = []
        self._lock = threading.RLock()

    # ---- streams

    def _new_stream(self, name):
        made = StubStream(self, next(self._handles), name)
        self._streams.append(made)
        return made

    def stream(self):
        _current.driver = self
        streams, name = vars(self._threads).setdefault("streams", {}), driver.stream_name.get()
        if name not in streams:
            whose = f"{name} of {threading.current_thread().name}".strip()
            streams[name] = self._new_stream(f"{self.device} stream {whose}")
        return streams[name]

    def transfers(self):
        self._called_in_order("transfers")
        if not hasattr(self._threads, "transfers"):
            name = f"{self.device} transfers of {threading.current_thread().name}"
            self._threads.transfers = self._new_stream(name)
        return self._threads.transfers

    def foreign_stream(self, handle):
        for own in self._streams:
            if own.handle == handle:
                return own
        if handle not in self._foreign:
            self._foreign[handle] = StubStream(self, handle, f"foreign stream {handle}")
        return self._foreign[handle]

    def record(self, stream, timed=False):
        self._mine(stream)
        self.calls.append("record")
        with self._lock:
            return StubEvent(self, self._now(stream), timed)

    def wait(self, stream, event):
        self._mine(stream)
        self.calls.append("wait")
        join(stream.clock, event.clock)

    def happened(self, event):
        if self.delayed_events and not _precedes(event.clock, self._host_clock()):
            return False
        join(self._host_clock(), event.clock)  # the thread has seen it
        return True

    def reach(self, event):
        self.calls.append("reach")
        join(self._host_clock(), event.clock)

    def elapsed(self, start, stop):
        if not (start.timed and stop.timed):
            raise Misuse("events that are compared must be timed")
        return 1e-3

    def synchronize(self, stream=None):
        self._called_in_order("synchronize")
        for each in self._streams if stream is None else [stream]:
            self._mine(each)
            join(self._host_clock(), self._now(each))

    def _host_clock(self):
        if not hasattr(_current, "clock"):
            _current.clock = {}
        return _current.clock

    def _now(self, stream):
        """What is done once all is done that is on the stream by now."""
        return dict(stream.clock)

    def _step(self, stream):
        """One more thing on the stream: its clock then, and when it is."""
        if stream.capturing is not None:
            raise Misuse(f"{stream} is being captured: only launches and copies on the device may")
        # what the thread has waited for is done
        join(stream.clock, self._host_clock())
        stream.clock[stream] = stream.clock.get(stream, 0) + 1
        return stream.clock, stream.clock[stream]

    def _mine(self, stream):
        if stream.driver is not self:
            raise Misuse(f"{stream} is not of {self.device}")

    def _called_in_order(self, name, stream=None):
        self.calls.append(name)
        if getattr(_current, "driver", None) is not self:
            raise Misuse(f"{name}: this thread has not called stream() of {self.device} last")
        if stream is not None:
            self._mine(stream)

    # ---- memory

    @property
    def used(self):
        return sum(block.nbytes for block in self._blocks.values())

    @property
    def kept(self):
        return sum(block.nbytes for block in self._pool)

    def allocate(self, nbytes, stream):
        self._called_in_order("allocate", stream)
        if nbytes <= 0:
            raise Misuse(f"allocate({nbytes})")
        with self._lock:
            clock, _ = self._step(stream)
            block = self._again(nbytes, clock)
            if block is None:
                if self.used + self.kept + nbytes > self.capacity:
                    raise OutOfMemory(nbytes)
                memory = np.full(nbytes + 256, POISON, np.uint8)
                address = memory.ctypes.data + -memory.ctypes.data % 256
                block = Block(memory, address, nbytes)
            else:
                # the same memory, with other contents
                block = Block(block.memory, block.address, nbytes)
                ctypes.memset(block.address, POISON, nbytes)
            self._blocks[block.address] = block
            bisect.insort(self._addresses, block.address)
            return block.address

    def _again(self, nbytes, clock):
        """Memory of the pool that is free on this stream by now."""
        for block in self._pool:
            if block.nbytes == nbytes and _precedes(block.written, clock):
                self._pool.remove(block)
                return block
        return None

    def free(self, address, stream, after=(), nbytes=0):
        self.calls.append("free")
        with self._lock:
            for event in after:
                join(stream.clock, event.clock)
            block = self._blocks.get(address)
            if block is None:
                raise Misuse(f"free: nothing was given out at {address:#x}")
            self._mine(stream)
            clock, time = self._step(stream)
            self._use(block, stream, clock, time, write=True, what="free")
            del self._blocks[address]
            self._addresses.remove(address)
            block.freed = True
            self._pool.append(block)

    def trim(self):
        self._called_in_order("trim")
        self._pool.clear()

    def memory_state(self):
        return MemoryState(self.capacity, self.capacity - self.used - self.kept, self.used)

    def ordinal_of(self, address):
        for each in _all:
            if each._block_at(address) is not None:
                return each.ordinal
        raise Misuse(f"{address:#x} is on no GPU")

    def _block_at(self, address):
        place = bisect.bisect_right(self._addresses, address) - 1
        if place < 0:
            return None
        block = self._blocks[self._addresses[place]]
        return block if address < block.address + block.nbytes else None

    def _touch(self, address, nbytes, stream, write, what):
        """Check one use of memory by something that is put on a stream now."""
        with self._lock:
            clock, time = self._step(stream)
            self._touch_at(address, nbytes, stream, clock, time, write, what)

    def _touch_at(self, address, nbytes, stream, clock, time, write, what):
        block = self._block_at(address)
        if block is None:
            raise Misuse(f"{what}: {address:#x} is in no memory that is given out")
        if address + nbytes > block.address + block.nbytes:
            raise Misuse(f"{what}: {nbytes} bytes from {address:#x} go past the end of the memory")
        self._use(block, stream, clock, time, write, what)

    def _use(self, block, stream, clock, time, write, what):
        if not _precedes(block.written, clock):
            raise Misuse(f"{what} on {stream} does not come after the writing of the memory")
        if write and not _precedes(block.read, clock):
            raise Misuse(f"{what} on {stream} does not come after the reading of the memory")
        if write:
            block.written = {stream: time}
            block.ever_written = True
        else:
            block.read[stream] = time

    # ---- copies

    def pinned(self, nbytes):
        self.calls.append("pinned")
        return np.full(nbytes, POISON, np.uint8)

    def copy_in(self, address, source, stream):
        self._called_in_order("copy_in", stream)
        if not source.flags.c_contiguous:
            raise Misuse("copy_in of an array that is not C-contiguous")
        self._touch(address, source.nbytes, stream, True, "copy_in")
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def copy_out(self, target, address, stream):
        self._called_in_order("copy_out", stream)
        if not (target.flags.c_contiguous and target.flags.writeable):
            raise Misuse("copy_out to an array that is not C-contiguous or may not be written")
        self._touch(address, target.nbytes, stream, False, "copy_out")
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def copy(self, to, source, nbytes, stream):
        self._called_in_order("copy", stream)
        if stream.capturing is not None:
            stream.capturing.append((self.copy, to, source, nbytes))
            return
        self._touch(source, nbytes, stream, False, "copy")
        self._touch(to, nbytes, stream, True, "copy")
        ctypes.memmove(to, source, nbytes)

    def copy_from(self, to, other, source, nbytes, stream):
        self._called_in_order("copy_from", stream)
        other._touch(source, nbytes, stream, False, "copy_from")
        self._touch(to, nbytes, stream, True, "copy_from")
        ctypes.memmove(to, source, nbytes)

    def fill(self, address, byte, nbytes, stream):
        self._called_in_order("fill", stream)
        if stream.capturing is not None:
            stream.capturing.append((self.fill, address, byte, nbytes))
            return
        self._touch(address, nbytes, stream, True, "fill")
        ctypes.memset(address, byte, nbytes)

    # ---- kernels

    def load(self, code, name, shared_bytes=0):
        self._called_in_order("load")
        if shared_bytes > self.properties.shared_bytes:
            raise Misuse(f"load: {shared_bytes} bytes of shared memory are more than there are")
        return StubKernel(name, shared_bytes)

    def launch(self, kernel, blocks, threads, arguments, stream, shared_bytes=0):
        self._called_in_order("launch", stream)
        if not 0 < blocks < 1 << 31 or not 0 < threads <= self.properties.threads:
            raise Misuse(f"launch: {blocks} blocks of {threads} threads")
        if shared_bytes > max(kernel.shared_bytes, 48 << 10):
            raise Misuse(f"launch: {shared_bytes} bytes of shared memory were not asked for")
        if not all(type(each) is int and -(1 << 63) <= each < 1 << 64 for each in arguments):
            raise Misuse(f"launch: arguments must be integers of eight bytes, not {arguments}")
        made = Launch(kernel, blocks, threads, tuple(arguments), shared_bytes)
        if stream.capturing is not None:
            stream.capturing.append((self._run, made))
            return
        self._run(made, stream)

    def _run(self, launch, stream):
        name = launch.kernel.name
        with self._lock:
            clock, time = self._step(stream)
            touched = {}
            for position, argument in enumerate(launch.arguments):
                block = self._block_at(argument)
                if block is not None:
                    declared = self.writes.get(name)
                    write = position in declared if declared else not block.ever_written
                    touched[argument] = touched.get(argument, False) or write
            for address, write in touched.items():
                self._touch_at(address, 1, stream, clock, time, write, f"kernel {name}")
            self.launches.append(launch)
            self.run_kernel(launch)

    def run_kernel(self, launch):
        """What a launch does, once its memory has been checked."""
        function = self.kernels.get(launch.kernel.name)
        if function is not None:
            function(self, *launch.arguments)

    def capture(self, record, graph=None):
        self._called_in_order("capture")
        stream = self._new_stream("captured")
        stream.capturing = launches = []
        try:
            record(stream)
        finally:
            self._streams.remove(stream)
        if graph is not None:
            if graph.replaced:
                raise Misuse("a graph was made into another one already")
            graph.replaced = True
        return StubGraph(launches)

    def replay(self, graph, stream):
        self._called_in_order("replay", stream)
        if graph.replaced:
            raise Misuse("replay of a graph that was made into another one")
        for function, *arguments in graph.launches:
            function(*arguments, stream)

    # ---- for kernels, and at the end

    def view(self, address, count, dtype):
        """Memory as an array, for what kernels do."""
        nbytes = count * np.dtype(dtype).itemsize
        if self._block_at(address) is None:
            raise Misuse(f"{address:#x} is in no memory that is given out")
        return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype)

    def count(self, name):
        """How many times something was called."""
        return Counter(self.calls)[name]

    def close(self):
        """Find what was not freed."""
        if self._blocks:
            sizes = [block.nbytes for block in self._blocks.values()]
            raise Misuse(f"{len(sizes)} pieces of memory were never freed, of {sizes} bytes")


_current = threading.local()
"""Of each thread: the driver whose device is current, and what the thread has waited for."""

_all = []


def _precedes(uses, clock):
    return all(clock.get(stream, 0) >= time for stream, time in uses.items())


@contextmanager
def stubs(*capacities, kind=Stub):
    """GPUs in place of those of the machine: one for each capacity, or one. Leaks are found."""
    made = [kind(ordinal, size) for ordinal, size in enumerate(capacities or (1 << 30,))]
    _all.extend(made)
    try:
        with driver.using(*made):
            yield made
    finally:
        for each in made:
            _all.remove(each)

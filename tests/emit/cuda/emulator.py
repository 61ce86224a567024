"""Emulator of CUDA kernels: runs a kernel's text, each thread as a Python function or generator.

Blocks run one after another, in random order, and so do the threads of a block between two
barriers. Dependence on that order, or on uninitialised memory, is detected. Of the stand-ins for a
GPU in the tests, this is the only one that interprets the printed text: it finds wrong thread
indices and missing blocks, which earlier stages cannot show.
"""

import random
from collections.abc import Sequence
from functools import partial, partialmethod

import numpy as np

from functrans.emit.cuda.names import TABLE
from functrans.emit.cuda.site import WARP
from tests.emit.cuda.emulated_memory import History, Memory, Mistake, Stamp, poisoned
from tests.emit.cuda.kernel_text import FILENAME, compiled
from tests.emit.cuda.meanings import EXCHANGES, MATRICES


class KernelError(Exception):
    """What a kernel did wrong, and in which line of its text."""


def emulate(source, arguments, blocks, threads, seed=0, written=None, dynamic_shared=0):
    """Run a kernel.

    Parameters
    ----------
    source : str
        It defines one function.
    arguments : sequence
        The flag and the buffers as arrays of one dimension, which the kernel writes to; sizes.
    blocks, threads : int
        The grid: how many blocks, of how many threads.
    seed : int
        Of the order in which they run.
    written : dict of int to array of bool, optional
        For some of the arguments, by their positions: which elements somebody has written. The
        others may not be read; those that the kernel writes are entered.
    dynamic_shared : int, optional
        Bytes of shared memory that the launch adds to what the kernel declares.

    Raises
    ------
    KernelError
    """
    machine = Machine(blocks, threads, seed, dynamic_shared)
    kernel, waits = compiled(source, machine)
    passed = machine.arguments(kernel, arguments, written or {})
    with np.errstate(all="ignore"):
        for block in machine.shuffled(range(blocks)):
            machine.begin(block)
            machine.run(source, kernel, passed, waits)


class Thread:
    """One thread of the block that is running."""

    __slots__ = ("body", "copies", "index", "locals", "reply", "request", "stamp", "warp")

    def __init__(self, index, stamp):
        self.index = index
        self.warp = index // WARP
        self.stamp = stamp
        self.body = None
        self.request = None
        self.reply = None
        self.locals = {}
        self.copies = [[]]


class Machine:
    """A grid of threads, of which one runs at a time; and what they ask it for."""

    def __init__(self, blocks, threads, seed, dynamic_shared):
        self.dynamic_bytes = dynamic_shared
        self.size, self.width = np.int64(blocks), np.int64(threads)
        self.random = random.Random(seed)
        self.everywhere = History(self)
        self.running = None

    def arguments(self, kernel, arguments, written):
        """What a kernel is called with: buffers that watch over their elements."""
        names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
        if len(names) != len(arguments):
            raise KernelError(f"the kernel has {len(names)} arguments, not {len(arguments)}")
        passed = []
        for i, (name, argument) in enumerate(zip(names, arguments, strict=True)):
            if isinstance(argument, np.ndarray):
                # all threads may say that something has failed
                history = None if name == "flag" else self.everywhere
                argument = Memory(argument, name, history, written.get(i))
            elif not isinstance(argument, np.generic):
                argument = np.int64(argument)
            passed.append(argument)
        return passed

    def shuffled(self, items):
        return self.random.sample(items, len(items))

    # -- what kernels call ---------------------------------------------------------------------

    def thread(self):
        return np.int64(self.running.index)

    def block(self):
        return self.number

    def threads(self):
        return self.width

    def blocks(self):
        return self.size

    def shared(self, place, dtype, count):
        if place not in self.memory:
            self.memory[place] = self._array("shared", dtype, count, self.within)
        return self.memory[place]

    def dynamic_shared(self, place, dtype, start):
        if place not in self.memory:
            size = np.dtype(dtype).itemsize
            stop = start + (self.dynamic_bytes - start) // size * size
            numbers = self.dynamic[start:stop].view(dtype)
            # an element is written if its first byte is
            mask = self.dynamic_written[start:stop:size]
            name = f"dynamic shared {dtype}"
            self.memory[place] = Memory(numbers, name, self.within, mask, "shared")
        return self.memory[place]

    def local(self, place, dtype, count):
        known = self.running.locals
        if place not in known:
            known[place] = self._array("local", dtype, count, None)
        return known[place]

    def _array(self, space, dtype, count, history):
        written = np.zeros(int(count), bool)
        return Memory(poisoned(dtype, int(count)), f"{space} {dtype}", history, written, space)

    def copy(self, target, position, source, start, condition=True, nbytes=16):
        """A copy that is under way: nobody may touch its target until it is there."""
        if target.space != "shared":
            raise Mistake(f"{target.name} is {target.space} memory, and not shared")
        count = nbytes // target.size
        for memory, place in ((target, position), (source, start)):
            memory.aligned(place, count)
        zero = target.type(0)
        for i in map(np.int64, range(count)):
            target[position + i] = source.constant(start + i) if condition else zero
            self.running.copies[-1].append((target, position + i, target.array[position + i]))
            target.written[position + i] = False

    copy_or_zero = copy
    copy8 = partialmethod(copy, nbytes=8)
    copy4 = partialmethod(copy, nbytes=4)

    def copy_if(self, target, position, source, start, condition):
        if condition:
            self.copy(target, position, source, start)

    def await_copies(self, behind):
        groups = self.running.copies
        groups.append([])
        while len(groups) > behind + 1:
            for target, position, value in groups.pop(0):
                target[position] = value

    def barrier(self):
        raise AssertionError("the text of the kernel yields instead")

    warp_barrier = barrier
    locals().update(dict.fromkeys((*EXCHANGES, *MATRICES), barrier))

    # -- running -------------------------------------------------------------------------------

    def begin(self, block):
        """Make the threads of a block, and memory that they share."""
        self.number = np.int64(block)
        self.memory = {}
        self.dynamic = poisoned(np.uint8, self.dynamic_bytes)
        self.dynamic_written = np.zeros(self.dynamic_bytes, bool)
        self.within = History(self)
        self.crew = [Thread(i, Stamp(block, 0, i // WARP, 0)) for i in range(int(self.width))]

    def run(self, source, kernel, passed, waits):
        """Have all threads of a block run to their ends."""
        if not waits:
            for thread in self.shuffled(self.crew):
                self._step(source, thread, partial(kernel, *passed))
            return
        for thread in self.crew:
            thread.body = kernel(*passed)
        ready = self.crew
        while ready:
            for thread in self.shuffled(ready):
                thread.request = self._step(source, thread, partial(next_request, thread))
            ready = self._released(source)

    def _step(self, source, thread, work):
        self.running = thread
        try:
            return work()
        except Exception as error:
            line = line_of(error) or (thread.request[1] if thread.request else 0)
            raise self._error(source, line, f"thread {thread.index}: {words(error)}") from error

    def _error(self, source, line, message):
        text = source.splitlines()[line - 1].strip() if line else ""
        return KernelError(f"line {line}, `{text}`: block {self.number}, {message}")

    def _released(self, source):
        """Those that have waited for each other and go on; none if all have ended."""
        waiting = [thread for thread in self.crew if thread.request is not None]
        if not waiting:
            return []
        warps = [self.crew[i : i + WARP] for i in range(0, len(self.crew), WARP)]
        together = [warp for warp in warps if self._is_together(warp)]
        for warp in together:
            self._exchange(source, warp)
        if together:
            return [thread for warp in together for thread in warp]
        if at_one_barrier(self.crew):
            for thread in self.crew:
                stamp = thread.stamp
                thread.stamp = stamp._replace(barriers=stamp.barriers + 1)
                thread.reply = None
            return self.crew
        raise self._divergence(source, waiting)

    def _is_together(self, warp):
        """Whether a whole warp has come to the same shuffle, or to the same barrier of its own."""
        first = warp[0].request
        if first is None or first[0] == "barrier" or len(warp) < WARP:
            return False
        return all(each.request is not None and each.request[:2] == first[:2] for each in warp)

    def _exchange(self, source, warp):
        name, line = warp[0].request[:2]
        if name == "warp_barrier":
            for thread in warp:
                stamp = thread.stamp
                thread.stamp = stamp._replace(warp_barriers=stamp.warp_barriers + 1)
                thread.reply = None
            return
        for thread in warp:
            kinds = [described(x) for x in thread.request[2:]]
            if TABLE[name].rule(*kinds) is None:
                raise self._error(source, line, f"{name}({', '.join(kinds)}) is not defined")
        if name in MATRICES:
            given = (
                [self._step(source, thread, partial(row, *thread.request[2:])) for thread in warp],
            )
        else:
            given = zip(*(thread.request[2:] for thread in warp), strict=True)
        for thread, value in zip(warp, (EXCHANGES | MATRICES)[name](*given), strict=True):
            thread.reply = value

    def _divergence(self, source, waiting):
        name, line = waiting[0].request[:2]
        who = f"thread {waiting[0].index}"
        for other in self.crew:
            if other.request is None:
                reason = f"thread {other.index} has ended"
                break
            if other.request[:2] != (name, line):
                reason = f"thread {other.index} waits in line {other.request[1]}"
                break
        else:
            reason = f"its warp has {len(self.crew) % WARP} threads"
        return self._error(source, line, f"{who} waits here, and {reason}: divergent {name}")


def row(memory, position):
    """A row of 8 numbers of 16 bits, as one thread names it for its warp."""
    if memory.space != "shared":
        raise Mistake(f"{memory.name} is {memory.space} memory, and not shared")
    memory.aligned(position, 8)
    return [memory[position + np.int64(i)] for i in range(8)]


def described(x):
    return x.kind if isinstance(x, Memory) else x.dtype.name


def next_request(thread):
    """Let a thread run until it waits for others; None at its end."""
    try:
        return thread.body.send(thread.reply)
    except StopIteration:
        return None


def at_one_barrier(crew: Sequence[Thread]):
    first = crew[0].request
    return first is not None and first[0] == "barrier" and all(x.request == first for x in crew)


def line_of(error):
    """The line of the kernel's text that an error comes from."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def words(error):
    return str(error) if isinstance(error, Mistake) else f"{type(error).__name__}: {error}"

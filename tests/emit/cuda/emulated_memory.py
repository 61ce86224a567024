"""Memory of an emulated GPU, with checks of bounds, initialisation and data races.

Each element records its last writer and its readers since. Two accesses by different threads, at
least one of them a write and not both atomic, are a race unless a barrier separates them: a block
barrier, or a warp barrier for threads of the same warp. No barrier separates different blocks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

MANY = -1
"""Several threads, or several blocks."""


class Mistake(Exception):
    """Something that a kernel must not do."""


class Stamp(NamedTuple):
    """When something was done, as far as barriers tell: by which block and warp, after how many."""

    block: int
    barriers: int
    warp: int
    warp_barriers: int


@dataclass
class Access:
    """Who wrote an element last."""

    stamp: Stamp
    thread: int
    atomic: bool


def ordered(before, stamp):
    """Whether something that another thread did is over."""
    if before.block != stamp.block:
        return False
    if before.barriers != stamp.barriers:
        return True
    return before.warp == stamp.warp and before.warp_barriers != stamp.warp_barriers


class History:
    """Accesses to memory that threads share, by the addresses of the elements."""

    def __init__(self, machine):
        self.machine = machine
        self.writes = {}
        self.reads = {}
        self.constants = set()

    def read(self, place, name, constant=False):
        running = self.machine.running
        stamp, thread = running.stamp, running.index
        last = self.writes.get(place)
        if constant:
            if last is not None:
                raise Mistake(f"{name} is read as a constant, and was written before")
            self.constants.add(place)
        elif last is not None:
            self._compare(last.stamp, last.thread, f"reads {name}, which", "writes")
        readers = self.reads.setdefault(place, {})
        readers[stamp] = thread if readers.get(stamp, thread) == thread else MANY

    def write(self, place, name, atomic=False):
        running = self.machine.running
        stamp, thread = running.stamp, running.index
        if place in self.constants:
            raise Mistake(f"{name} is written, and was read as a constant before")
        last = self.writes.get(place)
        together = last is not None and last.atomic and atomic
        if last is not None and not together:
            self._compare(last.stamp, last.thread, f"writes {name}, which", "writes")
        for before, reader in self.reads.pop(place, {}).items():
            self._compare(before, reader, f"writes {name}, which", "reads")
        if together and (last.stamp != stamp or last.thread != thread):
            if not ordered(last.stamp, stamp):
                stamp = (
                    stamp
                    if last.stamp == stamp
                    else stamp._replace(
                        block=stamp.block if last.stamp.block == stamp.block else MANY, warp=MANY
                    )
                )
                thread = MANY
        self.writes[place] = Access(stamp, thread, atomic)

    def _compare(self, before, thread, here, there):
        running = self.machine.running
        stamp = running.stamp
        same = before.block == stamp.block and thread == running.index
        if same or ordered(before, stamp):
            return
        other = "others" if thread == MANY else f"thread {thread}"
        where = (
            ""
            if before.block == stamp.block
            else (" of other blocks" if before.block == MANY else f" of block {before.block}")
        )
        raise Mistake(f"race: it {here} {other}{where} {there} with no barrier between")


class Memory:
    """A buffer, as kernels see it: a pointer to numbers."""

    __slots__ = (
        "array", "base", "count", "history", "kind", "name", "size", "space", "type", "written",
    )  # fmt: skip

    def __init__(self, array, name, history=None, written=None, space="global"):
        self.space = space
        self.array = array
        self.name = name
        self.history = history
        self.written = written
        self.type = array.dtype.type
        self.kind = f"{array.dtype}*"
        self.count = len(array)
        self.size = array.itemsize
        self.base = array.__array_interface__["data"][0]

    def _checked(self, position):
        if type(position) is not np.int64:
            raise Mistake(f"{self.name} is indexed by {type(position).__name__}, and not int64")
        if not 0 <= position < self.count:
            raise Mistake(f"{self.name}[{position}] is outside of it: it has {self.count} elements")

    def _element(self, position):
        return f"{self.name}[{position}]"

    def _place(self, position):
        return self.base + int(position) * self.size

    def _read(self, position, constant):
        self._checked(position)
        if self.written is not None and not self.written[position]:
            raise Mistake(f"{self._element(position)} is read, and was never written")
        if self.history is not None:
            self.history.read(self._place(position), self._element(position), constant)
        return self.array[position]

    def __getitem__(self, position):
        return self._read(position, constant=False)

    def constant(self, position):
        """An element that no thread writes."""
        if self.space != "global":
            raise Mistake(f"{self.name} is {self.space} memory: no constant, but loaded as others")
        return self._read(position, constant=True)

    def __setitem__(self, position, value):
        self._checked(position)
        got = value.dtype if isinstance(value, np.generic) else type(value).__name__
        if got != self.array.dtype and not (type(value) is np.bool_ and self.type is np.uint8):
            raise Mistake(f"{got} is stored in {self.name}, which holds {self.array.dtype}")
        if self.history is not None:
            self.history.write(self._place(position), self._element(position))
        if self.written is not None:
            self.written[position] = True
        self.array[position] = value

    def update(self, position, function):
        """Replace an element, at once for all other threads."""
        if self.space == "local":
            raise Mistake(f"{self.name} is of one thread: it takes no atomic operations")
        self._checked(position)
        if self.written is not None and not self.written[position]:
            raise Mistake(f"{self._element(position)} is updated, and was never written")
        if self.history is not None:
            self.history.write(self._place(position), self._element(position), atomic=True)
        self.array[position] = function(self.array[position])

    def aligned(self, position, count):
        """See that so many elements from here on are one vector."""
        if position % count:
            raise Mistake(
                f"{self._element(position)} is no multiple of {count} elements from the beginning"
            )


def poisoned(dtype, count):
    """An array of what nobody should see."""
    array = np.full(count * np.dtype(dtype).itemsize, 0xA5, np.uint8).view(dtype)
    if array.dtype.kind == "f":
        array.fill(np.nan)
    return array

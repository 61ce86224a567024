"""Counts memory transactions: the sectors and wavefronts of warps' accesses.

One load or store instruction of a warp is a request. A request to global memory takes sectors of 32
bytes; one to shared memory takes as many wavefronts as the largest number of its words in one bank.
"""

import sys
from collections import Counter, defaultdict

from tests.emit.cuda.emulated_memory import Memory
from tests.emit.cuda.kernel_text import FILENAME
from tests.emit.cuda.programs import emulate_plan

SECTOR, WORD, BANKS, WARP = 32, 4, 32, 32


class Transactions:
    """The bytes that each request of a warp touches, by the name of the memory."""

    def __init__(self):
        self.requests = defaultdict(set)
        self.turns = Counter()

    def note(self, memory, position):
        if memory.history is None:
            return  # the flag, or what a thread has to itself
        machine = memory.history.machine
        frame, first = sys._getframe(1), position
        while frame.f_code.co_filename != FILENAME:
            # of several elements that one instruction loads, it is called with the first one's
            first = frame.f_locals.get("position", first)
            frame = frame.f_back
        running = machine.running
        site = int(machine.number), frame.f_lineno, frame.f_lasti
        own = running.index, *site
        if first == position:
            self.turns[own] += 1
        key = memory.space, memory.name, running.warp, *site, self.turns[own]
        start = int(position) * memory.size
        self.requests[key].update(range(start, start + memory.size))

    def sectors(self):
        """The sectors that are fetched from each buffer, and how many would do."""
        found = Counter()
        least = Counter()
        for (space, name, *_), touched in self.requests.items():
            if space == "global":
                found[name] += len({byte // SECTOR for byte in touched})
                least[name] += -(-len(touched) // SECTOR)
        return dict(found), dict(least)

    def conflicts(self):
        """The wavefronts of shared memory beyond those that it takes without bank conflicts."""
        more = 0
        for (space, *_), touched in self.requests.items():
            if space == "shared":
                words = {byte // WORD for byte in touched}
                most = max(Counter(word % BANKS for word in words).values())
                more += most - -(-len(words) // BANKS)
        return more


def transactions(monkeypatch, plan, operands):
    """The transactions of a plan for some operands, and its results."""
    counted = Transactions()
    read, write = Memory._read, Memory.__setitem__

    def noted_read(memory, position, constant):
        counted.note(memory, position)
        return read(memory, position, constant)

    def noted_write(memory, position, value):
        counted.note(memory, position)
        write(memory, position, value)

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "_read", noted_read)
        patch.setattr(Memory, "__setitem__", noted_write)
        results, status = emulate_plan(plan, operands)
    assert status == 0
    return counted, results

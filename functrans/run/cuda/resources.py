"""Occupancy: the resources of a kernel, read from the linker's log, and how many blocks fit.

The limits are those of the table "Technical Specifications per Compute Capability" in NVIDIA's CUDA
Programming Guide; the allocation of registers and shared memory follows the CUDA Toolkit's
occupancy calculator (cuda_occupancy.h).
"""

from __future__ import annotations

import re

from functrans.emit.cuda.site import WARP
from functrans.records import NamedTuple


class Resources(NamedTuple):
    """Resources of a kernel."""

    registers: int  # the 32-bit registers of a thread
    spill_stores: int  # bytes that a thread spills to local memory for lack of registers
    spill_loads: int  # bytes of spills that it reloads
    stack: int  # bytes of local memory of a thread: private arrays and spills
    shared: int  # bytes of shared memory of a block

    @property
    def spills(self) -> int:
        """Bytes that a thread spills and reloads."""
        return self.spill_stores + self.spill_loads


class Occupancy(NamedTuple):
    """The occupancy of a multiprocessor by a kernel."""

    blocks: int  # the blocks that reside at the same time
    warps: int
    fraction: float  # the resident warps as a fraction of the maximum
    limit: str  # the scarcest resource: registers, shared memory, threads or blocks


class Multiprocessor(NamedTuple):
    """Resources of the multiprocessors of an architecture."""

    registers: int = 65536
    registers_of_a_thread: int = 255
    warps: int = 64
    blocks: int = 32
    threads_of_a_block: int = 1024
    shared: int = 228 * 1024
    shared_of_a_block: int = 227 * 1024
    schedulers: int = 4  # the schedulers, each with its own part of the registers
    register_unit: int = 256  # the allocation unit of registers for a warp
    shared_unit: int = 128  # the allocation unit of shared memory for a block, in bytes
    reserved: int = 1024  # bytes of shared memory that the system reserves in each block
    # the rows of float64 that an instruction of the tensor cores multiplies
    double_rows: int = 16


MULTIPROCESSORS = {
    "sm_80": Multiprocessor(shared=164 * 1024, shared_of_a_block=163 * 1024, double_rows=8),
    "sm_90": Multiprocessor(),
    "sm_100": Multiprocessor(),
}
"""The known architectures, by name: those of data centres, whose tensor cores are fast in float64.
(sm_86, sm_89, sm_103 and sm_120 have these instructions, but few units of float64.)"""

LEAST_SHARED_OF_A_BLOCK = 99 * 1024
"""Bytes of shared memory available to a block on all architectures with tensor cores."""

_USED = re.compile(r"ptxas info +: Used (\d+) registers(.*)")
_SHARED = re.compile(r"(\d+) bytes smem")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def parse(log: str) -> Resources:
    """Parse the assembler's report on its only kernel."""
    used, frame = _USED.search(log), _FRAME.search(log)
    if used is None or frame is None:
        raise ValueError(f"the linker's log does not say what the kernel takes:\n{log}")
    stack, stores, loads = map(int, frame.groups())
    shared = _SHARED.search(used[2])
    return Resources(int(used[1]), stores, loads, stack, int(shared[1]) if shared else 0)


def occupancy(
    resources: Resources,
    threads: int,  # of a block
    architecture: str = "sm_90",  # a key of `MULTIPROCESSORS`
    # bytes of dynamic shared memory, in addition to those that the kernel declares
    dynamic_shared: int = 0,
) -> Occupancy:
    """The occupancy of a multiprocessor by blocks of threads.

    Raises `ValueError` if the architecture is not known.
    """
    if architecture not in MULTIPROCESSORS:
        known = ", ".join(MULTIPROCESSORS)
        raise ValueError(
            f"the multiprocessors of {architecture} are not known, those of {known} are"
        )
    machine = MULTIPROCESSORS[architecture]
    warps = -(-threads // WARP)
    shared = resources.shared + dynamic_shared
    held = {
        "threads": machine.warps // warps,
        "blocks": machine.blocks,
        "registers": _by_registers(machine, resources.registers) // warps,
        "shared memory": machine.shared
        // _multiple(shared + machine.reserved, machine.shared_unit),
    }
    if threads > machine.threads_of_a_block:
        held["threads"] = 0
    if shared > machine.shared_of_a_block:
        held["shared memory"] = 0
    if resources.registers > machine.registers_of_a_thread:
        held["registers"] = 0
    limit = min(held, key=lambda name: held[name])
    blocks = held[limit]
    return Occupancy(blocks, blocks * warps, blocks * warps / machine.warps, limit)


FEW_BLOCKS = 4
"""The most blocks of a multiprocessor for which another block is worth fewer registers."""

FEW_REGISTERS = 8
"""The registers of a thread that `within_reach` does without."""


def within_reach(
    resources: Resources, threads: int, architecture: str, dynamic_shared: int = 0
) -> int:
    """The number of blocks that would fit with a few registers less, if that is more; else 0."""
    if architecture not in MULTIPROCESSORS:
        return 0
    fewer = resources._replace(registers=resources.registers - FEW_REGISTERS)
    now, then = (
        occupancy(each, threads, architecture, dynamic_shared).blocks for each in (resources, fewer)
    )
    return then if now < then <= FEW_BLOCKS else 0


def _by_registers(machine: Multiprocessor, registers: int) -> int:
    """The most warps, limited by registers."""
    of_a_warp = _multiple(max(registers, 1) * WARP, machine.register_unit)
    return machine.registers // machine.schedulers // of_a_warp * machine.schedulers


def _multiple(number: int, unit: int) -> int:
    return -(-number // unit) * unit

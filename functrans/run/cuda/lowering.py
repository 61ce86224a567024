"""Inspection of a GPU program: stages, source, PTX, SASS, and the resources of its kernels.

This needs no GPU: kernels are compiled for an architecture by name.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from functrans.caches import cached_property
from functrans.emit.cuda.kernel import emit
from functrans.errors import DeviceError
from functrans.ir.graph import Graph
from functrans.loop.statements import Kernel
from functrans.loop.walk import routines
from functrans.lower import overview, pipeline, report
from functrans.lower.grid.launch import launch
from functrans.lower.plan import Plan, Step, called, iterations
from functrans.lower.select.partition import partition
from functrans.optimise import legalised, optimise
from functrans.records import dataclass
from functrans.run.call.memory import in_words
from functrans.run.cuda.compile import ARCHITECTURE, Cubin
from functrans.run.cuda.driver import driver, there_is
from functrans.run.cuda.launches import all_compiled, machine
from functrans.run.cuda.resources import MULTIPROCESSORS, occupancy

DEFAULT = "sm_90"
"""The default architecture to compile for without a GPU."""


@dataclass(frozen=True)
class KernelReport:
    """Resources and work of a kernel in a call of its program.

    Parameters
    ----------
    name : str
        Its name in the source.
    launches : int
        The launches in a call of the program.
    blocks : int
        The blocks of all launches together.
    threads : int
        The threads of a block.
    team : int
        The threads that execute one iteration of the kernel's band: 1, a warp, or a block.
    registers : int
        The registers of a thread.
    spills, local, shared : int
        Bytes that a thread spills to local memory and reloads, bytes of its local memory, and of
        the shared memory of a block.
    occupancy : float or None
        The fraction of a multiprocessor's warps; None if the architecture is unknown.
    limit : str
        The resource that limits the occupancy.
    bytes_read, bytes_written : int
        The total sizes of the arrays that it reads and writes, in all launches.
    """

    name: str
    launches: int
    blocks: int
    threads: int
    team: int
    registers: int
    spills: int
    local: int
    shared: int
    occupancy: float | None
    limit: str
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class ProgramReport:
    """Resources of the kernels of a program; prints as a table.

    Parameters
    ----------
    architecture : str
    kernels : tuple of KernelReport
    launches : int
        The kernel launches in a call.
    library_calls : int
        The library calls in a call; their own launches are not counted.
    bytes_moved : int
        The total sizes of the arrays that all of them read and write.
    temporary_bytes : int
        The bytes of the arena.
    """

    architecture: str
    kernels: tuple[KernelReport, ...]
    launches: int
    library_calls: int
    bytes_moved: int
    temporary_bytes: int

    def __str__(self) -> str:
        rows = [_HEAD, *map(_row, self.kernels)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        calls = "launch" if self.launches == 1 else "launches"
        if self.library_calls:
            calls += f" and {self.library_calls} of libraries"
        moved, kept = in_words(self.bytes_moved), in_words(self.temporary_bytes)
        return "\n".join(
            [
                *lines,
                f"{self.architecture}: {self.launches} {calls} a call, {moved} read and written, "
                f"{kept} of temporary memory",
            ]
        )

    __repr__ = __str__


_HEAD = (
    "kernel", "launches", "blocks", "threads", "team", "registers", "spills", "local", "shared",
    "occupancy", "limited by", "read", "written",
)  # fmt: skip


def _row(one: KernelReport) -> tuple[str, ...]:
    full = "?" if one.occupancy is None else f"{one.occupancy:.0%}"
    return (
        one.name, str(one.launches), str(one.blocks), str(one.threads), str(one.team),
        str(one.registers), in_words(one.spills), in_words(one.local), in_words(one.shared), full,
        one.limit, in_words(one.bytes_read), in_words(one.bytes_written),
    )  # fmt: skip


class Lowering:
    """The stages of a graph's compilation for a GPU, with the methods of a compiled program."""

    def __init__(
        self,
        graph: Graph,
        architecture: str,  # the architecture for which kernels are compiled
        donated: Sequence[int] = (),  # the positions of the inputs that results may overwrite
    ) -> None:
        self.architecture = architecture
        self.target = machine(architecture)
        apart = legalised(optimise(graph), self.target)
        self._segments = partition(apart, self.target)
        is_whole = [segment.graph for segment in self._segments] == [apart]
        self._donated = donated if is_whole else ()

    @cached_property
    def _plans(self) -> list[Plan | None]:
        return [
            None
            if segment.call is not None
            else pipeline.plan(segment.graph, self.target, self._donated)
            for segment in self._segments
        ]

    def stages(self) -> str:
        """The plan after each stage of the compiler, and the seconds that the stage took."""
        return overview.stages(self._segments, self.target, "no kernel", self._donated)

    def schedule(self) -> str:
        """The loops of the program, and the values in memory."""
        return overview.schedule(self._segments, self._plans, "no kernel")

    def source(self) -> str:
        """The kernels as Numba-CUDA source."""
        assert self.target.grid is not None
        return "\n\n".join(
            f"# {', '.join(routines(kernel.body))}: a library's"
            if routines(kernel.body)
            else emit(kernel, self.target.grid, name)
            for kernel, name in self._names.items()
        )

    def ptx(self) -> str:
        """The kernels as PTX, NVIDIA's portable assembly language."""
        return "\n".join(
            f"// {self._names[one]}\n{cubin.ptx}" for one, cubin in self._cubins.items()
        )

    def llvm(self) -> NoReturn:
        """Raise, since this is not available for a GPU."""
        raise DeviceError(
            "kernels for a GPU go from Numba-CUDA to PTX without LLVM IR that could be shown: "
            "source() has what goes in, ptx() what comes out"
        )

    def asm(self) -> str:
        """The machine code (SASS), if NVIDIA's disassembler is installed."""
        tool = shutil.which("nvdisasm")
        if tool is None:
            raise DeviceError(
                "machine code of a GPU is shown by NVIDIA's nvdisasm, which is not on the PATH: "
                "install it with the CUDA toolkit, or look at ptx(), from which the code is made"
            )
        return "\n".join(_disassembled(tool, cubin.code) for cubin in self._cubins.values())

    def dispatchers(self) -> NoReturn:
        """Raise, since a GPU program has none."""
        raise DeviceError(
            "kernels for a GPU are launched by functrans, and are no functions of Numba's: "
            "source() shows them"
        )

    def cost(self) -> report.Cost:
        """Operations and memory traffic of each launch, and the peak of the temporary memory."""
        return report.cost([plan for plan in self._plans if plan is not None])

    def resources(self) -> ProgramReport:
        """The resources that each kernel uses, and the bytes that it moves."""
        kernels = tuple(self._reports())
        return ProgramReport(
            self.architecture,
            kernels,
            sum(one.launches for one in kernels),
            sum(bool(routines(step.kernel.body)) for step in self._steps),
            sum(one.bytes_read + one.bytes_written for one in map(report.nest_cost, self._steps)),
            self.cost().temporary_bytes,
        )

    def _reports(self) -> Iterator[KernelReport]:
        grid = self.target.grid
        assert grid is not None
        for kernel, cubin in self._cubins.items():
            steps = [step for step in self._steps if step.kernel is kernel]
            costs = [report.nest_cost(step) for step in steps]
            taken, shape = cubin.resources, launch(kernel, grid)
            held = None
            if self.architecture in MULTIPROCESSORS:
                held = occupancy(taken, shape.threads, self.architecture, shape.shared)
            yield KernelReport(
                self._names[kernel],
                len(steps),
                sum(shape.blocks(iterations(kernel, step.sizes)) for step in steps),
                shape.threads,
                kernel.team,
                taken.registers,
                taken.spills,
                taken.stack,
                taken.shared + shape.shared,
                None if held is None else held.fraction,
                "" if held is None else held.limit,
                sum(each.bytes_read for each in costs),
                sum(each.bytes_written for each in costs),
            )

    @cached_property
    def _steps(self) -> Sequence[Step]:
        """The launches of a call."""
        return [
            step
            for plan in self._plans
            if plan is not None
            for step, _ in called(plan.schedule)
            if iterations(step.kernel, step.sizes)
        ]

    @cached_property
    def _names(self) -> dict[Kernel, str]:
        plans = [plan for plan in self._plans if plan is not None]
        kernels = dict.fromkeys(kernel for plan in plans for kernel in plan.kernels)
        return {kernel: f"nest{i}" for i, kernel in enumerate(kernels)}

    @cached_property
    def _cubins(self) -> dict[Kernel, Cubin]:
        grid = self.target.grid
        assert grid is not None
        kernels = [kernel for kernel in self._names if not routines(kernel.body)]
        made = all_compiled(kernels, grid, self.architecture)
        return {kernel: one.cubin for kernel, one in zip(kernels, made, strict=True)}


def _disassembled(tool: str, code: bytes) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(code)
        found = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=True)
    return found.stdout


def lowering(
    graph: Graph, device: str, architecture: str | None = None, donated: Sequence[int] = ()
) -> Lowering:
    """The stages of a graph's compilation for a device, or for an architecture without a device.

    Raises `ValueError` if the architecture does not exist.
    """
    if architecture is None:
        architecture = driver(device).properties.architecture if there_is(device) else DEFAULT
    elif ARCHITECTURE.fullmatch(architecture) is None:
        raise ValueError(f"an architecture is called as in 'sm_90', not {architecture!r}")
    return Lowering(graph, architecture, donated)

"""Programs for other CPUs, run in an emulator, also with threads.

CONTRIBUTING.md lists what must be installed.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrans.emit.llvm import kernel as emit_llvm
from functrans.run.call import entry, steps
from functrans.run.call.compiled import listing_of
from functrans.run.code import cache, native
from functrans.run.code.machine import LEVELS, Machine, x86_64
from functrans.run.threads import pool
from tests.primitives.harness import cases
from tests.run.programs import (
    ARM,
    PROGRAMS,
    assert_close,
    calls_a_library,
    expected,
    graph_of,
    is_compiled,
    plan_of,
)

pytestmark = pytest.mark.emulated

DRIVER = Path(__file__).with_name("emulated.c")
HALVES = Path(native.__file__).with_name("half.ll")
THREADS = 3


class Emulated(NamedTuple):
    """A kind of CPU, a C compiler for it, and what runs its programs."""

    machine: Machine
    architecture: str
    compiler: str
    emulator: list[str]


CPUS = {
    "aarch64": Emulated(ARM, "aarch64", "aarch64-linux-gnu-gcc", ["qemu-aarch64"]),
    "x86-64-v2": Emulated(
        x86_64(LEVELS["x86-64-v2"]), "x86_64", "x86_64-linux-gnu-gcc",
        ["qemu-x86_64", "-cpu", "Nehalem"],
    ),
    "x86-64-v3": Emulated(
        x86_64(LEVELS["x86-64-v3"]), "x86_64", "x86_64-linux-gnu-gcc",
        ["qemu-x86_64", "-cpu", "Haswell"],
    ),
}  # fmt: skip


def everything():
    """Graphs with their operands, by name: the programs, and all samples of all primitives."""
    for name in PROGRAMS:
        yield name, *graph_of(name)
    for dtype in (np.float32, np.float64):
        for name, case in cases(dtype).items():
            graph = case.graph()
            if is_compiled(graph):
                yield name, graph, [np.asarray(x) for x in case.operands]


class Task(NamedTuple):
    """A program with all that it is run on, and what is to come of it."""

    name: str
    words: Any
    addresses: Any
    """The words that hold the numbers of kernels, and are to hold their addresses."""
    arrays: list[Any]
    results: list[Any]


def tasks(target, kernels):
    """What runs without a library; the texts of the kernels are numbered in a dictionary."""
    for name, graph, operands in everything():
        plan = plan_of(graph, target)
        if calls_a_library(plan):
            continue
        texts = [emit_llvm.emit(step.kernel) for step in plan.steps]
        listing = listing_of(plan, texts)
        numbers = [kernels.setdefault(text, len(kernels)) for text in texts]
        words = table(graph, listing, numbers)
        others = table(graph, listing, [number + 1 for number in numbers])
        arrays = [np.ascontiguousarray(x) for x in operands]
        yield Task(name, words, np.flatnonzero(words != others), arrays, expected(graph, operands))


def table(graph, listing, numbers):
    """The table of a program, with numbers of kernels in place of their addresses."""
    records = [entry.input_record(aval) for aval in graph.in_avals]
    listed = [step(number, one) for number, one in zip(numbers, listing.steps, strict=True)]
    outputs = len(graph.out_avals)
    return steps.table(records, outputs, listing.offsets, listing.arena, listed, listing.views)


def step(number, listed):
    """A step that threads share, if it has at least two iterations for them."""
    grain = listed.lanes if listed.extent >= 2 * listed.lanes else 0
    given = listed.extent, grain, listed.extent, listed.buffers, listed.sizes, listed.turns
    return steps.Step(number, *given, listed.going)


def build(cpu, kernels, folder):
    """Link a program of all kernels, the interpreter of tables and the threads."""
    names = [f"kernel{number}" for number in kernels.values()]
    sources = {
        name: text.replace("@kernel(", f"@{name}(")
        for name, text in zip(names, kernels, strict=True)
    }
    sources["halves"] = HALVES.read_text(encoding="utf-8")
    for called, ours in cache.HALVES.items():
        sources["halves"] = sources["halves"].replace(f"@{ours}", f"@{called.decode()}")
    sources["steps"] = steps.text()
    sources["pool"] = pool.text(cpu.architecture)
    for name, text in sources.items():
        (folder / f"{name}.o").write_bytes(native.compile_object(text, cpu.machine))
    listing = "".join(f"extern void {name}();\n" for name in names)
    listing += f"void (*const kernels[])() = {{{', '.join(names)}}};\n"
    (folder / "kernels.c").write_text(listing)
    objects = [folder / f"{name}.o" for name in sources]
    program = folder / "program"
    command = [cpu.compiler, "-static", "-O1", "-pthread", "-o", program, DRIVER]
    subprocess.run([*command, folder / "kernels.c", *objects, "-lm"], check=True)
    return program


@pytest.mark.parametrize("cpu", CPUS.values(), ids=CPUS.keys())
def test_programs_give_what_numpy_gives(cpu, tmp_path):
    for tool in (cpu.compiler, cpu.emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    kernels = {}
    every = list(tasks(cpu.machine, kernels))
    program = build(cpu, kernels, tmp_path)
    given = [np.array([THREADS, pool.WORDS, len(every)], np.int64).tobytes()]
    for task in every:
        for words in (task.words, task.addresses):
            given += [np.int64(len(words)).tobytes(), words.tobytes()]
        for x in task.arrays:
            given += [np.int64(x.nbytes).tobytes(), x.tobytes()]
        given += [np.int64(x.nbytes).tobytes() for x in task.results]
    done = subprocess.run(
        [*cpu.emulator, program],
        input=b"".join(given),
        capture_output=True,
        timeout=600,
        check=True,
    )
    out = memoryview(done.stdout)
    for task in every:
        assert np.frombuffer(out[:8], np.int64)[0] == 0, task.name
        out = out[8:]
        for wanted in task.results:
            found = np.frombuffer(out[: wanted.nbytes], wanted.dtype).reshape(wanted.shape)
            assert_close(found, wanted, task.name)
            out = out[wanted.nbytes :]
    assert len(every) > 400
    assert not out

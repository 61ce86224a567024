"""The part *correctness*: results on a GPU against NumPy.

Programs at odd sizes under all transforms, every primitive, programs drawn at random; a dozen of
them under compute-sanitizer, where it is installed.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from functrans import config, jit
from functrans.errors import DeviceError
from functrans.optimise import optimise
from functrans.run.cuda.program import program
from tests.composition import test_on_a_grid as grids
from tests.fuzz import checks
from tests.fuzz import programs as drawn_programs
from tests.gpu_hour.cases import Cannot, Case, Here
from tests.gpu_hour.machine import DEVICE
from tests.gpu_hour.programs import ORDER, SIZED, TRANSFORMS, check, flat, made
from tests.gpu_hour.runner import ROOT
from tests.primitives.harness import PRIMITIVES, complex_cases, expect
from tests.primitives.harness import Case as Sample
from tests.primitives.harness import cases as samples_of

DRAWN = 400
"""Programs that are drawn at random, if there is time for them."""


def cases(here: Here) -> list[Case]:
    """The values and gradients of programs, every primitive, the sanitizer, and then all else."""
    return [
        *of_programs(here, ("value", "gradient")),
        *of_primitives(here, ("float32", "float64")),
        *of_tools(here),
        *of_shapes(here),
        *of_programs(here, tuple(TRANSFORMS)[2:]),
        *of_primitives(here, ("complex128",)),
        *of_drawn_programs(here),
    ]


# ---- programs ------------------------------------------------------------------------------------


def of_programs(here: Here, transforms: tuple[str, ...]) -> Iterator[Case]:
    for name in ORDER:
        for number, transform in enumerate(transforms):
            run = functools.partial(transformed, here, name, transform)
            tried = name == list(SIZED)[(number + len(transforms)) % len(SIZED)]
            yield Case(f"{name}: {transform}", run, seconds=120, finer=not tried)


def transformed(here: Here, name: str, transform: str) -> None:
    """A program under a transform."""
    if name not in SIZED:
        here.needs_a_gpu("would take too long for its size")
    rng = np.random.default_rng(0)
    one = TRANSFORMS[transform](made(name, here.stand_in), rng)
    try:
        found = jit(one.function, device=DEVICE)(*one.inputs)
    except DeviceError as error:
        raise Cannot(without_kernel(error)) from None
    check(one, found, rng)


def without_kernel(error: DeviceError) -> str:
    """What a refusal says, if it is one of an operation without a kernel.

    Raises
    ------
    DeviceError
        The error itself, if it is another one.
    """
    if "has no kernel for a GPU" not in str(error):
        raise error
    return str(error).partition(":")[0]


# ---- primitives ----------------------------------------------------------------------------------


def of_primitives(here: Here, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Each primitive with all of its samples; a stand-in takes one in fifty, dtypes in turn."""
    known = [one for one in PRIMITIVES if one.samples is not None]
    for number, primitive in enumerate(known):
        for turn, dtype in enumerate(dtypes):
            yield Case(
                f"{primitive.name} of {dtype}",
                functools.partial(primitive_of, here, primitive.name, dtype),
                finer=number % 50 != 0 or number // 50 % 2 != turn or len(dtypes) == 1,
            )


@functools.cache
def catalogue(dtype: str) -> dict[str, list[Sample]]:
    """The samples of each primitive, by its name."""
    found: dict[str, list[Sample]] = {}
    every = complex_cases(dtype) if dtype.startswith("complex") else samples_of(np.dtype(dtype))
    for one in every.values():
        found.setdefault(one.primitive.name, []).append(one)
    return found


def primitive_of(here: Here, name: str, dtype: str) -> dict[str, Any]:
    """The samples of a primitive, as programs of one equation."""
    every, refused = catalogue(dtype).get(name, []), ""
    chosen = sorted(every, key=lambda one: sum(map(np.size, one.operands)))
    tried = 0
    for one in chosen[:1] if here.stand_in else chosen:
        graph = optimise(one.graph())
        operands = list(one.operands)[: len(graph.inputs)]
        if not graph.eqns:
            continue
        try:
            made_of_it = program(graph, DEVICE)
        except DeviceError as error:
            refused = without_kernel(error)
            continue
        expect(graph, operands, [np.asarray(x) for x in made_of_it(*operands)])
        tried += 1
    if not tried:
        raise Cannot(refused or "it has no sample of this dtype that leaves something to do")
    return {"samples": f"{tried} of {len(chosen)}"}


# ---- all kinds of loops and shapes ---------------------------------------------------------------

LINES = {**grids.ELEMENTWISE, **grids.REDUCING}

TABLES: dict[
    str, tuple[dict[str, Callable[..., Any]], list[tuple[int, ...]], list[tuple[int, ...]]]
]
TABLES = {
    "lines": (
        {name: one for name, one in LINES.items() if "roots" not in name},
        [(70_001,)],
        [(9,)],
    ),
    # NumPy evaluates these lane by lane: 70,001 took half a minute and more beside 11 other workers
    "lanes": ({name: one for name, one in LINES.items() if "roots" in name}, [(7001,)], [(9,)]),
    "rows": ({**grids.ROWS, **grids.ACROSS}, [(33, 1025)], [(3, 5)]),
    "long rows": (grids.ROWS, [(5, 50_257)], [(2, 17)]),
    "many long rows": (grids.ROWS, [(33, 20_001)], [(9, 17)]),
    # (each team has two)
    "rows of a team": ({"softmax": grids.ROWS["softmax"]}, [(2200, 30_001)], [(9, 17)]),
    "attention": (grids.ATTENTION, [(129, 18), (257, 18), (257, 5)], [(3, 2), (5, 2), (5, 3)]),
}
"""Functions with the shapes of their operands: on a GPU, and on a stand-in."""


def of_shapes(here: Here) -> Iterator[Case]:
    for table, (functions, *shapes) in TABLES.items():
        for number, name in enumerate(functions):
            for turn, dtype in enumerate(("float32", "float64")):
                if table == "lanes" and dtype == "float32":
                    continue  # their tolerance is float64's: they would go on for ever
                run = functools.partial(shaped, functions[name], here.size(*shapes), dtype)
                finer = number % 8 != 0 or turn != 0
                yield Case(f"{table} of {dtype}: {name}", run, finer=finer)
    for number, (name, (function, shape)) in enumerate(grids.TWICE.items()):
        run = functools.partial(shaped, function, [shape], "float64")
        yield Case(f"twice: {name}", run, finer=number != 3)


def shaped(function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: str) -> None:
    """A function of arrays of some shapes."""
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    one = flat(function, tuple(inputs))
    try:
        found = jit(one.function, device=DEVICE)(*one.inputs)
    except DeviceError as error:
        raise Cannot(without_kernel(error)) from None
    check(one, found, rng)


# ---- programs drawn at random --------------------------------------------------------------------

MODES = (
    "call", "gradient", "batched", "batched gradient", "forward", "second order", "batched twice",
    "donated",
)  # fmt: skip


def of_drawn_programs(here: Here) -> Iterator[Case]:
    for number in range(here.size(DRAWN, 12)):
        mode = MODES[number % len(MODES)]
        run = functools.partial(drawn, here, number, mode)
        yield Case(f"drawn program {number}: {mode}", run, finer=number not in (1, 11))


def drawn(here: Here, number: int, mode: str) -> None:
    """A program of the fuzzer; what has no kernel is done on the host.

    Its calls must give the same bits: what is added by atomic operations is sorted, but for the
    emulator, which takes the order of threads from a seed.
    """
    rng = np.random.default_rng([1, number])
    one = drawn_programs.draw(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "jit", functools.partial(jit, device=DEVICE))
        patch.setattr(config, "cuda_fallback", "host")
        patch.setattr(config, "deterministic", not here.stand_in)
        try:
            checks.MODES[mode][0](one, rng)
        except checks.Mismatch as error:
            raise AssertionError(f"{error}\n{one}") from None


# ---- compute-sanitizer ---------------------------------------------------------------------------

SANITIZED = (
    "rows of float32: softmax", "rows of float32: gradient of a layer norm",
    "rows of float32: columns", "rows of float64: by rows", "rows of float32: transposed",
    "lines of float64: running", "lines of float64: gradient of a gather", "lines of float64: sum",
    "attention of float32: causal attention", "attention of float32: gradient of attention",
    "twice: gradient of recurrent", "twice: per sample", "many long rows of float32: softmax",
)  # fmt: skip
"""Cases of this part that are run under compute-sanitizer: a kernel of each kind."""

TOOLS = ("memcheck", "racecheck", "synccheck")


def of_tools(here: Here) -> Iterator[Case]:
    for tool in TOOLS:
        run = functools.partial(sanitized, here, tool)
        yield Case(f"compute-sanitizer {tool}", run, seconds=300, finer=tool != "racecheck")


def sanitized(here: Here, tool: str) -> dict[str, Any]:
    """A dozen of cases in a process that compute-sanitizer watches."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise Cannot("compute-sanitizer is not installed")
    names = SANITIZED[:1] if here.stand_in else SANITIZED
    command = [sys.executable, "-m", "tests.gpu_hour.worker", __name__, "--print", *names]
    command += ["--stand-in"] if here.stand_in else []
    done = subprocess.run(
        [sanitizer, "--tool", tool, *command], cwd=ROOT, capture_output=True, text=True
    )
    text = done.stdout + done.stderr
    rows = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"case"')]
    found = re.findall(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", text)
    assert found and len(rows) == len(names), f"it ended with {done.returncode}: {text[-2000:]}"
    errors = sum(int(one or other) for one, other in found)
    first = next(
        (each for each in text.splitlines() if "=========" in each and "Error" in each), ""
    )
    assert not errors, f"{errors} errors: {first}\n{text[:4000]}"
    assert all(row["outcome"] == "right" for row in rows), rows
    return {"cases": len(rows)}

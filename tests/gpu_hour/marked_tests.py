"""The tests with the marker ``gpu`` as cases, called without pytest's runner.

Thus each test has its own time limit, and a process that it may crash.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from functrans.run.cuda.driver import driver
from tests.emit.cuda import test_on_machines
from tests.examples import test_gpu
from tests.gpu_hour.cases import Cannot, Case, Here
from tests.gpu_hour.machine import DEVICE
from tests.run.cuda import on_libcuda, test_on_gpu
from tests.run.cuda.libraries import test_on_gpu as test_libraries

MODULES = (test_on_gpu, test_libraries, test_on_machines, test_gpu)
"""The files that have such tests."""

FIXTURES: dict[str, Callable[[], Any]] = {
    "there": lambda: driver(DEVICE),
    "cubin": lambda: test_on_gpu.compiled(driver(DEVICE).properties.architecture),
    "run": lambda: test_on_machines.launch,
    "monkeypatch": pytest.MonkeyPatch,
}
"""What tests are given, by name."""


def marked_tests(here: Here) -> Iterator[Case]:
    """All of them; of a stand-in's, the first call of each is enough where time is short."""
    for module in MODULES:
        for name, function in vars(module).items():
            if not (
                name.startswith("test_") and callable(function) and is_marked(module, function)
            ):
                continue
            for number, arguments in enumerate(calls_of(function)):
                shown = "-".join(_text(x) for x in arguments.values())
                file = Path(module.__file__).relative_to(Path(__file__).parents[1])
                yield Case(
                    f"{file}::{name}[{number}-{shown}]" if arguments else f"{file}::{name}",
                    functools.partial(called, here, function, arguments),
                    finer=number > 0,
                )


def is_marked(module: Any, function: Any) -> bool:
    """Whether a test is one for a GPU: by its own marker, its file's, or that of its fixture."""
    marks = [*getattr(function, "pytestmark", ()), getattr(module, "pytestmark", None)]
    names = {mark.name for mark in marks if mark is not None}
    return "gpu" in names or "run" in inspect.signature(function).parameters


def calls_of(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of each call of a test, by its decorators ``parametrize``."""
    axes = []
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args
            names = [one.strip() for one in names.split(",")] if isinstance(names, str) else names
            axes.append([dict(zip(names, _row(x, len(names)), strict=True)) for x in values])
    for chosen in itertools.product(*axes):
        yield {name: value for one in chosen for name, value in one.items()}


def _row(value: Any, count: int) -> tuple[Any, ...]:
    if isinstance(value, type(pytest.param())):
        return tuple(value.values)
    return tuple(value) if count > 1 else (value,)


def _text(x: Any) -> str:
    return str(getattr(x, "__name__", x))


def called(here: Here, test: Any, arguments: dict[str, Any]) -> None:
    """Call a test; on a stand-in, what it does there."""
    wanted = [each for each in inspect.signature(test).parameters if each not in arguments]
    if here.stand_in:
        if test is test_libraries.test_the_real_libraries_do_what_the_stub_does:
            arguments["function"](*arguments["arguments"])
            return
        if "cubin" in wanted:
            on_our_libcuda(_text(arguments.get("scenario", test)))
            return
        if not (wanted or arguments):
            raise Cannot("a stand-in would take too long, or has one GPU alone")
    given = {name: FIXTURES[name]() for name in wanted}
    if here.stand_in and "run" in given:
        given["run"] = test_on_machines.compile_and_emulate
    try:
        test(*(), **given, **arguments)
    finally:
        if "monkeypatch" in given:
            given["monkeypatch"].undo()


@functools.cache
def _outcomes() -> dict[str, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, str | None] = on_libcuda.in_a_process(Path(folder))
        return found


def on_our_libcuda(scenario: str) -> None:
    """What became of a scenario on cuda.core above our libcuda."""
    if scenario not in on_libcuda.NAMES:
        raise Cannot("a stand-in runs no kernels from CUDA C++ but on our libcuda")
    trace = _outcomes()[scenario]
    assert trace is None, trace

"""The part *speed*: times of programs beside a memory copy, and beside other libraries.

Arrays are random and of 1 GiB. Twenty calls go back to back between two events; contestants take
turns, and each time is a median. Results are compared with NumPy's in float64: rows of them, where
a row of the result is one of the operand's, or all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import functrans
from functrans import config, jit
from functrans.run.cuda import launches
from functrans.run.cuda.driver import driver
from tests.benchmarks.one import functrans_library, jax_library
from tests.benchmarks.workloads import WORKLOADS
from tests.gpu_hour.cases import Cannot, Case, Here
from tests.gpu_hour.machine import DEVICE
from tests.gpu_hour.rows import ROWS, STAND_INS, Function, Operand, Row

CALLS, ROUNDS = 20, 5

LONGEST = 0.5
"""Seconds that the calls between two events take, about: of slow ones there are fewer."""

MOST_BEFORE = 100
"""The most calls that are waited behind: the driver queues some thousand."""

OURS = "functrans"


def cases(here: Here) -> list[Case]:
    """Ours alone and checked; then beside others, which take long to be imported and to compile."""
    there = [name for name, module in RIVALS.items() if here.stand_in or find_spec(module)]
    return [
        *(Case(f"call: {name}", functools.partial(small_call, here, name)) for name in SMALL),
        *(
            Case(name, functools.partial(alone, here, name), 90, finer=name not in STAND_INS)
            for name in ROWS
        ),
        *(
            Case(f"workload: {name}", functools.partial(workload, here, name, False))
            for name in WORKLOADS
        ),
        *(
            Case(
                f"{name} beside {rival}",
                functools.partial(beside, here, name, rival),
                seconds=90,
                finer=name != "elementwise",
            )
            for rival in there
            for name, row in ROWS.items()
            if rival in row.others or (rival == "PyTorch" and row.torch is not None)
        ),
        *(
            Case(
                f"workload: {name} beside JAX",
                functools.partial(workload, here, name, True),
                finer=name != "scalar gradient",
            )
            for name in WORKLOADS
            if "JAX" in there
        ),
    ]


# ---- operands, and what is right -----------------------------------------------------------------


@functools.lru_cache(6)
def on_host(here: Here, operand: Operand) -> np.ndarray[Any, Any]:
    """Random numbers, drawn once for all rows that have such an operand."""
    shape = here.size(operand.large, operand.small)
    rng = np.random.default_rng(len(shape))
    count = min(int(np.prod(shape)), 1 << 22)
    below = here.size(*operand.below)
    block = rng.integers(0, below, count) if below else rng.standard_normal(count, np.float32)
    return np.resize(block.astype(operand.dtype), shape)


def placed(here: Here, row: Row) -> tuple[Any, ...]:
    """The operands of a row on the device."""
    return tuple(functrans.device_put(on_host(here, one), DEVICE) for one in row.operands)


TOLERANCES = {2: 2e-3, 4: 1e-4, 8: 1e-10}
"""Relative errors in the norm that are rounding, by the bytes of a number of the result."""


def chosen(here: Here, row: Row) -> list[int]:
    """The rows that are compared."""
    count = len(on_host(here, row.operands[0]))
    return sorted({0, count // 2, count - 1})


def expected_of(here: Here, row: Row) -> Any:
    """What NumPy makes of the operands in float64: some rows, or all of it.

    Random numbers are those of the CPU.
    """
    program = row.program(functrans_library()[0])
    if row.by_rows < 0:
        return jit(program, device="cpu")(*(on_host(here, one) for one in row.operands))
    given = []
    for number, one in enumerate(row.operands):
        x = on_host(here, one)
        x = x[chosen(here, row)] if number < row.by_rows else x
        given.append(x if x.dtype.kind in "iu" else x.astype(np.float64))
    return np.asarray(program(*given))


def error(here: Here, row: Row, found: Any, expected: Any) -> float:
    """The relative error of a result, in the norm.

    Raises
    ------
    AssertionError
        If it is not rounding. (A NaN is never.)
    """
    if row.by_rows < 0:  # random numbers: the same bits
        found = np.asarray(found)
        assert found.dtype == expected.dtype
        different = int((found != expected).sum())
        assert not different, f"{different} of {expected.size} numbers are not those of the CPU"
        return 0.0
    if row.by_rows:
        found = np.stack([np.asarray(found[i]) for i in chosen(here, row)])
    found = np.asarray(found)
    assert found.shape == expected.shape, f"{found.shape} and not {expected.shape}"
    gap = np.linalg.norm((found.astype(np.float64) - expected).ravel())
    relative = float(gap / max(np.linalg.norm(expected.astype(np.float64).ravel()), 1e-30))
    limit = row.tolerance or TOLERANCES[found.dtype.itemsize]
    assert relative <= limit, f"a relative error of {relative:.2e}"
    return relative


# ---- times ---------------------------------------------------------------------------------------


class Contestant(NamedTuple):
    """Something to be timed.

    Parameters
    ----------
    name : str
    call : callable
        Its result need not be there yet.
    span : callable
        The seconds in which so many calls are done, one behind the other.
    """

    name: str
    call: Function
    span: Callable[[Function, int], float]


def by_events(call: Function, count: int) -> float:
    """The seconds between two events on our stream."""
    there = driver(DEVICE)
    stream = there.stream()
    start = there.record(stream, timed=True)
    for _ in range(count):
        call()
    return there.elapsed(start, there.record(stream, timed=True))


def behind(work: Function) -> Callable[[Function, int], float]:
    """The seconds of kernels alone: those of calls that wait behind other work.

    That work takes longer than the host takes for the calls, so that no kernel waits for the host.
    """

    def span(call: Function, count: int) -> float:
        start = perf_counter()
        call()
        host = count * (perf_counter() - start)
        seconds = max(by_events(work, 1), 1e-6)  # (which also waits for the call)
        for _ in range(min(1 + int(2 * host / seconds), MOST_BEFORE)):
            work()
        return by_events(call, count)

    return span


def in_turns(here: Here, contestants: list[Contestant]) -> dict[str, float]:
    """The median seconds of a call of each, which take turns."""
    counts = {one.name: 1 for one in contestants}
    for one in contestants if not here.stand_in else ():
        one.span(one.call, 3)  # compiled, and captured as a graph
        seconds = max(one.span(one.call, 2) / 2, 1e-9)
        counts[one.name] = max(2, min(CALLS, int(LONGEST / ROUNDS / seconds)))
    times: dict[str, list[float]] = {one.name: [] for one in contestants}
    for _ in range(here.size(ROUNDS, 1)):
        for one in contestants:
            times[one.name].append(one.span(one.call, counts[one.name]) / counts[one.name])
    return {name: median(found) for name, found in times.items()}


def measured(
    here: Here, row: Row, contestants: list[Contestant], operands: Any, result: Any
) -> dict[str, Any]:
    """Times, and what ours are worth; where bytes count, beside a copy of the largest array."""
    if row.work is not None:
        times = in_turns(here, contestants)
        worth = {"TFLOP/s": row.work(operands, result) / times[OURS] / 1e12}
    else:
        largest = max((*operands, result), key=lambda x: x.nbytes)
        times = in_turns(here, [Contestant("copy", largest.copy, by_events), *contestants])
        copy = 2.0 * largest.nbytes / times.pop("copy")
        rate = (sum(x.nbytes for x in operands) + result.nbytes) / times[OURS]
        worth = {"TB/s": rate / 1e12, "of a copy": rate / copy, "copy TB/s": copy / 1e12}
    return {f"us {name}": seconds * 1e6 for name, seconds in times.items()} | worth


def ours(row: Row, operands: Any) -> Contestant:
    function = jit(row.program(functrans_library()[0]))
    return Contestant(OURS, lambda: function(*operands), by_events)


@contextmanager
def set_up(row: Row) -> Iterator[pytest.MonkeyPatch]:
    """How a row is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in row.settings.items():
            patch.setattr(config, name, value)
        if row.own:
            patch.setattr(launches, "are_installed", lambda: False)
        yield patch


def alone(here: Here, name: str) -> dict[str, Any]:
    """Ours, checked, beside a copy."""
    row = ROWS[name]
    if row.by_rows < 0:
        here.needs_a_gpu("would take too long for its size")
    with set_up(row):
        operands = placed(here, row)
        one, start = ours(row, operands), perf_counter()
        result = one.call()
        result.block_until_ready()
        first = perf_counter() - start
        worst = error(here, row, result, expected_of(here, row))
        found = {"error": worst, "first call s": first}
        return found | measured(here, row, [one], operands, result)


# ---- calls of few numbers ------------------------------------------------------------------------


def host_time(here: Here, call: Function) -> float:
    """The host's microseconds of a call that is not waited for."""
    there, count = driver(DEVICE), here.size(300, 3)
    times = []
    for _ in range(here.size(5 * ROUNDS, 1)):  # the first ones are slower: clocks rise
        start = perf_counter()
        for _ in range(count):
            call()
        times.append((perf_counter() - start) / count)
        there.synchronize(there.stream())
    return median(times) * 1e6


SMALL: dict[str, Callable[[Any], Function]] = {
    "one kernel": lambda x: functools.partial(jit(lambda x: np.sin(x) * 2.0), x),
    "ten arguments": lambda x: functools.partial(jit(lambda *xs: sum(xs)), *[x] * 10),
    "a Python scalar": lambda x: functools.partial(jit(lambda x, s: x * s), x, 0.5),
    "an eager operation": lambda x: lambda: x + x,
    "a donated state": lambda x: donating(x),
}


def donating(x: Any) -> Function:
    step, state = jit(lambda p: p * 0.5, donate_argnums=0), [x.copy()]

    def call() -> None:
        state[0] = step(state[0])

    return call


def small_call(here: Here, name: str) -> dict[str, Any]:
    """What a call takes of the host."""
    call = SMALL[name](functrans.device_put(np.ones(4), DEVICE))
    for _ in range(3):
        call()
    return {"host us": host_time(here, call)}


# ---- beside others -------------------------------------------------------------------------------


RIVALS = {"PyTorch": "torch", "CuPy": "cupy", "JAX": "jax"}
"""Others, and the modules that they are."""


def by_pytorch(here: Here, row: Row) -> Contestant:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        raise Cannot("PyTorch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = "matmul_precision" in row.settings
    assert row.torch is not None
    function = row.torch(torch)
    operands = [
        torch.from_dlpack(functrans.device_put(on_host(here, x), DEVICE)) for x in row.operands
    ]

    def span(call: Function, count: int) -> float:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3

    return Contestant("PyTorch", lambda: function(*operands), span)


def by_cupy(here: Here, row: Row) -> Contestant:
    cupy = pytest.importorskip("cupy")
    if any(x.dtype == ml_dtypes.bfloat16 for x in row.operands):
        raise Cannot("CuPy has no bfloat16")
    library = functrans_library()[0]._replace(np=cupy)
    function, operands = (
        row.program(library),
        [cupy.asarray(on_host(here, x)) for x in row.operands],
    )

    def span(call: Function, count: int) -> float:
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, stop)) / 1e3

    return Contestant("CuPy", lambda: function(*operands), span)


def jax_on_a_gpu(here: Here) -> Any:
    """JAX, as it is used here."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_platforms", "cpu" if here.stand_in else None)
    if not (here.stand_in or any(one.platform == "gpu" for one in jax.devices())):
        raise Cannot("JAX sees no GPU")
    # products of float32 are those of float32, as here
    jax.config.update("jax_default_matmul_precision", "highest")
    return jax


def by_jax(here: Here, row: Row) -> Contestant:
    jax = jax_on_a_gpu(here)
    if "matmul_precision" in row.settings:
        jax.config.update("jax_default_matmul_precision", "tensorfloat32")
    function = jax.jit(row.program(jax_library(jax.config.jax_platforms)[0]))
    operands = jax.device_put([on_host(here, x) for x in row.operands])
    return Contestant("JAX", lambda: function(*operands), functools.partial(by_the_clock, jax))


def by_the_clock(jax: Any, call: Function, count: int) -> float:
    """JAX has no events: from the first call until the last result is there."""
    start = perf_counter()
    for _ in range(count):
        last = call()
    jax.block_until_ready(last)
    return perf_counter() - start


MADE_BY = {"PyTorch": by_pytorch, "CuPy": by_cupy, "JAX": by_jax}


def beside(here: Here, name: str, rival: str) -> dict[str, Any]:
    """Ours and another library's, in turns."""
    row = ROWS[name]
    if row.by_rows < 0:
        here.needs_a_gpu("would take too long for its size")
    other = MADE_BY[rival](here, row)
    with set_up(row):
        operands = placed(here, row)
        one = ours(row, operands)
        found = measured(here, row, [one, other], operands, one.call())
        return found | {"ahead": found[f"us {rival}"] / found[f"us {OURS}"]}


def workload(here: Here, name: str, rival: bool) -> dict[str, Any]:
    """A workload of the CPU's table, compared with the host's numbers, or timed beside JAX."""
    if name not in ("scalar gradient", "small MLP gradient"):
        here.needs_a_gpu("would take too long for its size")
    job = WORKLOADS[name][0](functrans_library()[0])
    operands, function = functrans.device_put(job.arguments, DEVICE), jit(job.function)
    contestants = [Contestant(OURS, lambda: function(*operands), by_events)]
    if rival:
        jax = jax_on_a_gpu(here)
        other = jax.jit(WORKLOADS[name][0](jax_library(jax.config.jax_platforms)[0]).function)
        there, span = jax.device_put(job.arguments), functools.partial(by_the_clock, jax)
        contestants.append(Contestant("JAX", lambda: other(*there), span))
    else:
        expected = functrans.tree.leaves(jit(job.function, device="cpu")(*job.arguments))
        for x, y in zip(functrans.tree.leaves(function(*operands)), expected, strict=True):
            gap = np.linalg.norm((np.asarray(x) - y).ravel()) / max(
                np.linalg.norm(np.ravel(y)), 1e-30
            )
            limit = 1e3 * TOLERANCES[np.asarray(y).dtype.itemsize]
            assert gap < limit, f"a relative error of {gap:.2e}"
    return {f"us {key}": value * 1e6 for key, value in in_turns(here, contestants).items()}

"""Cost ratios of gradients and loops, and memory: ``python -m tests.benchmarks.ratios``.

Three promises, in one table of medians. A gradient takes a few times as long as its function, both
compiled. Elementwise programs take as long as a hand-written parallel Numba loop, both writing to
new arrays. Memory use does not grow with the number of calls.

Everything runs in this process; what is compared takes turns. Numba's ``exp`` is that of the C
library, one number at a time, so that a loop of arithmetic alone says more about the loops.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np

import functrans
from tests.benchmarks.one import functrans_library
from tests.benchmarks.workloads import WORKLOADS

COUNT = 4_000_000
CALLS = 100_000

MOST_TURNS = 2000


class Row(NamedTuple):
    """Something measured beside something else, and how many times as much it is to be at most."""

    name: str
    ours: float
    other: float
    most: float
    unit: str

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    def __str__(self) -> str:
        ours, other = (_amount(x, self.unit) for x in (self.ours, self.other))
        return f"{self.name:40} {ours:>10} {other:>10} {self.ratio:7.2f} {self.most:7.2f}"


def _amount(x: float, unit: str) -> str:
    if unit == "bytes":
        return f"{x / 2**20:.2f} MB"
    return f"{x * 1e6:.1f} us" if x < 1e-3 else f"{x * 1e3:.2f} ms"


def in_turns(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The median time of each function, in seconds; each runs five times or more."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = perf_counter() + seconds
    while len(times[0]) < 5 or (perf_counter() < end and len(times[0]) < MOST_TURNS):
        for function, record in zip(functions, times, strict=True):
            start = perf_counter()
            function()
            record.append(perf_counter() - start)
    return [median(record) for record in times]


# -- gradients beside their functions --------------------------------------------------------------


def gradients(seconds: float) -> Iterator[Row]:
    """Each workload that is a gradient, beside the function that it is the gradient of."""
    library, compiled, _ = functrans_library()
    for name, (make, _) in WORKLOADS.items():
        job = make(library)
        if job.primal is None:
            continue
        pair = [compiled(job.function), compiled(job.primal)]
        calls = [lambda run=run, job=job: run(*job.arguments) for run in pair]
        yield Row(f"{name} / its function", *in_turns(calls, seconds), 3.0, "seconds")


# -- elementwise work beside Numba -----------------------------------------------------------------


def gaussian(x: Any) -> Any:
    return np.exp(-x * x) * x + 1.0


def polynomial(x: Any) -> Any:
    return ((((0.1 * x + 0.3) * x - 0.7) * x + 1.1) * x - 1.3) * x + 0.5


@numba.njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def gaussian_by_hand(x):
    out = np.empty_like(x)
    for i in numba.prange(x.size):
        out[i] = np.exp(-x[i] * x[i]) * x[i] + 1.0
    return out


@numba.njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def polynomial_by_hand(x):
    out = np.empty_like(x)
    for i in numba.prange(x.size):
        y = x[i]
        out[i] = ((((0.1 * y + 0.3) * y - 0.7) * y + 1.1) * y - 1.3) * y + 0.5
    return out


ELEMENTWISE = {
    "exp(-x*x)*x+1": (gaussian, gaussian_by_hand),
    "a polynomial": (polynomial, polynomial_by_hand),
}


def elementwise(count: int, seconds: float) -> Iterator[Row]:
    """Functions of many numbers beside loops by hand, after a check that they agree."""
    x = np.random.default_rng(0).uniform(-2, 2, count)
    for name, (function, by_hand) in ELEMENTWISE.items():
        compiled = functrans.jit(function)
        np.testing.assert_allclose(compiled(x), by_hand(x), rtol=1e-12, atol=1e-14)
        calls = [lambda run=run: run(x) for run in (compiled, by_hand)]
        yield Row(f"{name} / Numba's loop", *in_turns(calls, seconds), 1.1, "seconds")


# -- memory ----------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """The memory that this process has in use (Linux)."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(count: int) -> Row:
    """Resident memory after many calls of a compiled gradient, and before."""
    library, compiled, _ = functrans_library()
    job = WORKLOADS["small MLP gradient"][0](library)
    run = compiled(job.function)
    for _ in range(count // 20):
        run(*job.arguments)
    before = resident_bytes()
    for _ in range(count):
        run(*job.arguments)
    return Row(f"memory after {count} calls / before", resident_bytes(), before, 1.01, "bytes")


def rows(count: int, calls: int, seconds: float) -> Iterator[Row]:
    """All that is measured."""
    yield from gradients(seconds)
    yield from elementwise(count, seconds)
    yield memory(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each comparison")
    seconds = parser.parse_args().seconds
    print(f"{'what / beside what':40} {'this':>10} {'beside':>10} {'ratio':>7} {'at most':>7}")
    for row in rows(COUNT, CALLS, seconds):
        print(row, flush=True)


if __name__ == "__main__":
    main()

"""Overheads of debugging tools: ``python -m tests.benchmarks.watching [--rounds 400]``.

Compiled programs with `debug.profile` and with `debug.nans`, in turns with the same programs
without. BLAS chooses its own kernels, whose names are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from functrans import debug, jit, lax, value_and_grad, vmap
from tests.benchmarks.__main__ import kernels


class Row(NamedTuple):
    """The time of a call without a watch, and with one, and the most that this may add."""

    name: str
    without: float
    watched: float
    most: float

    def __str__(self) -> str:
        ratio = self.watched / self.without
        mark = "" if ratio <= self.most else "  above"
        return (
            f"{self.name:44} {self.without * 1e6:10.2f} us {self.watched * 1e6:10.2f} us "
            f"{ratio:7.3f} {self.most:6.2f}{mark}"
        )


def network(w: Any, x: Any) -> Any:
    for a in w:
        x = np.tanh(x @ a)
    return np.sum(x * x)


def recurrence(x: Any) -> Any:
    return lax.scan(lambda c, r: (np.sin(c * r), None), x[0], x)[0].sum()


def newton(a: Any) -> Any:
    return lax.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


RNG = np.random.default_rng(0)

WORK: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a number": (jit(lambda x: x * 2 + 1), (1.5,)),
    "network 64 x 5, value and gradient": (
        jit(value_and_grad(network)),
        ([0.1 * RNG.normal(size=(64, 64)) for _ in range(5)], RNG.normal(size=(500, 64))),
    ),
    "elementwise, a million": (
        jit(lambda x: np.exp(-x * x) * x + 1),
        (RNG.normal(size=1_000_000),),
    ),
    "scan of 500 steps, value and gradient": (
        jit(value_and_grad(recurrence)),
        (RNG.uniform(1, 2, size=(500, 64)),),
    ),
    "while loops under vmap": (jit(vmap(newton)), (RNG.uniform(1, 9, size=10_000),)),
}

WATCHES: dict[str, tuple[Callable[[], AbstractContextManager[Any]], float]] = {
    "profile": (debug.profile, 1.02),
    "nans": (debug.nans, 1.10),
}


def rows(rounds: int, blocks: int = 11) -> Iterator[Row]:
    for name, (function, arguments) in WORK.items():
        for _ in range(3):
            function(*arguments)
        for watch, (context, most) in WATCHES.items():
            times: tuple[list[float], list[float]] = [], []
            for _ in range(blocks):
                times[0].append(_per_call(function, arguments, rounds))
                with context():
                    times[1].append(_per_call(function, arguments, rounds))
            yield Row(f"{watch}: {name}", median(times[0]), median(times[1]), most)


def _per_call(function: Callable[..., Any], arguments: tuple[Any, ...], rounds: int) -> float:
    """The time of a call: the best of some, as many as fit into a fraction of a second."""
    start = perf_counter()
    function(*arguments)
    count = max(1, min(rounds, int(0.02 / max(perf_counter() - start, 1e-7))))
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        for _ in range(count):
            function(*arguments)
        best = min(best, (perf_counter() - start) / count)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    print(f"kernels of BLAS: {kernels()}")
    for row in rows(rounds):
        print(row, flush=True)


if __name__ == "__main__":
    main()

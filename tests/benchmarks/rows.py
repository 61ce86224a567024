"""A step on a table of a million rows: ``python -m tests.benchmarks.rows [--rounds 9]``.

The gradient of the rows that were looked up (`train.value_and_row_grad`) beside the whole gradient,
in turns; both steps write where the table lies.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from functrans import jit, train, value_and_grad

COUNT, WIDTH, LOOK_UPS = 1_000_000, 64, 4096
RATE = np.float32(0.1)


def loss(table: Any, indices: Any) -> Any:
    return np.mean(np.tanh(table[indices]))


def by_rows(table: Any, indices: Any) -> Any:
    return table - RATE * train.value_and_row_grad(loss)(table, indices)[1]


def whole(table: Any, indices: Any) -> Any:
    return table - RATE * value_and_grad(loss)(table, indices)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    table = rng.normal(size=(COUNT, WIDTH)).astype(np.float32)
    indices = rng.integers(0, COUNT, LOOK_UPS)
    steps = {f.__name__: jit(f, donate_argnums=0) for f in (by_rows, whole)}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            start = perf_counter()
            table = step(table, indices)
            if turn:
                times[name].append(perf_counter() - start)
    for name, taken in times.items():
        print(f"{name:8} {median(taken) * 1e3:8.3f} ms")


if __name__ == "__main__":
    main()

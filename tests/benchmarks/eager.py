"""Eager gradients of a small MLP beside HIPS autograd's: ``python -m tests.benchmarks.eager``.

Both run in this process, in turns, on the same function; the medians are printed. Without `jit`
nothing is compiled: what is compared is the cost of tracing and of the rules.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import functrans

SIZES = [(4, 2), (16, 3), (64, 3), (256, 3), (16, 8)]
"""Width and number of the hidden layers."""


def loss_with(numpy: Any) -> Callable[..., Any]:
    """The same loss, written with either library's NumPy."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x
        for w, b in params[:-1]:
            h = numpy.tanh(h @ w + b)
        w, b = params[-1]
        return numpy.mean((h @ w + b - y) ** 2)

    return loss


def problem(width: int, depth: int, batch: int) -> tuple[Any, Any, Any]:
    """Parameters, inputs and targets."""
    rng = np.random.default_rng(0)
    sizes = [width] * (depth + 1) + [1]
    params = [
        (rng.normal(size=(a, b)) / np.sqrt(a), rng.normal(size=b)) for a, b in pairwise(sizes)
    ]
    return params, rng.normal(size=(batch, width)), rng.normal(size=(batch, 1))


def in_turns(functions: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The median time of each function, in seconds."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, record in zip(functions, times, strict=True):
            start = perf_counter()
            function()
            record.append(perf_counter() - start)
    return [median(record) for record in times]


def compare(width: int, depth: int, batch: int = 32, rounds: int = 400) -> tuple[float, float]:
    """The medians of autograd and of functrans, after a check that they agree."""
    # only the benchmarks need it, and pytest imports this file
    autograd = import_module("autograd")
    autograd_numpy = import_module("autograd.numpy")
    arguments = problem(width, depth, batch)
    theirs = autograd.grad(loss_with(autograd_numpy))
    ours = functrans.grad(loss_with(np))
    for a, b in zip(theirs(*arguments), ours(*arguments), strict=True):
        np.testing.assert_allclose(a[0], b[0], rtol=1e-9)
        np.testing.assert_allclose(a[1], b[1], rtol=1e-9)
    for _ in range(3):  # what is printed as a program at the second call
        ours(*arguments)
    first, second = in_turns([lambda: theirs(*arguments), lambda: ours(*arguments)], rounds)
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    print("width  layers  autograd us  functrans us  times as fast")
    for width, depth in SIZES:
        first, second = compare(width, depth, rounds=rounds)
        print(
            f"{width:5d}  {depth:6d}  {first * 1e6:11.0f}  {second * 1e6:12.0f}  "
            f"{first / second:13.2f}"
        )


if __name__ == "__main__":
    main()

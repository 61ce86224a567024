"""Eager gradients beside HIPS autograd's: ``python -m tests.benchmarks.eager``.

Both run in this process, in turns, on the same function; medians and least times are printed.
Without `jit` nothing is compiled: what is compared is the cost of tracing and of the rules. Calls
of Python functions (not those of C) are counted for each operation that is recorded.
"""

from __future__ import annotations

import argparse
import sys
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


# -- other programs --------------------------------------------------------------------------------


def chain(numpy: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Twenty-five elementwise operations one after the other, and a sum."""

    def function(x: Any) -> Any:
        for _ in range(5):
            x = numpy.exp(-(numpy.sin(x) * 1.5 + 0.3))
        return numpy.sum(x)

    return function, (np.linspace(-1.0, 1.0, 5),)


def scalar_steps(numpy: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A hundred steps of a recurrence of numbers."""

    def function(x: Any) -> Any:
        y = 1.0
        for _ in range(100):
            y = y * 0.9 + x
        return y

    return function, (0.5,)


def small_solve(numpy: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A system of three equations."""
    matrix = np.random.default_rng(0).normal(size=(3, 3)) + 3 * np.eye(3)

    def function(a: Any, b: Any) -> Any:
        return numpy.sum(numpy.linalg.solve(a, b) ** 2)

    return function, (matrix, np.arange(3.0))


def hartree_fock(numpy: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The energy of the hydrogen molecule: integrals over s-type Gaussians in loops of numbers."""
    exponents = [3.42525091, 0.62391373, 0.16885540]
    weights = [0.15432897, 0.53532814, 0.44463454]
    shells = [(c * (2 * a / np.pi) ** 0.75, a) for c, a in zip(weights, exponents, strict=True)]

    def boys(t: Any) -> Any:
        if t < 1e-8:
            return 1.0 - t / 3.0
        root = numpy.sqrt(t)
        # the error function to seven digits, as Abramowitz and Stegun have it
        k = 1.0 / (1.0 + 0.3275911 * root)
        terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
        total = 0.0
        for term in terms:
            total = (total + term) * k
        return 0.5 * numpy.sqrt(np.pi / t) * (1.0 - total * numpy.exp(-t))

    def energy(distance: Any) -> Any:
        centres = [0.0, distance]
        n = range(2)
        overlap = [[0.0] * 2 for _ in n]
        core = [[0.0] * 2 for _ in n]
        for i in n:
            for j in n:
                for ci, a in shells:
                    for cj, b in shells:
                        p, apart = a + b, (centres[i] - centres[j]) ** 2
                        s = ci * cj * (np.pi / p) ** 1.5 * numpy.exp(-a * b / p * apart)
                        overlap[i][j] = overlap[i][j] + s
                        kinetic = a * b / p * (3.0 - 2.0 * a * b / p * apart) * s
                        middle = (a * centres[i] + b * centres[j]) / p
                        at = [boys(p * (middle - c) ** 2) for c in centres]
                        attraction = -2.0 * (p / np.pi) ** 0.5 * (at[0] + at[1]) * s
                        core[i][j] = core[i][j] + kinetic + attraction
        pairs = {}
        for i, j, k, m in [(i, j, k, m) for i in n for j in n for k in n for m in n]:
            total = 0.0
            for ci, a in shells:
                for cj, b in shells:
                    p = a + b
                    first = (a * centres[i] + b * centres[j]) / p
                    left = numpy.exp(-a * b / p * (centres[i] - centres[j]) ** 2) * ci * cj
                    for ck, c in shells:
                        for cm, d in shells:
                            q = c + d
                            second = (c * centres[k] + d * centres[m]) / q
                            right = numpy.exp(-c * d / q * (centres[k] - centres[m]) ** 2) * ck * cm
                            scale = 2 * np.pi**2.5 / (p * q * (p + q) ** 0.5)
                            t = p * q / (p + q) * (first - second) ** 2
                            total = total + scale * left * right * boys(t)
            pairs[i, j, k, m] = total
        # of two equal centres the occupied orbital is the even one: nothing is left to iterate
        density = 1.0 / (1.0 + overlap[0][1])
        electronic = 0.0
        for i in n:
            for j in n:
                repulsion = 0.0
                for k in n:
                    for m in n:
                        repulsion = repulsion + density * (
                            pairs[i, j, m, k] - 0.5 * pairs[i, k, m, j]
                        )
                electronic = electronic + 0.5 * density * (2.0 * core[i][j] + repulsion)
        return electronic + 1.0 / distance

    return energy, (1.4,)


PROGRAMS = {
    "elementwise chain": chain,
    "100 scalar steps": scalar_steps,
    "3x3 solve": small_solve,
    "Hartree-Fock, H2": hartree_fock,
}


def python_calls(function: Callable[[], Any]) -> int:
    """How many functions of Python's a call comes to."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def compare_program(name: str, rounds: int) -> tuple[float, float, float]:
    """The least times of autograd and of functrans, and Python's calls for each operation."""
    autograd = import_module("autograd")
    theirs, arguments = PROGRAMS[name](import_module("autograd.numpy"))
    ours, _ = PROGRAMS[name](np)
    gradients = [autograd.grad(theirs), functrans.grad(ours)]
    np.testing.assert_allclose(gradients[0](*arguments), gradients[1](*arguments), rtol=1e-8)
    runs = [lambda g=g: g(*arguments) for g in gradients]
    for _ in range(3):
        runs[1]()
    least = [float("inf")] * 2
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = perf_counter()
            run()
            least[i] = min(least[i], perf_counter() - start)
    operations = len(functrans.trace(ours)(*arguments).eqns) if name != "Hartree-Fock, H2" else 0
    calls = python_calls(runs[1]) / operations if operations else float("nan")
    return least[0], least[1], calls


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
    print("program             autograd us  functrans us  ratio  Python calls for an operation")
    for name in PROGRAMS:
        first, second, calls = compare_program(
            name, max(3, rounds // (20 if "Fock" in name else 1))
        )
        print(
            f"{name:18s}  {first * 1e6:11.0f}  {second * 1e6:12.0f}  {second / first:5.2f}  "
            f"{calls:6.0f}"
        )


if __name__ == "__main__":
    main()

"""Rooflines: how near programs come to what the machine allows, on one core.

``python -m tests.benchmarks.rooflines [NAME...]`` prints, for each workload, the bytes of its
arguments and results, and the operations of its graph, each element of each value computed once
(functions by their usual path; structural zeros are left out as far as the plan does). Beside them
the time that they take at the speed of a copy of as many bytes, and at that of products of
matrices, both measured in the same run; and which part of the program's own time the longer one of
the two is. Processor time, medians of turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import prod
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from functrans import config, jit, tree
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.loop.functions import function_of
from functrans.ops.compiled.elements import pattern
from functrans.optimise import rewritten
from functrans.run.code import host
from tests.benchmarks.forms import forms
from tests.benchmarks.one import functrans_library
from tests.benchmarks.workloads import WORKLOADS, Library


class Bound(NamedTuple):
    """What a program cannot do without, and the seconds of that and of the program."""

    moved: int
    operations: int
    moving: float
    computing: float
    taken: float

    @property
    def reached(self) -> float:
        return max(self.moving, self.computing) / self.taken


def heat(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradient of ten steps of a heat equation by its start, on 512 x 512 points."""
    xp = lib.np

    def energy(u: Any) -> Any:
        for _ in range(10):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u = u + 0.1 * xp.pad(around - 4 * u[1:-1, 1:-1], 1)
        return xp.sum(u * u)

    return lib.grad(energy), (np.random.default_rng(0).standard_normal((512, 512)),)


def deposit(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The charges of 200,000 particles, shared out among the points of a grid around each."""
    xp, rng = lib.np, np.random.default_rng(0)

    def density(x: Any, charge: Any) -> Any:
        left = xp.floor(x).astype(np.int64)
        part = x - left
        length = {"minlength" if xp is np else "length": 4097}
        near = xp.bincount(left, weights=charge * (1 - part), **length)
        return near + xp.bincount(left + 1, weights=charge * part, **length)

    return density, (rng.uniform(0, 4095, 200_000), rng.standard_normal(200_000))


def programs(lib: Library) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """All functions to compile, with their arguments, by name."""
    found = {name: make(lib) for name, (make, _) in WORKLOADS.items()}
    jobs = {name: (job.function, job.arguments) for name, job in found.items()}
    return {**jobs, "heat equation gradient": heat(lib), "deposit": deposit(lib), **forms(lib)}


def seconds(call: Callable[[], Any], least: float = 0.02, turns: int = 9) -> float:
    """The processor time of a call: the median of turns, each some calls long."""
    call()
    start = process_time()
    call()
    rounds = max(1, int(least / max(process_time() - start, 1e-7)))
    found = []
    for _ in range(turns):
        start = process_time()
        for _ in range(rounds):
            call()
        found.append((process_time() - start) / rounds)
    return median(found)


def copying(moved: int) -> float:
    """The seconds of a copy that reads and writes so many bytes in all."""
    source = np.ones(max(moved // 16, 1))
    target = np.zeros_like(source)
    return seconds(lambda: np.copyto(target, source))


def product_speed(dtype: Any, size: int = 768) -> float:
    """The operations in a second of products of matrices."""
    x = np.ones((size, size), dtype)
    product = jit(lambda x, y: x @ y)
    return 2 * size**3 / seconds(lambda: product(x, x))


def operations(graph: Graph) -> tuple[int, int]:
    """Those of products, and all others; loops with all of their steps."""
    products = others = 0
    for eqn in graph.eqns:
        size, given = eqn.outputs[0].aval.size if eqn.outputs else 0, eqn.params
        steps = given.get("length", 1)
        for inner in inner_graphs(eqn):
            inside = operations(inner)
            products, others = products + steps * inside[0], others + steps * inside[1]
        if eqn.primitive.name == "dot_general":
            left = eqn.inputs[0].aval.shape
            products += 2 * size * prod(left[axis] for axis in given["contract"][0])
        elif eqn.primitive.scalar is not None:
            others += size * _usual(eqn)
        elif eqn.primitive.by_elements:
            others += size * pattern(eqn).work
    return products, others


def _usual(eqn: Eqn) -> int:
    """The operations of an elementwise equation for an element, without what is rarely needed."""
    dtypes = tuple(x.aval.dtype for x in eqn.inputs)
    function = function_of(eqn.primitive, dtypes, tuple(eqn.params.items()))
    if function is None:
        return pattern(eqn).work
    return sum(bool(node.args) for node in function.nodes)


def bound(
    function: Callable[..., Any], args: tuple[Any, ...], speed: Callable[[Any], float]
) -> Bound:
    """A program beside what it cannot do without."""
    compiled = jit(function)
    arrays = [np.asarray(x) for x in (*tree.leaves(args), *tree.leaves(compiled(*args)))]
    moved = sum(x.nbytes for x in arrays)
    lowered = compiled.lower(*args)
    products, others = operations(rewritten(lowered.graph(), host.target(), False))
    planned = sum(nest.operations for nest in lowered.cost().nests)
    needed = products + min(others, planned)
    narrow = all(x.dtype.itemsize <= 4 for x in arrays if x.dtype.kind == "f")
    computing = needed / speed(np.float32 if narrow else np.float64)
    return Bound(moved, needed, copying(moved), computing, seconds(lambda: compiled(*args)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of names; all by default")
    wanted = parser.parse_args().names
    config.threads = 1
    speeds = {dtype: product_speed(dtype) for dtype in (np.float32, np.float64)}
    print("| workload | MB | million operations | copy | product | program | reached |")
    print("|---|---|---|---|---|---|---|")
    for name, (function, args) in programs(functrans_library()[0]).items():
        if not wanted or any(word in name for word in wanted):
            found = bound(function, args, speeds.__getitem__)
            times = (found.moving, found.computing, found.taken)
            print(
                f"| {name} | {found.moved / 1e6:.2f} | {found.operations / 1e6:.2f} | "
                + " | ".join(f"{1e6 * each:.1f} µs" for each in times)
                + f" | {100 * found.reached:.0f} % |",
                flush=True,
            )
    for moved in (1 << 18, 1 << 23, 1 << 28):
        print(f"a copy of {moved >> 20 or 0.25} MB in all: {moved / copying(moved) / 1e9:.0f} GB/s")
    for dtype, speed in speeds.items():
        print(f"products, {np.dtype(dtype)}: {speed / 1e9:.0f} GFLOP/s")


if __name__ == "__main__":
    main()

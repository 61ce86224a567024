"""Roofline model: the fraction of the machine's peak rates that programs reach, on one core.

``python -m tests.benchmarks.rooflines [NAME...]`` prints, for each workload, the bytes of its
arguments and results, and the operations of its graph, each element of each value computed once
(functions by their usual path; structural zeros are left out as far as the plan does). Beside them
the time that they take at the speed of a copy of as many bytes, and at that of products of
matrices, divisions at their own, all measured in the same run; and which part of the program's own
time the longer one of the two is. Processor time, medians of turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import prod
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from functrans import config, jit, lax, tree
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.loop.functions import function_of
from functrans.ops.compiled.elements import SLOW, pattern
from functrans.ops.convolution.compiled.limits import counts
from functrans.ops.convolution.convolution import convolution
from functrans.optimise import rewritten
from functrans.run.code import host
from tests.benchmarks.contractions import ROWS
from tests.benchmarks.forms import forms
from tests.benchmarks.one import functrans_library
from tests.benchmarks.workloads import WORKLOADS, Library


class Bound(NamedTuple):
    """What a program cannot do without, and the seconds of that and of the program."""

    moved: int
    operations: int
    divisions: int
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
    found |= {name: row.make(lib) for name, row in ROWS.items() if not row.operations}
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


class Speeds(NamedTuple):
    """Operations in a second, for numbers of one type: those of products, and divisions."""

    products: float
    divisions: float


def speeds(dtype: Any, size: int = 768) -> Speeds:
    """What products of matrices and divisions of numbers in the cache reach."""
    x, y = np.ones((size, size), dtype), np.ones(2048, dtype)
    product, quotients = jit(lambda x, y: x @ y), jit(lambda y: lax.fori_loop(0, 64, _divided, y))
    rounds = 64 * y.size
    return Speeds(
        2 * size**3 / seconds(lambda: product(x, x)), rounds / seconds(lambda: quotients(y))
    )


def _divided(step: Any, y: Any) -> Any:
    return 1 / y


class Operations(NamedTuple):
    """Those of products, divisions and square roots, and all others."""

    products: int
    divisions: int
    others: int

    def __add__(self, other: Any) -> Operations:
        return Operations(*(x + y for x, y in zip(self, other, strict=True)))

    def times(self, count: int) -> Operations:
        return Operations(*(count * x for x in self))


def operations(graph: Graph) -> Operations:
    """The operations of a graph; loops with all of their steps."""
    found = Operations(0, 0, 0)
    for eqn in graph.eqns:
        size, given = eqn.outputs[0].aval.size if eqn.outputs else 0, eqn.params
        for inner in inner_graphs(eqn):
            found += operations(inner).times(given.get("length", 1))
        if "contract" in given:
            terms = prod(eqn.inputs[0].aval.shape[axis] for axis in given["contract"][0])
            # a long sum may be in parts; of a symmetric result, half is computed
            count = 2 * size * terms // (given.get("parts") or 1) >> given.get("symmetric", 0)
            found += (count, 0, 0)
        elif eqn.primitive is convolution:
            *_, terms = counts(eqn)
            found += (2 * size * terms, 0, 0)
        elif eqn.primitive.by_elements:
            found += _usual(eqn).times(size)
    return found


def _usual(eqn: Eqn) -> Operations:
    """The operations for an element, without what is rarely needed."""
    if eqn.primitive.scalar is not None:
        dtypes = tuple(x.aval.dtype for x in eqn.inputs)
        function = function_of(eqn.primitive, dtypes, tuple(eqn.params.items()))
        if function is not None:
            divisions = sum(node.op in SLOW for node in function.nodes)
            return Operations(0, divisions, sum(bool(x.args) for x in function.nodes) - divisions)
    own = pattern(eqn)
    return Operations(0, own.work, 0) if own.slow else Operations(0, 0, own.work)


def bound(
    function: Callable[..., Any], args: tuple[Any, ...], speed: Callable[[Any], Speeds]
) -> Bound:
    """A program beside what it cannot do without."""
    compiled = jit(function)
    arrays = [np.asarray(x) for x in (*tree.leaves(args), *tree.leaves(compiled(*args)))]
    moved = sum(x.nbytes for x in arrays)
    lowered = compiled.lower(*args)
    asked = operations(rewritten(lowered.graph(), host.target(), False))
    planned = sum(nest.operations for nest in lowered.cost().nests)
    needed = asked.products + min(asked.others, planned)
    narrow = all(x.dtype.itemsize <= 4 for x in arrays if x.dtype.kind == "f")
    own = speed(np.float32 if narrow else np.float64)
    computing = needed / own.products + asked.divisions / own.divisions
    taken = seconds(lambda: compiled(*args))
    return Bound(moved, needed, asked.divisions, copying(moved), computing, taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of names; all by default")
    wanted = parser.parse_args().names
    config.threads = 1
    known = {dtype: speeds(dtype) for dtype in (np.float32, np.float64)}
    print(
        "| Workload | Data, MB | Operations, 10⁶ | Divisions, 10⁶ | Bound by copying | "
        "Bound by computing | Time of the program | Greater bound / time |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, (function, args) in programs(functrans_library()[0]).items():
        if not wanted or any(word in name for word in wanted):
            found = bound(function, args, known.__getitem__)
            times = (found.moving, found.computing, found.taken)
            print(
                f"| {name} | {found.moved / 1e6:.2f} | {found.operations / 1e6:.2f} | "
                f"{found.divisions / 1e6:.2f} | "
                + " | ".join(f"{1e6 * each:.1f} µs" for each in times)
                + f" | {100 * found.reached:.0f} % |",
                flush=True,
            )
    for moved in (1 << 18, 1 << 23, 1 << 28):
        print(f"a copy of {moved >> 20 or 0.25} MB in all: {moved / copying(moved) / 1e9:.0f} GB/s")
    for dtype, own in known.items():
        print(
            f"{np.dtype(dtype)}: products {own.products / 1e9:.0f}, divisions "
            f"{own.divisions / 1e9:.1f}, 10⁹ operations a second"
        )


if __name__ == "__main__":
    main()

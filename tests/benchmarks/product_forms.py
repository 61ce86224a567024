"""Choice of matrix products: ``python -m tests.benchmarks.product_forms [--seconds N]``.

For each shape of a grid: the time of the implementation that the compiler chooses and of the others
(a kernel of our own, a call of BLAS, sums of terms). All are compiled in one process and timed in
turns on one thread; the least times. The last lines say how often the choice is more than 10%
slower than the best. ``--rows`` restricts the grid to shapes of some rows, for runs of a few
seconds. With the variable `FUNCTRANS_CPU` set to a level of x86-64, BLAS has the kernels of it.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from functrans import config, jit
from functrans.loop.target import STAGES, Target
from functrans.run.call.compiled import compile_graph
from functrans.run.code import host
from functrans.run.code.machine import current
from tests.benchmarks.__main__ import enter_environment, kernels
from tests.targets import target

WITHOUT = tuple(stage for stage in STAGES if stage != "block_products")
FORMS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "own kernel": {"forms": {"fewest_rows": 1, "shortest": 1, "least_work": 0}},
    "BLAS": {"stages": WITHOUT, "products": {"smallest_side": 1, "smallest_work": 0}},
    "sums": {"stages": WITHOUT, "products": {"smallest_work": 1 << 60}},
}
LARGEST_SUMS = 3_000_000
"""Multiplications of sums of terms that are worth waiting for."""
LEAST_WORK = 4000
"""Those of a product at least: of smaller ones, the call is most of the time."""
SIDES = 2, 5, 8, 20, 64, 200, 700


def shapes(rows: Sequence[int], sides: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Rows, terms and columns."""
    for shape in itertools.product(rows, sides, sides):
        if shape[0] * shape[1] * shape[2] >= LEAST_WORK:
            yield shape


def times(
    shape: tuple[int, int, int], dtype: Any, seconds: float, base: Target
) -> dict[str, float]:
    """The least seconds that each form takes."""
    rng = np.random.default_rng(0)
    rows, terms, columns = shape
    x = rng.standard_normal((rows, terms)).astype(dtype)
    y = rng.standard_normal((terms, columns)).astype(dtype)
    graph = jit(lambda x, y: x @ y).lower(x, y).graph()
    run: dict[str, Callable[..., Any]] = {}
    for name, changes in FORMS.items():
        if name == "sums" and rows * terms * columns > LARGEST_SUMS:
            continue
        host.other = target(base, **changes)
        # not by `jit`, which knows programs by their graphs
        run[name] = compile_graph(graph).run
        np.testing.assert_allclose(run[name](x, y)[0], x @ y, rtol=1e-2, atol=1e-2)
    host.other = None
    found: dict[str, list[float]] = {name: [] for name in run}
    calls = max(int(5e-5 / (rows * terms * columns / 5e10)), 1)
    end = perf_counter() + seconds
    while perf_counter() < end or len(found["chosen"]) < 5:
        for name, function in run.items():
            start = perf_counter()
            for _ in range(calls):
                function(x, y)
            found[name].append((perf_counter() - start) / calls)
    return {name: min(taken) for name, taken in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small shapes")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each shape")
    parser.add_argument("--rows", type=int, nargs="*", help="all sides of the grid if not given")
    arguments = parser.parse_args()
    enter_environment("tests.benchmarks.product_forms")
    config.threads = 1
    machine = current()
    print(f"functrans for {machine.cpu}, vectors of {machine.vector_bytes} bytes; {kernels()}")
    base, sides = host.kind(), (5, 20, 40) if arguments.quick else SIDES
    for dtype in (np.float32, np.float64):
        off: list[float] = []
        for shape in shapes(arguments.rows or sides, sides):
            found = times(shape, dtype, 0 if arguments.quick else arguments.seconds, base)
            best = min(found, key=found.__getitem__)
            off.append(found["chosen"] / min(t for name, t in found.items() if name != "chosen"))
            each = "  ".join(f"{name} {taken * 1e6:.1f}" for name, taken in found.items())
            name = "x".join(map(str, shape))
            print(f"{name:14} {off[-1]:5.2f}  best: {best:10}  {each} us", flush=True)
        far = sum(one > 1.1 for one in off)
        print(f"{np.dtype(dtype)}: {far} of {len(off)} more than a tenth off, worst {max(off):.2f}")


if __name__ == "__main__":
    main()

"""Contractions beside JAX: ``python -m tests.benchmarks.contractions [--quick] [NAME...]``.

Products of matrices, with and without what follows them, attention, convolutions, triangular
factors, blocks of a Jacobian. Both libraries run in one process, in turns, with BLAS on its own
choice of kernels, which are printed; results are compared before anything is timed. Medians.
``--quick`` runs each row once, on small arrays, without JAX.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from functrans import jit
from tests.benchmarks.__main__ import enter_environment, kernels
from tests.benchmarks.layers import (
    attention,
    basic_block,
    causal_attention,
    feed_forward,
    fused_product,
    product,
)
from tests.benchmarks.models import bundle_blocks, gaussian_process, triangular_mixture
from tests.benchmarks.one import functrans_library, jax_library
from tests.benchmarks.surface import lenet
from tests.benchmarks.workloads import Job, Library, lstm_gradient, train_step, transformer_block


class Row(NamedTuple):
    """A line of the table.

    Parameters
    ----------
    make : callable
        From a library, the function to compile and its arguments.
    small : callable
        The same on small arrays.
    operations : int
        Additions and multiplications, if those are what it is made of.
    kept : int
        The bytes that would be kept if nothing were streamed: its program's memory is printed
        beside them.
    """

    make: Callable[[Library], Job]
    small: Callable[[Library], Job]
    operations: int = 0
    kept: int = 0


SHAPES = (
    *((256, 784, 512), (512, 512, 512), (1024, 1024, 1024)),
    *((128, 128, 512), (2048, 2048, 2048)),
)
DTYPES = (np.float32, np.float64)


def _products() -> dict[str, Row]:
    found = {}
    for dtype in DTYPES:
        for shape in SHAPES:
            name = f"product {'x'.join(map(str, shape))} {np.dtype(dtype)}"
            small = tuple(n // 16 for n in shape)
            found[name] = Row(product(shape, dtype), product(small, dtype), 2 * math.prod(shape))
    return found


ROWS: dict[str, Row] = {
    **_products(),
    "product, bias, gelu, residual": Row(fused_product(1024), fused_product(40)),
    "feed-forward block": Row(feed_forward(100, 128, 512), feed_forward(10, 16, 24)),
    "train step": Row(train_step, train_step),
    "transformer block": Row(transformer_block, transformer_block),
    "attention": Row(attention(16, 256, 64), attention(2, 24, 8)),
    "causal attention": Row(
        causal_attention(8, 2048, 64), causal_attention(2, 40, 8), kept=8 * 2048**2 * 4
    ),
    "LeNet": Row(lenet, lenet),
    "ResNet block": Row(basic_block(16, 64, 56), basic_block(2, 8, 14)),
    "LSTM gradient": Row(lstm_gradient, lstm_gradient),
    "triangular mixture": Row(triangular_mixture(10_000, 32, 50), triangular_mixture(50, 4, 3)),
    "Gaussian process 1000": Row(gaussian_process(1000), gaussian_process(30)),
    "bundle blocks": Row(bundle_blocks(100_000), bundle_blocks(50)),
}


def drawn(number: int, largest: int) -> list[tuple[int, int, int]]:
    """Shapes of products, their extents uniform in logarithms."""
    rng = np.random.default_rng(0)
    extents = np.exp(rng.uniform(0, np.log(largest), (number, 3)))
    return [(int(m), int(k), int(n)) for m, k, n in np.maximum(extents.round(), 1)]


DRAWN = {f"60 drawn shapes {np.dtype(dtype)}": dtype for dtype in DTYPES}
"""Products that are one line together."""


class Measured(NamedTuple):
    """Medians of seconds, the difference of the results, and the arena's bytes."""

    ours: float
    theirs: float
    gap: float
    arena: int

    @property
    def speed_up(self) -> float:
        return self.theirs / self.ours


def run_once(make: Callable[[Library], Job]) -> list[Any]:
    """The results of a row, compiled."""
    library, compiled, flat = functrans_library()
    job = make(library)
    results: list[Any] = flat(compiled(job.function)(*job.arguments))
    return results


def measure(make: Callable[[Library], Job], seconds: float) -> Measured:
    """Ours beside theirs, in turns, after the results were found to be the same."""
    calls, results, arena = [], [], 0
    for find in (functrans_library, jax_library):
        library, compiled, flat = find()
        job = make(library)
        calls.append((compiled(job.function), job.arguments))
        results.append(flat(calls[-1][0](*job.arguments)))
        if find is functrans_library:
            arena = jit(job.function).lower(*job.arguments).cost().temporary_bytes
    gap = _difference(*results)
    times: list[list[float]] = [[], []]
    end = perf_counter() + seconds
    while len(times[0]) < 7 or (perf_counter() < end and len(times[0]) < 5000):
        for taken, (run, arguments) in zip(times, calls, strict=True):
            start = perf_counter()
            run(*arguments)
            taken.append(perf_counter() - start)
    ours, theirs = (median(taken[1:]) for taken in times)
    return Measured(ours, theirs, gap, arena)


def _difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest of the results' relative differences, by norms; raises where they are far.

    Not by elements: a number that is rounded to zero may be on the other side of a relu.
    """
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        scale = max(float(np.linalg.norm(np.ravel(other))), 1e-30)
        gap = float(np.linalg.norm(np.ravel(one - other))) / scale
        allowed = 1e-3 if other.dtype == np.float32 else 1e-7
        if not gap < allowed:
            raise AssertionError(f"results differ by {gap:.1e} of their norm")
        worst = max(worst, gap)
    return worst


def line(name: str, row: Row, seconds: float) -> str:
    """A row of the table."""
    found = measure(row.make, seconds)
    text = (
        f"{name:32} {found.ours * 1e3:9.3f} ms {found.theirs * 1e3:9.3f} ms "
        f"{found.speed_up:6.2f}x {found.gap:8.1e}"
    )
    if row.operations:
        ours, theirs = (row.operations / s / 1e9 for s in (found.ours, found.theirs))
        text += f"  {ours:.0f} / {theirs:.0f} GFLOP/s"
    if row.kept:
        text += f"  {found.arena / 1e6:.1f} MB of memory, scores {row.kept / 1e6:.0f} MB"
    return text


def line_of_drawn(name: str, seconds: float, number: int = 60) -> str:
    """One row for many shapes: the geometric mean, and the worst."""
    speed_ups = {
        shape: measure(product(shape, DRAWN[name]), seconds / number).speed_up
        for shape in drawn(number, 2048)
    }
    worst = min(speed_ups, key=lambda shape: speed_ups[shape])
    mean = math.exp(sum(map(math.log, speed_ups.values())) / number)
    shape = "x".join(map(str, worst))
    return f"{name:32} {'':25} {mean:6.2f}x  in the mean, worst {speed_ups[worst]:.2f}x: {shape}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="rows, or beginnings of names; all if none")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    enter_environment("tests.benchmarks.contractions")
    names = [
        name
        for name in (*ROWS, *DRAWN)
        if not arguments.names or name.startswith(tuple(arguments.names))
    ]
    if not arguments.quick:
        print(kernels())
        print(f"{'':32} {'ours':>12} {'JAX':>12} {'speed-up':>7} {'gap':>7}")
    for name in names:
        if arguments.quick:
            makes = (
                [ROWS[name].small]
                if name in ROWS
                else [product(shape, DRAWN[name]) for shape in drawn(3, 100)]
            )
            for make in makes:
                run_once(make)
            print(name, flush=True)
        elif name in ROWS:
            print(line(name, ROWS[name], arguments.seconds), flush=True)
        else:
            print(line_of_drawn(name, 10 * arguments.seconds), flush=True)


if __name__ == "__main__":
    main()

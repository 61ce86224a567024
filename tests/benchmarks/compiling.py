"""What compiling kernels for a GPU takes: ``python -m tests.benchmarks.compiling [--numba]``.

No GPU is needed. For the longest kernel of each program: processor time of translating its text, of
NVVM and of nvJitLink, the least of several times, and what comes out. With ``--numba`` Numba
compiles the same text, once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import functrans
from functrans import config, lax
from functrans.emit.cuda.kernel import emit
from functrans.emit.cuda.translation import translated
from functrans.lower import pipeline
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.run.cuda import compile as compiling
from functrans.run.cuda import nvjitlink, nvvm
from functrans.run.cuda.resources import parse
from tests.emit.cuda.programs import stored_as
from tests.gpu_hour.rows import layer_norm, softmax

REPEATS = 5
ARCHITECTURE = "sm_90"


def entropy(logits: Any, labels: Any) -> Any:
    z = logits - np.max(logits, axis=1, keepdims=True)
    chosen = z[np.arange(len(labels)), labels]
    return -np.mean(chosen - np.log(np.sum(np.exp(z), axis=1)))


def lorenz(start: Any, p: Any) -> Any:
    def field(y: Any) -> Any:
        return np.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - y[2]])

    def step(y: Any, _: Any) -> Any:
        k = field(y)
        return y + 0.001 * field(y + 0.0005 * k), None

    return lax.scan(step, start, None, length=100)[0]


def ones(*shape: int) -> Any:
    """An array of no memory of its own: what counts is its type."""
    return np.broadcast_to(np.float32(1), shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: np.exp(-x * x) * x + np.float32(1), (ones(4096, 1024),)),
    "sin": (np.sin, (ones(4096, 1024),)),
    "softmax, rows of 4000": (softmax, (ones(300, 4000),)),
    "softmax, rows of 100,000": (softmax, (ones(64, 100_000),)),
    "layer norm, rows of 1024": (layer_norm, (ones(4096, 1024),)),
    "cross-entropy, gradient": (
        functrans.grad(entropy),
        (ones(4096, 1000), np.zeros(4096, np.int64)),
    ),
    "gather": (lambda x, i: x[i], (ones(5000), np.zeros(100_000, np.int64))),
    "sort, rows of 1000": (lambda x: np.sort(x, axis=1), (ones(300, 1000),)),
    "running sums, rows of 1000": (lambda x: np.cumsum(x, axis=1), (ones(300, 1000),)),
    "10,000 Lorenz systems": (
        functrans.vmap(lorenz, in_axes=(0, None)),
        (np.ones((10_000, 3)), np.ones(2)),
    ),
    "product, tiles of 128x128": (lambda x, y: x @ y, (ones(2048, 2048), ones(2048, 2048))),
    "the same, odd sizes": (lambda x, y: x @ y, (ones(2001, 1777), ones(1777, 2003))),
    "product and tanh, 32x32": (
        lambda x, y, b: np.tanh(x @ y + b),
        (ones(512, 512), ones(512, 512), ones(512)),
    ),
}


def longest_kernel(function: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The text of a program's longest kernel, the types of its arguments, and its threads."""
    assert CUDA.grid is not None
    plan = pipeline.plan(optimise(functrans.trace(function)(*operands)), CUDA)
    kernel = max(plan.kernels, key=lambda each: len(emit(each, CUDA.grid)))
    pointers = (f"{stored_as(one.dtype)}*" for one in kernel.buffers)
    signature = ("int64*", *pointers, *["int64"] * kernel.sizes)
    return emit(kernel, CUDA.grid), signature, launch(kernel, CUDA.grid).threads


def seconds(function: Callable[..., Any], *operands: Any) -> tuple[float, Any]:
    """The processor time that a function takes, and its result."""
    start = process_time()
    result = function(*operands)
    return process_time() - start, result


def row(text: str, signature: tuple[str, ...], threads: int, numba: bool) -> str:
    times = []
    for _ in range(REPEATS):
        first, module = seconds(translated, text, signature, nvvm.dialect(), threads)
        virtual = f"compute_{ARCHITECTURE.removeprefix('sm_')}"
        second, made = seconds(nvvm.intermediate, [module], virtual)
        third, (_, log) = seconds(nvjitlink.cubin, made, ARCHITECTURE)
        times.append((first, second, third))
    taken = parse(log)
    cells = [f"{min(each) * 1e3:.0f} ms" for each in zip(*times, strict=True)]
    ptx = nvjitlink.ptx(made, ARCHITECTURE)
    cells += [text.count("\n"), ptx.count("\n"), taken.registers, taken.spills, taken.stack]
    if numba:
        config.backend = "numba"
        whole, cubin = seconds(compiling.compile_cubin, text, signature, ARCHITECTURE, threads)
        config.backend = "native"
        cells += [f"{whole:.2f} s", cubin.ptx.count("\n"), cubin.resources.registers]
    return " | ".join(map(str, cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numba", action="store_true", help="Numba's compiler, too")
    numba = parser.parse_args().numba
    config.cache = False
    columns = ["text", "NVVM", "nvJitLink", "lines", "PTX", "registers", "spills", "local"]
    print(" | ".join(["kernel", *columns, *(["Numba", "PTX", "registers"] if numba else [])]))
    for name, (function, operands) in PROGRAMS.items():
        print(f"{name} | {row(*longest_kernel(function, operands), numba)}")


if __name__ == "__main__":
    main()

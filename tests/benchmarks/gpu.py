"""What programs take on a GPU: ``python -m tests.benchmarks.gpu [--rounds N] [--quick] [NAME...]``.

Three tables. *Bandwidth*: programs that move memory and do little else, in TB/s of what has to be
read and written, beside a copy within the device. *Products*, in TFLOP/s. *Workloads*: those of
the CPU's table, and a small call, beside ``jax.jit`` and ``torch.compile`` where these are
installed and see the GPU. What is compared takes turns, in one process, and each time is a median;
arrays are on the device before, and a call is waited for.

Without a GPU there is nothing to measure, and it says so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import functrans
from functrans import jit
from tests.benchmarks.one import functrans_library, jax_library
from tests.benchmarks.workloads import WORKLOADS

BYTES = 256 << 20
"""Of the arrays whose bandwidth is measured: more than any cache holds."""

QUICK = 1 << 20
"""The same, to see whether it works."""

OURS = "functrans"

Wait = Callable[[Any], object]


class Contestant(NamedTuple):
    """Something to be timed.

    Parameters
    ----------
    name : str
    call : callable
        Gives the result, which need not be there yet.
    wait : callable
        Waits for it.
    """

    name: str
    call: Callable[[], Any]
    wait: Wait


class Measured(NamedTuple):
    """A row of a table: the median seconds of each contestant, and what a second is worth."""

    name: str
    seconds: dict[str, float]
    amount: float = 0.0
    """Bytes moved, or operations."""
    unit: str = ""

    @property
    def rate(self) -> str:
        """What a second of ours is worth."""
        return f"{self.amount / self.seconds[OURS] / 1e12:.2f} {self.unit}" if self.unit else ""


def amount(seconds: float) -> str:
    """A time as people say it."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def in_turns(contestants: Sequence[Contestant], rounds: int) -> dict[str, float]:
    """The median seconds of each, which take turns."""
    for one in contestants:
        for _ in range(3):  # compiled, and captured as a graph
            one.wait(one.call())
    times: dict[str, list[float]] = {one.name: [] for one in contestants}
    for one in islice(cycle(contestants), rounds * len(contestants)):
        start = perf_counter()
        one.wait(one.call())
        times[one.name].append(perf_counter() - start)
    return {name: median(found) for name, found in times.items()}


def ready(result: Any) -> None:
    """Wait for device arrays."""
    for leaf in functrans.tree.leaves(result):
        leaf.block_until_ready()


# ---- bandwidth -----------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + np.float32(1e-5))


MOVING: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "fused elementwise": (lambda x: np.exp(-x * x) * x + np.float32(1), True),
    "sum of all": (lambda x: np.sum(x), False),
    "largest of each row": (lambda x: np.max(x, axis=1), False),
    "sum of each column": (lambda x: np.sum(x, axis=0), False),
    "softmax of rows": (softmax, True),
    "layer norm of rows": (layer_norm, True),
    "transpose": (lambda x: x.T + np.float32(0), True),
    "running sums of rows": (lambda x: np.cumsum(x, axis=1), True),
}
"""Functions of a matrix, and whether they write as much as they read: counted are one read of what
they are given, and one write of what they give."""


def bandwidth(device: str, nbytes: int, rounds: int) -> Iterator[Measured]:
    """Programs that move memory, the copy first."""
    x = functrans.device_put(np.ones((nbytes // (4 * 1024), 1024), np.float32), device)
    moved = 2.0 * x.nbytes
    copy = Contestant(OURS, x.copy, ready)
    yield Measured("copy", in_turns([copy], rounds), moved, "TB/s")
    for name, (function, writes) in MOVING.items():
        compiled = jit(function)
        times = in_turns([Contestant(OURS, lambda f=compiled: f(x), ready)], rounds)
        yield Measured(name, times, moved if writes else x.nbytes, "TB/s")


# ---- products ------------------------------------------------------------------------------------

PRODUCTS = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
}


def products(device: str, size: int, rounds: int) -> Iterator[Measured]:
    """Square products, of each dtype."""
    for name, dtype in PRODUCTS.items():
        x = functrans.device_put(np.ones((size, size), dtype), device)
        compiled = jit(lambda x, y: x @ y)
        times = in_turns([Contestant(OURS, lambda f=compiled, x=x: f(x, x), ready)], rounds)
        yield Measured(f"{name}, {size} x {size}", times, 2.0 * size**3, "TFLOP/s")


# ---- workloads beside others ---------------------------------------------------------------------


def others() -> dict[str, Callable[[str], Contestant | None]]:
    """The other libraries that are installed and see a GPU, by name."""
    found: dict[str, Callable[[str], Contestant | None]] = {}
    if find_spec("jax") is not None:
        import jax

        jax.config.update("jax_platforms", None)
        if any(one.platform == "gpu" for one in jax.devices()):
            found["jax.jit"] = jax_workload
    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            found["torch.compile"] = torch_workload
    return found


def our_workload(name: str, device: str) -> Contestant:
    library, compiled, _ = functrans_library()
    job = WORKLOADS[name][0](library)
    function, arguments = compiled(job.function), functrans.device_put(job.arguments, device)
    return Contestant(OURS, lambda: function(*arguments), ready)


def jax_workload(name: str) -> Contestant | None:
    """The same by JAX."""
    import jax

    job = WORKLOADS[name][0](jax_library(None)[0])
    function, arguments = jax.jit(job.function), jax.device_put(job.arguments)
    return Contestant("jax.jit", lambda: function(*arguments), jax.block_until_ready)


def torch_workload(name: str) -> Contestant | None:
    """The same by PyTorch, for what is written for it here: NumPy's names are not its own."""
    import torch

    if name not in TORCH:
        return None
    function, arguments = TORCH[name](torch)
    compiled = torch.compile(function)
    return Contestant(
        "torch.compile", lambda: compiled(*arguments), lambda _: torch.cuda.synchronize()
    )


def _torch_per_sample(torch: Any) -> tuple[Any, Any]:
    """`per_sample_gradients` of the workloads, on random numbers of the same shapes."""
    double = {"dtype": torch.float64, "device": "cuda"}
    params = [
        (torch.randn(i, o, **double) / i**0.5, torch.zeros(o, **double))
        for i, o in ((64, 32), (32, 10))
    ]
    x = torch.randn(1797, 64, **double)
    y = torch.eye(10, **double)[torch.randint(0, 10, (1797,), device="cuda")]

    def loss(params: Any, x: Any, y: Any) -> Any:
        (w1, b1), (w2, b2) = params
        z = torch.tanh(x @ w1 + b1) @ w2 + b2
        return -(torch.log_softmax(z, dim=-1) * y).sum()

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)), (params, x, y)


TORCH: dict[str, Callable[[Any], tuple[Any, Any]]] = {"per-sample gradients": _torch_per_sample}


def workloads(device: str, names: Sequence[str], rounds: int) -> Iterator[Measured]:
    """A small call, and the CPU's workloads, beside the other libraries."""
    small = functrans.device_put(np.ones(4), device)
    call = jit(lambda x: np.sin(x) * 2.0)
    alone = Contestant(OURS, lambda: call(small), lambda result: None)
    if not names:
        yield Measured("a small call, not waited for", in_turns([alone], 20 * rounds))
    rivals = others()
    for name in names or WORKLOADS:
        contestants = [our_workload(name, device)]
        contestants += [one for make in rivals.values() if (one := make(name)) is not None]
        yield Measured(name, in_turns(contestants, rounds))


# ---- the tables ----------------------------------------------------------------------------------


def table(title: str, rows: Sequence[Measured]) -> str:
    """Rows with their columns below one another; one that a library does not take is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    lines = [[title, *names, ""]]
    for row in rows:
        times = [amount(row.seconds[name]) if name in row.seconds else "-" for name in names]
        lines.append([row.name, *times, row.rate])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def first_gpu() -> str:
    """The GPU to measure; what is missing ends the program, with words."""
    try:
        functrans.device_put(np.zeros(1), "cuda")
    except functrans.errors.DeviceError as error:
        sys.exit(f"there is nothing to measure: {error}")
    return "cuda:0"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; all tables if none is given")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="small arrays: does it work?")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory, too
    device, nbytes = first_gpu(), QUICK if asked.quick else BYTES
    if not asked.names:
        print(table("bandwidth", list(bandwidth(device, nbytes, asked.rounds))), end="\n\n")
        size = 256 if asked.quick else 8192
        print(table("products", list(products(device, size, asked.rounds))), end="\n\n")
    print(table("workloads", list(workloads(device, asked.names, asked.rounds))))


if __name__ == "__main__":
    main()

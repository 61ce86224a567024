"""Writes the table of registers in docs/measurements.md: ``python -m tests.run.cuda.registers``.

The numbers are reported by NVIDIA's assembler, so no GPU is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from functrans import jit, lax, vmap
from tests.benchmarks.compiling import ones
from tests.gpu_hour.rows import layer_norm, softmax

PAGE = Path(__file__).parents[3] / "docs" / "measurements.md"
BEGIN, END = "<!-- registers: python -m tests.run.cuda.registers -->\n", "<!-- end -->\n"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def double(*shape: int) -> Any:
    return np.broadcast_to(np.float64(1), shape)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    def gate(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        forget, keep, give, new = np.split(row @ w + h @ u + b, 4)
        c = gate(forget) * c + gate(keep) * np.tanh(new)
        h = gate(give) * np.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), x)[1]


def scattered(x: Any, i: Any, values: Any) -> Any:
    x = x * 1
    np.add.at(x, i, values)
    return x


LSTM = vmap(lstm, in_axes=(0, 0, 0, None, None, None))
_SQUARE, _HEADS = (4096, 4096), (8, 8, 1024, 64)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "`np.exp(x)`, 4096 x 1024": (np.exp, (ones(4096, 1024),)),
    "`x.sum(axis=1)`, 4096 x 1024": (lambda x: x.sum(axis=1), (ones(4096, 1024),)),
    "`x.sum(axis=0)`, 65,536 x 1024": (lambda x: x.sum(axis=0), (ones(65536, 1024),)),
    "`x.sum(axis=0)`, 2^20 x 16": (lambda x: x.sum(axis=0), (ones(1 << 20, 16),)),
    "softmax, rows of 1024": (softmax, (ones(4096, 1024),)),
    "softmax, rows of 20,000": (softmax, (ones(2048, 20000),)),
    "softmax, rows of 36,000": (softmax, (ones(8192, 36000),)),
    "softmax, rows of 50,257": (softmax, (ones(8192, 50257),)),
    "softmax of float16, rows of 50,257": (
        softmax, (np.broadcast_to(np.float16(1), (2048, 50257)),),
    ),
    "layer norm, rows of 1024": (layer_norm, (ones(4096, 1024),)),
    "layer norm, rows of 50,257": (layer_norm, (ones(8192, 50257),)),
    "`np.cumsum(x, axis=1)`, rows of 1000": (lambda x: np.cumsum(x, axis=1), (ones(300, 1000),)),
    "`np.cumsum(x, axis=1)`, rows of 50,257": (
        lambda x: np.cumsum(x, axis=1), (ones(1056, 50257),),
    ),
    "`np.sort(x, axis=1)`, rows of 1000": (lambda x: np.sort(x, axis=1), (ones(300, 1000),)),
    "`np.add.at`, 100,000 numbers": (
        scattered, (ones(5000), np.zeros(100_000, np.int64), ones(100_000)),
    ),
    "product, 4096, float32": (lambda x, y: x @ y, (ones(*_SQUARE),) * 2),
    "product, 2048, float64": (lambda x, y: x @ y, (double(2048, 2048),) * 2),
    "product, 4096, float16": (
        lambda x, y: x @ y, (np.broadcast_to(np.float16(1), _SQUARE),) * 2,
    ),
    "attention, 64 heads, 1024 x 64": (attention, (ones(*_HEADS),) * 3),
    "attention of float16, the same": (
        attention, (np.broadcast_to(np.float16(1), _HEADS),) * 3,
    ),
    "Cholesky, 64 x 64, float32": (np.linalg.cholesky, (ones(64, 64, 64),)),
    "LSTM, 32 sequences, 64 units": (
        LSTM,
        (ones(32, 100, 64), ones(32, 64), ones(32, 64), ones(64, 256), ones(64, 256), ones(256)),
    ),
}  # fmt: skip


def largest(name: str, architecture: str) -> Any:
    """The report on the kernel of a program that takes the most registers."""
    function, operands = PROGRAMS[name]
    lowered = jit(function).lower(*operands, device="cuda", architecture=architecture)
    return max(lowered.resources().kernels, key=lambda one: one.registers)


def table() -> Iterator[str]:
    """The lines of the table."""
    listed = ", ".join(f"`{each}`" for each in ARCHITECTURES)
    yield f"| Kernel ({listed}) | Threads | Registers | Spills, bytes | Occupancy |\n"
    yield "| --- | ---: | ---: | ---: | ---: |\n"
    for name in PROGRAMS:
        found = [largest(name, each) for each in ARCHITECTURES]
        cells = (
            [str(one.threads) for one in found[:1]],
            [str(one.registers) for one in found],
            [str(one.spills) for one in found],
            [f"{one.occupancy:.0%}" for one in found],
        )
        yield f"| {name} | {' | '.join(map(', '.join, cells))} |\n"


def compiler() -> str:
    """The version of the assembler, which the table is of."""
    from cuda.bindings import nvjitlink

    return ".".join(map(str, nvjitlink.version()))


def section() -> str:
    """What stands on the page."""
    return (
        f"{BEGIN}\nCompiled by NVIDIA's compiler {compiler()}; for each program, the kernel with "
        f"the most registers:\n\n{''.join(table())}\n{END}"
    )


def written() -> str:
    """What stands on the page now."""
    page = PAGE.read_text("utf-8")
    return page[page.index(BEGIN) : page.index(END) + len(END)]


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page.replace(written(), section()), encoding="utf-8")

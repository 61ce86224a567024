"""The rows of the speed table: programs with random operands, and their amounts of work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import functrans
from tests.benchmarks.workloads import Library

Function = Callable[..., Any]


class Operand(NamedTuple):
    """An array of random numbers: its shapes on a GPU and on a stand-in.

    With `below`, it has integers of that many kinds (again, of a GPU's and of a stand-in's).
    """

    large: tuple[int, ...]
    small: tuple[int, ...]
    dtype: Any = np.float32
    below: tuple[int, int] = (0, 0)


class Row(NamedTuple):
    """A line of the table.

    Parameters
    ----------
    program : callable
        From a `Library` to the function of arrays.
    operands : tuple of Operand
    by_rows : int
        The number of operands, from the first one on, whose rows are those of the result; 0 if the
        whole result is compared, -1 if it is random numbers.
    torch : callable, optional
        From PyTorch to the same function.
    work : callable, optional
        From operands and result to operations; else bytes count: what is read and written.
    tolerance : float, optional
        Of the relative error, in the norm; else by the dtype of the result.
    settings : mapping
        Of `functrans.config`.
    others : tuple of str
        Libraries that take the program as it is.
    own : bool
        Whether NVIDIA's libraries are left aside.
    """

    program: Callable[[Library], Function]
    operands: tuple[Operand, ...]
    by_rows: int = 1
    torch: Callable[[Any], Function] | None = None
    work: Callable[..., float] | None = None
    tolerance: float | None = None
    settings: Mapping[str, Any] = {}
    others: tuple[str, ...] = ("JAX", "CuPy")
    own: bool = False


MATRIX = Operand((1 << 18, 1024), (3, 40))
STACK = Operand((64, 4096, 1024), (3, 4, 40))
LONG = Operand((1 << 13, 50_257), (2, 70))
LINE = Operand((1 << 26,), (300,))


def softmax(x: Any, xp: Any = np) -> Any:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def layer_norm(x: Any, xp: Any = np) -> Any:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(1e-5))


def attention(xp: Any, mask: bool) -> Function:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = q @ xp.swapaxes(k, -1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
        if mask:
            seen = xp.arange(q.shape[-2])[:, None] >= xp.arange(k.shape[-2])
            scores = xp.where(seen, scores, scores.dtype.type(-np.inf))
        return softmax(scores, xp) @ v

    return attend


def lstm(lib: Library) -> Function:
    xp = lib.np

    def sigmoid(z: Any) -> Any:
        return xp.tanh(z * np.float32(0.5)) * np.float32(0.5) + np.float32(0.5)

    def run(xs: Any, w: Any) -> Any:
        hidden, w = w.shape[1] // 4, w * np.float32(0.05)  # else rounding grows from step to step

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            z = x + h @ w
            i, f, g, o = (z[:, k * hidden : (k + 1) * hidden] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
            h = sigmoid(o) * xp.tanh(c)
            return (h, c), h

        start = xs[:, 0, :hidden] * 0
        return xp.swapaxes(lib.scan(step, (start, start), xp.swapaxes(xs, 0, 1))[1], 0, 1)

    return run


def added(lib: Library) -> Function:
    def run(i: Any, v: Any, z: Any) -> Any:
        return (functrans.numpy.at(z) if lib.np is np else z.at)[i].add(v)

    return run


MOVING = {
    "elementwise": Row(
        lambda lib: lambda x: lib.np.exp(-x * x) * x + np.float32(1), (MATRIX,),
        torch=lambda torch: lambda x: torch.exp(-x * x) * x + 1,
    ),
    "softmax": Row(
        lambda lib: lambda x: softmax(x, lib.np), (MATRIX,),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "layer norm": Row(
        lambda lib: lambda x: layer_norm(x, lib.np), (MATRIX,),
        torch=lambda torch: lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    ),
    "sum": Row(
        lambda lib: lambda x: lib.np.sum(x), (MATRIX,), by_rows=0, tolerance=2e-2,
        torch=lambda torch: lambda x: x.sum(),
    ),
    "sums of columns": Row(
        lambda lib: lambda x: lib.np.sum(x, axis=0), (MATRIX,), by_rows=0, tolerance=1e-3,
        torch=lambda torch: lambda x: x.sum(0),
    ),
    "sums of rows": Row(
        lambda lib: lambda x: lib.np.sum(x, axis=1), (MATRIX,),
        torch=lambda torch: lambda x: x.sum(1),
    ),
    "largest of rows": Row(
        lambda lib: lambda x: lib.np.max(x, axis=1), (MATRIX,),
        torch=lambda torch: lambda x: x.amax(1),
    ),
    "a x + y": Row(
        lambda lib: lambda x, y: np.float32(2) * x + y, (MATRIX, MATRIX), by_rows=2,
        torch=lambda torch: lambda x, y: 2 * x + y,
    ),
    "elementwise, float16": Row(
        lambda lib: lambda x: x * x + np.float16(1), (MATRIX._replace(dtype=np.float16),),
        torch=lambda torch: lambda x: x * x + 1,
    ),
    "elementwise, float64": Row(
        lambda lib: lambda x: lib.np.sqrt(x * x + 1.0), (Operand((1 << 17, 1024), (3, 40), "d"),),
        torch=lambda torch: lambda x: torch.sqrt(x * x + 1),
    ),
    "transpose": Row(
        lambda lib: lambda x: lib.np.swapaxes(x, 1, 2) + np.float32(1), (STACK,),
        torch=lambda torch: lambda x: x.mT.contiguous() + 1,
    ),
    "sums over two axes": Row(
        lambda lib: lambda x: lib.np.sum(x, axis=(0, 2)),
        (STACK,), by_rows=0, tolerance=1e-3, torch=lambda torch: lambda x: x.sum((0, 2)),
    ),
    "softmax of rows of 50,257": Row(
        lambda lib: lambda x: softmax(x, lib.np), (LONG,),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "layer norm of rows of 50,257": Row(
        lambda lib: lambda x: layer_norm(x, lib.np), (LONG,),
        torch=lambda torch: lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    ),
    "softmax of rows of 20,000": Row(
        lambda lib: lambda x: softmax(x, lib.np), (Operand((13_000, 20_000), (2, 60)),),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "softmax of rows of 50,257, bfloat16": Row(
        lambda lib: lambda x: softmax(x.astype(np.float32), lib.np).astype(x.dtype),
        (LONG._replace(dtype=ml_dtypes.bfloat16),), tolerance=1e-2,
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "softmax of rows of 8,192": Row(
        lambda lib: lambda x: softmax(x, lib.np), (Operand((1 << 15, 8192), (2, 50)),),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "softmax of 1,000 rows of 500": Row(
        lambda lib: lambda x: softmax(x, lib.np), (Operand((1000, 500), (2, 50)),),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    ),
    "sums of few rows": Row(
        lambda lib: lambda x: lib.np.sum(x, axis=1), (Operand((60, 1 << 22), (2, 90)),),
        by_rows=0, tolerance=1e-3, torch=lambda torch: lambda x: x.sum(1),
    ),
}  # fmt: skip


def flops(*sides: int) -> Callable[..., float]:
    """Operations of products, which have so many terms of sums in all."""
    return lambda operands, result: 2.0 * np.prod(sides, dtype=float)


def square(dtype: Any, side: int = 8192, terms: int = 0, **more: Any) -> Row:
    """A product with square results."""
    terms = terms or side
    return Row(
        lambda lib: lambda x, y: x @ y,
        (Operand((side, terms), (5, 5), dtype), Operand((terms, side), (5, 5), dtype)),
        torch=lambda torch: lambda x, y: x @ y, work=flops(side, side, terms), **more,
    )  # fmt: skip


def heads(dtype: Any, count: int = 64, mask: bool = False, **more: Any) -> Row:
    """Attention: four operations for each pair and column, half of them under a mask."""
    shapes = Operand((count, 4096, 64), (1, 5, 3), dtype)
    return Row(
        lambda lib: attention(lib.np, mask), (shapes,) * 3, by_rows=3,
        torch=lambda torch: functools.partial(attended_by_torch, torch, mask),
        work=flops(2, count, 4096, 4096, 64, *([0.5] if mask else [])), **more,
    )  # fmt: skip


def attended_by_torch(torch: Any, mask: bool, *operands: Any) -> Any:
    """PyTorch's attention, whose fast kernels are for operands with two axes before the rows."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(*(each[None] for each in operands), is_causal=mask)[0]


COMPUTING = {
    "product float32, own": square(np.float32, own=True),
    "product float32": square(np.float32),
    "product tf32, own": square(
        np.float32, own=True, settings={"matmul_precision": "tf32"}, tolerance=2e-3
    ),
    "product float16, own": square(np.float16, own=True),
    "product float16": square(np.float16),
    "product bfloat16, own": square(ml_dtypes.bfloat16, own=True),
    "product float64, own": square(np.float64, 4096, own=True),
    "product, bias, relu, float16": Row(
        lambda lib: lambda x, y, b: lib.np.maximum(x @ y + b, np.float16(0)),
        (*square(np.float16).operands, Operand((8192,), (5,), np.float16)),
        torch=lambda torch: lambda x, y, b: torch.relu(torch.addmm(b, x, y)),
        work=flops(8192, 8192, 8192),
    ),
    "attention float32": heads(np.float32),
    "attention float16": heads(np.float16, tolerance=5e-3),
    "causal attention float32": heads(np.float32, mask=True),
    "causal attention float16": heads(np.float16, mask=True, tolerance=5e-3),
    "attention float32 of 3 heads": heads(np.float32, 3),
    "product float32 of 1,000, own": square(np.float32, 1000, own=True),
    "product float16 of 1,000, own": square(np.float16, 1000, own=True),
    "product float64 of 1,000, own": square(np.float64, 1000, own=True),
    "product float32 of long sums, own": square(np.float32, 200, 1 << 12, own=True),
}

REST = {
    "gather of rows": Row(
        lambda lib: lambda i, x: x[i],
        (Operand((1 << 18,), (9,), np.int64, (50_257, 7)), Operand((50_257, 1024), (7, 40))),
        torch=lambda torch: lambda i, x: x[i],
    ),
    "scatter, added": Row(
        added,
        (
            Operand((1 << 26,), (90,), np.int64, (1 << 20, 7)), LINE._replace(small=(90,)),
            Operand((1 << 20,), (7,)),
        ),
        by_rows=0, others=("JAX",),
        torch=lambda torch: lambda i, v, z: z.index_add(0, i, v),
    ),
    "scatter, added in few places": Row(
        added,
        (
            Operand((1 << 26,), (90,), np.int64, (256, 3)), LINE._replace(small=(90,)),
            Operand((256,), (3,)),
        ),
        by_rows=0, others=("JAX",), tolerance=1e-2,
        torch=lambda torch: lambda i, v, z: z.index_add(0, i, v),
    ),
    "scatter, added in 4,000 places": Row(
        added,
        (
            Operand((1 << 26,), (90,), np.int64, (4000, 3)), LINE._replace(small=(90,)),
            Operand((4000,), (3,)),
        ),
        by_rows=0, others=("JAX",), tolerance=1e-3,
        torch=lambda torch: lambda i, v, z: z.index_add(0, i, v),
    ),
    "counts": Row(
        lambda lib: lambda i: lib.np.bincount(i, minlength=256),
        (Operand((1 << 26,), (90,), np.int64, (256, 3)),), by_rows=0, others=("CuPy",),
        torch=lambda torch: lambda i: torch.bincount(i, minlength=256),
    ),
    "sorted rows": Row(
        lambda lib: lambda x: lib.np.sort(x, axis=1), (Operand((1 << 15, 1024), (2, 20)),),
        torch=lambda torch: lambda x: torch.sort(x, 1)[0],
    ),
    "a long sort": Row(
        lambda lib: lambda x: lib.np.sort(x), (Operand((1 << 22,), (60,)),), by_rows=0,
        torch=lambda torch: lambda x: torch.sort(x)[0],
    ),
    "order of rows": Row(
        lambda lib: lambda x: lib.np.argsort(x, axis=1), (Operand((1 << 13, 1024), (2, 20)),),
        torch=lambda torch: lambda x: torch.argsort(x, 1),
    ),
    "running sums of rows": Row(
        lambda lib: lambda x: lib.np.cumsum(x, axis=1), (MATRIX,),
        torch=lambda torch: lambda x: x.cumsum(1),
    ),
    "a long running sum": Row(
        lambda lib: lambda x: lib.np.cumsum(x), (LINE,), by_rows=0, tolerance=1e-3,
        torch=lambda torch: lambda x: x.cumsum(0),
    ),
    "LSTM": Row(
        lstm, (Operand((256, 512, 512), (2, 3, 8)), Operand((128, 512), (2, 8))), others=("JAX",),
        work=lambda operands, result: 2.0 * result.size * operands[1].shape[1], tolerance=1e-3,
    ),
    "random normals": Row(
        lambda lib: lambda key: lib.random.normal(key, (1 << 28,), np.float32),
        (Operand((2,), (2,), np.uint32, (99, 99)),), by_rows=-1, others=("JAX",),
        torch=lambda torch: lambda key: torch.randn(1 << 28, device="cuda"),
    ),
    "random uniforms": Row(
        lambda lib: lambda key: lib.random.uniform(key, (1 << 28,), np.float32),
        (Operand((2,), (2,), np.uint32, (99, 99)),), by_rows=-1, others=("JAX",),
        torch=lambda torch: lambda key: torch.rand(1 << 28, device="cuda"),
    ),
    "random bits": Row(
        lambda lib: lambda key: lib.random.bits(key, (1 << 28,), np.uint32),
        (Operand((2,), (2,), np.uint32, (99, 99)),), by_rows=-1, others=("JAX",),
    ),
}  # fmt: skip

ROWS = {**MOVING, **COMPUTING, **REST}

STAND_INS = (*MOVING, *REST, "product float16, own", "attention float32")
"""Rows that a stand-in has time for, where time is short."""

"""Layers of networks as workloads: products with epilogues, attention, convolutions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tests.benchmarks.workloads import Job, Library

Made = Callable[[Library], Job]


def _weight(rng: Any, *shape: int, dtype: Any = np.float32) -> Any:
    """Normal numbers, scaled by all axes but the last."""
    return (rng.standard_normal(shape) / np.sqrt(prod(shape[:-1]))).astype(dtype)


def product(shape: tuple[int, int, int], dtype: Any) -> Made:
    """A product of matrices."""
    rows, terms, columns = shape

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((rows, terms), (terms, columns)))
        return Job(lambda a, b: a @ b, (a, b))

    return make


def _gelu(lib: Library, x: Any) -> Any:
    half, root = np.float32(0.5), np.float32(0.5**0.5)
    return half * x * (np.float32(1) + lib.erf(x * root))


def fused_product(size: int) -> Made:
    """Value and gradient of a product with bias, gelu and residual, float32."""

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        params = _weight(rng, size, size), np.zeros(size, np.float32)
        x, residual = rng.standard_normal((2, size, size)).astype(np.float32)

        def loss(params: Any, x: Any, residual: Any) -> Any:
            w, b = params
            out = _gelu(lib, x @ w + b) + residual
            return lib.np.mean(out * out)

        return Job(lib.value_and_grad(loss), (params, x, residual), loss)

    return make


def feed_forward(rows: int, width: int, hidden: int) -> Made:
    """The gradient of two layers with gelu and residual, float32."""

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        up = _weight(rng, width, hidden), np.zeros(hidden, np.float32)
        down = _weight(rng, hidden, width), np.zeros(width, np.float32)
        x = rng.standard_normal((rows, width)).astype(np.float32)

        def loss(params: Any, x: Any) -> Any:
            (up, b), (down, c) = params
            out = x + _gelu(lib, x @ up + b) @ down + c
            return lib.np.mean(out * out)

        return Job(lib.grad(loss), ((up, down), x), loss)

    return make


def _attended(xp: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q @ xp.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    if mask is not None:
        scores = xp.where(mask, scores, np.float32(-1e9))
    scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return scores / xp.sum(scores, axis=-1, keepdims=True) @ v


def attention(heads: int, time: int, width: int) -> Made:
    """The gradient of attention by queries, keys and values, float32."""

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        *given, weights = rng.standard_normal((4, heads, time, width)).astype(np.float32)

        def loss(given: Any, weights: Any) -> Any:
            return lib.np.sum(_attended(lib.np, *given) * weights)

        return Job(lib.grad(loss), (tuple(given), weights), loss)

    return make


def causal_attention(heads: int, time: int, width: int) -> Made:
    """The same of one example under a mask, which is an argument."""

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        *given, weights = rng.standard_normal((4, 1, heads, time, width)).astype(np.float32)
        mask = np.tril(np.ones((time, time), bool))

        def loss(given: Any, weights: Any, mask: Any) -> Any:
            return lib.np.sum(_attended(lib.np, *given, mask) * weights)

        return Job(lib.grad(loss), (tuple(given), weights, mask), loss)

    return make


def basic_block(batch: int, channels: int, side: int) -> Made:
    """Value and gradient of two 3x3 convolutions with a residual, NCHW, float32."""

    def make(lib: Library) -> Job:
        rng = np.random.default_rng(0)
        shape = (channels, channels, 3, 3)
        kernels = tuple(
            (rng.standard_normal(shape) / np.sqrt(9 * channels)).astype(np.float32)
            for _ in range(2)
        )
        x = rng.standard_normal((batch, channels, side, side)).astype(np.float32)

        def relu(x: Any) -> Any:
            return lib.np.maximum(x, np.float32(0))

        def loss(kernels: Any, x: Any) -> Any:
            first, second = kernels
            hidden = relu(lib.lax.conv(x, first, (1, 1), "SAME"))
            out = relu(lib.lax.conv(hidden, second, (1, 1), "SAME") + x)
            return lib.np.mean(out * out)

        return Job(lib.value_and_grad(loss, argnums=(0, 1)), (kernels, x), loss)

    return make

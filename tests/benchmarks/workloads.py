"""The workloads: each is a function of arrays, written once for both libraries.

A workload takes the library (its numpy namespace, its transforms, its scan) and returns the
function to compile and its arguments. Sizes are typical of applications, and none is special to our
library.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np


class Library(NamedTuple):
    """What the workloads use of a library."""

    np: Any
    grad: Any
    value_and_grad: Any
    vmap: Any
    jvp: Any
    jacfwd: Any
    hessian: Any
    scan: Any
    erf: Any
    lax: Any
    random: Any
    special: Any
    stats: Any
    linalg: Any


class Job(NamedTuple):
    """A function to compile, and its arguments.

    Parameters
    ----------
    function : callable
    arguments : tuple
    primal : callable or None
        Of a gradient, the function that it is the gradient of, with the same arguments.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    primal: Callable[..., Any] | None = None


def scalar_gradient(lib: Library) -> Job:
    """The gradient of a scalar function, called on a scalar."""
    xp = lib.np

    def f(x: Any) -> Any:
        return xp.sin(xp.exp(x * x)) + xp.tanh(x)

    return Job(lib.grad(f), (np.float64(0.5),), f)


def _dense(rng: Any, sizes: tuple[int, ...], dtype: Any) -> list[Any]:
    return [
        (
            (rng.standard_normal((i, o)) / np.sqrt(i)).astype(dtype),
            np.zeros(o, dtype),
        )
        for i, o in pairwise(sizes)
    ]


def _mlp(xp: Any, params: Any, x: Any) -> Any:
    for w, b in params[:-1]:
        x = xp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def _log_softmax(xp: Any, z: Any) -> Any:
    z = z - xp.max(z, axis=-1, keepdims=True)
    return z - xp.log(xp.sum(xp.exp(z), axis=-1, keepdims=True))


def small_mlp_gradient(lib: Library) -> Job:
    """The gradient of a 4-4-4-3 MLP over its pytree of parameters, for one sample."""
    xp, rng = lib.np, np.random.default_rng(0)
    params = _dense(rng, (4, 4, 4, 3), np.float64)
    x, y = rng.standard_normal(4), np.eye(3)[1]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -xp.sum(_log_softmax(xp, _mlp(xp, params, x)) * y)

    return Job(lib.grad(loss), (params, x, y), loss)


def per_sample_gradients(lib: Library) -> Job:
    """The gradients of an MLP 64-32-10 for each of 1797 samples."""
    xp, rng = lib.np, np.random.default_rng(0)
    params = _dense(rng, (64, 32, 10), np.float64)
    x, y = rng.standard_normal((1797, 64)), np.eye(10)[rng.integers(0, 10, 1797)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -xp.sum(_log_softmax(xp, _mlp(xp, params, x)) * y)

    mapped = (None, 0, 0)
    per_sample = lib.vmap(lib.grad(loss), in_axes=mapped)
    return Job(per_sample, (params, x, y), lib.vmap(loss, in_axes=mapped))


def train_step(lib: Library) -> Job:
    """Loss, gradient and an SGD step of an MLP 784-512-512-10, batch 256, float32."""
    xp, rng = lib.np, np.random.default_rng(0)
    params = _dense(rng, (784, 512, 512, 10), np.float32)
    x = rng.standard_normal((256, 784)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 256)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -xp.mean(xp.sum(_log_softmax(xp, _mlp(xp, params, x)) * y, axis=1))

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradient = lib.value_and_grad(loss)(params, x, y)
        return value, [
            (w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, gradient, strict=True)
        ]

    return Job(step, (params, x, y), loss)


def transformer_block(lib: Library) -> Job:
    """Value and gradient of a pre-norm transformer block, B=4 T=128 D=128 H=4, float32."""
    xp, rng = lib.np, np.random.default_rng(0)
    batch, time, width, heads = 4, 128, 128, 4

    def weight(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    params = {
        "qkv": weight(width, 3 * width),
        "out": weight(width, width),
        "up": weight(width, 4 * width),
        "down": weight(4 * width, width),
        "norm1": np.ones(width, np.float32),
        "norm2": np.ones(width, np.float32),
    }
    x = rng.standard_normal((batch, time, width)).astype(np.float32)
    mask = np.tril(np.ones((time, time), bool))

    def norm(x: Any, scale: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + 1e-5) * scale

    def loss(params: Any, x: Any) -> Any:
        qkv = xp.reshape(norm(x, params["norm1"]) @ params["qkv"], (batch, time, 3, heads, -1))
        q, k, v = (xp.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3))
        scores = q @ xp.swapaxes(k, -1, -2) * np.float32((width // heads) ** -0.5)
        scores = xp.where(mask, scores, np.float32(-1e9))
        scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        weights = scores / xp.sum(scores, axis=-1, keepdims=True)
        mixed = xp.reshape(xp.transpose(weights @ v, (0, 2, 1, 3)), (batch, time, width))
        x = x + mixed @ params["out"]
        hidden = norm(x, params["norm2"]) @ params["up"]
        cube = hidden * hidden * hidden
        inner = np.float32(0.7978845608) * (hidden + np.float32(0.044715) * cube)
        gelu = np.float32(0.5) * hidden * (np.float32(1) + xp.tanh(inner))
        x = x + gelu @ params["down"]
        return xp.mean(x * x)

    return Job(lib.value_and_grad(loss), (params, x), loss)


def logistic_hessian(lib: Library) -> Job:
    """The 64x64 Hessian of a logistic regression on 1797 samples."""
    xp, rng = lib.np, np.random.default_rng(0)
    x = rng.standard_normal((1797, 64))
    y = (rng.random(1797) < 0.5).astype(np.float64)

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return xp.mean(xp.logaddexp(0.0, z) - y * z)

    return Job(lib.hessian(loss), (rng.standard_normal(64) * 0.1, x, y))


def rosenbrock_hvp(lib: Library) -> Job:
    """A Hessian-vector product of the Rosenbrock function in 100,000 variables."""
    xp, rng = lib.np, np.random.default_rng(0)

    def f(x: Any) -> Any:
        return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def hvp(x: Any, v: Any) -> Any:
        return lib.jvp(lib.grad(f), (x,), (v,))[1]

    return Job(hvp, (rng.standard_normal(100_000), rng.standard_normal(100_000)))


def arm_jacobians(lib: Library) -> Job:
    """The Jacobians of the position of a 6-joint arm, for 100,000 configurations."""
    xp, rng = lib.np, np.random.default_rng(0)
    lengths = (0.4, 0.35, 0.3, 0.2, 0.15, 0.1)

    def position(q: Any) -> Any:
        x = y = z = 0.0
        pitch = 0.0
        for i, length in enumerate(lengths[1:], 1):
            pitch = pitch + q[i]
            x = x + length * xp.cos(pitch) * xp.cos(q[0])
            y = y + length * xp.cos(pitch) * xp.sin(q[0])
            z = z + length * xp.sin(pitch)
        return xp.stack([x, y, z + lengths[0]])

    return Job(lib.vmap(lib.jacfwd(position)), (rng.uniform(-2, 2, (100_000, 6)),))


def option_greeks(lib: Library) -> Job:
    """Five Greeks of 1,000,000 Black-Scholes options."""
    xp, rng = lib.np, np.random.default_rng(0)
    n = 1_000_000

    def price(spot: Any, strike: Any, rate: Any, vol: Any, time: Any) -> Any:
        spread = vol * xp.sqrt(time)
        d1 = (xp.log(spot / strike) + (rate + vol * vol / 2) * time) / spread
        d2 = d1 - spread

        def cdf(d: Any) -> Any:
            return 0.5 * (1 + lib.erf(d * 0.7071067811865476))

        return spot * cdf(d1) - strike * xp.exp(-rate * time) * cdf(d2)

    arguments = (
        rng.uniform(50, 150, n),
        rng.uniform(50, 150, n),
        rng.uniform(0, 0.05, n),
        rng.uniform(0.1, 0.5, n),
        rng.uniform(0.1, 2, n),
    )
    greeks = lib.vmap(lib.grad(price, argnums=(0, 1, 2, 3, 4)))
    return Job(greeks, arguments, lib.vmap(price))


def cross_entropy_gradient(lib: Library) -> Job:
    """The gradient of softmax cross-entropy with respect to 4096x1000 logits, float32."""
    xp, rng = lib.np, np.random.default_rng(0)
    logits = rng.standard_normal((4096, 1000)).astype(np.float32)
    labels = rng.integers(0, 1000, 4096)

    def loss(logits: Any, labels: Any) -> Any:
        rows = xp.arange(4096)
        return -xp.mean(_log_softmax(xp, logits)[rows, labels])

    return Job(lib.grad(loss), (logits, labels), loss)


def lorenz_gradient(lib: Library) -> Job:
    """The gradient of the end of 2000 RK4 steps of the Lorenz system, by all six inputs."""
    xp = lib.np

    def field(y: Any, p: Any) -> Any:
        a, b, c = y[0], y[1], y[2]
        return xp.stack([p[0] * (b - a), a * (p[1] - c) - b, a * b - p[2] * c])

    def end(y: Any, p: Any) -> Any:
        h = 0.001

        def step(y: Any, _: Any) -> Any:
            k1 = field(y, p)
            k2 = field(y + h / 2 * k1, p)
            k3 = field(y + h / 2 * k2, p)
            k4 = field(y + h * k3, p)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        y, _ = lib.scan(step, y, None, length=2000)
        return xp.sum(y * y)

    arguments = (np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8 / 3]))
    return Job(lib.grad(end, argnums=(0, 1)), arguments, end)


def lstm_gradient(lib: Library) -> Job:
    """The gradient of an LSTM over its weights, T=100 B=32 H=64, float32."""
    xp, rng = lib.np, np.random.default_rng(0)
    steps, batch, hidden = 100, 32, 64

    def weight(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    params = (weight(hidden, 4 * hidden), weight(hidden, 4 * hidden), np.zeros(4 * hidden, "f4"))
    xs = rng.standard_normal((steps, batch, hidden)).astype(np.float32)

    def sigmoid(z: Any) -> Any:
        return np.float32(0.5) * (xp.tanh(np.float32(0.5) * z) + np.float32(1))

    def loss(params: Any, xs: Any) -> Any:
        wx, wh, b = params

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            z = x @ wx + h @ wh + b
            i, f, g, o = (z[:, k * hidden : (k + 1) * hidden] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
            h = sigmoid(o) * xp.tanh(c)
            return (h, c), h

        zero = xp.zeros((batch, hidden), np.float32)
        _, hs = lib.scan(step, (zero, zero), xs)
        return xp.mean(hs * hs)

    return Job(lib.grad(loss), (params, xs), loss)


WORKLOADS: dict[str, tuple[Callable[[Library], Job], float]] = {
    "scalar gradient": (scalar_gradient, 2),
    "small MLP gradient": (small_mlp_gradient, 2),
    "per-sample gradients": (per_sample_gradients, 3),
    "train step": (train_step, 1),
    "transformer block": (transformer_block, 1.3),
    "logistic Hessian": (logistic_hessian, 1.3),
    "Rosenbrock HVP": (rosenbrock_hvp, 3),
    "arm Jacobians": (arm_jacobians, 8),
    "option Greeks": (option_greeks, 5),
    "cross-entropy gradient": (cross_entropy_gradient, 4),
    "Lorenz gradient": (lorenz_gradient, 50),
    "LSTM gradient": (lstm_gradient, 2),
}
"""Each workload, and how many times faster than JAX it is to be."""

"""Compile times of unrolled Python loops: CPU seconds to a first gradient, by number of steps.

``python -m tests.benchmarks.straight_line [NAME...]`` prints, for n, 2n and 4n steps, the seconds
of CPU time from nothing to the first gradient, how much longer 4n steps take than n, and the
microseconds of a call. Each measurement runs in a fresh process and finds nothing on disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from functrans import grad, jit
from functrans.numpy.special import logsumexp

Problem = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and the arguments to take its gradient at; it is taken by the first."""


def hmm(steps: int, states: int = 5) -> Problem:
    """The forward algorithm in logarithms."""
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 4, steps)

    def f(params: Any) -> Any:
        transitions, emissions, start = params
        a = transitions - logsumexp(transitions, axis=1, keepdims=True)
        b = emissions - logsumexp(emissions, axis=1, keepdims=True)
        alpha = start - logsumexp(start) + b[:, obs[0]]
        for t in range(1, steps):
            alpha = logsumexp(alpha[:, None] + a, axis=0) + b[:, obs[t]]
        return logsumexp(alpha)

    shapes = (states, states), (states, 4), (states,)
    return f, (tuple(rng.normal(size=shape) for shape in shapes),)


def hmm_wide(steps: int) -> Problem:
    """The same with eight states."""
    return hmm(steps, 8)


def rnn(steps: int) -> Problem:
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(steps, 16, 8))

    def f(params: Any) -> Any:
        w, u, b = params
        h = np.zeros((16, 32))
        for t in range(steps):
            h = np.tanh(h @ w + xs[t] @ u + b)
        return np.sum(h * h)

    w, u, b = rng.normal(size=(32, 32)) / 8, rng.normal(size=(8, 32)), rng.normal(size=32)
    return f, ((w, u, b),)


def kalman(steps: int) -> Problem:
    """A filter of four states and two observations."""
    rng = np.random.default_rng(0)
    ys = rng.normal(size=(steps, 2))
    h = np.eye(2, 4)

    def f(a: Any) -> Any:
        m, p = np.zeros(4), np.eye(4)
        total = 0.0
        for t in range(steps):
            m, p = a @ m, a @ p @ a.T + 0.1 * np.eye(4)
            s = h @ p @ h.T + 0.2 * np.eye(2)
            v = ys[t] - h @ m
            gain = np.linalg.solve(s, h @ p).T
            total = total + v @ np.linalg.solve(s, v) + np.linalg.slogdet(s)[1]
            m, p = m + gain @ v, p - gain @ s @ gain.T
        return total

    return f, (np.eye(4) * 0.9 + rng.normal(size=(4, 4)) / 20,)


def lorenz(steps: int) -> Problem:
    """Runge-Kutta of fourth order."""

    def field(y: Any, p: Any) -> Any:
        return np.stack(
            [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
        )

    def f(p: Any) -> Any:
        y, h = np.array([1.0, 0.0, 0.0]), 0.01
        for _ in range(steps):
            k1 = field(y, p)
            k2 = field(y + h / 2 * k1, p)
            k3 = field(y + h / 2 * k2, p)
            k4 = field(y + h * k3, p)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.sum(y * y)

    return f, (np.array([10.0, 28.0, 8 / 3]),)


def _conv(x: Any, k: Any) -> Any:
    """A convolution as the sum of shifted products."""
    rows, columns = k.shape[:2]
    h, w = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    out = np.einsum("bhwc,cd->bhwd", x[:, :h, :w], k[0, 0])
    for i in range(rows):
        for j in range(columns):
            if i or j:
                out = out + np.einsum("bhwc,cd->bhwd", x[:, i : i + h, j : j + w], k[i, j])
    return out


def _pooled(x: Any) -> Any:
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def conv_planes(taps: int) -> Problem:
    """One picture and one kernel, of so many by so many taps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(66, 66))
    side = 64 - (taps - 1) // 2 * 2

    def f(k: Any) -> Any:
        out = sum(x[i : i + side, j : j + side] * k[i, j] for i in range(taps) for j in range(taps))
        pooled = np.tanh(out).reshape(side // 2, 2, side // 2, 2).mean(axis=(1, 3))
        return np.sum(pooled * pooled)

    return f, (rng.normal(size=(taps, taps)),)


def conv_one(taps: int) -> Problem:
    """One layer over channels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 23 + taps, 23 + taps, 1))

    def f(k: Any) -> Any:
        return np.sum(_pooled(np.tanh(_conv(x, k))) ** 2)

    return f, (rng.normal(size=(taps, taps, 1, 6)) / taps,)


def conv_two(taps: int) -> Problem:
    """Two layers over channels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2 * (7 + taps) + taps - 1, 2 * (7 + taps) + taps - 1, 1))

    def f(params: Any) -> Any:
        first, second = params
        y = _pooled(np.tanh(_conv(x, first)))
        return np.sum(_pooled(np.tanh(_conv(y, second))) ** 2)

    shapes = (taps, taps, 1, 6), (taps, taps, 6, 8)
    return f, (tuple(rng.normal(size=shape) / taps for shape in shapes),)


def dense(layers: int) -> Problem:
    """Layers of different sizes."""
    rng = np.random.default_rng(0)
    widths = [20 + 7 * (i * 5 % 11) for i in range(layers + 1)]
    x = rng.normal(size=(32, widths[0]))

    def f(params: Any) -> Any:
        y = x
        for w, b in params:
            y = np.tanh(y @ w + b)
        return np.mean(y * y)

    pairs = pairwise(widths)
    return f, ([(rng.normal(size=(n, m)) / 8, rng.normal(size=m)) for n, m in pairs],)


def random_walk(steps: int) -> Problem:
    """A linear congruential generator that drives a walk."""

    def f(x: Any) -> Any:
        seed = 12345
        for _ in range(steps):
            seed = (1103515245 * seed + 12345) % 2**31
            x = x + 0.1 * np.sin(x) * (seed / 2**31 - 0.5)
        return np.sum(x)

    return f, (np.linspace(0, 1, 100),)


def integer_walk(steps: int) -> Problem:
    """The same with the generator inside of the program."""

    def f(x: Any, seed: Any) -> Any:
        for _ in range(steps):
            seed = (1103515245 * seed + 12345) % 2**31
            x = x + 0.1 * np.sin(x) * (seed / 2**31 - 0.5)
        return np.sum(x)

    return f, (np.linspace(0, 1, 100), np.arange(100))


def logsumexps(steps: int) -> Problem:
    rng = np.random.default_rng(0)

    def f(x: Any) -> Any:
        for _ in range(steps):
            x = x - 0.5 * logsumexp(x, axis=1, keepdims=True)
        return np.sum(x * x)

    return f, (rng.normal(size=(20, 30)),)


def horner(degree: int) -> Problem:
    rng = np.random.default_rng(0)

    def f(c: Any, x: Any) -> Any:
        y = np.zeros_like(x)
        for i in range(degree):
            y = y * x + c[i]
        return np.sum(y)

    return f, (rng.normal(size=degree), np.linspace(-0.9, 0.9, 1000))


def heat(steps: int) -> Problem:
    """Explicit finite differences in two dimensions."""
    rng = np.random.default_rng(0)

    def f(u: Any) -> Any:
        for _ in range(steps):
            inner = u[1:-1, 1:-1]
            change = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
            u = np.pad(inner + 0.1 * change, 1)
        return np.sum(u * u)

    return f, (rng.normal(size=(64, 64)),)


PROBLEMS: dict[str, tuple[Callable[[int], Problem], tuple[int, ...]]] = {
    "hmm": (hmm, (20, 40, 80)),
    "hmm_wide": (hmm_wide, (20, 40, 80)),
    "rnn": (rnn, (50, 100, 200)),
    "kalman": (kalman, (12, 25, 50)),
    "lorenz": (lorenz, (50, 100, 200)),
    "conv_planes": (conv_planes, (3, 5, 7)),
    "conv_one": (conv_one, (3, 5, 7)),
    "conv_two": (conv_two, (3, 5, 7)),
    "dense": (dense, (5, 10, 20)),
    "random_walk": (random_walk, (50, 100, 200)),
    "integer_walk": (integer_walk, (50, 100, 200)),
    "logsumexps": (logsumexps, (10, 20, 40)),
    "horner": (horner, (50, 100, 200)),
    "heat": (heat, (25, 50, 100)),
}
"""Each with numbers of steps; the work of a convolution grows with the square of its taps."""


def measure(name: str, steps: int) -> tuple[float, float]:
    """CPU seconds from nothing to the first gradient, and the seconds of a call."""
    f, arguments = PROBLEMS[name][0](steps)
    # the compiler itself is loaded first
    jit(grad(lambda x: x * x))(2.0)
    start = time.process_time()
    gradient = jit(grad(f))
    gradient(*arguments)
    first = time.process_time() - start
    calls = []
    until = time.perf_counter() + 0.5
    while len(calls) < 3 or time.perf_counter() < until:
        start = time.perf_counter()
        gradient(*arguments)
        calls.append(time.perf_counter() - start)
    return first, min(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all if none is given")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one measurement")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(PROBLEMS)
    if options.one is not None:
        print(*measure(names[0], options.one))
        return
    for name in names:
        found = [_apart(name, steps, options.limit) for steps in PROBLEMS[name][1]]
        first = " ".join(f"{seconds:8.2f}" for seconds, _ in found)
        calls = " ".join(f"{call * 1e6:9.1f}" for _, call in found)
        steps = "/".join(map(str, PROBLEMS[name][1]))
        print(
            f"{name:14}{steps:>12} {first}  x{found[-1][0] / found[0][0]:5.1f} {calls}", flush=True
        )


def _apart(name: str, steps: int, limit: float) -> tuple[float, float]:
    """One measurement in a process of its own; not a number if it takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.straight_line", name, "--one", str(steps)],
            env={**os.environ, "FUNCTRANS_CACHE": "0"},
            capture_output=True,
            text=True,
            check=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return float("nan"), float("nan")
    first, call = map(float, done.stdout.split()[-2:])
    return first, call


if __name__ == "__main__":
    main()

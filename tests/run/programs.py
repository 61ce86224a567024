"""Small programs with all kinds of code, and their results by evaluation with NumPy."""

from dataclasses import replace

import numpy as np

from functrans import grad, lax, vmap
from functrans.ir.evaluate import evaluate
from functrans.ir.types import aval_of
from functrans.loop.statements import Call
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.select.partition import compiled
from functrans.run.code.machine import Machine
from functrans.trace.stage import rewrite

ARM = Machine("aarch64-unknown-linux-gnu", "generic", "+neon", 16)

RNG = np.random.default_rng(0)
X = RNG.normal(size=1000)
MATRIX = RNG.normal(size=(37, 41))
WHERE = RNG.integers(0, 1000, 300)


def lorenz(x):
    def step(state, _):
        a, b, c = state
        change = np.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])
        return state + 0.01 * change, state[0]

    return lax.scan(step, x, None, length=50)


def collatz(n):
    def step(state):
        n, count = state
        return np.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PROGRAMS = {
    "elementwise": (lambda x: np.where(x > 0, x * x + 1, -x), X),
    "single": (lambda x: np.tanh(x) * x, X.astype(np.float32)),
    "half": (lambda x: (np.sqrt(np.abs(x)) * x + 1, x.astype(np.float64)), X.astype(np.float16)),
    "to half": (lambda x: x.astype(np.float16) * np.float16(0.3), X * 100),
    "integers": (lambda n: (n * 3, n // 7, n % 5, n >> 2, np.maximum(n, 4)), np.arange(-50, 77)),
    "bytes": (lambda n: (n + n, n ^ 3, n.astype(np.float32)), np.arange(200, dtype=np.uint8)),
    "truth": (lambda x: ((x > 0) & (x < 1), np.any(x > 3), np.count_nonzero(x > 1)), X),
    "conversions": (lambda x: (x.astype(np.int32), (x * 9).astype(np.int8)), X * 10),
    "gather": (lambda x, i: x[i] * 2 + x[::-3][:300], X, WHERE),
    "scatter": (grad(lambda x, i: np.sum(x[i] ** 2), 0), X, WHERE),
    "strides": (lambda x: x[:999].reshape(-1, 3).sum(axis=1) + x[1:667:2], X),
    "sums": (lambda x: (x.sum(), x.mean(axis=0), x.sum(axis=1), x.max(), x.argmin(axis=1)), MATRIX),
    "running": (lambda x: np.cumsum(x, axis=0), MATRIX),
    "softmax": (softmax, MATRIX),
    "gradient": (grad(lambda x: np.sum(np.log1p(np.exp(x)) * np.sin(x))), X),
    "batch": (vmap(np.linalg.inv), RNG.normal(size=(20, 3, 3)) + 4 * np.eye(3)),
    "transpose": (lambda x: x.T * 2 + 1, MATRIX),
    "scan": (lorenz, np.array([1.0, 1.0, 1.0])),
    "while": (vmap(collatz), np.arange(1, 30)),
    **{
        f"{name} {np.dtype(dtype)}": (getattr(np, name), (np.abs(X[:100]) * 0.4).astype(dtype))
        for name in ("exp", "expm1", "log", "sin", "tan", "arctan", "arcsin", "sinh", "cbrt")
        for dtype in (np.float32, np.float64)
    },
    "power": (lambda x: np.abs(x) ** 1.7, X),
    "large angles": (np.sin, X * 1e8),
}


def graph_of(name):
    function, *operands = PROGRAMS[name]

    def listed(*given):
        results = function(*given)
        return list(leaves(results))

    return rewrite(listed, [aval_of(x) for x in operands]), operands


def leaves(value):
    if isinstance(value, tuple | list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def is_compiled(graph):
    return all(compiled(eqn, CPU) for eqn in graph.eqns)


def plan_of(graph, machine):
    """The plan of a graph for a machine."""
    return pipeline.plan(graph, replace(CPU, vector_bytes=machine.vector_bytes))


def calls_a_library(plan):
    return any(isinstance(one, Call) for step in plan.steps for one in walk(step.kernel.body))


def expected(graph, operands):
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in evaluate(graph, operands)]


def assert_close(found, wanted, label=""):
    """The same up to the rounding of fused multiplications, which not every CPU has."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), label
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted, err_msg=label)
        return
    tolerance = {2: 2e-3, 4: 2e-6, 8: 1e-13}[wanted.dtype.itemsize]
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=1)
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * scale, err_msg=label)

"""Transforms of programs as kernels for a GPU, over odd sizes, with threads in any order.

Plans for a grid are verified and evaluated by the interpreter of the loop language, and compared
with NumPy's evaluation of the same graph.
"""

import numpy as np
import pytest

from functrans import (
    checkpoint,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    lax,
    random,
    value_and_grad,
    vjp,
    vmap,
)
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.ir.types import interleaved, joined
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.select.partition import compiled
from functrans.lower.verify import verify
from functrans.optimise import legalised, optimise
from tests.loop.plans import evaluate_plan
from tests.lower.test_targets import SMALL_CUDA

RNG = np.random.default_rng(0)
SIZES = (0, 1, 31, 33)
LARGE = 1025
"""More than a block has threads; of few dtypes and functions: each number takes time."""
PAIRS = 4098
"""Of so many elements, and of any larger even number, a thread has two."""
HUGE = 70_000


def drawn(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def softmax(x):
    y = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-1e3))
    return y / np.sum(y, axis=-1, keepdims=True)


def normed(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def attention(q, k, v):
    return softmax(q @ k.T / 4) @ v


def causal(q, k, v):
    mask = np.arange(q.shape[0])[:, None] >= np.arange(k.shape[0])
    return softmax(np.where(mask, q @ k.T / 4, -np.inf)) @ v


def loss(w, x, y):
    return np.sum((np.tanh(x @ w) - y) ** 2)


@custom_vjp
def clipped(x):
    return np.sin(x)


clipped.defvjp(lambda x: (np.sin(x), x), lambda x, g: (np.clip(g, -1, 1) * np.cos(x),))


def oscillator(state):
    def step(state, _):
        position, speed = state
        speed = speed - 0.1 * np.sin(position)
        return (position + 0.1 * speed, speed), position

    return lax.scan(step, state, None, 7)


def newton(a, max_steps=None):
    return lax.while_loop(
        lambda x: np.abs(x * x - a) > 1e-9,
        lambda x: 0.5 * (x + a / x),
        1.0 + a,
        max_steps=max_steps,
    )


def recurrent(w, xs):
    def step(h, x):
        h = np.tanh(h @ w + x)
        return h, h.sum()

    return lax.scan(step, np.zeros(w.shape[0], w.dtype), xs)


ELEMENTWISE = {
    "map": lambda x: np.sin(x) * 2 + np.exp(-x * x),
    "where": lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x / 3),
    "slope": grad(lambda x: np.sum(np.log1p(x * x))),
    "tangent": lambda x: jvp(lambda x: np.tanh(x) ** 2, (x,), (np.cos(x),))[1],
    "pullback": lambda x: vjp(np.sin, x)[1](x * 2)[0],
    "custom": grad(lambda x: np.sum(clipped(3 * x) * x)),
    "recomputed": grad(lambda x: np.sum(checkpoint(lambda x: np.sin(np.cos(x)))(x))),
    "complex": lambda x: np.abs(np.exp(1j * x) * (x + 2j)) + (x * 1j).imag,
    "bits": lambda x: random.normal(random.key(3), x.shape) + x,
    "roots": lambda x: vmap(newton)(np.abs(x) + 0.5),
    "slopes of roots": lambda x: vmap(grad(lambda a: newton(a, 40)))(np.abs(x) + 0.5),
    "halves": lambda x: (x.astype(np.float16) * 3).astype(np.float32),
    "wide and narrow": lambda x: (x > 0.5).astype(np.int8) + np.arange(x.shape[0], dtype=np.int16),
}

REDUCING = {
    "sum": lambda x: (x.sum(), x.max(initial=-9.0), np.any(x > 2)),
    "mean square": value_and_grad(lambda x: np.sum(x**2) / max(x.size, 1)),
    "running": lambda x: np.cumsum(x) * np.cumsum(x[::-1]),
    "gather": lambda x: x[(np.arange(x.shape[0]) * 7) % max(x.shape[0], 1)] * 2,
    "gradient of a gather": grad(lambda x: np.sum(x[(np.arange(2 * x.shape[0])) // 3] ** 2)),
}

ROWS = {
    "softmax": softmax,
    "gradient of softmax": grad(lambda x: np.sum(softmax(x) * np.arange(x.shape[-1]))),
    "layer norm": normed,
    "gradient of a layer norm": grad(lambda x: np.sum(normed(x) ** 3)),
    "columns": lambda x: (x.sum(axis=0), x.T * 2, x.mean(axis=1)),
    "oscillators": lambda x: oscillator((x[:, 0], x[:, 1] if x.shape[1] > 1 else x[:, 0]))[0],
    "gradient of oscillators": grad(lambda x: np.sum(oscillator((x[:, 0], x[:, -1]))[1] ** 2)),
    "by rows": vmap(lambda row: np.sort(row)[: row.shape[0] // 2].sum() + row),
}

ATTENTION = {
    "attention": attention,
    "causal attention": causal,
    "value of attention": lambda q, k, v: np.sum(attention(q, k, v) ** 2),
    "tangent of attention": lambda q, k, v: jvp(lambda q: attention(q, k, v), (q,), (np.cos(q),))[
        1
    ],
    "gradient of attention": grad(lambda q, k, v: np.sum(attention(q, k, v) ** 2)),
    "attention twice": lambda q, k, v: attention(attention(q, k, v @ v.T @ k), k, v),
    "attention of several": lambda q, k, v: vmap(attention, in_axes=(0, None, None))(
        np.stack([q, q + 1]), k, v
    ),
}

ACROSS = {
    "transposed": lambda x: x.T * 2,
    "with itself": lambda x: x[: x.shape[1], : x.shape[0]] + x.T[: x.shape[0], : x.shape[1]],
    "in a batch": vmap(lambda x: np.outer(x, x[::-1]).T + x),
    "reversed axes": lambda x: np.transpose(np.stack([x, x * 2, x - 1]), (2, 1, 0)) * 1,
    "padded": lambda x: np.pad(x.T, 2),
    "turned": lambda x: np.rot90(x) * 1,
    "gradient": grad(lambda x: np.sum((x.T * np.arange(x.shape[0])) ** 3)),
    "down columns": lambda x: (x.sum(axis=0), (x * x).max(axis=0, initial=0), (x > 0).any(axis=0)),
    "of columns": lambda x: (x.T - x.mean(axis=1)[None]).sum(axis=1),
    "scan": lambda x: lax.scan(lambda s, _: (np.sin(s), s.T.sum(axis=0)), x, None, 3),
}

TWICE = {
    "hessian": (hessian(lambda x: np.sum(np.sin(x) * x[::-1])), (5,)),
    "jacobians": (lambda x: (jacrev(softmax)(x), jacfwd(np.cumsum)(x)), (7,)),
    "per sample": (
        lambda w: vmap(grad(loss), in_axes=(None, 0, 0))(w, np.ones((33, 4)), np.ones((33, 3))),
        (4, 3),
    ),
    "recurrent": (lambda w: recurrent(w, np.ones((6, 5)) / 3), (5, 5)),
    "gradient of recurrent": (
        grad(lambda w: np.sum(recurrent(w, np.ones((6, 5)) / 3)[1])), (5, 5),
    ),
    "scan in a batch": (vmap(lambda w: recurrent(w, np.ones((3, 4)))[0]), (9, 4, 4)),
    "branches": (
        vmap(lambda x: lax.cond(x[0] > 0, lambda x: np.sin(x).sum(), np.max, x)), (31, 4),
    ),
}  # fmt: skip


def check(function, *operands, machine=SMALL_CUDA, seed=0):
    graph, captured, *_ = jit(function).program_for(operands, {})
    graph, operands = optimise(graph), (*operands, *captured)
    apart = legalised(graph, machine)
    if not all(compiled(eqn, machine) for eqn in apart.eqns):
        pytest.skip("an operation has no kernel")
    plan = pipeline.plan(apart, machine)
    verify(plan)
    given = [
        interleaved(x, aval.dtype) if aval.dtype.kind == "c" else x
        for x, aval in zip(operands, graph.in_avals, strict=True)
    ]
    order = np.random.default_rng(seed).permutation
    found, status = evaluate_plan(plan, given, order)
    assert status == 0
    with np.errstate(all="ignore"):
        wanted = by_numpy(graph, list(operands))
    for mine, value in zip(found, map(np.asarray, wanted), strict=True):
        if value.dtype.kind == "c":
            mine = joined(mine, value.dtype)
        assert (mine.shape, mine.dtype) == (value.shape, value.dtype)
        if value.dtype.kind not in "fc":
            np.testing.assert_array_equal(mine, value)
        else:
            rounding = {8: 1e-9, 16: 1e-9, 4: 1e-4, 2: 2e-2}[value.dtype.itemsize]
            np.testing.assert_allclose(mine, value, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*ELEMENTWISE, *REDUCING])
def test_lines(name, size):
    check({**ELEMENTWISE, **REDUCING}[name], drawn(size), seed=size)


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, LARGE) for name in ("slope", "where", "halves", *REDUCING)]
    + [(name, PAIRS) for name in ("slope", "where", "halves", "sum")],
)
def test_long_lines(name, size):
    check({**ELEMENTWISE, **REDUCING}[name], drawn(size), machine=CUDA)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (33, 1), (1, 31), (3, 0), (0, 3)])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, shape):
    if shape[1] == 0 and name != "columns":
        pytest.skip("of nothing there is no largest")
    with np.errstate(all="ignore"):
        check(ROWS[name], drawn(*shape), seed=shape[0])


@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (1, 31), (0, 3)])
@pytest.mark.parametrize("name", ACROSS)
def test_across(name, shape):
    with np.errstate(all="ignore"):
        check(ACROSS[name], drawn(*shape), seed=shape[0])


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float32, np.complex128])
@pytest.mark.parametrize("name", ["transposed", "reversed axes", "down columns"])
def test_across_of_dtypes(name, dtype):
    x = drawn(31, 33).astype(dtype)
    if dtype == np.bool_:
        check(lambda x: (x.T.copy(), np.moveaxis(x, 0, 1) | False, x.any(axis=0)), x)
    elif dtype != np.complex128 or name != "down columns":
        check(ACROSS[name], x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transposed", "padded", "down columns"])
def test_long_across(name):
    check(ACROSS[name], drawn(33, LARGE, dtype=np.float32), machine=CUDA)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["softmax", "gradient of a layer norm", "columns"])
def test_long_rows(name):
    check(ROWS[name], drawn(2, LARGE, dtype=np.float32), machine=CUDA)


@pytest.mark.full
@pytest.mark.parametrize("size", [0, 1, 31])
@pytest.mark.parametrize("name", ["attention", "causal attention"])
def test_attention_of_so_many_queries(name, size):
    check(ATTENTION[name], drawn(size, 17), drawn(33, 17), drawn(33, 5), seed=size)


@pytest.mark.full
@pytest.mark.parametrize("name", ATTENTION)
def test_transforms_of_attention(name):
    check(ATTENTION[name], drawn(9, 18), drawn(19, 18), drawn(19, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "causal attention"])
def test_attention_in_large_tiles(name):
    operands = drawn(20, 18, dtype=np.float32), drawn(70, 18, dtype=np.float32)
    check(ATTENTION[name], *operands, drawn(70, 5, dtype=np.float32), machine=CUDA)


@pytest.mark.parametrize("machine", [SMALL_CUDA, CUDA], ids=["small", "large"])
@pytest.mark.parametrize("name", TWICE)
def test_transforms_of_transforms(name, machine):
    function, shape = TWICE[name]
    check(function, drawn(*shape), machine=machine)


@pytest.mark.parametrize("name", [*ELEMENTWISE, *REDUCING])
def test_plans_of_very_long_lines(name):
    function = {**ELEMENTWISE, **REDUCING}[name]
    graph = legalised(optimise(jit(function).lower(drawn(HUGE)).graph()), CUDA)
    if all(compiled(eqn, CUDA) for eqn in graph.eqns):
        verify(pipeline.plan(graph, CUDA))

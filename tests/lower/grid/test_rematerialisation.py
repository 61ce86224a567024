"""Rematerialisation: long rows are recomputed by their consumers rather than stored."""

from functools import partial

import numpy as np
import pytest

from functrans import grad, jit
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Assign, For, Let, Store, buffer, load, local
from functrans.loop.walk import loaded, stored
from functrans.lower import pipeline
from functrans.lower.grid.rematerialisation import rematerialised
from functrans.lower.grid.target import CUDA
from functrans.lower.nest.bodies import Nest
from functrans.lower.verify import verify
from tests.emit.cuda import programs
from tests.emit.cuda.programs import emulated, in_both_ways
from tests.targets import target

NARROW = target(CUDA, grid={"rows": 64, "long_rows": 64})
"""A GPU whose teams have memory for rows of 16 numbers."""

plan = partial(programs.plan, machine=NARROW)


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def softmax(x, axis=-1):
    y = np.exp(x - x.max(axis=axis, keepdims=True))
    return y / y.sum(axis=axis, keepdims=True)


def log_sum_exp(x):
    m = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=1)) + m[:, 0]


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-5))


def cross_entropy(x, labels):
    picked = np.take_along_axis(x, labels[:, None], axis=1)[:, 0]
    return log_sum_exp(x) - picked


LABELS = np.arange(17)[::-1]


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [17, 300])
@pytest.mark.parametrize(
    ("function", "others"),
    [
        (softmax, ()),
        (layer_norm, ()),
        (log_sum_exp, ()),
        (cross_entropy, (LABELS,)),
    ],
)
def test_long_rows_need_no_memory(function, others, columns):
    x = drawn(17, columns)
    made = plan(function, x, *others)
    verify(made)
    wanted = function(np.asarray(x, np.float64), *others)
    np.testing.assert_allclose(emulated(made, [x, *others])[0], wanted, rtol=2e-4, atol=1e-5)
    assert all(one.count <= 17 for one in made.offsets)  # a number for each row


def test_the_vocabulary_of_a_language_model_is_read_and_written_once_each_at_least():
    x = np.broadcast_to(np.float32(1), (2048, 50257))
    lowered = jit(softmax).lower(x, device="cuda")
    cost = lowered.cost()
    assert cost.temporary_bytes == 0
    assert len(cost.nests) == 1


def test_rows_over_two_axes():
    x = drawn(3, 7, 9)
    made = plan(lambda x: softmax(x, (1, 2)), x)
    assert not made.offsets
    for found in in_both_ways(made, [x]):
        np.testing.assert_allclose(found[0], softmax(x, (1, 2)), rtol=1e-5)


@pytest.mark.dear
def test_in_the_place_of_the_operand():
    x = drawn(3, 301)
    graph = jit(softmax).lower(x).graph()
    made = pipeline.plan(graph, NARROW, donated=(0,))
    verify(made)
    np.testing.assert_allclose(emulated(made, [x])[0], softmax(x), rtol=1e-5)


@pytest.mark.dear
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(np.exp(np.sin(x))) / np.sin(np.exp(np.sin(x))).sum(axis=1, keepdims=True),
        grad(lambda x: np.sum(softmax(x) ** 2)),
        lambda x: np.exp(x - x.max(axis=1, keepdims=True)) @ x[:5].T,
    ],
)
def test_what_would_take_longer_is_kept(function):
    x = drawn(5, 301)
    made = plan(function, x)
    assert made.offsets
    np.testing.assert_allclose(emulated(made, [x])[0], function(x), rtol=1e-4)


# -- by hand ---------------------------------------------------------------------------------------

N = 40
F4 = np.dtype(np.float32)
X, ROW, Y = (buffer(name, F4, (N,)) for name in ("x", "row", "y"))


def over(target, value, *before):
    i = index("i", N)
    body = (*(each(i) for each in before), Store(target, (i,), value(i)))
    return For(i, ZERO, const(N, INDEX), body, parallel=True, lanes=32)


def of(one):
    return lambda i: load(one, (i,))


def after(*body):
    (nest,) = rematerialised([Nest(body, (), 0)], {X, Y}, NARROW.grid)
    return nest.body


MAKE, USE = over(ROW, lambda i: Scalar("sqrt", (load(X, (i,)),), F4)), over(Y, of(ROW))


def test_the_expression_is_where_the_row_was_read():
    (loop,) = after(MAKE, USE)
    assert loaded([loop]) == {X}
    assert stored([loop]) == {Y}


def test_other_stores_of_the_loop_stay():
    both = over(ROW, of(X), lambda i: Store(Y, (i,), load(X, (i,))))
    kept, _ = after(both, over(Y, of(ROW)))
    assert stored([kept]) == {Y}


SCALE = local(F4, "scale")
A = index("a", N)
PARTLY = For(A, ZERO, const(N // 2, INDEX), (Store(ROW, (A,), load(X, (A,))),), lanes=32)


@pytest.mark.parametrize(
    "body",
    [
        (MAKE, over(X, lambda i: const(1.0, F4)), USE),  # its operand is written meanwhile
        (
            Let((SCALE,), (const(1.0, F4),)),
            over(ROW, lambda i: SCALE * load(X, (i,))),
            Assign((SCALE,), (const(2.0, F4),)),
            USE,
        ),
        (MAKE, over(ROW, of(X)), USE),  # it is written twice
        (over(ROW, lambda i: load(ROW, (i,)) + load(X, (i,))), USE),
        (USE, MAKE),  # it is read before
    ],
)
def test_what_may_have_changed_is_kept(body):
    assert after(*body) == body

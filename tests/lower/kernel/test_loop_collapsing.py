"""Loop collapsing: which loops become one, and that they do what they did."""

import numpy as np
import pytest

from functrans import config, grad, jit, lax, vmap
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, convert
from functrans.loop.statements import Call, For, Let, Store, buffer, load, local
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower.kernel.loop_collapsing import collapsed
from functrans.lower.nest.bodies import Nest
from tests.lower.by_hand import done_by, results

F8 = np.dtype(float)
A, B, C = index("i", 3), index("j", 5), index("k", 7)
X, Y = buffer("x", F8, (3, 5, 7)), buffer("y", F8, (3, 5, 7))
ROW, COLUMN = buffer("row", F8, (7,)), buffer("column", F8, (3, 1, 1))


def nest(*body, lanes=4):
    inner = For(C, ZERO, const(7, INDEX), body, lanes=lanes, repeatable=lanes > 1)
    middle = For(B, ZERO, const(5, INDEX), (inner,))
    return Nest((For(A, ZERO, const(3, INDEX), (middle,), parallel=True),), ())


def loops(made):
    return [int(each.stop.attribute) for each in walk(made.body) if isinstance(each, For)]


def at(one, *position):
    return load(one, position)


FORMS = {
    "contiguous": (Store(Y, (A, B, C), at(X, A, B, C) * 2.0), [105]),
    "broadcast along the inner loops": (
        Store(Y, (A, B, C), at(X, A, B, C) * at(COLUMN, A, ZERO, ZERO)),
        [3, 35],
    ),
    "broadcast along the outer loops": (
        Store(Y, (A, B, C), at(X, A, B, C) * at(ROW, C)),
        [3, 5, 7],
    ),
    "reversed": (Store(Y, (A, 4 - B, C), at(X, A, B, C)), [3, 5, 7]),
    "an index as a number": (Store(Y, (A, B, C), convert(B, F8)), [3, 5, 7]),
    "reads what the row before stored": (
        Store(Y, (A, B, C), at(Y, A, B - 1, C) + at(X, A, B, C)),
        [3, 5, 7],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_loops_that_go_on_in_memory_become_one(name):
    body, extents = FORMS[name]
    plain = nest(body)
    made = done_by(collapsed, plain, {}, ())
    assert loops(made) == extents
    if name == "reads what the row before stored":
        return
    given = {one: np.random.default_rng(0).normal(size=one.extents) for one in (X, ROW, COLUMN)}
    before, after = (results(each.body, given, [Y]) for each in (plain, made))
    np.testing.assert_array_equal(before, after)


def test_a_loop_whose_number_of_steps_is_data_stays():
    """Its index has no extent: the gradient of a batch of while loops raised a TypeError."""
    step, steps = index("step"), local(INDEX, "steps")
    inner = For(C, ZERO, const(7, INDEX), (Store(Y, (A, B, C), at(X, A, B, C)),), lanes=4)
    around = For(step, ZERO, steps, (For(B, ZERO, const(5, INDEX), (inner,)),))
    outer = For(A, ZERO, const(3, INDEX), (Let((steps,), (const(2, INDEX),)), around))
    made = collapsed(Nest((outer,), ()), {}, {}, CPU)
    assert [each.stop for each in walk(made.body) if isinstance(each, For)][1:] == [
        steps,
        const(35, INDEX),
    ]


def test_gradients_of_a_batch_of_nested_while_loops():
    def halved(x):
        def outer(state):
            y, n = state
            halve = (lambda s: s[1] < n), (lambda s: (s[0] * 0.5 + 0.1, s[1] + 1))
            return lax.while_loop(*halve, (y, 0 * n))[0], n + 1

        return lax.while_loop(lambda s: s[1] < 3, outer, (x, 0 * np.int64(x.sum() > 9)))[0]

    x = np.random.default_rng(0).uniform(size=(2, 7, 130))
    found = jit(grad(lambda x: vmap(halved)(x).sum()))(x)
    np.testing.assert_array_equal(found, np.full_like(x, 0.125))


def test_vectors_are_those_of_the_machine():
    made = done_by(collapsed, nest(FORMS["contiguous"][0], lanes=2), {}, ())
    (loop,) = (each for each in walk(made.body) if isinstance(each, For))
    assert loop.lanes == CPU.lanes(8)
    assert loop.parallel
    assert not loop.whole


def test_arrays_that_are_one_are_looked_at_together():
    shifted = nest(Store(Y, (A, B, C), at(X, A, 4 - B, C)))
    assert loops(done_by(collapsed, shifted, {Y: X}, ())) == [3, 5, 7]


def test_shapes_that_a_routine_expects_stay():
    plain = nest(FORMS["contiguous"][0])
    called = Nest((*plain.body, Call("f", (), reads=(Y,), writes=())), ())
    assert loops(done_by(collapsed, called, {}, ())) == [3, 5, 7]
    assert loops(done_by(collapsed, plain, {}, [X])) == [3, 5, 7]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 3, 5), "f4"), ((0, 2, 3), "f8"), ((2, 17, 1), "f8"), ((3, 17, 9), "f4")],
)
def test_programs(shape, dtype, monkeypatch):
    monkeypatch.setattr(config, "threads", 3)
    monkeypatch.setattr(config, "parallel_threshold", 0)
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)

    def function(x):
        return x[1:] * 2, x[:-1] + x.sum(0), x.transpose(1, 0, 2) - x[:, :, ::-1].transpose(1, 0, 2)

    for one, other in zip(jit(function)(x), function(x), strict=True):
        np.testing.assert_array_equal(one, other)
    wanted = np.maximum(x, 0) * 2
    np.testing.assert_array_equal(
        jit(lambda x: np.maximum(x, 0) * 2, donate_argnums=0)(x.copy()), wanted
    )

"""Loop bodies are divided into kernels only where no value local to a kernel is lost."""

import numpy as np
import pytest

from functrans import config, grad, jacfwd, jit, lax, vmap
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.verify import verify
from functrans.optimise import optimise
from tests.loop.plans import evaluate_plan, shuffled
from tests.targets import target

RNG = np.random.default_rng(0)
LONG = 300

MOVED = {
    "roll": lambda x, axis: np.roll(np.sin(x), 3, axis=axis),
    "tile": lambda x, axis: np.tile(np.sin(x), [2 if i == axis else 1 for i in range(x.ndim)]),
    "wrap": lambda x, axis: np.pad(np.sin(x), along(x, axis, (2, 3)), mode="wrap"),
    "symmetric": lambda x, axis: np.pad(np.sin(x), along(x, axis, (2, 3)), mode="symmetric"),
    "repeat": lambda x, axis: np.repeat(np.sin(x), 2, axis=axis),
    "turn": lambda x, axis: np.take(np.sin(x), np.arange(x.shape[axis])[::-1], axis=axis),
    "insert": lambda x, axis: np.insert(np.sin(x), 7, 1.0, axis=axis),
    "concatenate": lambda x, axis: np.concatenate([np.sin(x), np.sin(x)], axis=axis),
}


def along(x, axis, width):
    return [width if i == axis else (0, 0) for i in range(x.ndim)]


@pytest.fixture(autouse=True)
def _threads_share_everything(monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    monkeypatch.setattr(config, "threads", 3)


@pytest.mark.parametrize("shape", [(1, LONG), (1, 1, LONG), (1, LONG, 1), (1, 4, 2600)])
@pytest.mark.parametrize("name", MOVED)
def test_a_row_is_read_where_it_was_written(name, shape):
    x = RNG.standard_normal(shape)
    axis = int(np.argmax(shape))
    compiled = jit(lambda x: MOVED[name](x, axis))
    np.testing.assert_allclose(compiled(x), MOVED[name](x, axis), rtol=1e-13)


def test_a_batch_of_one():
    x = RNG.standard_normal((1, LONG))
    got = jit(vmap(lambda row: MOVED["concatenate"](row, 0)))(x)
    np.testing.assert_allclose(got, MOVED["concatenate"](x, 1), rtol=1e-13)


def test_independent_sums_along_a_row_share_a_loop():
    def moments(x):
        return np.sum(x, axis=1), np.sum(x * np.roll(x, 1), axis=1), np.max(x, axis=1)

    x = RNG.standard_normal((33, LONG))
    for one, other in zip(jit(moments)(x), moments(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)

    def of_two(x, m):
        above, below = np.where(m, np.exp(x), 0).sum(1), np.where(m, 0, np.exp(x)).sum(1)
        return above / (above + below)

    m = x > 0
    assert jit(of_two).lower(x, m).schedule().count("add over") == 1
    np.testing.assert_allclose(jit(of_two)(x, m), of_two(x, m), rtol=1e-12)


STRIDED = {
    "even elements": (lambda x: np.sum(x[..., ::2] ** 2), (LONG,)),
    "of an odd number": (lambda x: np.sum(x[..., ::2] ** 2), (LONG + 1,)),
    "pairs": (lambda x: np.sum(x[:-1:2] * x[1::2]), (LONG + 1,)),
    "threes": (lambda x: np.sum(x[1::3] ** 2), (LONG + 2,)),
    "twos and fours": (lambda x: np.sum(x[::2] ** 2) + np.sum(x[1::4] ** 3), (LONG,)),
    "backwards": (lambda x: np.sum(x[::-2] ** 3), (LONG + 1,)),
    "rows": (lambda x: np.sum(x[::2] ** 2), (33, 50)),
    "rows and columns": (lambda x: np.sum(x[1::2, ::3] ** 2), (33, 50)),
    "both": (lambda x: np.sum(x[::2, 1::2] * x[1::2, ::2]), (32, 50)),
}


@pytest.mark.parametrize("name", STRIDED)
def test_what_is_scattered_with_a_step_is_written_without_conditions(name):
    function, shape = STRIDED[name]
    x = RNG.standard_normal(shape)
    found = jit(grad(function))
    np.testing.assert_allclose(found(x), grad(function)(x), rtol=1e-13)
    source = found.lower(x).source()
    assert "irem" not in source and "idiv" not in source


def test_threads_share_the_only_row():
    plan = jit(lambda x: np.sin(x) + 1).lower(RNG.standard_normal((1, 1, LONG))).schedule()
    assert "in 0..300 in parallel" in plan


def test_a_sum_is_known_to_the_row_that_it_is_added_to():
    x, c = RNG.standard_normal((20, LONG)), RNG.standard_normal((21, 30))

    def padded(x, c):
        return np.pad(x, ((1, 0), (0, 0))) + np.sum(c, axis=1)[:, None]

    np.testing.assert_allclose(jit(padded)(x, c), padded(x, c), rtol=1e-12, atol=1e-12)


def test_a_sum_is_known_to_the_jacobian_that_it_is_part_of():
    u = RNG.standard_normal(LONG)
    jacobian = jacfwd(lambda p: p[0] * np.sum(p) * u)

    def gram(p):
        j = jacobian(p)
        return j.T @ j

    p = RNG.standard_normal(LONG)
    np.testing.assert_allclose(jit(gram)(p), gram(p), rtol=1e-10)


@pytest.mark.parametrize("rows", [2, 21])
def test_long_pieces_are_shared_and_short_ones_come_once(rows):
    """A row in front, rolled, of rows that are not."""
    x = RNG.standard_normal((rows, LONG))

    def framed(x):
        y = np.sin(x)
        return np.concatenate([np.roll(y[:1], 5, axis=1), y, np.cos(y[-1:])]), y

    for got, expected in zip(jit(framed)(x), framed(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(2, 65), (2, 65, 3), (2, 3, 65)])
def test_rows_without_room_make_loops_serial_however_deep(shape):
    """The loop over lanes is inside of that over steps: lanes that share a row come in turn."""

    def steps(x):
        return lax.fori_loop(0, 2, lambda _, y: np.roll(np.sin(y), 1) + 0.1, x)

    x = RNG.standard_normal(shape)
    graph, captures, *_ = jit(vmap(steps)).program_for((x,), {})
    plan = pipeline.plan(optimise(graph), target(CPU, largest_stack=256))
    verify(plan)
    (found,), status = evaluate_plan(plan, [x, *captures], shuffled(1))
    expected = [np.roll(np.sin(np.roll(np.sin(row), 1) + 0.1), 1) + 0.1 for row in x]
    assert status == 0
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_number_that_is_stored_for_others_stays_in_a_local_for_its_row():
    x = RNG.standard_normal((20, LONG))

    def shifted(x):
        most = np.max(x, axis=1)
        return most, np.exp(x - most[:, None])

    lowered = jit(shifted).lower(x)
    assert "operations on in0, max" in str(lowered.schedule())
    for found, expected in zip(jit(shifted)(x), shifted(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)

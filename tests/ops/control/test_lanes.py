"""While loops differentiated in reverse under vmap: one native loop over lanes."""

import numpy as np
import pytest

from functrans import config, grad, jit, lax, value_and_grad, vmap
from functrans.ops.control.compiled import growing
from functrans.ops.control.compiled.lanes import extent_of


def decayed(x, shrinks=0.9):
    """A loop of as many steps as the argument says: none of them for negative ones."""

    def goes_on(state):
        return state[1] > 0.01

    def step(state):
        value, left = state
        return np.sin(value) + 0.3 * x, left * shrinks * np.exp(-0.1 * x)

    start = np.where(x > 0, 1.0, 0.0) + 0.0 * x
    return lax.while_loop(goes_on, step, (x * x, start))[0]


def one_by_one(f, *arrays):
    return np.stack([f(*each) for each in zip(*arrays, strict=True)])


@pytest.fixture
def no_python_loop(monkeypatch):
    def refused(*args):
        raise AssertionError("lanes are run one after the other by Python")

    monkeypatch.setattr(growing, "_step_by_step", refused)


LENGTHS = [1, 2, 17, 300]


@pytest.mark.dear
@pytest.mark.parametrize("lanes", LENGTHS)
def test_gradients_of_lanes(lanes, no_python_loop):
    x = np.random.default_rng(lanes).uniform(-0.5, 3, lanes)
    found = jit(vmap(grad(decayed)))(x)
    np.testing.assert_allclose(found, one_by_one(grad(decayed), x), rtol=1e-13, atol=1e-15)
    h = 1e-6
    slopes = [(decayed(each + h) - decayed(each - h)) / (2 * h) for each in x]
    np.testing.assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)


def test_lanes_of_no_steps(no_python_loop):
    np.testing.assert_array_equal(jit(vmap(grad(decayed)))(np.array([-1.0, -2.0])), [-2.0, -4.0])


@pytest.mark.dear
def test_lanes_along_other_axes_with_shared_numbers(no_python_loop):
    def f(x, w):
        def step(state):
            value, left = state
            return np.tanh(w @ value), left - value[0] ** 2 - 0.1

        return np.sum(lax.while_loop(lambda state: state[1] > 0, step, (x, 2.0))[0] ** 2)

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 40)), rng.normal(size=(3, 3))
    value, (dx, dw) = jit(vmap(value_and_grad(f, (0, 1)), in_axes=(1, None)))(x, w)
    for lane in range(40):
        expected, slopes = value_and_grad(f, (0, 1))(x[:, lane], w)
        np.testing.assert_allclose(value[lane], expected, rtol=1e-13)
        np.testing.assert_allclose(dx[lane], slopes[0], rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(dw[lane], slopes[1], rtol=1e-11, atol=1e-14)


@pytest.mark.dear
def test_two_loops_one_after_the_other(no_python_loop):
    def f(x):
        y = decayed(x)
        return decayed(np.abs(y) + 0.2, 0.8) * y

    x = np.random.default_rng(0).uniform(0.1, 2, 50)
    found = jit(vmap(grad(f)))(x)
    np.testing.assert_allclose(found, one_by_one(grad(f), x), rtol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bits_do_not_depend_on_the_number_of_threads(threads, monkeypatch):
    x = np.random.default_rng(0).uniform(-0.5, 3, 200)
    alone = jit(vmap(grad(decayed)))(x)
    monkeypatch.setattr(config, "threads", threads)
    monkeypatch.setattr(config, "parallel_threshold", 1)
    np.testing.assert_array_equal(jit(vmap(grad(decayed)))(x), alone)


def test_other_numbers_of_steps_at_the_next_call(no_python_loop):
    f = jit(vmap(grad(decayed)))
    for seed, most in enumerate((0.2, 3, 0.05, 1)):
        x = np.random.default_rng(seed).uniform(0.02, most, 20)
        np.testing.assert_allclose(f(x), one_by_one(grad(decayed), x), rtol=1e-12)


@pytest.mark.dear
def test_one_lane_that_is_much_longer_is_given_no_room_in_all():
    """The room would be that of the longest lane, in each."""
    x = np.full(300, -1.0)
    x[7] = 1e-3
    found = jit(vmap(grad(lambda x: decayed(x, 0.9999))))(x)
    expected = one_by_one(grad(lambda x: decayed(x, 0.9999)), x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: vmap(vmap(grad(f))), lambda f: vmap(grad(lambda x: np.sum(vmap(f)(x)))),
        lambda f: vmap(vmap(grad(grad(f)))),
    ],
    ids=["lanes of lanes", "a sum over lanes", "second derivatives"],
)  # fmt: skip
def test_what_is_nested(transform):
    x = np.random.default_rng(0).uniform(0.1, 2, (4, 5))
    expected = transform(decayed)(x)
    np.testing.assert_allclose(jit(transform(decayed))(x), expected, rtol=1e-11)


def test_room_is_a_power_of_two():
    assert [extent_of(n) for n in (0, 1, 16, 17, 1000)] == [16, 16, 16, 32, 1024]

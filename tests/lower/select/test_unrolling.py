"""Unrolling of very short vectors; longer ones become vector loops."""

import re

import numpy as np
import pytest

from functrans import grad, jit, lax
from functrans.run.code import host
from tests.targets import take_host_for

RNG = np.random.default_rng(0)
LANES = host.target().lanes(8)
VECTORS = re.compile(f"by ({LANES}|{2 * LANES})\\b")  # one, or two side by side


@pytest.mark.parametrize("size", [17, 20, 33, 50, 64])
def test_a_carry_of_some_length_goes_along_vectors(size):
    w, x = RNG.standard_normal(size), RNG.standard_normal(size)
    step = lambda c, _: (c - 0.1 * np.sin(c) * w, c.sum())  # noqa: E731
    function = lambda x: lax.scan(step, x, None, length=20)  # noqa: E731
    assert VECTORS.search(jit(function).lower(x).schedule().split("for t in")[1])
    for one, other in zip(jit(function)(x), function(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [8, 11, 16])
def test_short_vectors_with_much_work_do_too(size):
    w, x = RNG.standard_normal((size, size)), RNG.standard_normal(size)

    def loss(w, x):
        def step(c, _):
            return np.log(np.sum(np.exp(c[:, None] + w), axis=0)) - 2, None

        return np.sum(lax.scan(step, x, None, length=20)[0])

    assert VECTORS.search(jit(loss).lower(w, x).schedule().split("for t in")[1])
    compiled = jit(grad(loss, argnums=(0, 1)))(w, x)
    for one, other in zip(compiled, grad(loss, argnums=(0, 1))(w, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [8, 10, 14, 16, 24])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_values_of_a_step_with_some_work_are_vectors(size, dtype):
    """Also its copies, which would be single elements of what has been stored as a vector."""
    x = RNG.uniform(1, 2, size).astype(dtype)

    def loss(x):
        def step(c, _):
            return c / (1 + c * c) + np.sqrt(c) / 2, c

        last, stacked = lax.scan(step, x, None, length=20)
        return np.sum(last) + np.sum(stacked * x)

    steps = jit(loss).lower(x).schedule().split("for t in")[1]
    assert "[t, 0]" not in steps and re.search(r"by \d+", steps)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(jit(loss)(x), loss(x), rtol=rtol)
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=rtol)


@pytest.mark.parametrize(
    ("size", "lanes"), [(3, set()), (4, {"4"}), (5, set()), (6, {"4"}), (7, {"4"})]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_elements_with_much_work_are_half_vectors(size, lanes, dtype):
    """Not five: two vectors for one element more than one holds."""
    w, x = RNG.standard_normal((size, size)).astype(dtype), RNG.standard_normal(size).astype(dtype)

    def loss(w, x):
        def step(c, _):
            gate = 1 / (1 + np.exp(-c * w[0]))
            return gate * np.tanh(w @ c) + (1 - gate) * c[0], c

        last, stacked = lax.scan(step, x, None, length=20)
        return np.sum(last * last) + np.sum(stacked * x)

    steps = jit(loss).lower(w, x).schedule().split("for t in")[1]
    assert set(re.findall(rf"for \w in 0..{size}\b.* by (\d+)", steps)) == lanes
    rtol = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(jit(loss)(w, x), loss(w, x), rtol=rtol)
    for one, other in zip(
        jit(grad(loss, argnums=(0, 1)))(w, x), grad(loss, argnums=(0, 1))(w, x), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def test_joined_values_of_a_step_stay_numbers():
    """Vectors would have to be put together from their elements."""
    x = RNG.standard_normal(12)
    rolled = lambda c: (np.roll(c, 1) - np.roll(c, -2)) * np.roll(c, 3) - c + 8  # noqa: E731
    function = lambda x: lax.fori_loop(0, 9, lambda _, c: c + rolled(c) / 100, x)  # noqa: E731
    assert "by " not in jit(function).lower(x).schedule().split("for t in")[1]
    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-12)


@pytest.mark.parametrize("size", [9, 10, 14, 17, 20, 28])
def test_vectors_of_few_lanes_take_each_step_together(size, monkeypatch):
    """None overlaps, and none waits until another has taken all steps."""
    take_host_for(monkeypatch, vector_bytes=64, registers=32)
    x = RNG.standard_normal(size)
    function = lambda x: lax.scan(lambda c, _: (np.tanh(c), c), x, None, 20)  # noqa: E731
    text = jit(function).lower(x).schedule()
    assert VECTORS.search(text.split("for t in")[1])
    for one, other in zip(jit(function)(x), function(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_short_vectors_with_little_work_stay_numbers():
    step = lambda c, _: (c * 0.9 + 1, None)  # noqa: E731
    x = RNG.standard_normal(12)
    text = jit(lambda x: lax.scan(step, x, None, length=20)[0]).lower(x).schedule()
    assert "by " not in text.split("for t in")[1]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13, 20, 24, 40, 50, 80, 100])
@pytest.mark.parametrize("rows", [15, 16, 17, 19, 50, 203])
def test_sums_down_columns(rows, count):
    x = RNG.standard_normal((rows, count))
    y = RNG.standard_normal(rows)
    function = lambda x, y: (np.sum(x, 0), np.max(x, 0), np.sum(x * y[:, None], 0))  # noqa: E731
    for one, other in zip(jit(function)(x, y), function(x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_what_columns_share_is_computed_once():
    x = RNG.standard_normal((20, 30, 40))
    function = lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)  # noqa: E731
    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-10)
    lines = jit(function).lower(x).schedule().splitlines()
    (last,) = [line for line in lines if "out0[" in line]
    assert "2 operations" in last


@pytest.mark.parametrize("width", [32, 100])
def test_sums_down_columns_do_not_join_the_rows_that_use_them(width):
    d, x = RNG.standard_normal((300, 300)), RNG.standard_normal((300, width))
    function = lambda d, x: x * np.tanh(d).sum(0)[:, None]  # noqa: E731
    schedule = jit(function).lower(d, x).schedule()
    outside = schedule.split("out0[")[0].rsplit("nest", 1)[1]
    assert "add over" not in outside
    np.testing.assert_allclose(jit(function)(d, x), function(d, x), rtol=1e-10, atol=1e-12)


def test_triangles_are_written_out_and_no_table_is_left():
    rows, columns = np.triu_indices(9)

    def triangle(v):
        whole = np.zeros((len(v), 9, 9))
        whole[:, rows, columns] = v
        return whole

    v = RNG.standard_normal((300, 45))
    kernels = jit(triangle).lower(v).stages().split("== kernel construction")[1]
    assert "lookup" not in kernels
    np.testing.assert_array_equal(jit(triangle)(v), triangle(v))


@pytest.mark.parametrize("shape", [(300, 16, 4), (2600, 9, 3), (300, 3, 3), (17, 12, 2, 3)])
def test_sums_before_short_axes_go_along_an_axis_that_fills_vectors(shape):
    x, e = RNG.standard_normal(shape), RNG.standard_normal((*shape[:2], *(1,) * len(shape[2:])))
    m = RNG.standard_normal(shape[1:])

    def sums(x, m, e):
        return np.sum(x * m, 0), np.sum(x * e, 0), np.max(x - e, 0), np.mean((x - m) * e, 0)

    for one, other in zip(jit(sums)(x, m, e), sums(x, m, e), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_their_elements_are_loaded_as_neighbours():
    x, e = np.ones((3000, 16, 4)), np.ones((3000, 16, 1))
    schedule = jit(lambda x, e: np.sum(x * e, 0)).lower(x, e).schedule()
    assert "for j in 0..16 by" in schedule


def test_a_sum_of_all_elements_leaves_the_last_axis_to_vectors():
    def total(x):
        rows = np.exp(x).swapaxes(0, 1)
        _, out = lax.scan(lambda c, r: (c + r, c * r), np.zeros((4, 16)), rows)
        return np.mean(out * out)

    x = RNG.standard_normal((4, 130, 16))
    assert "[i, 1, 1] =" not in jit(total).lower(x).schedule()
    np.testing.assert_allclose(jit(total)(x), total(x), rtol=1e-12)


WIDE = RNG.normal(size=(4, 20, 8, 8))
LAYERS = {
    "elementwise": (lambda x: np.maximum(x, 0) * 2, (4, 20, 8, 8)),
    "mean pooling": (
        lambda x: (x.reshape(4, 20, 7, 2, 7, 2) ** 2).mean((3, 5)).reshape(4, -1),
        (4, 20, 14, 14),
    ),
    "repeated elements": (lambda x: x.repeat(2, 2).repeat(2, 3) * np.sin(WIDE), (4, 20, 4, 4)),
    "slices": (lambda x: x[:, :, ::2, ::2] * 1, (20, 16, 3, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_elements_with_nothing_in_common_are_loops(name, dtype):
    """They used to be written out for as many as 64, in vectors of distant elements."""
    function, shape = LAYERS[name]
    x = RNG.normal(size=shape).astype(dtype)
    lowered = jit(function).lower(x)
    assert len(lowered.schedule().splitlines()) < 30
    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-6)


def test_elements_that_share_operations_are_written_out():
    def products(u, v):
        return np.exp(u)[:, :, None] * np.exp(v)[:, None, :]

    u, v = RNG.normal(size=(2, 100, 5))
    assert "out0[i, 4, 4]" in jit(products).lower(u, v).schedule()
    np.testing.assert_allclose(jit(products)(u, v), products(u, v), rtol=1e-14)

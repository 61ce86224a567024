"""Loop tiling of nests that read arrays against their memory order."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.run.code import host
from tests.targets import take_host_for

RNG = np.random.default_rng(0)


@pytest.fixture
def small_cache(monkeypatch):
    take_host_for(monkeypatch, cache=1 << 10)


def tiled(function, *args):
    return "for block in" in jit(function).lower(*args).schedule()


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(40, 50), (33, 130), (600, 37), (128, 128), (517, 301)])
def test_transposes_with_something_computed(shape, dtype):
    x = (RNG.standard_normal(shape) * 3).astype(dtype)
    y = (RNG.standard_normal(shape[::-1]) * 3).astype(dtype)
    function = lambda x, y: np.where(x.T > y, x.T, y)  # noqa: E731
    assert tiled(function, x, y)
    np.testing.assert_array_equal(jit(function)(x, y), function(x, y))


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("axes", [(2, 0, 1), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_axes_in_any_order(axes):
    x = RNG.standard_normal((40, 50, 60))
    np.testing.assert_array_equal(jit(lambda x: x.transpose(axes) + 1)(x), x.transpose(axes) + 1)


@pytest.mark.usefixtures("small_cache")
def test_a_gradient_through_a_transpose():
    x = RNG.standard_normal((70, 70))
    loss = lambda x: np.sum(np.tanh(x.T + x) * x)  # noqa: E731
    assert tiled(grad(loss), x)
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=1e-12)


@pytest.mark.parametrize(("width", "cut"), [(512, True), (500, False), (64, False)])
def test_lines_a_power_of_two_apart_are_soon_gone(width, cut):
    x = RNG.standard_normal((600, width))
    schedule = jit(lambda x: x.T + 1).lower(x).schedule()
    assert schedule.count("for block in") == 1 + cut
    np.testing.assert_array_equal(jit(lambda x: x.T + 1)(x), x.T + 1)


@pytest.mark.usefixtures("small_cache")
def test_what_lies_in_order_is_not_cut():
    x = RNG.standard_normal((70, 70))
    assert not tiled(lambda x: x * 2 + x[::-1], x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, np.bool_])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 12, 16, 17, 24, 33, 70, 300])
def test_few_and_many_rows(rows, dtype):
    """All of few rows are done together, of many rows as many as make vectors."""
    x, y = (RNG.integers(0, 2, shape).astype(dtype) for shape in ((270, rows), (rows, 270)))
    function = lambda x, y: np.where(x.T > y, x.T, y)  # noqa: E731
    np.testing.assert_array_equal(jit(function)(x, y), function(x, y))
    blocks = lambda x: np.transpose(x.reshape(27, 10, rows), (2, 0, 1)) + x[0, 0]  # noqa: E731
    np.testing.assert_array_equal(jit(blocks)(x), blocks(x))


def test_rows_of_a_transpose_are_read_as_vectors():
    """No element of a matrix is fetched by itself."""
    x, lanes = RNG.standard_normal((300, 200)), host.target().lanes(8)
    few = lanes + lanes // 2
    for function in (lambda x: np.tanh(x).T, lambda x: x[:, :few].T * 2):
        assert f"load <{lanes} x double>" in jit(function).lower(x).llvm()


@pytest.mark.parametrize("turned", [np.rot90, lambda x: x.T[::-1], lambda x: np.rot90(x, -1)])
def test_rows_of_a_matrix_that_is_turned_are_read_as_vectors(turned):
    """Blocks of a long loop end at its extent, near which offsets are known as neighbours."""
    x, lanes = RNG.standard_normal((400, 300)), host.target().lanes(8)
    function = lambda x: turned(x) * 2  # noqa: E731
    compiled = jit(function)
    np.testing.assert_array_equal(compiled(x), function(x))
    assert f"load <{lanes} x double>" in compiled.lower(x).llvm()


def test_rows_of_a_transpose_through_a_reshape_are_read_as_vectors():
    x, lanes = RNG.standard_normal((30, 50, 17)), host.target().lanes(8)
    function = lambda x: x.reshape(30, -1).T * 2  # noqa: E731
    compiled = jit(function)
    np.testing.assert_array_equal(compiled(x), function(x))
    assert f"load <{lanes} x double>" in compiled.lower(x).llvm()

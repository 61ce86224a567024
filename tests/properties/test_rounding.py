"""Sums and products are rounded separately, as in NumPy, in every kernel."""

import numpy as np
import pytest

from functrans import config, grad, jit, vmap
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from tests.emit.cuda.programs import emulate_plan
from tests.emit.cuda.special import needs_compiler

SHAPES = [(3, 5), (17, 33), (40, 300), (300, 40), (5, 2600), (2600, 3)]


def drawn(shape, dtype, count=4):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for _ in range(count)]


# A product that has another reader in one of the kernels, and none in the other.
def largest_and_squares(a, b, c, d):
    q = a * b
    return np.sum((q - c * d).max(axis=-1)) + np.sum(q * q)


def where_it_is_largest(a, b, c, d):
    q = a * b
    x = q - c * d
    return np.sum(np.where(x >= x.max(axis=-1, keepdims=True), q, 0))


def distance_to_the_largest(a, b, c, d):
    q = a * b
    x = q - c * d
    return np.sum(np.where(x - x.max(axis=-1, keepdims=True) == 0, q, 0)) + np.sum(x.max(0) * q[0])


PROGRAMS = [largest_and_squares, where_it_is_largest, distance_to_the_largest]


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", PROGRAMS)
def test_a_number_that_is_computed_twice_is_the_same_twice(function, shape, dtype):
    operands = drawn(shape, dtype)
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(jit(function)(*operands), function(*operands), **close)
    for number in range(4):
        gradient = grad(function, argnums=number)
        np.testing.assert_allclose(jit(gradient)(*operands), gradient(*operands), **close)


ARITHMETIC = {
    "difference of squares": lambda a, b, c, d: a * a - b * b,
    "determinant": lambda a, b, c, d: a * d - b * c,
    "discriminant": lambda a, b, c, d: b * b - 4 * a * c,
    "Horner": lambda a, b, c, d: ((a * b + c) * b + d) * b - a,
    "ratio": lambda a, b, c, d: (a * b + c) / (1 + d * d),
    "root": lambda a, b, c, d: np.sqrt(a * a + b * b) - np.abs(c * d + a),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_has_numpys_bits(name, dtype):
    function = ARITHMETIC[name]
    for shape in ((), (3,), (17, 33), (2600,)):
        operands = drawn(shape, dtype)
        expected = function(*operands)
        assert np.array_equal(jit(function)(*operands), expected)
        if shape:
            assert np.array_equal(jit(vmap(function))(*operands), expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_by_way_of_numba_has_numpys_bits(name, monkeypatch):
    monkeypatch.setattr(config, "backend", "numba")
    operands = drawn((17, 33), np.float64)
    assert np.array_equal(jit(ARITHMETIC[name])(*operands), ARITHMETIC[name](*operands))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_squares_have_no_difference(dtype):
    (a,) = drawn((300,), dtype, 1)
    assert not np.isnan(jit(lambda a, b: np.sqrt(a * a - b * b))(a, a)).any()
    points = a.reshape(100, 3)

    def squared_distances(x, y):
        return x[:, 0] * x[:, 0] - 2 * x[:, 0] * y[:, 0] + y[:, 0] * y[:, 0]

    assert np.array_equal(jit(squared_distances)(points, points), np.zeros(100, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_a_grid_has_numpys_bits(name, dtype):
    operands = drawn((17, 33), dtype)
    graph, *_ = jit(ARITHMETIC[name]).program_for(tuple(operands), {})
    (found,), status = emulate_plan(pipeline.plan(graph, CUDA), operands)
    assert status == 0
    assert np.array_equal(found, ARITHMETIC[name](*operands))


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("backend", ["native", "numba"])
def test_machine_code_for_a_gpu_fuses_totals_alone(backend, monkeypatch):
    monkeypatch.setattr(config, "backend", backend)
    x = np.ones((64, 64), np.float32)

    def ptx(function, *operands):
        return jit(function).lower(*operands, device="cuda").ptx()

    apart = ptx(ARITHMETIC["determinant"], x, x, x, x)
    assert "fma.rn.f32" not in apart and "mul.rn.f32" in apart
    assert "fma.rn.f32" in ptx(lambda x, y: x @ y, x, x)

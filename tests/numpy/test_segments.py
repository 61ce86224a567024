"""Ufuncs' `reduceat`: segments of an axis, of equal and of different lengths."""

import numpy as np
import pytest

from functrans import grad, jit

STARTS = {
    "equal, and a rest": np.arange(0, 103, 10),
    "a few lengths": [0, 10, 20, 30, 35, 40, 99],
    "backwards": [50, 2, 2, 102],
    "many lengths": np.arange(14) * np.arange(14) // 2,
    "single elements": np.arange(103),
    "none": np.zeros(0, int),
}


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("shape", [(103,), (103, 0)])
def test_segments_are_reduced(starts, shape):
    x = np.random.default_rng(0).normal(size=shape)
    for ufunc in (np.add, np.maximum):
        found = jit(lambda x, ufunc=ufunc: ufunc.reduceat(x, starts))(x)
        np.testing.assert_allclose(found, ufunc.reduceat(x, starts), rtol=1e-12, atol=1e-14)


def test_results_have_the_dtype_that_is_asked_for():
    x = np.arange(1, 10, dtype=np.int8)
    for ufunc in (np.add, np.multiply):
        expected = ufunc.reduceat(x, [0, 3, 6], dtype=np.int8)
        found = jit(lambda x, ufunc=ufunc: ufunc.reduceat(x, [0, 3, 6], dtype=np.int8))(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["logical_and", "logical_xor", "bitwise_or", "multiply"])
def test_other_ufuncs_reduce_segments(name):
    ufunc, x = getattr(np, name), np.random.default_rng(0).integers(0, 3, 23)
    found = jit(lambda x: ufunc.reduceat(x, [0, 5, 10, 20]))(x)
    np.testing.assert_array_equal(found, ufunc.reduceat(x, [0, 5, 10, 20]))
    assert found.dtype == ufunc.reduceat(x, [0, 5, 10, 20]).dtype


def test_the_gradient_repeats_what_each_segment_gets():
    x, weights = np.arange(103.0), np.arange(11.0)
    slope = jit(grad(lambda x: np.sum(np.add.reduceat(x, np.arange(0, 103, 10)) * weights)))(x)
    np.testing.assert_array_equal(slope, np.repeat(weights, 10)[:103])


def test_segments_of_equal_length_are_the_rows_of_a_matrix():
    program = jit(lambda x: np.add.reduceat(x, np.arange(0, 10_000, 50))).lower(np.ones(10_000))
    assert len(program.schedule().splitlines()) < 10

"""Compiled sums are about as accurate as NumPy's pairwise sums."""

import numpy as np
import pytest

from functrans import config, jit

EPS = float(np.finfo(np.float32).eps)

NUMBERS = [0.1, 0.3, 0.7]
"""Adding these again and again, rounding goes the same way for long."""

ENOUGH = 4 * EPS


def error(got, expected):
    return float(np.max(np.abs(np.asarray(got, np.float64) / expected - 1)))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("length", [1000, 10_000, 123_457, 1_000_000, 10_000_000])
def test_long_sums(length, number):
    x = np.full(length, number, np.float32)
    total = float(x[0]) * length
    assert error(jit(np.sum)(x), total) < ENOUGH
    assert error(jit(np.mean)(x), total / length) < ENOUGH


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 300_001), 1),
        ((300_001, 3), 0),
        ((300, 20_000), 1),
        ((600, 20_001), 1),
        ((20_000, 300), 0),
        ((100_000, 64), 0),
        ((10, 100, 1000), (0, 2)),
        ((1000, 7, 300), (0, 1)),
        ((3, 100_000, 4), (1, 2)),
        ((1000, 1000), None),
    ],
)
def test_sums_along_axes(shape, axis, number):
    x = np.full(shape, number, np.float32)
    expected = x.astype(np.float64).sum(axis=axis)
    assert error(jit(lambda x: np.sum(x, axis=axis))(x), expected) < ENOUGH


@pytest.mark.parametrize("length", [33, 100, 1023, 1025, 20_000, 131_073])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_every_number_is_added_once(length, dtype):
    """Whole numbers, so that sums are exact."""
    x = np.random.default_rng(0).integers(0, 9, (3, length)).astype(dtype)
    compiled = jit(lambda x: (np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1), np.sum(x.T, axis=0)))
    for got, expected in zip(
        compiled(x), (x.sum(), x.sum(axis=0), x.sum(axis=1), x.sum(axis=1)), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_what_is_made_of_sums():
    x = np.random.default_rng(0).uniform(size=200_000).astype(np.float32)
    exact = x.astype(np.float64)
    assert error(jit(np.var)(x), np.var(exact)) < ENOUGH
    assert error(jit(lambda x: np.einsum("i,i", x, x))(x), np.sum(exact**2)) < ENOUGH
    assert error(jit(lambda x: np.log(np.sum(np.exp(x))))(x), np.log(np.sum(np.exp(exact)))) < EPS


def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    x = np.random.default_rng(0).uniform(size=(700, 3000)).astype(np.float32)
    compiled = jit(lambda x: (np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1)))
    results = []
    for number in (1, 2, 3, 8):
        monkeypatch.setattr(config, "threads", number)
        results.append([each.tobytes() for each in compiled(x)])
    assert all(result == results[0] for result in results)


HALF_SUMS = {
    "sum": lambda x: x.sum(axis=-1),
    "sum of columns": lambda x: x.T.sum(axis=0),
    "mean": lambda x: x.mean(axis=-1),
    "product": lambda x: x @ x[:3].T,
    "einsum": lambda x: np.einsum("ij,ij->i", x, x[::-1]),
    "convolution": lambda x: np.convolve(x[0], x[1][:20]),
}


@pytest.mark.parametrize("length", [2, 3, 16, 17, 300, 2600])
@pytest.mark.parametrize("name", HALF_SUMS)
def test_half_floats_are_added_up_as_float32_and_rounded_once(name, length):
    """As NumPy does it: not even terms that cancel leave more than the rounding of the result."""
    x = np.random.default_rng(length).normal(size=(20, length)).astype(np.float16)
    function = HALF_SUMS[name]
    found = jit(function)(x)
    assert found.dtype == np.float16
    exact = function(x.astype(np.float64))
    spacing = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    # the sum of the terms' absolute values, as float32 rounds it
    slack = EPS * length * np.abs(x).max().astype(np.float64) ** 2
    assert (np.abs(found - exact) <= 0.5 * spacing + slack).all()

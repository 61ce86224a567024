"""Integers divided by powers of two: by bits, with the results of NumPy."""

import numpy as np
import pytest

from functrans import jit


@pytest.mark.parametrize("divisor", [1, 2, 64, 3, -2, 0])
@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u8"])
def test_quotients_and_remainders(dtype, divisor):
    limits = np.iinfo(dtype)
    if divisor < limits.min:
        pytest.skip("unsigned")
    ends = np.array([limits.min, limits.max, 0, 1, 2, 7], dtype)
    rng = np.random.default_rng(0)
    x = np.concatenate([ends, rng.integers(limits.min, limits.max, 100, dtype=dtype)])
    function = lambda x: (x % divisor, x // divisor)  # noqa: E731
    with np.errstate(divide="ignore", over="ignore"):
        expected = function(x)
    for one, other in zip(jit(function)(x), expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_power_of_two_is_no_division():
    source = jit(lambda x: x % 8 + x // 4).lower(np.arange(100)).source()
    assert "irem" not in source
    assert "idiv" not in source

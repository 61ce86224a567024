"""Division by constants without a division, against NumPy, to the bit."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.division import by_reciprocal
from functrans.loop.nodes import index
from functrans.loop.scalar import const, convert


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("divisor", [3, 7, 10, 255, -255, 257, 1000, 4095, 65535, 65537, 2**30 - 1])
def test_quotients_of_integers_are_rounded_as_by_a_division(dtype, divisor):
    rng = np.random.default_rng(divisor % 1000)
    every = np.arange(-(2**15), 2**16)
    for kind in "bBhHiIlL":
        limits = np.iinfo(kind)
        wide = rng.integers(limits.min, limits.max, 3000, kind, endpoint=True)
        near = (rng.integers(0, 2**20, 3000) * divisor + rng.integers(-1, 2, 3000)).astype(kind)
        ends = np.array([limits.min, limits.max, 0], kind)
        x = np.concatenate([every.astype(kind), wide, near, ends])
        expected = x.astype(dtype) / dtype(divisor)
        got = jit(lambda x: x.astype(dtype) / dtype(divisor))(x)
        bits = f"u{expected.itemsize}"  # also of zeros
        np.testing.assert_array_equal(got.view(bits), expected.view(bits))


def test_which_divisors_are_short_enough():
    x = convert(index("i", 9), np.float32)
    for divisor in (255, 3, -7, 65535):
        assert by_reciprocal(x, const(divisor, np.float32)) is not None
    for divisor in (0, 1, 256, 65537, 2.5, np.inf, np.nan):
        assert by_reciprocal(x, const(divisor, np.float32)) is None
    assert by_reciprocal(const(1.5, np.float32), const(255, np.float32)) is None

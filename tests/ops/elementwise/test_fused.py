"""Fused multiplications and additions round once, of half floats too."""

import numpy as np
import pytest

from functrans import jit
from functrans.ops.elementwise.fused import fma


@pytest.mark.parametrize("n", [1, 3, 17, 3000])
def test_half_floats_round_once(n):
    x, y, z = np.random.default_rng(n).normal(size=(3, n)).astype(np.float16)
    # doubles hold such products, and these sums, exactly
    expected = (x.astype(float) * y + z).astype(np.float16)
    np.testing.assert_array_equal(jit(fma)(x, y, z), expected)
    np.testing.assert_array_equal(fma(x, y, z), expected)

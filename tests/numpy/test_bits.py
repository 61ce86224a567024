"""Packed bits of arrays whose length is no multiple of eight, beside NumPy's."""

import numpy as np
import pytest

from functrans import jit


@pytest.mark.few(4)
@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize(
    "shape", [(0,), (1,), (7,), (8,), (17,), (2600,), (2, 0), (5, 300), (2, 3, 17)]
)
def test_packed_and_unpacked(shape, bitorder):
    bits = np.random.default_rng(0).integers(0, 3, shape).astype(np.uint8)
    for axis in (None, *range(len(shape))):

        def packed(x, axis=axis):
            return np.packbits(x, axis=axis, bitorder=bitorder)

        def unpacked(x, axis=axis):
            return np.unpackbits(x, axis=axis, bitorder=bitorder)

        for function, x in ((packed, bits), (packed, bits > 0), (unpacked, bits * np.uint8(77))):
            got, expected = jit(function)(x), function(x)
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)

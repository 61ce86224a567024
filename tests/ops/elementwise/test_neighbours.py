"""nextafter and spacing, compiled: NumPy's bits, at the edges of each dtype."""

import numpy as np
import pytest

from functrans import jit


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_neighbours_have_numpys_bits(dtype):
    info = np.finfo(dtype)
    edges = [0.0, 1.0, 2.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 3.7]
    x = np.array([*edges, *np.negative(edges), *np.random.default_rng(0).normal(size=40)], dtype)
    a, b = (each.ravel() for each in np.meshgrid(x, x))
    with np.errstate(all="ignore"):
        for found, expected in [
            (jit(np.nextafter)(a, b), np.nextafter(a, b)),
            (jit(np.spacing)(x), np.spacing(x)),
        ]:
            assert found.dtype == expected.dtype
            bits = f"u{expected.itemsize}"
            same = (found.view(bits) == expected.view(bits)) | (
                np.isnan(found) & np.isnan(expected)
            )
            assert same.all()

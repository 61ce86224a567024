"""Special operand values for device functions, and the availability of the compiler's packages."""

import numpy as np
import pytest

from functrans.run.cuda.compile import missing

needs_compiler = pytest.mark.skipif(
    bool(missing()), reason=f"kernels cannot be compiled here without {missing()}"
)

_REAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, 7.25, 1e-3, 1 / 3, 2.0**24 + 2, 65504.0, 65520.0,
    2.0**31, -(2.0**31), -(2.0**31) - 0.5, 2.0**31 - 1, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64,
    1e30, np.inf, -np.inf, np.nan, 2.0**-24, 2.0**-25, 1.0 + 2.0**-11, 2049.0,
]  # fmt: skip


def values(dtype):
    """Special numbers of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        about = np.finfo(dtype)
        rest = [about.max, about.tiny, about.smallest_subnormal, about.eps]
        with np.errstate(over="ignore"):
            return np.array([*_REAL, *rest], dtype)
    about = np.iinfo(dtype)
    numbers = {about.min, about.min + 1, about.max, about.max - 1, 0, 1, 2, 3, 7, 8, 31, 33, 63, 64}
    if dtype.kind == "i":
        numbers |= {-1, -2, -7, -64}
    return np.array(sorted(n for n in numbers if about.min <= n <= about.max), dtype)


def pairs(dtype):
    """Special numbers of a dtype, each with each."""
    every = values(dtype)
    first, second = np.meshgrid(every, every)
    return first.ravel(), second.ravel()


def assert_same(found, expected, context=""):
    """Equal bits, except for those of NaNs."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, context
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected), context)
        found, expected = (np.where(np.isnan(x), x.dtype.type(0), x) for x in (found, expected))
        found, expected = (x.view(f"u{x.itemsize}") for x in (found, expected))
    np.testing.assert_array_equal(found, expected, context)

"""Conversions from and to bfloat16 are bitwise those of ml_dtypes, for all values."""

import numpy as np
import pytest

from functrans import jit

ml_dtypes = pytest.importorskip("ml_dtypes")

NARROW = np.dtype(ml_dtypes.bfloat16)
ALL = np.arange(2**16, dtype=np.uint16).view(NARROW)
BACKENDS = ["native", "numba"]


def to_narrow(x):
    return x.astype(NARROW)


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype
    words = np.dtype(f"u{expected.itemsize}")
    np.testing.assert_array_equal(found.view(words), expected.view(words))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_number_as_a_single(backend):
    assert_same_bits(jit(lambda x: x.astype(np.float32), backend=backend)(ALL), ALL.astype("f4"))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i8", "i4", "i1", "u8", "?", "c8"])
def test_every_number_as_another(dtype):
    with np.errstate(all="ignore"):
        single = ALL.astype(np.float32)
        small = np.isfinite(single) & (single >= 0) & (single < 100)
        x = ALL if dtype in ("f8", "f2", "?", "c8") else ALL[small]
        expected = x.astype(dtype)
    np.testing.assert_array_equal(jit(lambda x: x.astype(dtype))(x), expected)


def singles():
    """All numbers, what is in the middle between two, and the neighbours of these; many others."""
    words = np.arange(2**16, dtype=np.uint32) << 16
    edges = [words, words + 0x8000, words + 0x7FFF, words + 0x8001, words | 0xFFFF]
    rest = np.random.default_rng(0).integers(0, 2**32, 10_000, dtype=np.uint32)
    return np.concatenate([*edges, rest]).view(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_single_is_rounded_to_the_nearest_and_nan_stays_quiet(backend):
    x = singles()
    with np.errstate(all="ignore"):
        expected = to_narrow(x)
    found = jit(to_narrow, backend=backend)(x)
    assert_same_bits(found, expected)
    assert (np.isnan(x) == np.isnan(found.astype(np.float32))).all()


@pytest.mark.parametrize("n", [0, 1, 2, 17, 300, 2600])
def test_any_number_of_them(n):
    x = singles()[5::7][:n]
    with np.errstate(all="ignore"):
        assert_same_bits(jit(to_narrow)(x), to_narrow(x))
        assert_same_bits(jit(to_narrow)(x[::-1]), to_narrow(x[::-1]))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i8", "i4", "u1", "?"])
def test_another_number_is_rounded_as_by_way_of_a_single(dtype):
    rng = np.random.default_rng(1)
    x = (rng.normal(size=3000) * 10.0 ** rng.integers(-3, 5, 3000)).astype(dtype)
    assert_same_bits(jit(to_narrow)(x), to_narrow(x))


def test_a_complex_number_loses_its_imaginary_part():
    x = np.array([1.0 + 2j, -3.25 - 1j], np.complex64)
    with pytest.warns(np.exceptions.ComplexWarning):
        found = jit(to_narrow)(x)
    assert_same_bits(found, x.real.astype(NARROW))


def test_constants():
    values = np.array([1.0, -0.0, np.inf, 1e-40, 3.14159], NARROW)
    for value in values:
        found = jit(lambda x, value=value: np.where(x > 0, value, x))(np.ones(5, NARROW))
        assert_same_bits(found, np.full(5, value))

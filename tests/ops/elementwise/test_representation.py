"""frexp, ldexp and bitwise_count, compiled: NumPy's bits, on CPUs and by kernels of a GPU."""

import numpy as np
import pytest

from functrans import jit
from tests.emit.cuda.programs import in_both_ways, plan

RNG = np.random.default_rng(0)
FLOATS = [np.float64, np.float32, np.float16]
FAR = [3, 150, 1100, 2200, 2**31 - 1]


def numbers(dtype, count=3000):
    """Numbers of any bits, and the edges of their dtype."""
    about, bits = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    any_bits = RNG.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    edges = [0.0, -0.0, 1.0, 0.5, np.inf, -np.inf, np.nan, about.max, about.tiny, 3.7]
    subnormal = np.arange(40) * about.smallest_subnormal
    return np.concatenate([any_bits, np.array(edges, dtype), subnormal.astype(dtype)])


def check(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        ordered = expected == expected
        np.testing.assert_array_equal(np.signbit(found[ordered]), np.signbit(expected[ordered]))


def by_kernel(function, *operands):
    return in_both_ways(plan(function, *operands), operands)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("far", FAR)
def test_ldexp_rounds_once(dtype, far):
    x = numbers(dtype)
    for kind in (np.int32, np.int64):
        n = RNG.integers(-far, far, len(x)).astype(kind)
        with np.errstate(all="ignore"):
            expected = np.ldexp(x, n)
        check(jit(np.ldexp)(x, n), expected)
        few = slice(-60, None)
        for found in by_kernel(np.ldexp, x[few], n[few]):
            check(found[0], expected[few])


@pytest.mark.parametrize("dtype", FLOATS)
def test_frexp_takes_numbers_apart(dtype):
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        both = np.frexp(x)
    for found, expected in zip(jit(np.frexp)(x), both, strict=True):
        check(found, expected)
    for found in by_kernel(lambda x: np.frexp(x)[1], x[-60:]):
        check(found[0], both[1][-60:])


@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_bits_are_counted(dtype):
    about = np.iinfo(dtype)
    x = RNG.integers(about.min, about.max, 500, dtype=dtype, endpoint=True)
    x[:3] = about.min, about.max, 0
    check(jit(np.bitwise_count)(x), np.bitwise_count(x))
    for found in by_kernel(np.bitwise_count, x[:40]):
        check(found[0], np.bitwise_count(x[:40]))


@pytest.mark.parametrize("power", [0, 1, 2, 5, 7, 31, 32, 33])
@pytest.mark.parametrize("dtype", "bBiL")
def test_integers_to_a_power_that_is_written_out(dtype, power):
    x = np.array([0, 1, 2, 3, 7, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)

    def function(x):
        return x**power

    check(jit(function)(x), function(x))
    assert jit(function)(x[3]) == function(x[3])
    if 0 < power <= 32:
        for found in by_kernel(function, x):
            check(found[0], function(x))


@pytest.mark.parametrize("function", [np.frexp, np.bitwise_count, np.ldexp])
def test_they_have_kernels(function):
    x = np.arange(40)
    operands = {np.frexp: [x * 1.5], np.bitwise_count: [x], np.ldexp: [x * 1.5, x]}[function]
    assert "no kernel" not in jit(function).lower(*operands, device="cuda").schedule()


@pytest.mark.parametrize("ufunc", [np.deg2rad, np.rad2deg])
def test_half_floats_are_converted_by_a_factor_of_single_precision(ufunc):
    x = np.arange(2**15, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(jit(ufunc)(x), ufunc(x))

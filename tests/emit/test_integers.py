"""Integers have the results of NumPy, also where they wrap or are divided by bits."""

import numpy as np
import pytest

import functrans.numpy
from functrans import jit

DIVISORS = [
    1, 2, 64, 3, 7, 641, -2, 0, -1, 10**9, 2**31 - 1, 2**32 + 1, 2**60 + 1, 2**62, 2**63 - 1,
    -(2**50) - 1, 2**63, 2**63 + 1, 2**64 - 1,
]  # fmt: skip


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u8"])
def test_quotients_and_remainders(dtype, divisor):
    limits = np.iinfo(dtype)
    if not limits.min <= divisor <= limits.max:
        pytest.skip("out of range")
    ends = np.array([limits.min, limits.max, 0, 1, 2, 7], dtype)
    rng = np.random.default_rng(0)
    drawn = rng.integers(limits.min, limits.max, 100, dtype=dtype)
    one = np.ones(1, dtype)
    multiples = drawn - drawn % (divisor or 1)
    near = [multiples + one, multiples, multiples - one]
    x = np.concatenate([ends, drawn, *near])
    function = lambda x: (x % divisor, x // divisor)  # noqa: E731
    with np.errstate(divide="ignore", over="ignore"):
        expected = function(x)
    assert_equal(jit(function)(x), expected)


def test_a_power_of_two_is_no_division():
    source = jit(lambda x: x % 8 + x // 4).lower(np.arange(100)).source()
    assert "irem" not in source
    assert "idiv" not in source


def test_vectors_are_divided_without_a_division():
    text = jit(lambda x: x // 10 + x % 1000).lower(np.arange(100)).llvm()
    for scalar in ("sdiv", "srem", "sitofp"):  # AVX2 cannot convert integers of 64 bits, either
        assert scalar not in text


INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_unknown_divisors(dtype):
    """Bits at random, multiples and what is beside them, the ends, 0 and -1."""
    rng = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    drawn = rng.integers(limits.min, limits.max, (2, 2000), dtype, endpoint=True)
    drawn >>= rng.integers(0, 8 * limits.dtype.itemsize, drawn.shape).astype(dtype)
    x, y = np.concatenate([extremes(dtype), drawn[0]]), np.concatenate([extremes(dtype), drawn[1]])
    function = lambda x, y: [x // y, x % y]  # noqa: E731
    with np.errstate(all="ignore"):
        for dividend in (
            x[::-1],
            x[:, None][:60],
            *(y * x[::-1] + near for near in np.arange(3).astype(dtype)),
        ):
            assert_equal(jit(function)(dividend, y), function(dividend, y))
        for divisor in extremes(dtype):
            assert_equal(jit(function)(x, divisor), function(x, divisor))


def extremes(dtype):
    """The ends of a dtype's range, and what is near 0 and near a number's width."""
    ends = np.iinfo(dtype)
    near = [-65, -33, -8, -2, -1, 0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 70, 127]
    numbers = {ends.min, ends.min + 1, ends.max // 2 + 1, ends.max - 1, ends.max, *near}
    return np.array(sorted(x for x in numbers if ends.min <= x <= ends.max), dtype)


def assert_equal(one, other):
    for compiled, numpy in zip(one, other, strict=True):
        np.testing.assert_array_equal(compiled, numpy)
        assert compiled.dtype == numpy.dtype


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shift", [np.left_shift, np.right_shift])
def test_everything_is_shifted_out(dtype, shift):
    x = extremes(dtype)
    constants = list(x)
    assert_equal(
        jit(lambda x: [shift(x, each) for each in constants])(x),
        [shift(x, each) for each in constants],
    )
    assert_equal(jit(lambda x, y: [shift(x, y)])(x[:, None], x), [shift(x[:, None], x)])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_operations_at_the_ends_of_the_range(dtype):
    x = extremes(dtype)

    def run(x, y):
        operations = (
            np.add, np.subtract, np.multiply, np.floor_divide, np.remainder, np.fmod, np.less_equal,
        )  # fmt: skip
        one = (np.reciprocal, np.negative, np.absolute, np.sign, np.square)
        return [f(x, y) for f in operations] + [f(x) for f in one]

    with np.errstate(all="ignore"):
        assert_equal(jit(run)(x[:, None], x), run(x[:, None], x))
        for each in (x[0], x[-1]):
            assert_equal(jit(lambda x, y=each: run(x, y))(x), run(x, each))


def test_numbers_wrap():
    def run(n):
        state = n
        for _ in range(3):
            state = (state * 6364136223846793005 + 1) * 6364136223846793005
        return n + 1 > n, n - 1 < n, n * 2**62 * 4, state, np.maximum(n, n + 1) // 8

    with np.errstate(all="ignore"):
        for n in (2**63 - 1, -(2**63), 12345):
            n = np.int64(n)
            assert_equal(jit(run)(n), run(n))


def test_a_counter_times_a_large_number_wraps():
    def run(x):
        counter = functrans.numpy.arange(100)
        scaled = counter * 2**60 + x
        return scaled // 2**60, scaled % 2**60, scaled < (counter + 1) * 2**60

    x = np.arange(100)
    assert_equal(jit(run)(x), run(x))


def test_hundreds_of_numbers_are_added():
    numbers = [np.int64(each) for each in range(500)]
    assert jit(sum)(numbers) == sum(numbers)


@pytest.mark.parametrize("source", ["f2", "f4", "f8"])
def test_floats_become_integers_as_in_c(source):
    numbers = [-(2.0**31), -32769.5, -129, -1.5, -0.0, 0.5, 128, 255.9, 256, 40000, 2.0**31 - 200]
    x = np.array([each for each in numbers if abs(each) < float(np.finfo(source).max)], source)
    run = lambda x: [x.astype(each) for each in INTEGERS]  # noqa: E731
    with np.errstate(all="ignore"):
        assert_equal(jit(run)(x), run(x))
        large = np.array([2.0**63, 1.5 * 2.0**63, 2.0**64 - 2.0**40], "f4")
        assert jit(lambda x: x.astype("u8"))(large).tolist() == large.astype("u8").tolist()


@pytest.mark.full
def test_the_text_shifts_and_converts_as_the_machine_code():
    def run(n, x):
        shifts = [f(n, each) for f in (np.left_shift, np.right_shift) for each in (3, 70)]
        return [*shifts, n * -(2**63), *(x.astype(each) for each in ("i1", "u4", "u8"))]

    n, x = extremes("i8"), np.tile([-2.5, -129, 200.5, 2.0e9], 5)
    with np.errstate(invalid="ignore"):
        assert_equal(jit(run, backend="numba")(n, x), run(n, x))

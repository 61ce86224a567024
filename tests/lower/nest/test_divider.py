"""Strength reduction of division and roots keeps the bits: ``functrans/lower/nest/divider.py``."""

import itertools
import random

import numpy as np
import pytest

from functrans import grad, jit, trace
from functrans.lower.pipeline import plan
from functrans.lower.plan import schedule
from functrans.optimise import optimise
from tests.targets import take_host_for, target

DIGITS = 53


@pytest.fixture(autouse=True)
def slow_division(monkeypatch):
    take_host_for(monkeypatch, slow_division=True)


def is_corrected(function, *args):
    """Whether quotients or roots are corrected by fused operations."""
    return "llvm.fma" in jit(function).lower(*args).llvm()


def hardest(divisor):
    """The dividends whose quotients by an odd integer are nearest to the middle of two floats.

    The quotient's digits and a half are an odd integer ``m``, and ``n * 2**s - m * divisor`` is a
    small number ``rest``: so ``m`` is known modulo ``2**s``.
    """
    for s, rest in itertools.product((DIGITS, DIGITS + 1), range(-5, 6, 2)):
        m = -rest * pow(divisor, -1, 2**s) % 2**s
        if m < 2**DIGITS:
            m += 2**DIGITS
        n, over = divmod(m * divisor + rest, 2**s)
        if over == 0 and 2 ** (DIGITS - 1) <= n < 2**DIGITS:
            yield n


def odd_integers(count):
    """Divisors of all digits, half of them with a mantissa of nearly only ones."""
    draw = random.Random(0)
    for _ in range(count // 2):
        yield draw.randrange(2 ** (DIGITS - 1), 2**DIGITS) | 1
        yield 2**DIGITS - 1 - 2 * draw.randrange(2**12)


def test_the_quotients_that_are_nearest_to_a_middle_are_rounded_right():
    divide = jit(lambda x, y: x / y)
    found = 0
    for divisor in odd_integers(300):
        dividends = np.array(list(hardest(divisor)), float)
        found += len(dividends)
        x = np.resize(dividends, 24)
        np.testing.assert_array_equal(divide(x, float(divisor)), x / divisor)
    assert found > 1000


EDGES = np.array(
    [0.0, -0.0, 1.0, -3.0, 49.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 3e-310, 2.0**-1022,
     2.0**-961, 2.0**-960, 2.0**-959, 1e-150, 1e150, 2.0**999, 2.0**1000, 1.1 * 2.0**1000,
     2.0**1023, -np.finfo(float).max, np.finfo(float).max, 0.1]
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*encountered in divide")
@pytest.mark.parametrize("divisor", EDGES)
@pytest.mark.parametrize("dividends", [EDGES, EDGES[2:5], np.tile(EDGES, 13)])
def test_edges_have_the_bits_of_divisions(divisor, dividends):
    def same(made, right):
        np.testing.assert_array_equal(made, right)
        zeros = right == 0
        np.testing.assert_array_equal(np.signbit(made)[zeros], np.signbit(right)[zeros])

    same(jit(lambda x, y: x / y)(dividends, divisor), dividends / divisor)
    same(jit(lambda x: x / divisor)(dividends), dividends / divisor)
    # divisors that differ between lanes
    others = np.roll(dividends, 1)
    pair = jit(lambda x, y, z: (x / z, y / z))
    for one, right in zip(pair(dividends, others, others), (dividends, others), strict=True):
        same(one, right / others)
    same(pair(dividends, others, np.full_like(others, divisor))[1], others / divisor)


def nearest_to_middles():
    """Numbers whose roots are nearest to the middle of two floats.

    Such a middle is an odd integer ``m`` of a digit more, and ``m * m - n * 2**s`` is small: a
    square root modulo ``2**s`` of a number that is 1 modulo 8, by Hensel's lemma.
    """
    for s, rest in itertools.product((DIGITS + 1, DIGITS + 2), range(-3999, 4000, 8)):
        m = 1
        for bit in range(3, s):
            if (m * m - rest) % 2 ** (bit + 1):
                m += 2 ** (bit - 1)
        for other in (m, -m, m + 2 ** (s - 1), 2 ** (s - 1) - m):
            middle = other % 2**s
            n, over = divmod(middle * middle - rest, 2**s)
            if over == 0 and 2**DIGITS <= middle < 2 ** (DIGITS + 1) and n < 2**DIGITS:
                yield float(n) * 2.0 ** (s % 2)


def test_the_roots_that_are_nearest_to_a_middle_are_rounded_right():
    x = np.array(list(nearest_to_middles()))
    assert len(x) > 500
    root = jit(np.sqrt)
    for number in (x, x * 2.0**-700, x * 2.0**900, 4 - np.arange(1, 999) * 2.0**-51):
        np.testing.assert_array_equal(root(number), np.sqrt(number))


@pytest.mark.filterwarnings("ignore:.*encountered in sqrt")
@pytest.mark.parametrize("count", [1, 3, 13])
def test_roots_of_edges_have_the_bits_of_roots(count):
    x = np.tile(EDGES, count)
    made, right = jit(np.sqrt)(x), np.sqrt(x)
    np.testing.assert_array_equal(made, right)
    np.testing.assert_array_equal(np.signbit(made[right == 0]), np.signbit(right[right == 0]))


ROWS = np.random.default_rng(0).standard_normal((7, 101))


def normalised(x):
    centred = x - np.mean(x, 1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, 1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("function", [
    lambda x: x / np.sum(x, 1, keepdims=True),
    lambda x: np.sum(x / np.sum(x)),
    normalised,
    grad(lambda x: np.sum(normalised(x) ** 3)),
    lambda x: np.where(x > 0, x / x[:, :1], x * 2 / x[:, :1]),
    lambda x: x / 7.0 / x[0],
    # divisors behind a condition that no element of the first row fulfils
    lambda x: np.pad(x / np.sum(x, 1, keepdims=True), ((1, 1), (1, 0))),
    lambda x: x[:0] / x[:, :1][:0],
    lambda x: x[:, :0] / x[:, 2:3],
])  # fmt: skip
def test_programs_with_shared_divisors(function):
    np.testing.assert_allclose(jit(function)(ROWS), function(ROWS), rtol=1e-12, atol=1e-13)


def test_divisors_are_shared_by_lanes_or_by_quotients(monkeypatch):
    x, y, z = np.ones((3, 1000))
    assert is_corrected(lambda x, y: x / y, x, 3.0)
    assert is_corrected(lambda x: x / 7.0, x)
    assert is_corrected(lambda x, y, z: (x / z, y / z), x, y, z)
    # a divisor for each quotient; powers of two; the same quotient in all lanes
    assert not is_corrected(lambda x, y, z: x / z + y / x, x, y, z)
    assert not is_corrected(lambda x: x / 8.0, x)
    assert not is_corrected(lambda x, y: x * (y / (y + 1)), x, 3.0)
    assert not is_corrected(lambda x, y: x / y, x.astype(np.float32), np.float32(3))
    # roots, alone or beside a few other operations
    assert is_corrected(np.sqrt, x)
    assert is_corrected(lambda x, y: x / np.sqrt(x * x + y * y) ** 3, x, y)
    assert not is_corrected(lambda x: np.sqrt(x)[0] * x, x)
    # machines that divide fast
    take_host_for(monkeypatch, slow_division=False)
    assert not is_corrected(lambda x, y: x / y, x, 3.0)


def test_threads_still_share_a_loop_whose_reciprocal_is_the_same_everywhere():
    """They share a loop that is alone in its kernel: a declaration before it kept them from it."""
    x, machine = np.ones(300_000), target(slow_division=True)
    for function in (lambda x, y: x / y, lambda x, y: x / np.sqrt(np.sum(y * y))):
        *_, last = schedule(plan(optimise(trace(function)(x, 3.0)), machine).steps)
        assert last.kernel.parallel is not None

"""Remainders of floats, compiled: NumPy's bits, also where quotients round to integers."""

import itertools

import numpy as np
import pytest

from functrans import jit

COUNT = 300


def operands(dtype):
    """Numbers of all kinds: bits at random, special ones, and quotients next to integers."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    size = np.dtype(dtype).itemsize
    bits = [np.frombuffer(rng.bytes(COUNT * size), dtype) for _ in "xy"]
    edges = [0.0, 1.0, 3.0, 0.1, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal]
    pairs = itertools.product([*edges, *np.negative(edges)], repeat=2)
    special = np.array(list(pairs), dtype).T
    whole = rng.integers(1, 2 ** (info.nmant + 1), COUNT).astype(dtype)
    divisors = rng.uniform(0.5, 2, COUNT).astype(dtype)
    multiples = whole * divisors
    near = [multiples, np.nextafter(multiples, dtype(0)), np.nextafter(multiples, info.max)]
    usual = [(10 * rng.standard_normal(COUNT)).astype(dtype), divisors]
    return np.concatenate([bits, special, usual, *([x, divisors] for x in near)], axis=1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("function", [np.fmod, np.remainder, np.floor_divide])
def test_remainders_have_numpys_bits(function, dtype):
    with np.errstate(all="ignore"):
        x, y = operands(dtype)
        expected = function(x, y)
        found = jit(function)(x, y)
    assert found.dtype == expected.dtype
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    same |= np.isnan(found) & np.isnan(expected)
    assert same.all(), [(x[k], y[k], found[k], expected[k]) for k in np.flatnonzero(~same)[:5]]

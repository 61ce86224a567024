"""Properties of evaluate() and of nodes on which vecmath relies."""

from fractions import Fraction

import numpy as np
import pytest

from functrans.loop.scalar import Scalar, const, evaluate, fma, lookup, postorder, unlikely
from functrans.vecmath.polynomial import two_product, two_sum
from tests.vecmath.reference import DTYPES, random_bits


def leaves(dtype, count):
    return tuple(Scalar("argument", (), np.dtype(dtype), k) for k in range(count))


def is_nearest(value, exact, dtype):
    """Whether no neighbour of the number is nearer to the exact value."""
    info = np.finfo(dtype)
    if not np.isfinite(value):
        return abs(exact) >= Fraction(float(info.max)) * (1 + Fraction(float(info.eps)) / 4)
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(value, dtype(s)) for s in (-np.inf, np.inf)]
    error = abs(Fraction(float(value)) - exact)
    return all(error <= abs(Fraction(float(n)) - exact) for n in neighbours if np.isfinite(n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["any bits", "cancelling", "a small addend"])
def test_fma_rounds_once(dtype, kind):
    rng = np.random.default_rng(0)
    if kind == "any bits":
        x, y, z = (random_bits(rng, dtype, 500) for _ in range(3))
    else:
        x, y = (rng.standard_normal(500).astype(dtype) for _ in range(2))
        z = -(x * y) if kind == "cancelling" else (x * y) * np.finfo(dtype).eps ** 2
        if kind == "a small addend":
            x, y = np.round(x * 8) / 8, np.round(y * 8) / 8
    a, b, c = leaves(dtype, 3)
    got = evaluate(fma(a, b, c), {a: x, b: y, c: z})
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    # a subnormal float64 may be rounded twice
    finite &= (np.abs(got) >= np.finfo(dtype).tiny) | (got == 0) | (dtype == np.float32)
    exact = [
        Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))
        for p, q, r in zip(x[finite], y[finite], z[finite], strict=True)
    ]
    wrong = [k for k, value in enumerate(got[finite]) if not is_nearest(value, exact[k], dtype)]
    assert finite.sum() > 100 and not wrong


def test_fma_of_infinities_and_zeros():
    values = np.array([0.0, -0.0, 1, -2, 1e300, np.inf, -np.inf, np.nan])
    x, y, z = (v.ravel() for v in np.meshgrid(values, values, values))
    a, b, c = leaves(np.float64, 3)
    got = evaluate(fma(a, b, c), {a: x, b: y, c: z})
    with np.errstate(all="ignore"):
        wide = np.longdouble(x) * np.longdouble(y) + np.longdouble(z)
        expected = wide.astype(np.float64)
    assert np.array_equal(got, expected, equal_nan=True)
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_error_free_sums_and_products(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(300).astype(dtype) * 2.0 ** rng.integers(-9, 9) for _ in range(2))
    x, y = x.astype(dtype), y.astype(dtype)
    a, b = leaves(dtype, 2)
    for (high, low), exact in (
        (two_sum(a, b), lambda p, q: p + q),
        (two_product(a, b), lambda p, q: p * q),
    ):
        highs, lows = (evaluate(part, {a: x, b: y}) for part in (high, low))
        for p, q, h, r in zip(x, y, highs, lows, strict=True):
            expected = exact(Fraction(float(p)), Fraction(float(q)))
            assert Fraction(float(h)) + Fraction(float(r)) == expected


def test_equal_nodes_are_one_node():
    (x,) = leaves(np.float64, 1)
    assert (x + 1.0) * x is (x + 1.0) * x
    assert const(0.0, np.float64) is not const(-0.0, np.float64)
    # 2**100 paths lead through this expression
    for _ in range(100):
        x = x * x
    assert len(postorder([x])) == 101


def test_lookup_and_unlikely():
    (x,) = leaves(np.int64, 1)
    element = lookup((1.5, 2.5, 4.5), x, np.float64)
    result = unlikely(x < 1, element * 0.0, element)
    assert np.array_equal(evaluate(result, {x: np.array([2, 0, 1])}), [4.5, 0.0, 2.5])

"""Powers of special values: as NumPy's scalars for scalars, as NumPy's arrays for arrays."""

import itertools

import numpy as np
import pytest

from functrans import grad, jit, jvp, vmap

SPECIAL = [0.0, 1.0, 2.0, 0.5, 1 / 3, 3.0, 1.5, np.inf, 1e-3, 1e3, np.nan]
VALUES = [sign * x for x in SPECIAL for sign in (1, -1)]


def eagerly(function, *args):
    """What a traced function computes on the way."""
    found = []

    def keep(*traced):
        result = function(*traced)
        found.append(np.array(result._known_value))
        return np.sum(result)

    grad(keep)(*args)
    return found[0]


def same(found, expected, what):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    rtol = {2: 2e-3, 4: 1e-6, 8: 1e-13}[expected.itemsize]
    np.testing.assert_allclose(found, expected, rtol=rtol, err_msg=str(what))
    signs = np.isnan(expected) | (np.signbit(found) == np.signbit(expected))
    assert np.all(signs), what


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scalars(dtype):
    compiled, both = jit(lambda x, y: x**y), [dtype(x) for x in VALUES]
    for x, y in itertools.product(both, both):
        expected = x**y
        same(eagerly(lambda x, y: x**y, x, y), expected, (x, y))
        same(eagerly(lambda x, y=y: x**y, x), expected, (x, y))
        same(eagerly(lambda y, x=x: x**y, y), expected, (x, y))
        same(compiled(x, y), expected, (x, y))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1 / 3, 1.5, 2.0, 3, 0, 0.0, -1.0, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_exponents_that_are_known(exponent, dtype):
    x = np.array(VALUES, dtype)
    for y in (exponent, dtype(exponent)):

        def power(x, y=y):
            return x**y

        scalars = [power(one) for one in x]
        for one, expected in zip(x, scalars, strict=True):
            same(eagerly(power, one), expected, (one, y))
        same(vmap(power)(x), np.array(scalars), y)
        same(jit(vmap(power))(x), np.array(scalars), y)
        same(eagerly(power, x), power(x), y)
        same(jit(power)(x), power(x), y)


def test_slopes_of_half_powers():
    for x in (4.0, 0.25, np.inf):
        for slope in (grad(lambda x: x**0.5), jit(grad(lambda x: x**0.5))):
            np.testing.assert_allclose(slope(x), 0.5 / np.sqrt(x))
    np.testing.assert_allclose(grad(grad(lambda x: x**0.5))(4.0), -0.25 * 4.0**-1.5)


@pytest.mark.parametrize("n", [-12, -3, -2, -1, 2, 3, 7, 31])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_powers_of_halves_are_numpys(n, shape):
    """They are computed in single precision: 1000**-2 is a half though 1000**2 is none."""
    for number in (1000.0, 300.0, 3.0, 1.1, -0.7, 65504.0, 0.0, np.inf):
        x = np.full(shape, number, np.float16)[()]
        with np.errstate(all="ignore"):
            expected = x**n
            slope = float(n) * x.astype(np.float64) ** (n - 1)
            found, tangent = jvp(lambda x: x**n, (x,), (np.ones_like(x),))
            compiled = jit(lambda x: x**n)(x)
            narrow = slope.astype(np.float16)
        for y in (found, compiled):
            assert y.dtype == np.float16
            np.testing.assert_array_equal(y, expected)
        np.testing.assert_allclose(tangent, narrow, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_signed_integers_and_uint64_have_powers_in_float64(dtype):
    x, y = np.array([1, 2, 3, 200], np.uint64), np.array([3, 2, -2, 0], dtype)
    for base, exponent in ((x, y), (y, x)):
        found, expected = jit(np.power)(base, exponent), np.power(base, exponent)
        assert found.dtype == expected.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-15)

"""Infinities and NaN affect only the results whose windows contain them, not padding."""

import itertools

import numpy as np
import pytest

import functrans
from functrans import jit, lax, vjp, vmap

BAD = [np.inf, -np.inf, np.nan]
MODES = ["full", "same", "valid"]


def drawn(*shape, bad=()):
    x = np.random.default_rng(len(shape)).normal(size=shape)
    for place, value in zip(bad, itertools.cycle(BAD), strict=False):
        x[place] = value
    return x


def equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def ways(f, *args):
    """Results of a function of vectors: eager, compiled, and of eight equal ones at once."""
    yield functrans.numpy.asarray(f(*args))
    yield vmap(f)(*(x[None] for x in args))[0]
    yield jit(f)(*args)
    yield jit(vmap(f))(*(np.stack([x] * 8) for x in args))[7]
    yield jit(vmap(f, in_axes=(None, 0)))(args[0], np.stack([args[1]] * 8))[7]


@pytest.mark.few(2)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (3, 5), (17, 4), (300, 17), (40, 40)])
@pytest.mark.parametrize("where", ["a", "v", "both"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_over_windows_are_numpys(n, m, where):
    a = drawn(n, bad=[0, n // 2] if where != "v" else [])
    v = drawn(m, bad=[m // 3, m - 1] if where != "a" else [])
    functions = [
        (lambda a, v, f=f, mode=mode: f(a, v, mode))
        for f in (np.convolve, np.correlate)
        for mode in MODES
    ]
    for f in (*functions, np.polymul):
        for found in ways(f, a, v):
            equal(found, f(a, v))


def convolved(a, v, w):
    """The derivatives of ``sum(w * np.convolve(a, v))``, product by product."""
    da, dv = np.zeros_like(a), np.zeros_like(v)
    for i, k in np.ndindex(len(a), len(v)):
        da[i] += w[i + k] * v[k]
        dv[k] += w[i + k] * a[i]
    return da, dv


@pytest.mark.parametrize("bad", ["a", "v", "w"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives(bad):
    sizes = {"a": 19, "v": 5, "w": 23}
    a, v, w = (drawn(n, bad=[0, n // 2] if name == bad else []) for name, n in sizes.items())

    def both(a, v, w):
        return vjp(np.convolve, a, v)[1](w)

    for found in (both(a, v, w), jit(both)(a, v, w)):
        for each, expected in zip(found, convolved(a, v, w), strict=True):
            equal(each, expected)


def layer(x, k, pad):
    """A convolution of images (N, C, H, W), tap by tap, with nothing around the images."""
    (n, _, *sizes), (o, _, *taps) = x.shape, k.shape
    places = [size + 2 * pad - tap + 1 for size, tap in zip(sizes, taps, strict=True)]
    out = np.zeros((n, o, *places))
    for at in np.ndindex(*places):
        for tap in np.ndindex(*taps):
            here = [p + t - pad for p, t in zip(at, tap, strict=True)]
            if all(0 <= i < size for i, size in zip(here, sizes, strict=True)):
                seen = x[(slice(None), slice(None), *here)]
                out[(slice(None), slice(None), *at)] += seen @ k[(slice(None), slice(None), *tap)].T
    return out


@pytest.mark.parametrize("shape", [(2, 1, 9, 9), (3, 8, 12, 12), (2, 17, 6, 7)])
@pytest.mark.parametrize("features", [1, 3, 16])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_layers(shape, features):
    # such as are done in registers, by BLAS, and element by element
    x = drawn(*shape)
    k = drawn(features, shape[1], 3, 3, bad=[(0, 0, 0, 0), (-1, -1, 1, 2)])

    def f(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), [(1, 1), (1, 1)])

    expected = layer(x, k, 1)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    equal(f(x, k), expected)
    equal(jit(f)(x, k), expected)


@pytest.mark.parametrize("features", [1, 16])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_derivative_by_a_kernel(features):
    x, k = drawn(4, 8, 12, 12), drawn(features, 8, 3, 3)
    ct = drawn(4, features, 12, 12, bad=[(0, 0, 0, 5), (1, -1, 11, 11)])

    def slope(x, k, ct):
        return vjp(lambda k: lax.conv_general_dilated(x, k, (1, 1), "SAME"), k)[1](ct)[0]

    expected = np.zeros_like(k)
    for tap in np.ndindex(3, 3):
        for at in np.ndindex(12, 12):
            here = [p + t - 1 for p, t in zip(at, tap, strict=True)]
            if all(0 <= i < 12 for i in here):
                place = (slice(None), slice(None))
                expected[(*place, *tap)] += ct[(*place, *at)].T @ x[(*place, *here)]
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    equal(slope(x, k, ct), expected)
    equal(jit(slope)(x, k, ct), expected)

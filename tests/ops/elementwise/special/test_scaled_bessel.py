"""Slopes of scaled Bessel and Airy functions, small differences far from 0: against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans.scipy import special

POINTS = [0.5, 5, 11.9, 12.1, 100, 249, 251, 1e4, 1e6, 1e8]


def slopes(name, x):
    """The first two derivatives at a positive point, by the recurrences of orders 0 and 1."""
    with mp.workdps(60):
        x = mp.mpf(float(x))
        if name[0] == "i":
            a, b = (mp.besseli(n, x) * mp.exp(-x) for n in (0, 1))
            turn = 1
        else:
            a, b = (mp.besselk(n, x) * mp.exp(x) for n in (0, 1))
            turn = -1
        da, db = turn * (b - a), turn * (a - b) - b / x
        further = turn * (db - da), turn * (da - db) - db / x + b / x**2
        return [float(n) for n in ((da, further[0]) if name[1] == "0" else (db, further[1]))]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 5e-6)])
@pytest.mark.parametrize("name", ["i0e", "i1e", "k0e", "k1e"])
def test_slopes(name, dtype, rtol):
    x = np.array(POINTS, dtype)
    first = grad(getattr(special, name))
    slope, second = jit(vmap(first)), jit(vmap(grad(first)))
    expected = np.array([slopes(name, point) for point in x]).T
    np.testing.assert_allclose(slope(x), expected[0], rtol=rtol)
    np.testing.assert_allclose(second(x), expected[1], rtol=100 * rtol)
    if name[0] == "i":
        parity = 1 if name == "i1e" else -1
        np.testing.assert_allclose(slope(-x), parity * expected[0], rtol=rtol)
    assert slope(np.array([np.inf], dtype))[0] == 0


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 5e-6)])
@pytest.mark.parametrize("name", ["ive", "kve"])
def test_slopes_of_any_order(name, dtype, rtol):
    for order in (2.0, 0.5, 3.7):
        for x in np.array([2.0, 3e3, 5e3, 1e6, 1e8], dtype):
            with mp.workdps(60):
                v, point = mp.mpf(order), mp.mpf(float(x))
                if name == "ive":
                    below, at, above = (mp.besseli(v + n, point) for n in (-1, 0, 1))
                    expected = ((below + above) / 2 - at) * mp.exp(-point)
                else:
                    below, at, above = (mp.besselk(v + n, point) for n in (-1, 0, 1))
                    expected = (at - (below + above) / 2) * mp.exp(point)
            slope = grad(lambda x, v: getattr(special, name)(v, x))
            for found in (slope(x, dtype(order)), jit(slope)(x, dtype(order))):
                np.testing.assert_allclose(found, float(expected), rtol=rtol)


def slopes_of_airy(number, x):
    """The first two derivatives of a scaled Airy function at a positive point."""
    with mp.workdps(80):
        x = mp.mpf(float(x))
        family, turn = (mp.airyai, 1) if number < 2 else (mp.airybi, -1)
        value, slope = family(x), family(x, derivative=1)
        scale = mp.exp(turn * mp.mpf(2) / 3 * x * mp.sqrt(x))
        pairs = [(value, slope), (slope, x * value), (x * value, value + x * slope)]
        (f, df), (_, ddf) = pairs[number % 2 : number % 2 + 2]
        e, de = turn * mp.sqrt(x), turn / (2 * mp.sqrt(x))  # slopes of the exponent
        return float(scale * (df + e * f)), float(scale * (ddf + 2 * e * df + (de + e * e) * f))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize("number", range(4))
def test_slopes_of_airy(number, dtype, rtol):
    points = np.array([0.5, 5, 7.9, 8.1, 24.9, 25.1, 100, 1e4, 1e5], dtype)
    first = grad(lambda x: special.airye(x)[number])
    expected = np.array([slopes_of_airy(number, x) for x in points]).T
    np.testing.assert_allclose(jit(vmap(first))(points), expected[0], rtol=rtol)
    np.testing.assert_allclose(jit(vmap(grad(first)))(points), expected[1], rtol=100 * rtol)


@pytest.mark.parametrize(("name", "pole"), [("cotdg", 0), ("cotdg", 180), ("tandg", 90)])
def test_slopes_near_poles_in_degrees(name, pole):
    """There the functions' own values have half of their digits."""
    x = pole + 2.0**-20
    with mp.workdps(60):
        angle = mp.radians(mp.mpf(x))
        turned = -(mp.sin(angle) ** -2) if name == "cotdg" else mp.cos(angle) ** -2
        expected = float(mp.pi / 180 * turned)
    slope = grad(getattr(special, name))
    np.testing.assert_allclose([slope(x), jit(slope)(x)], expected, rtol=1e-14)

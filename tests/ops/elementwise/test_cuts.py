"""Slopes along branch cuts: the sign of an imaginary (or real) part of 0 says on which side."""

import numpy as np
import pytest

from functrans import jit, jvp

ALONG_REAL = [complex(x, y) for x in (-2.0, -0.5, 0.5, 2.0) for y in (0.0, -0.0)]
ALONG_IMAGINARY = [complex(y, x) for x in (-2.0, -0.5, 0.5, 2.0) for y in (0.0, -0.0)]
CUTS = {
    "arcsin": ALONG_REAL, "arccos": ALONG_REAL, "arccosh": ALONG_REAL, "arctanh": ALONG_REAL,
    "log": ALONG_REAL, "sqrt": ALONG_REAL, "arcsinh": ALONG_IMAGINARY, "arctan": ALONG_IMAGINARY,
}  # fmt: skip


def along_the_cut(function, z, step):
    """The difference quotient between two points on the side of the cut on which ``z`` is."""
    turned = function in ("arcsinh", "arctan")
    moved = [complex(z.real, z.imag + h) if turned else complex(z.real + h, z.imag) for h in step]
    high, low = (getattr(np, function)(point) for point in moved)
    return (high - low) / (2 * step[0]) / (1j if turned else 1.0)


@pytest.mark.parametrize("function", CUTS)
@pytest.mark.parametrize("run", [lambda f: f, jit], ids=["eager", "compiled"])
def test_a_slope_is_that_of_the_side_of_the_cut(function, run):
    z = np.array(CUTS[function])
    expected = [along_the_cut(function, point, (1e-6, -1e-6)) for point in CUTS[function]]
    ufunc = getattr(np, function)
    slope = run(lambda z: jvp(ufunc, (z,), (np.ones_like(z),))[1])(z)
    np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-9)


def test_slopes_far_out():
    """Where the square of the number overflows."""
    z = np.array([1e200 + 1e200j, -1e200j])
    slope = jvp(np.arcsinh, (z,), (np.ones_like(z),))[1]
    np.testing.assert_allclose(slope, [1 / z[0], -1 / z[1]], rtol=1e-14)
    x = np.array([1e25, -3e38], np.float32)
    np.testing.assert_allclose(jvp(np.arcsinh, (x,), (np.ones_like(x),))[1], 1 / abs(x), rtol=1e-6)

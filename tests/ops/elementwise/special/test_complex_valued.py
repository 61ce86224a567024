"""Functions with complex results against SciPy's."""

from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.special

from functrans import grad, jit, jvp, testing, vmap
from functrans.errors import DtypeError

X = np.array([-7.0, -1.3, 0.2, 1.0, 5.0])
Z = np.array([0.3 + 0.2j, -1 + 0.5j, 4 - 0.1j, 8 + 1j, 0.1])
CASES = {
    "wofz": (scipy.special.wofz, X),
    "wofz of complex numbers": (scipy.special.wofz, Z),
    "kelvin": (scipy.special.kelvin, X[2:]),
    "modfresnelp": (scipy.special.modfresnelp, X[2:4]),
    "modfresnelm": (scipy.special.modfresnelm, X[2:4]),
    **{
        f"{name} {order}": (partial(getattr(scipy.special, name), order), X)
        for name in ("hankel1", "hankel2", "hankel1e", "hankel2e")
        for order in (1, 2.5)
    },
}


def leaves(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    function, x = CASES[name]
    single = np.complex64 if x.dtype == complex else np.float32
    for operand in (x, x.astype(single)):
        expected, found = leaves(function(operand)), leaves(vmap(function)(operand[None]))
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a[0], b, rtol=1e-11 if operand is x else 2e-5)
    testing.check_grads(function, (x,), order=2, max_elements=3)


def test_an_integral_from_a_negative_number():
    # where SciPy's imaginary part is another
    real, imag = (
        scipy.integrate.quad(f, -1.3, 0.0)[0]
        for f in (lambda t: np.cos(t * t), lambda t: np.sin(t * t))
    )
    expected = np.exp(0.25j * np.pi) * np.sqrt(np.pi) / 2 + real + 1j * imag
    np.testing.assert_allclose(jit(lambda x: scipy.special.modfresnelp(x)[0])(-1.3), expected)


def test_the_profile_of_voigt():
    def profile(gamma):
        return scipy.special.wofz((0.7 + 1j * gamma) / np.sqrt(2)).real / np.sqrt(2 * np.pi)

    by_scipy = scipy.special.voigt_profile(0.7, 1.0, 0.4)
    np.testing.assert_allclose(jit(profile)(0.4), by_scipy)
    np.testing.assert_allclose(
        grad(profile)(0.4), grad(lambda g: scipy.special.voigt_profile(0.7, 1.0, g))(0.4)
    )


def test_complex_numbers_are_refused():
    with pytest.raises(DtypeError, match=r"special\.hankel1 at .* complex128: it is known here"):
        vmap(lambda z: scipy.special.hankel1(1, z))(Z)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_slopes_of_log_ndtr_far_on_the_left(dtype):
    """About ``-z - 1 / z`` there, where the value is the logarithm of a number below all floats."""
    z = np.array([-1e4, -1e4 + 1j, -1e6 + 3e3j], dtype)
    slopes = jvp(scipy.special.log_ndtr, (z,), (np.ones_like(z),))[1]
    np.testing.assert_allclose(slopes, -z - 1 / z, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_slopes_where_the_square_is_a_difference_of_infinities(name):
    z = np.array([2e200 + 1e200j, 1e200 - 1e10j])
    with np.errstate(all="ignore"):
        slopes = jvp(getattr(scipy.special, name), (z,), (np.ones_like(z),))[1]
    np.testing.assert_array_equal(slopes, [0, 0])

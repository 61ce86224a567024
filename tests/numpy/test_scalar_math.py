"""Functions of `math` and `cmath` of traced numbers, against these modules themselves."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

from functrans import grad, jit, jvp, vmap
from functrans.errors import TracerBoolError, TracerConversionError
from functrans.numpy.scalar_math import Complex, substitutes

OF_TWO = ("atan2", "copysign", "fmod", "hypot", "isclose", "nextafter", "pow", "remainder")
TRUTHS = ("isclose", "isfinite", "isinf", "isnan")
NAMES = sorted(substitutes(math))
COMPLEX_NAMES = sorted(substitutes(cmath))


@pytest.mark.parametrize("name", NAMES)
def test_value_and_slope(name):
    x, h = 1.2 if name == "acosh" else 0.6, 1e-6
    scope = {"math": math, "name": name}
    forms = ["(x, 1.3)", "(1.3, x)"] if name in OF_TWO else ["(x)"]
    forms += ["(-x)", "(x, 2, -x)"] if name == "hypot" else []
    forms = ["([x], [2])", "((x, 1, -x), (2, x, 3))"] if name == "dist" else forms
    forms = ["(x)[0]", "(-3 * x)[1]"] if name == "modf" else forms
    forms = ["(x, 3)", "(-x, -2)"] if name == "ldexp" else forms
    for form in forms:
        function = eval(f"lambda x: math.{name}{form}", scope)
        expected = function(x)
        np.testing.assert_allclose(jit(function)(x), expected, rtol=1e-14)
        np.testing.assert_allclose(vmap(function)(np.array([x, x])), expected, rtol=1e-14)
        if name not in TRUTHS:
            difference = (function(x + h) - function(x - h)) / (2 * h)
            np.testing.assert_allclose(grad(function)(x), difference, rtol=1e-6)


@pytest.mark.parametrize("name", COMPLEX_NAMES)
@pytest.mark.parametrize("z", [0.6 - 0.3j, 0.6, -1.5])
def test_complex_value_and_slope(name, z):
    if name == "rect":
        function = eval("lambda z: cmath.rect(z.real, z.imag) + cmath.rect(2.0, z.real)")
    elif name == "polar":
        function = eval("lambda z: cmath.polar(z)[0] + 2 * cmath.polar(z)[1]")
    else:
        function = eval(f"lambda z: cmath.{name}(z)", {"cmath": cmath})
    expected = function(z)
    np.testing.assert_allclose(jit(function)(z), expected, rtol=1e-14)
    np.testing.assert_allclose(vmap(function)(np.array([z, z])), expected, rtol=1e-14)
    if isinstance(expected, bool) or np.imag(z) == 0:
        return
    h, size = 1e-6, lambda z: np.abs(function(z))
    slope = np.array([(size(z + d * h) - size(z - d * h)) / (2 * h) for d in (1, 1j)])
    found = grad(lambda parts: np.abs(function(parts[0] + 1j * parts[1])))(
        np.array([np.real(z), np.imag(z)])
    )
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-9)


def test_the_complex_result_is_a_number_like_pythons():
    row = np.ones(2, np.complex64)
    assert jit(lambda x: cmath.exp(1j * x) * row)(np.float32(0.5)).dtype == np.complex64
    assert jit(lambda x: cmath.sqrt(x))(-4.0) == 2j
    with pytest.raises(ValueError, match="math domain error"):
        grad(lambda x: abs(cmath.log(x)))(0.0)


@pytest.mark.parametrize("b", [0.0, 1.0, -1.5, np.inf, np.nan])
def test_close_numbers_are_those_of_math(b):
    for a in (b, b + 1e-10, b + 1e-3, -b, np.inf, np.nan):
        for tolerances in ({}, {"rel_tol": 1e-2}, {"rel_tol": 0.0, "abs_tol": 1e-3}):
            assert jit(lambda a, b, t=tolerances: math.isclose(a, b, **t))(a, b) == math.isclose(
                a, b, **tolerances
            )
    with pytest.raises(ValueError, match="non-negative"):
        jit(lambda b: math.isclose(b, 1.0, rel_tol=-1.0))(b)


def test_the_result_is_a_number_like_pythons():
    row, x = np.ones(2, np.float32), np.float32(0.5)
    assert jit(lambda x: math.sin(x) * row)(x).dtype == np.float32
    assert jit(lambda x: math.sin(x))(x) == math.sin(x)
    assert jit(lambda n: math.sqrt(n))(9) == 3.0
    assert jit(lambda n: math.ldexp(n, n) * x)(3).dtype == np.float32


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: math.sqrt(x), ValueError),
        (lambda x: math.log(x), ValueError),
        (lambda x: math.exp(-1000 * x), OverflowError),
        (lambda x: math.ldexp(x, 5000), OverflowError),
        (lambda x: math.remainder(x, 0), ValueError),
    ],
)
def test_what_math_refuses_is_refused_where_it_is_known(function, error):
    with pytest.raises(error) as maths:
        function(-1.0)
    with pytest.raises(error, match=str(maths.value)):
        grad(function)(-1.0)
    assert not np.isfinite(jit(function)(-1.0))


def test_other_arguments_are_those_of_math():
    with pytest.raises(TracerConversionError, match=r"write np\.sin\(x\)"):
        grad(lambda x: math.sin(x))(np.ones(3))
    with pytest.raises(TracerConversionError, match=r"c128"):
        jit(lambda x: math.sin(x))(1j)
    with pytest.raises(TypeError, match="one argument"):
        grad(lambda x: math.sin(x, x))(1.0)
    with pytest.raises(TypeError, match="real number"):
        grad(lambda x: math.sin("x") * x)(1.0)
    with pytest.raises(ValueError, match="same number of dimensions"):
        grad(lambda x: math.dist([x], [x, x]))(1.0)
    with pytest.raises(TypeError, match="real number"):
        grad(lambda x: math.atan2(x, "x"))(1.0)
    with pytest.raises(TracerBoolError):
        vmap(lambda x: 1 if math.isnan(x) else 2)(np.ones(3))


@pytest.mark.parametrize("y", [2.0, -2.5, 3.7, 1e-323, 1.7e308, math.inf])
def test_remainders_are_exact(y):
    remainder = jit(lambda x, y: math.remainder(x, y))
    for x in (0.0, -0.0, 3.0, 5.0, -7.5, 1e300, 5e-324, 1e308):
        np.testing.assert_array_equal(remainder(x, y), math.remainder(x, y))
        assert np.signbit(remainder(x, y)) == np.signbit(math.remainder(x, y))


def test_math_itself_stays_the_same():
    sine = math.sin
    seen = []

    def function(x):
        seen.append(math.sin is sine)
        seen.append(math.sin(1.0) == sine(1.0) and type(math.sin(1.0)) is float)
        return x * math.pi

    grad(function)(1.0)
    assert seen == [True, True]


def test_close_is_a_bool_of_python():
    def close(a, b):
        return math.isclose(a, b) + math.isclose(b, b)

    assert jit(close)(1.0, 1.0) == jvp(close, (1.0, 1.0), (1.0, 1.0))[0] == 2


@pytest.mark.parametrize(
    ("r", "phi"), [(1.0, -0.0), (-2.0, -0.0), (-0.0, 0.0), (0.0, math.pi), (math.inf, 1.0)]
)
def test_parts_keep_infinities_and_the_signs_of_zeros(r, phi):
    found = jit(lambda r, phi: (cmath.rect(r, phi), np.complex64(r, phi), Complex(r, phi)))(r, phi)
    made = cmath.rect(r, phi), np.complex64(r, phi), complex(r, phi)
    for one, other in zip(found, made, strict=True):
        assert one.dtype == np.asarray(other).dtype
        assert str(complex(one)) == str(complex(other))


def test_complex_in_the_code_of_packages():
    assert jit(lambda x: Complex(imag=x))(2.0) == 2j
    assert jit(lambda x: Complex(1j, x))(2j) == complex(1j, 2j)
    assert grad(lambda x: abs(Complex(x, 4.0)))(3.0) == pytest.approx(0.6)

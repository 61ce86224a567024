"""Numba both ways: compiled gradients inside @njit, @njit functions inside traced code."""

import ctypes

import numba
import numpy as np
import pytest
import scipy
import scipy.integrate

import functrans
from functrans import Aval, custom_jvp, from_numba, grad, hessian, jit, vmap
from functrans.errors import DtypeError, NotDifferentiableError, ShapeError, UnsupportedNumPyError


def energy(x):
    return np.sum(np.sin(x) * x**2)


def energy_slope(x):
    return np.cos(x) * x**2 + 2 * x * np.sin(x)


@pytest.mark.dear
def test_a_compiled_gradient_is_called_inside_njit():
    slope = functrans.compile(grad(energy), np.zeros(4)).numba

    @numba.njit
    def descend(x, steps):
        for _ in range(steps):
            x = x - 0.01 * slope(x)
        return x

    x = expected = np.array([0.3, -1.0, 2.0, 0.7])
    for _ in range(50):
        expected = expected - 0.01 * energy_slope(expected)
    np.testing.assert_allclose(descend(x, 50), expected, rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["native", "numba"])
def test_what_is_compiled_is_called_inside_njit_as_it_is(backend):
    both = functrans.compile(lambda a, s: (a * s, a.sum()), np.zeros(3), 1.0, backend=backend)

    @numba.njit
    def scaled(x, steps):
        total = 0.0
        for _ in range(steps):
            x, more = both(x, 2)
            total += more
        return x, total

    @numba.njit
    def applied(function, x):
        return function(x, 3.0)[0]

    x = np.array([1.0, 2.0, 3.0])
    result, total = scaled(x, 3)
    np.testing.assert_array_equal(result, 8 * x)
    assert total == 42.0
    np.testing.assert_array_equal(applied(both, x[::-1]), 3 * x[::-1])


@pytest.mark.full
def test_by_the_other_back_end_failures_and_refusals_are_the_same():
    pick = functrans.compile(lambda x, i: x[i], np.zeros(3), 0, backend="numba")
    assert pick(np.array([1.0, 2.0, 3.0]), 2) == pick.ctypes(np.full(3, 3.0).ctypes.data, 2) == 3.0
    with pytest.raises(IndexError, match="out of bounds for the axis"):
        pick(np.zeros(3), 7)
    with pytest.raises(ValueError, match=r"was compiled for shape \(3,\)"):
        pick(np.zeros(4), 0)
    with pytest.raises(UnsupportedNumPyError, match="cannot call Python, and external"):
        functrans.compile(from_numba(lambda x: x, Aval((), float)), 1.0, backend="numba")


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_floats_are_refused(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    with pytest.raises(
        DtypeError, match=f"<lambda> has arguments or results of {name}, which Numba"
    ):
        functrans.compile(lambda x: x * 2, np.zeros(3, name), backend="numba")


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_floats_are_arrays_for_c(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    doubled = functrans.compile(lambda x: x * 2, np.zeros(3, name))
    x, out = np.array([1, 2, -3.5]).astype(name), np.zeros(3, name)
    assert doubled.ctypes(x.ctypes.data, out.ctypes.data) == 0
    np.testing.assert_array_equal(out, x * 2)
    with pytest.raises(DtypeError, match=f"has no number of {name}, .* make it an array, or"):
        functrans.compile(np.sum, np.zeros(3, name))


@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("function", [np.abs, lambda z: 1j * z.real])
def test_complex_arguments_and_results_are_refused(function, backend):
    with pytest.raises(DtypeError, match="has no argument or result of complex128: pass the real"):
        functrans.compile(function, np.zeros(3, complex), backend=backend)


def test_complex_numbers_inside_are_compiled():
    turned = functrans.compile(lambda x: np.real(np.exp(1j * x)), np.zeros(3))
    np.testing.assert_allclose(turned(np.arange(3.0)), np.cos(np.arange(3.0)), rtol=1e-15)


def test_a_scalar_function_is_an_integrand_in_c():
    slope = functrans.compile(grad(lambda x: np.sin(x) * x), 0.0)
    integral, _ = scipy.integrate.quad(scipy.LowLevelCallable(slope.ctypes), 0.0, 2.0)
    assert integral == pytest.approx(2 * np.sin(2.0), rel=1e-12)


def test_the_address_is_a_c_function_with_pointers_for_results():
    both = functrans.compile(lambda a, s: (a * s, a.sum()), np.zeros(3), 1.0)
    pointer, number = ctypes.c_void_p, ctypes.c_double
    call = ctypes.CFUNCTYPE(ctypes.c_int64, pointer, number, pointer, pointer)(both.address)
    a, scaled, total = np.array([1.0, 2.0, 3.0]), np.empty(3), np.empty(())
    assert call(a.ctypes.data, 2.0, scaled.ctypes.data, total.ctypes.data) == 0
    np.testing.assert_array_equal(scaled, 2 * a)
    assert total == 6.0


@pytest.mark.full
def test_several_results_arrays_of_any_layout_and_matrices():
    step = functrans.compile(lambda m, v: (m @ v, hessian(energy)(v)), np.eye(3), np.zeros(3))
    m, v = np.arange(9.0).reshape(3, 3), np.array([0.5, 1.0, 1.5])
    product, curvature = step(m.T, v)
    np.testing.assert_allclose(product, m.T @ v)
    np.testing.assert_allclose(curvature, hessian(energy)(v))


def test_wrong_shapes_and_dtypes_are_refused():
    slope = functrans.compile(grad(energy), np.zeros(4))
    with pytest.raises(ValueError, match=r"argument 0 of energy was compiled for shape \(4,\)"):
        slope(np.zeros(5))
    with pytest.raises(numba.core.errors.TypingError, match="compiled for an array of float64"):
        slope(np.zeros(4, np.float32))


def test_an_index_out_of_bounds_is_an_error_and_not_a_number():
    pick = functrans.compile(lambda x, i: x[i], np.zeros(3), 0)
    assert pick.numba(np.array([1.0, 2.0, 3.0]), 2) == 3.0
    with pytest.raises(IndexError):
        pick.numba(np.zeros(3), 7)
    assert np.isnan(pick.ctypes(np.zeros(3).ctypes.data, 7))


def test_what_needs_python_cannot_be_compiled():
    with pytest.raises(UnsupportedNumPyError, match="cannot call Python, and external"):
        functrans.compile(from_numba(lambda x: x, Aval((), float)), 1.0)
    captured = np.arange(3.0)
    with pytest.raises(DtypeError, match="uses arrays from outside, and compiled code has nowhere"):
        functrans.compile(lambda x: x * captured, 1.0)


@numba.njit
def smallest_gap(x):
    return np.diff(np.sort(x)).min()


@pytest.mark.dear
def test_an_njit_function_is_called_in_traced_code():
    gap = from_numba(smallest_gap, Aval((), float))
    rows = np.array([[1.0, 4.0, 2.0], [3.0, 9.0, 0.0]])
    np.testing.assert_array_equal(vmap(gap)(rows), [1.0, 3.0])
    np.testing.assert_array_equal(jit(vmap(lambda x: 2 * gap(x)))(rows), [2.0, 6.0])
    assert gap(rows[0]) == 1.0


def test_an_njit_function_with_a_rule_is_differentiated():
    @numba.njit
    def cube(x):
        return x**3

    external = from_numba(cube, lambda x: x)
    cubed = custom_jvp(lambda x: external(x))
    cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))
    assert grad(cubed)(2.0) == 12.0
    assert grad(grad(cubed))(2.0) == 12.0
    np.testing.assert_allclose(vmap(grad(cubed))(np.array([1.0, 2.0])), [3.0, 12.0])
    assert jit(grad(cubed))(2.0) == 12.0


def test_an_njit_function_without_a_rule_says_what_to_write():
    gap = from_numba(smallest_gap, Aval((), float))
    with pytest.raises(NotDifferentiableError, match="in a function with a rule, of custom_jvp"):
        grad(gap)(np.array([1.0, 4.0, 2.0]))


def test_an_njit_function_of_another_shape_than_declared_is_refused():
    wrong = from_numba(smallest_gap, Aval((2,), float))
    with pytest.raises(ShapeError, match=r"returned an array of shape \(\), out_types says \(2,\)"):
        wrong(np.array([1.0, 4.0, 2.0]))

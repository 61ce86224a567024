"""Numba functions called with traced values raise an error that names the alternative."""

import numba
import numpy as np
import pytest

import functrans as ft
from functrans.errors import TracerConversionError, UnsupportedNumPyError


@numba.njit
def double(x):
    return 2 * x


@pytest.mark.parametrize("transform", [ft.grad, ft.jit, ft.vmap])
def test_a_dispatcher_names_from_numba(transform):
    with pytest.raises(
        TracerConversionError,
        match=r"cannot be an argument of a function that Numba compiled at test_numba_arguments"
        r"(.|\n)*Call the Python function \(f\.py_func\), which is traced, or "
        r"functrans\.from_numba",
    ):
        transform(lambda x: np.sum(double(x)))(np.ones(3))


def test_the_python_function_is_traced():
    gradient = ft.grad(lambda x: np.sum(double.py_func(x)))(np.ones(3))
    np.testing.assert_array_equal(gradient, np.full(3, 2.0))


def test_a_ufunc_names_from_numba():
    @numba.guvectorize(["(f8[:], f8[:])"], "(n)->()")
    def total(x, out):
        out[0] = x.sum()

    with pytest.raises(UnsupportedNumPyError) as caught:
        ft.grad(lambda x: total(x))(np.ones(3))
    assert str(caught.value).endswith(
        "; instead: functrans.from_numba(f, types), with a derivative by functrans.custom_jvp"
    )
    assert ft.jit(ft.from_numba(total, ft.Aval((), float)))(np.ones(3)) == 3.0

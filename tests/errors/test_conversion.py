"""Conversions that would silently lose a derivative raise, and name the line and the fix."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

from functrans import grad, jit
from functrans.errors import TracerConversionError, TracerIndexError, UnsupportedNumPyError
from functrans.trace import protocols

OUTSIDE = np.zeros(3)


def stored(x):
    y = OUTSIDE
    y[0] = x
    return y.sum()


def through_a_library(x):
    return scipy.stats.anderson([x]).statistic


def converted(x):
    return float(x)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (stored, "y[0] = x"),
        (through_a_library, "return scipy.stats.anderson"),
        (converted, "return float(x)"),
    ],
)
def test_the_users_line_is_named_and_not_a_librarys(function, line):
    with pytest.raises(TracerConversionError) as error:
        grad(function)(1.0)
    assert f"({function.__name__}), `{line}" in str(error.value)
    assert "test_conversion.py" in str(error.value)


def test_other_errors_of_the_users_stay_as_they_are():
    def failing(x):
        raise ValueError("the user's") from KeyError("cause")

    with pytest.raises(ValueError, match="the user's") as error:
        grad(failing)(1.0)
    assert isinstance(error.value.__cause__, KeyError)


def test_a_ufunc_of_another_package_is_not_said_to_be_numpys(monkeypatch):
    monkeypatch.delitem(protocols.ufuncs, "wofz")
    with pytest.raises(UnsupportedNumPyError, match=r"^wofz is not supported"):
        grad(lambda x: scipy.special.wofz(x).real)(1.0)


def positive(x):
    return x[x > 0]


def test_elements_by_a_mask_are_no_result_of_a_compiled_function():
    with pytest.raises(TracerIndexError) as error:
        jit(positive)(np.arange(3.0))
    assert str(error.value).startswith("how many elements a mask takes is not known at test_conv")
    assert "`jit(positive)(np.arange(3.0))`: the mask is traced by jit" in str(error.value)
    assert "np.where(mask, x, 0.0) instead of x[mask]" in str(error.value)


@pytest.mark.parametrize(
    "product", [lambda a, b: a @ b, lambda a, b: b.T @ a.T, lambda a, b: np.matmul(a, b)]
)
def test_products_of_elements_by_a_mask_are_refused(product):
    x = np.ones((3, 3))
    for other in (lambda x: x, lambda x: np.ones((3, 3))):
        with pytest.raises(TracerIndexError, match=r"^how many elements a mask takes"):
            jit(lambda x, other=other: product(x[x[0] > 0] * 1.0, other(x)))(x)

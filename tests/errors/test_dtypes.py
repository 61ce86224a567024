"""Dtypes that no graph can hold are refused where they come in, eagerly and compiled alike."""

import importlib

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import grad, jit, vmap
from functrans.errors import DtypeError
from functrans.ir.types import Aval
from tests.errors.words import X, located, message_of

INSTEAD = {
    np.dtype(np.clongdouble).name: "use np.complex128",
    np.dtype(np.longdouble).name: "use np.float64",
    "datetime64[s]": "count the time in numbers",
    "timedelta64[s]": "count the time in numbers",
    "[('a', '<f8')]": "make each field an array of its own",
    "|V8": "make each field an array of its own",
    "|S3": "turn it into numbers outside of the traced function",
    "<U3": "turn it into numbers outside of the traced function",
    "object": "keep the objects in a list",
}
TRANSFORMS = {"jit": jit, "vmap": vmap, "grad": grad}
FUNCTIONS = {
    "astype": lambda x, dtype: x.astype(dtype),
    "sum": lambda x, dtype: np.sum(x, dtype=dtype),
    "cumsum": lambda x, dtype: np.cumsum(np.reshape(x, (-1,)), dtype=dtype),
    "mean": lambda x, dtype: np.mean(x, dtype=dtype),
    "add": lambda x, dtype: np.add(x, 1, dtype=dtype),
    "zeros": lambda x, dtype: fnp.zeros(3, dtype),
    "zeros_like": lambda x, dtype: np.zeros_like(x, dtype=dtype),
    "eye": lambda x, dtype: fnp.eye(3, dtype=dtype),
    "linspace": lambda x, dtype: np.linspace(x, 4, dtype=dtype),
    "asarray": lambda x, dtype: fnp.asarray(x, dtype),
}


try:
    INSTEAD[str(np.dtype(importlib.import_module("ml_dtypes").float8_e5m2))] = (
        "convert it to np.float32"
    )
except ImportError:
    pass


def named(name):
    return np.dtype([("a", "f8")]) if name.startswith("[") else np.dtype(name)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", INSTEAD)
def test_the_line_and_the_way_out_are_named(name, transform):
    dtype = named(name)

    def converts(x):
        return x.astype(dtype)  # here

    message = message_of(DtypeError, lambda: TRANSFORMS[transform](converts)(X))
    expected = (
        f"expected a bool, integer, float or complex dtype{{here}}, found {dtype}: {INSTEAD[name]}"
    )
    assert message == located(expected, converts)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_takes_a_dtype_refuses_it(name, transform):
    with pytest.raises(
        DtypeError, match=r"^expected a bool, .* found complex[0-9]+: use np.complex"
    ):
        TRANSFORMS[transform](lambda x: FUNCTIONS[name](x, np.clongdouble))(X)


@pytest.mark.parametrize("transform", [jit, grad])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_byte_order_is_the_machines(name, transform):
    def total(dtype):
        return lambda x: (x * FUNCTIONS[name](x, dtype)).sum()

    swapped = np.dtype(float).newbyteorder()
    y = X if name != "eye" else np.ones(3)
    one, other = transform(total(swapped))(y), transform(total(float))(y)
    assert one.dtype == np.float64
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("transform", [jit, vmap])
def test_an_array_from_outside_may_have_any_byte_order(transform):
    outside = np.array([1.0, 2.0, 4.0], np.dtype(float).newbyteorder())
    result = transform(lambda x: fnp.concatenate([fnp.asarray(outside)[1:], x * outside]))(X[:1])
    expected = np.concatenate([outside[1:], X[0] * outside])
    np.testing.assert_array_equal(np.reshape(result, -1), expected)
    assert result.dtype.isnative


@pytest.mark.parametrize("function", [np.sort, lambda x: np.partition(x, 1)])
def test_what_numpy_is_called_for_has_the_machines_byte_order(function):
    swapped = X.astype(np.dtype(float).newbyteorder())
    result = jit(function)(swapped)
    np.testing.assert_array_equal(result, function(X))
    assert result.dtype.isnative


def test_a_long_double_is_no_operand():
    with pytest.raises(DtypeError, match=r"what a traced value meets at .* whose dtype is not"):
        jit(lambda x: x + np.ones(3, np.longdouble))(X)
    with pytest.raises(DtypeError, match=r"whose dtype is not supported: use np.float64"):
        jit(lambda x: x)(np.ones(3, np.longdouble))


def test_no_type_of_a_graph_is_a_long_double():
    message = message_of(DtypeError, lambda: Aval((3,), np.longdouble))
    found = np.dtype(np.longdouble)
    assert message == (
        f"expected a bool, integer, float or complex dtype, found {found}: use np.float64"
    )


def test_bfloat16_has_nothing_in_common_with_float16():
    narrow = pytest.importorskip("ml_dtypes").bfloat16

    def choose(x):
        return np.where(x > 0, x, np.float16(1))  # here

    message = message_of(DtypeError, lambda: jit(choose)(np.ones(3, narrow)))
    assert message == located(
        "bfloat16 and float16 have no dtype in common{here}: convert one of them, for example by "
        ".astype(np.float32)",
        choose,
    )


def test_other_numbers_of_ml_dtypes_are_no_arguments():
    narrow = pytest.importorskip("ml_dtypes").float8_e4m3fn
    message = message_of(DtypeError, lambda: grad(np.sum)(np.ones(3, narrow)))
    assert "whose dtype is not supported: convert it to np.float32" in message


@pytest.mark.parametrize(
    "operate, words",
    [
        (lambda x: x - x, "For conditions, write x ^ y or ~x; to compute with 0 and 1, convert by "
         ".astype(int)."),
        (lambda x: x & 1.5, "Convert floats by .astype(int); for conditions, write (x > 0) & "
         "(y > 0)."),
        (lambda x: np.floor(x * 1j), "Take np.real(x) or np.abs(x)."),
    ],
)  # fmt: skip
def test_operations_that_a_dtype_does_not_have(operate, words):
    said = message_of(DtypeError, lambda: jit(operate)(np.array([True, False])))
    assert " is not defined for " in said
    assert " at test_dtypes.py:" in said
    assert said.endswith(f"`.\n{words}")

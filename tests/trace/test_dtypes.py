"""The dtypes that a traced array can have."""

import numpy as np
import pytest

from functrans import jit
from functrans.errors import DtypeError
from functrans.trace.dtypes import dtype_of


@pytest.mark.parametrize("dtype", [bool, int, float, "f2", "f4", "i1", "u8", np.float64])
def test_what_there_is(dtype):
    assert dtype_of(dtype) == np.dtype(dtype)


def test_the_byte_order_is_the_machines():
    assert dtype_of(">f8") == dtype_of("<f8") == np.dtype(float)
    assert dtype_of(">i4").isnative


@pytest.mark.parametrize("dtype", ["c32", "f16", object, "U3", "M8[s]", [("a", "f8")]])
def test_what_there_is_not(dtype):
    with pytest.raises(
        DtypeError, match="expected a bool, integer, float or complex dtype at test_dtypes"
    ):
        dtype_of(dtype)


NUMPYS = {
    "array": lambda x: np.array(x),
    "copy": lambda x: np.copy(x),
    "where": lambda x: np.where(x > 0, x, x),
    "clip": lambda x: np.clip(x, 0.0, 1.0),
    "squeeze": lambda x: np.squeeze(x),
    "einsum": lambda x: np.einsum("->", x),
}


@pytest.mark.parametrize("function", NUMPYS.values(), ids=NUMPYS)
def test_what_a_numpy_function_gives_for_a_python_number_does_not_yield(function):
    row = np.ones(2, np.float32)
    expected = (function(2.5) + row).dtype
    assert expected == np.float64
    assert jit(lambda x: function(x) + row)(2.5).dtype == expected

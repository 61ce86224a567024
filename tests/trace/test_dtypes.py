"""The dtypes that a traced array can have."""

import numpy as np
import pytest

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

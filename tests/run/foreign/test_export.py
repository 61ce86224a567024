"""Export of graphs as C functions: scalars by value, arrays by address, a status code."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from functrans.errors import UnsupportedNumPyError
from functrans.ir.types import Aval
from functrans.ops.calls.external import Elements
from functrans.run.foreign.export import Exported
from functrans.run.foreign.numba_caller import numba_function
from tests.ir.written import graph

SCALED = graph("{ w:f64[], x:f64[3] ->\n y = multiply x w\n z = negative x\n return y, z }")
TOTAL = graph(
    "{ w:f64[], x:f64[3] ->\n y = multiply x w\n z = reduce_sum[axes=(0,)] y\n return z }"
)
X = np.array([1.0, 2.0, 4.0])


def test_results_go_where_they_are_told():
    function = Exported(SCALED).ctypes_function()
    y, z = np.zeros(3), np.zeros(3)
    status = function(2.5, *(one.ctypes.data for one in (X, y, z)))
    assert status == 0
    np.testing.assert_array_equal(y, X * 2.5)
    np.testing.assert_array_equal(z, -X)


def test_one_number_is_returned():
    exported = Exported(TOTAL)
    assert exported.ctypes_value_function()(0.5, X.ctypes.data) == 3.5
    assert Exported(SCALED).value_address is None


@pytest.mark.parametrize(
    ("dtype", "value"), [("f4", 1.5), ("i1", -3), ("u2", 60000), ("i4", -70000), ("?", True)]
)
def test_numbers_of_every_size(dtype, value):
    short = {"f4": "f32", "i1": "i8", "u2": "u16", "i4": "i32", "?": "bool"}[dtype]
    function = Exported(graph(f"{{ x:{short}[] ->\n return x, x }}")).ctypes_function()
    one, other = np.zeros((), dtype), np.zeros((), dtype)
    assert function(value, one.ctypes.data, other.ctypes.data) == 0
    assert one == other == np.dtype(dtype).type(value)


def test_what_failed_is_a_status():
    matrix = graph("{ a:f64[3,3] ->\n c = cholesky a\n return c }")
    function = Exported(matrix).ctypes_function()
    good, bad, out = np.eye(3), -np.eye(3), np.zeros((3, 3))
    assert function(good.ctypes.data, out.ctypes.data) == 0
    assert function(bad.ctypes.data, out.ctypes.data) == 3


def test_a_number_that_failed_is_nan():
    determinant = graph("""{ a:f64[3,3] ->
        c = cholesky a
        d = reduce_sum[axes=(0, 1)] c
        return d }""")
    function = Exported(determinant).ctypes_value_function()
    assert function(np.eye(3).ctypes.data) == 3.0
    assert np.isnan(function((-np.eye(3)).ctypes.data))


def test_several_threads_at_once():
    function = Exported(TOTAL).ctypes_value_function()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda w: function(float(w), X.ctypes.data), range(200)))
    assert found == [7.0 * w for w in range(200)]


def test_the_code_lives_as_long_as_the_function():
    function = Exported(TOTAL).ctypes_value_function()
    Exported(graph("{ x:f64[3] ->\n y = sin x\n return y }"))
    assert isinstance(function.owner, Exported)
    assert function(2.0, X.ctypes.data) == 14.0


def test_what_calls_python_is_none():
    calls = graph(
        "{ x:f64[3] ->\n y = external[elements=ptp, results=(one,), lanes=()] x\n return y }",
        ptp=Elements(np.ptp, several=False, vectorised=False),
        one=Aval((), float),
    )
    with pytest.raises(UnsupportedNumPyError, match="external has no compiled form"):
        Exported(calls)


def test_called_by_numba():
    numba = pytest.importorskip("numba")
    scaled = numba_function(SCALED, "scaled", several=True, exported=Exported(SCALED))

    @numba.njit
    def caller(w, x):
        y, z = scaled(w, x)
        return y + z

    np.testing.assert_array_equal(caller(3.0, X), X * 2)
    np.testing.assert_array_equal(caller(3.0, np.array([1.0, 0, 2, 0, 4])[::2]), X * 2)
    with pytest.raises(ValueError, match="argument 1 of scaled was compiled for shape"):
        caller(3.0, np.ones(4))

"""`jit(f, device="cpu")`: arguments on a GPU are copied to the host, results are NumPy's."""

import pickle

import numpy as np
import pytest

import functrans
from functrans import jit
from functrans.run.cuda.array import DeviceArray
from functrans.run.cuda.program import program

X = np.arange(6.0).reshape(2, 3)


def double(x):
    return 2 * x


def test_arguments_come_to_the_host(emulated):
    x = functrans.device_put(X)
    launches = emulated.count("launch")
    found = jit(lambda a, b: {"sum": a["x"] + b, "first": a["x"][0, 1]}, device="cpu")({"x": x}, X)
    assert type(found["sum"]) is np.ndarray and type(found["first"]) is np.float64
    np.testing.assert_array_equal(found["sum"], 2 * X)
    assert emulated.count("launch") == launches
    assert isinstance(jit(double)(x), DeviceArray)  # without being told, it is done there


def test_what_is_used_from_outside_comes_too(emulated):
    x = functrans.device_put(X)
    compiled = jit(lambda y: x * y, device="cpu")
    for _ in range(2):
        found = compiled(X)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, X * X)
    compiled = None


def test_each_call_copies_what_it_is_given(emulated):
    compiled = jit(double, device="cpu")
    for scale in (1.0, 3.0):
        np.testing.assert_array_equal(compiled(functrans.device_put(scale * X)), 2 * scale * X)


def test_branches_and_static_arguments(emulated):
    @jit(device="cpu", static_argnames="n")
    def power(x, n):
        return x**n if x.sum() > 0 else -x

    for sign in (1, -1):
        found = power(functrans.device_put(sign * X), n=2)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, X**2 if sign > 0 else X)


def test_failures_are_raised_by_the_call(emulated):
    broken = jit(np.linalg.inv)(functrans.device_put(np.ones((2, 2))))
    with pytest.raises(np.linalg.LinAlgError):
        jit(double, device="cpu")(broken)
    del broken


def test_stages_are_those_of_the_host(emulated):
    x = functrans.device_put(X)
    assert "define" in jit(double, device="cpu").lower(x).llvm()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_where_it_runs_is_kept_by_a_pickle(emulated, device):
    compiled = pickle.loads(pickle.dumps(jit(double, device=device)))
    assert repr(compiled) == f"jit(double, device={'cuda:0' if device == 'cuda' else 'cpu'!r})"
    found = compiled(functrans.device_put(X))
    assert isinstance(found, np.ndarray if device == "cpu" else DeviceArray)
    np.testing.assert_array_equal(np.asarray(found), 2 * X)


# -- inputs from the host --------------------------------------------------------------------------


def test_inputs_of_the_host_are_converted_as_those_of_programs_there(emulated):
    graph = functrans.trace(double)(np.ones(3, np.float32))
    there = program(graph, "cuda:0")
    here = jit(double)
    for given in (np.ones(3, np.float64), np.ones(3, int), [1, 2, 3]):
        (found,) = there(given)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(found), 2 * np.asarray(given))
    for given in (np.ones(3, complex), np.ones(2), "abc"):
        with pytest.raises(TypeError, match=r"input 0 is .*: this program is compiled for float32"):
            there(given)
    del there, here, found

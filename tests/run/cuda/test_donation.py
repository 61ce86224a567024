"""Donated arguments on a device."""

import numpy as np
import pytest

import functrans
from functrans import jit
from functrans.errors import DeviceError
from functrans.run.cuda.array import DeviceArray
from functrans.run.cuda.memory import Memory
from tests.errors.words import message_of

X = np.random.default_rng(0).normal(size=(6, 17)).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


PROGRAMS = {
    "elementwise": lambda x: np.sin(x) * 2,
    "rows": softmax,
    "a scatter": lambda x: functrans.numpy.at(x)[np.array([3, 1, 3])].add(1.0),
    "an element": lambda x: functrans.numpy.at(x)[2, 3].set(5.0),
    "reversed": lambda x: x[::-1] + 1,
    "cumulative": lambda x: np.cumsum(x, axis=1),
    "by its sum": lambda x: x / np.sum(x),
    "two results": lambda x: (x + 1, x * 2),
    "by a product": lambda x: (x @ x.T) @ x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_right(emulated, name):
    function = PROGRAMS[name]
    expected = jit(function)(X)
    found = jit(function, donate_argnums=0)(functrans.device_put(X))
    pairs = zip(functrans.tree.leaves(found), functrans.tree.leaves(expected), strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(np.asarray(x), y, rtol=2e-5, atol=1e-5)
    del found, x, pairs


def test_the_result_has_the_memory(emulated):
    x = functrans.device_put(X)
    address = x.memory.address
    step = jit(lambda x: x * 0.5, donate_argnums=0)
    y = step(x)
    assert y.memory.address == address
    assert message_of(DeviceError, lambda: np.asarray(x)) == (
        "this array was given up (donate_argnums, donate_argnames), and a result has its memory: "
        "use the result, or donate a copy, x.copy()"
    )
    assert "given up" in repr(x)
    assert x.shape == X.shape
    for _ in range(4):
        y = step(y)
    assert y.memory.address == address
    np.testing.assert_allclose(np.asarray(y), X / 32)


@pytest.mark.parametrize("how", ["shown", "shared", "twice"])
def test_memory_that_others_have_stays_as_it_is(emulated, how):
    x = functrans.device_put(X)
    f = jit(lambda x, y: x * 2 + y.sum(), donate_argnums=0)
    other = functrans.device_put(np.zeros(2, np.float32))
    if how == "shown":
        x.memory.show()
    elif how == "shared":
        other = DeviceArray(x.memory, x.shape, x.dtype)
    else:
        other = x
    expected = X * 2 + np.asarray(other).sum()
    found = f(x, other)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(x), X)
    assert type(x.memory) is Memory
    del x, other, found


def test_arrays_of_the_host_are_copied_there_anyway(emulated):
    x = X.copy()
    np.testing.assert_allclose(jit(lambda x: x + 1, donate_argnums=0, device="cuda")(x), X + 1)
    np.testing.assert_array_equal(x, X)


def test_a_failure_is_raised_without_computing_again(emulated):
    f = jit(lambda x, i: functrans.numpy.at(x)[i].set(x[i] + 1), donate_argnums=0)
    found = f(functrans.device_put(X), functrans.device_put(np.array([99])))
    with pytest.raises(IndexError):
        np.asarray(found)
    del found


def test_it_is_shown():
    lowered = jit(lambda x: x + 1, donate_argnums=0).lower(X, device="cuda")
    assert "lives in input 0" in lowered.schedule()

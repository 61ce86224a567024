"""Inline cache: native code dispatches repeated calls with device arrays."""

import threading
from contextvars import copy_context
from typing import NamedTuple

import numpy as np
import pytest

from functrans import config, device_put, grad, jit
from functrans.api.compile import Jitted
from functrans.errors import DeviceError, DtypeError, NonFiniteError
from functrans.run.cuda import launches
from functrans.run.cuda.array import DeviceArray
from tests.run.cuda.emulated import Emulated, not_compiled
from tests.run.cuda.stub import stubs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)


class Pair(NamedTuple):
    first: object
    second: object


@pytest.fixture
def by_python(emulated, monkeypatch):
    """The arguments of the calls that Python looks at."""
    calls = []
    usual = Jitted._results

    def results(self, args, kwargs):
        calls.append(args)
        return usual(self, args, kwargs)

    monkeypatch.setattr(Jitted, "_results", results)
    return calls


def scaled(x, k=2.0):
    return np.sin(x) * k


def test_calls_like_the_last_are_found_by_native_code(by_python):
    f = jit(scaled)
    x, y, z = device_put(X), device_put(X + 1), device_put(X[:2])
    for given in [(x,), (x,), (y,), (x,), (x, 0.5), (x, 0.5), (y, 0.25), (y, -0.0), (x,)]:
        found = f(*given)
        on_host = [np.asarray(each) for each in given]
        np.testing.assert_allclose(np.asarray(found), scaled(*on_host), rtol=1e-6)
        assert np.asarray(found).dtype == np.float32
    assert len(by_python) == 5
    # what is of other types goes to Python
    for given in [(z,), (device_put(X.astype(float)),), (X,), (x, 3), (x, True), (x, 1j)]:
        before = len(by_python)
        found = f(*given)
        assert len(by_python) > before
        expected = scaled(*map(np.asarray, given[:1]), *given[1:])
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)
        assert isinstance(found, DeviceArray) is isinstance(given[0], DeviceArray)
    del found, x, y, z, given
    by_python.clear()


def nested(p, *, rest=()):
    total = p["w"] * p["b"][0]
    for each in rest:
        total = total + each
    return {"sum": total, "pair": Pair(p["w"], [total, None]), "both": (total,)}


def test_containers_are_looked_into(by_python):
    f = jit(nested)
    for k in range(5):
        w, b = X + k, RNG.normal(size=(4,)).astype(np.float32)
        given = {"w": device_put(w), "b": [device_put(b)]}
        found = f(given, rest=[given["w"], 1.5])
        expected = nested({"w": w, "b": [b]}, rest=[w, 1.5])
        np.testing.assert_allclose(np.asarray(found["sum"]), expected["sum"], rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(found["pair"].first), w)
        assert type(found["pair"]) is Pair and found["pair"].second[1] is None
        assert list(found) == ["sum", "pair", "both"] and type(found["both"]) is tuple
    assert len(by_python) == 2
    with pytest.raises(KeyError):
        f({"w": given["w"], "c": [given["w"]]})
    del found, given
    by_python.clear()


def test_what_is_read_from_outside_is_looked_at(by_python):
    settings = {"k": 2.0, "w": device_put(X)}
    f = jit(lambda x: x * settings["k"] + settings["w"])
    x = device_put(X)
    for k, w in [(2.0, X), (2.0, X), (2.0, X), (3.0, X), (3.0, X), (3.0, X + 1), (3.0, X + 1)]:
        settings["k"] = k
        if w is not X:
            settings["w"] = device_put(w)
        np.testing.assert_allclose(np.asarray(f(x)), X * np.float32(k) + w, rtol=1e-6)
    settings.clear()
    del x
    by_python.clear()


def test_inside_of_a_trace_the_function_is_traced(by_python):
    f, x = jit(scaled), device_put(X)
    for _ in range(3):
        f(x)
    slope = grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(np.asarray(slope), 2 * np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(jit(lambda x: f(x) + 1)(x)), scaled(X) + 1, rtol=1e-6)
    del slope, x
    by_python.clear()


def test_options_that_look_at_values_are_minded(by_python, monkeypatch):
    f, x = jit(lambda x: np.log(x)), device_put(-X * X)
    for _ in range(3):
        assert np.isnan(np.asarray(f(x))).all()
    monkeypatch.setattr(config, "check_values", "nan")
    with pytest.raises(NonFiniteError):
        np.asarray(f(x))
    del x
    by_python.clear()


def test_errors_are_those_of_every_call(by_python):
    f = jit(lambda x, i: x[i] + 1.0)
    x, there = device_put(X), device_put(np.int64(1))
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(f(x, there)), X[1] + 1)
    with pytest.raises(IndexError, match="out of bounds"):
        np.asarray(f(x, device_put(np.int64(7))))
    add = jit(lambda x, k: x + k)
    for _ in range(3):
        add(x, 1)
    said = []
    for _ in range(2):
        with pytest.raises((OverflowError, DtypeError)) as caught:
            add(x, 1 << 70)
        said.append(str(caught.value))
    named = "argument 1 ('k') of <lambda> is 1180591620717411303424, which no int64 holds"
    assert said == [f"{named}: pass 1.18059e+21"] * 2
    given_up, step = device_put(X), jit(lambda p: p * 0.5, donate_argnums=0)
    for _ in range(4):
        previous, given_up = given_up, step(given_up)
        for _ in range(2):
            with pytest.raises(DeviceError, match="this array was given up"):
                step(previous)
    np.testing.assert_allclose(np.asarray(given_up), X / 16)
    del x, there, given_up, previous, caught
    by_python.clear()


def test_an_array_of_another_device_is_computed_with_there(monkeypatch):
    monkeypatch.setattr(launches, "compile_cubin", not_compiled)
    monkeypatch.setattr(launches, "are_installed", lambda: False)
    with stubs(1 << 20, 1 << 20, kind=Emulated):
        f = jit(scaled)
        x, y = device_put(X, "cuda:0"), device_put(X, "cuda:1")
        for given in (x, x, x, y, y, y, x, y):
            found = f(given)
            assert found.device == given.device
            np.testing.assert_allclose(np.asarray(found), scaled(X), rtol=1e-6)


@pytest.mark.dear
def test_threads_share_what_is_known(by_python):
    f = jit(scaled)
    for _ in range(3):
        f(device_put(X))
    wrong = []

    def loop():
        y = device_put(X)
        for _ in range(20):
            y = f(y)
        expected = X
        for _ in range(20):
            expected = scaled(expected)
        if not np.allclose(np.asarray(y), expected, rtol=1e-4):
            wrong.append(np.asarray(y))

    # (in a new context the GPUs are the machine's own)
    threads = [threading.Thread(target=copy_context().run, args=(loop,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    by_python.clear()

"""debug.why_compiled: each trace of a compiled function, and what was new about the call."""

import gc
import weakref

import numpy as np
import pytest

from functrans import config, debug, grad, jit
from functrans.api.history import ADVISED
from functrans.errors import RecompilationWarning
from functrans.run.call import entry


def reasons(function):
    return [list(one.reasons) for one in debug.why_compiled(function).compilations]


def test_types_of_arguments():
    @jit
    def f(x, p, *rest, n=1):
        return np.sum(x) * p["w"] * n

    f(np.ones(3), {"w": 1.0})
    f(np.ones(3), {"w": 2.0})
    f(np.ones(4), {"w": 1.0})
    f(np.ones(4, np.float32), {"w": 1.0})
    f(np.ones(4), {"w": np.ones(2)})
    f(np.ones(4), {"w": 1.0, "b": 1.0})
    f(np.ones(4), {"b": 1.0, "w": 1.0})
    f(np.ones(4), {"w": 1.0}, n=2)
    assert reasons(f) == [
        [],
        ["x: f64[3] -> f64[4]"],
        ["x: f64[4] -> f32[4]"],
        ["p['w']: f64*[] -> f64[2]"],
        ["p['b'] is given as well"],
        ["a dict has its keys in another order"],
        ["n is given as well"],
    ]
    first = debug.why_compiled(f).compilations[0]
    assert first.arguments == {"x": "f64[3]", "p['w']": "f64*[]"}
    assert first.traced > 0
    assert first.made.seconds > 0


def test_the_nearest_call_before_is_compared_with():
    f = jit(lambda x, y: x * y)
    f(1.0, 2.0)
    f(np.ones(3), np.ones(3))
    f(np.ones(3), 1.0)
    assert reasons(f)[2] == ["y: f64[3] -> f64*[]"]


def test_structures_of_the_same_leaves():
    f = jit(lambda x: x[0] + x[1])
    f([1.0, 2.0])
    f((1.0, 2.0))
    [reason] = reasons(f)[1]
    assert reason == "built otherwise: at [0][0]: expected a list of 2, found a tuple of 2"


def test_static_arguments():
    f = jit(lambda x, n: x**n, static_argnums=1)
    f(2.0, 2)
    f(2.0, 3)
    assert reasons(f) == [[], ["n (static): 2 -> 3"]]


SCALE = 2.0
TABLE = {"k": 1}


def test_what_is_read_from_outside(monkeypatch):
    shift, data = 1.0, np.ones(3)

    class Model:
        def __init__(self):
            self.layers = [np.ones(2)]
            self.rate = 0.5

        @jit
        def step(self, x):
            return x * self.rate * np.sum(self.layers[0])

    @jit
    def f(x):
        return x * SCALE * TABLE["k"] + shift + np.sum(data)

    f(1.0)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    f(1.0)
    monkeypatch.setitem(TABLE, "k", 7)
    f(1.0)
    shift = -1.0
    f(1.0)
    outside = "what it reads from outside: "
    assert reasons(f) == [
        [], [f"{outside}SCALE: 2.0 -> 3.0"], [f"{outside}TABLE['k']: 1 -> 7"],
        [f"{outside}shift: 1.0 -> -1.0"],
    ]  # fmt: skip
    model = Model()
    model.step(1.0)
    model.rate = 0.25
    model.step(1.0)
    model.layers[0] = np.ones(3)
    model.step(1.0)
    assert reasons(model.step) == [
        [], [f"{outside}rate: 0.5 -> 0.25"], [f"{outside}layers[0] has changed"],
    ]  # fmt: skip


def test_pythons_branches():
    f = jit(lambda x: x if x > 0 else -x)
    f(1.0)
    f(-1.0)
    f(2.0)
    assert reasons(f) == [[], ["another way through Python's branches"]]


def test_what_became_of_the_kernels():
    def function(x):
        return np.sum(np.sin(x) * 1.2345)

    entry.prepare()  # which is compiled with a process's first program, by another thread
    first, second = jit(function), jit(lambda x: function(x))
    for one in (first, second):
        one(np.ones(3))
    made = [debug.why_compiled(one).compilations[0].made for one in (first, second)]
    assert made[0].compiled == 1
    assert made[1].compiled == 0
    traced = jit(function)
    traced.lower(np.ones(3))
    assert repr(debug.why_compiled(traced)) == "function has been traced 0 times"


def test_it_prints_as_a_list():
    f = jit(lambda x: x + 1.0)
    f(1.0)
    f(np.ones(2))
    first, second, third = repr(debug.why_compiled(f)).splitlines()
    assert first == "<lambda> has been traced 2 times"
    assert second.startswith("  1. first call with x: f64*[]; traced in ")
    assert third.startswith("  2. x: f64*[] -> f64[2]; traced in ")
    assert " ms, made in " in third


def test_log_compiles(capsys, monkeypatch):
    monkeypatch.setattr(config, "log_compiles", True)
    f = jit(lambda x: x + 1.0)
    for x in (1.0, 2.0, np.ones(2)):
        f(x)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("functrans: <lambda>: first call with x: f64*[]; traced in ")
    assert second.startswith("functrans: <lambda>: x: f64*[] -> f64[2]; traced in ")


@pytest.mark.parametrize(
    ("calls", "advice"),
    [(lambda f, i: f(np.ones(i + 1)), "pad arrays to a few shapes"),
     (lambda f, i: f(1.0, n=i), "pass numbers as arrays, not static"),
     (lambda f, i: f({str(i): 1.0}), "Each structure of arguments is compiled")],
    ids=["shapes", "static", "structures"],
)  # fmt: skip
def test_after_many_a_warning_says_what_to_do(calls, advice, recwarn):
    f = jit(lambda x, n=0: x, static_argnames="n")
    for i in range(ADVISED - 1):
        calls(f, i)
    assert not [one for one in recwarn if one.category is RecompilationWarning]
    with pytest.warns(RecompilationWarning, match=advice):
        calls(f, ADVISED)
    for i in range(ADVISED + 1, ADVISED + 5):
        calls(f, i)
    assert len([one for one in recwarn if one.category is RecompilationWarning]) == 0


@pytest.mark.parametrize("size", [3, 1000])
def test_an_array_from_outside_of_another_shape_is_named(size):
    table = np.ones(size)
    f = jit(lambda i: table[i] * 2.0)
    f(1)
    table = np.ones(size + 1)
    f(1)
    shapes = f"f64[{size}] -> f64[{size + 1}]"
    found = f.compilations().compilations[1]
    assert found.reasons == (f"what it reads from outside: table: {shapes}",)


@pytest.mark.dear
def test_nothing_is_kept_alive():
    f = jit(lambda x: x["a"] * 2.0)
    array = np.ones(3)
    f({"a": array})
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


def test_other_functions_are_refused():
    with pytest.raises(TypeError, match=r"^debug\.why_compiled takes a function that jit has"):
        debug.why_compiled(grad(np.sin))

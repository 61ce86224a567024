"""Jitted methods whose instances change, and jitted functions in pickles."""

import copy
import gc
import inspect
import pickle
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import NamedTuple

import cloudpickle
import numpy as np
import pytest

from functrans import grad, jit, linearize, tree, vjp, vmap
from functrans.api.methods import MOST_KEPT


class Model:
    def __init__(self):
        self.scale = 2.0
        self.weights = np.arange(3.0)
        self.traced = []

    @jit
    def apply(self, x):
        self.traced.append(1)
        return np.sum(self.weights * x) * self.scale


def test_an_attribute_that_is_set_anew_is_seen():
    model, x = Model(), np.ones(3)
    assert model.apply(x) == 6.0
    assert model.apply(x) == 6.0
    assert len(model.traced) == 1
    model.scale = 3.0
    assert model.apply(x) == 9.0
    model.weights = np.ones(3)
    assert model.apply(x) == 9.0
    model.weights = model.weights * 2
    assert model.apply(x) == 18.0
    assert len(model.traced) == 3  # weights that have changed once are an input
    assert grad(model.apply)(x).tolist() == [6.0, 6.0, 6.0]


def test_another_instance_is_another_function():
    one, other = Model(), Model()
    other.scale = 5.0
    assert [one.apply(np.ones(3)), other.apply(np.ones(3)), one.apply(np.ones(3))] == [6, 15, 6]
    assert len(one.traced) == 1


def test_methods_of_an_instance_are_equal():
    one, other = Model(), Model()
    assert {one.apply, one.apply, other.apply} == {other.apply, one.apply}
    assert one.apply != other.apply
    assert repr(one.apply) == "jit(apply)"


@dataclass(slots=True)
class WithSlots:
    scale: float
    weights: np.ndarray

    @jit
    def apply(self, x):
        return np.sum(self.weights * x) * self.scale


class Pair(NamedTuple):
    scale: float
    weights: np.ndarray

    apply = WithSlots.apply


@pytest.mark.parametrize("kind", [WithSlots, Pair])
@pytest.mark.parametrize("size", [2, 1000])
def test_an_instance_without_weak_references(kind, size):
    one, other = kind(2.0, np.ones(size)), kind(3.0, np.ones(size))
    x = np.ones(size)
    assert [one.apply(x), other.apply(x), one.apply(x)] == [2 * size, 3 * size, 2 * size]
    one.weights[:] = 5.0
    assert [one.apply(x), other.apply(x)] == [10 * size, 3 * size]
    if kind is WithSlots:
        one.scale = 1.0
        assert one.apply(x) == 5 * size


def test_few_instances_without_weak_references_are_kept():
    for scale in range(MOST_KEPT + 20):
        assert callable(WithSlots(scale, np.ones(2)).apply)
    gc.collect()
    assert sum(type(x) is WithSlots for x in gc.get_objects()) <= MOST_KEPT


@pytest.mark.full
def test_an_instance_that_knows_itself_can_go():
    model = Model()
    model.itself = model
    model.apply(np.ones(3))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Slotted:
    __slots__ = ("__weakref__", "scale")

    @jit
    def apply(self, x):
        return x * self.scale


def test_an_instance_without_a_dictionary():
    one = Slotted()
    one.scale = 2.0
    assert one.apply(3.0) == one.apply(3.0) == 6.0


@jit
def double(x):
    return 2.0 * x


def triple(x, n=1):
    return 3.0 * x * n


jitted_triple = jit(triple, static_argnames="n")


def test_a_decorated_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(double)) is double


def test_another_one_takes_its_function_along():
    again = pickle.loads(pickle.dumps(jitted_triple))
    assert again is not jitted_triple
    assert again(2.0, n=2) == jitted_triple(2.0, n=2) == 12.0


def test_a_jitted_lambda_fails_as_a_lambda_does():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(jit(lambda x: x))


SCRIPT = """
import subprocess, sys
import numpy as np
import cloudpickle
from functrans import grad, jit

@jit
def of_the_script(x):
    return np.sum(np.tanh(x))

def caller(x):
    return of_the_script(x) + 1

if __name__ == "__main__":
    data = cloudpickle.dumps((of_the_script, caller, grad(of_the_script)))
    code = "import pickle, sys, numpy as np; data = sys.stdin.buffer.read();"
    code += "print(*(f(np.zeros(2)) for f in pickle.loads(data)))"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    print(done.stdout.decode(), done.stderr.decode())
    from joblib import Parallel, delayed
    print(*Parallel(n_jobs=2)(delayed(f)(np.zeros(2)) for f in (of_the_script, caller)))
"""


@pytest.mark.dear
def test_functions_of_a_script_go_to_other_processes_by_value(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["0.0", "1.0", "[1.", "1.]", "0.0", "1.0"], done.stderr


def test_functions_of_a_module_go_by_name():
    assert cloudpickle.loads(cloudpickle.dumps(double)) is double
    assert pickle.loads(pickle.dumps(double)) is double


def test_what_takes_a_vector_to_a_tree_is_pickled():
    vector, unravel = tree.ravel({"w": np.ones((2, 2)), "b": np.zeros(2)})
    again = pickle.loads(pickle.dumps(unravel))(vector * 2)
    assert again["w"].tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("make", [vjp, linearize])
def test_linear_functions_are_pickled(make):
    _, linear = make(lambda x: np.sin(x) * x[0], np.ones(2))
    again = pickle.loads(pickle.dumps(linear))
    found, expected = again(np.array([1.0, 2.0])), linear(np.array([1.0, 2.0]))
    assert np.array_equal(found, expected)


class Unhelpful:
    """Raises something else than AttributeError for what it has not."""

    def __init__(self):
        self.w = np.ones(3)

    def __getattr__(self, name):
        raise KeyError(name)

    def __call__(self, x):
        return np.sum(self.w * x**2)


@pytest.mark.parametrize("transform", [grad, jit, vmap, lambda f: jit(grad(f))])
def test_a_class_that_raises_something_else_for_what_it_has_not(transform):
    x = np.ones((3, 3)) if transform is vmap else np.ones(3)
    assert np.array_equal(transform(Unhelpful())(x), transform(lambda x: np.sum(x**2))(x))


def test_such_a_class_as_an_argument():
    with pytest.raises(TypeError, match="not a number or an array"):
        jit(lambda x, c: c(x))(np.ones(3), Unhelpful())


def test_a_bound_compiled_method_is_what_its_method_is():
    scaled = Scaled(2.0)
    method = scaled.compiled
    assert (method.__name__, method.__doc__) == ("compiled", "Of `scale`.")
    assert str(inspect.signature(method)) == "(x, *, power=1)"
    assert method(3.0, power=2) == 18.0
    for other in (pickle.loads(pickle.dumps(method)), copy.copy(method)):
        assert other(3.0, power=2) == 18.0
    with pytest.raises(AttributeError, match="nothing"):
        method.nothing  # noqa: B018


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    @jit
    def compiled(self, x, *, power=1):
        """Of `scale`."""
        return self.scale * x**power

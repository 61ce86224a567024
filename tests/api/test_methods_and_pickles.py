"""Jitted methods whose instances change, and jitted functions in pickles."""

import gc
import pickle
import weakref

import numpy as np
import pytest

from functrans import grad, jit


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

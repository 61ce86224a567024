"""Cached recordings of operations equal recordings without the cache."""

import operator
import sys
from itertools import product

import numpy as np
import pytest

from functrans import grad, jvp
from functrans.api.linearization import Point
from functrans.errors import DtypeError
from functrans.numpy import substitutes
from functrans.trace import operators
from functrans.trace.source import located, user_source

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.eq, lambda x, y: np.maximum(x, y),
    lambda x, y: np.arctan2(x, y), lambda x, y: np.add(y, x), lambda x, y: np.logaddexp(x, y),
]  # fmt: skip
UNARY = [operator.neg, abs, lambda x: np.sin(x), lambda x: np.sqrt(x), lambda x: np.sign(x)]
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow,
]  # fmt: skip
LEAVES = [
    0.3, np.float32(0.3), np.array([0.5, 0.25], np.float32), np.array([[0.5], [0.25]]),
    np.array(0.75), np.float64(2.0),
]  # fmt: skip
OTHERS = [
    *LEAVES, 2, True, 2**70, np.float16(1.5), np.longdouble(1.5), np.int32(3), np.int8(3),
    np.array([1, 2], np.int32), np.arange(2.0)[::-1], np.arange(2.0).astype(">f8"),
    np.ones((2, 2), np.float32), np.array([True, False]),
]  # fmt: skip


def outcome(function, *leaves):
    """The graph, its outputs and what it takes from outside, or the error."""
    try:
        point = Point(lambda *xs: [function(*xs)], leaves, "grad", "argument {}".format)
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", None)
    values = [np.asarray(x) for x in (*point.inputs, *point.outputs())]
    lines = [str(eqn.source) for eqn in point.graph.eqns]
    return point.graph.key, [(x.dtype, x.tobytes()) for x in values], lines


def same_the_long_way(function, *leaves):
    with pytest.MonkeyPatch.context() as patching:
        for module in (operators, substitutes):
            patching.setattr(module, "unary", lambda *_: None)
            patching.setattr(module, "binary", lambda *_: None)
        long = outcome(function, *leaves)
    return long == outcome(function, *leaves) == outcome(function, *leaves)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(BINARY)))
def test_two_operands(number):
    operation = BINARY[number]
    for x, y in product(LEAVES, OTHERS):
        assert same_the_long_way(lambda x, y=y: operation(x, y), x), (x, y)
        assert same_the_long_way(lambda x, y=y: operation(y, x), x), (y, x)
    for x, y in product(LEAVES, LEAVES):
        assert same_the_long_way(operation, x, y), (x, y)


@pytest.mark.parametrize("number", range(len(UNARY)))
def test_one_operand(number):
    for x in (*LEAVES, 1 - 2j, np.array([1j, 2.0], np.complex64)):
        assert same_the_long_way(UNARY[number], x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(IN_PLACE)))
def test_in_place(number):
    operation = IN_PLACE[number]
    for x, y in product(LEAVES, OTHERS):
        assert same_the_long_way(lambda x, y=y: operation(x * x, y), x), (x, y)
    for x, y in product(LEAVES, LEAVES):
        assert same_the_long_way(lambda x, y: operation(x * x, y), x, y), (x, y)


def test_in_place_is_seen_by_other_names():
    def function(x, steps):
        y = x * 1.0
        same, part = y, y[:1]
        for _ in range(steps):
            y += 0.5 * x
        part *= 3.0
        return np.sum(same)

    found = grad(function)(np.array([1.0, 2.0, 3.0]), 4)
    np.testing.assert_allclose(found, [9.0, 3.0, 3.0])


def test_in_place_takes_as_few_calls_as_the_operator():
    def calls(function):
        slope, count = grad(function), 0

        def profile(frame, event, _):
            nonlocal count
            count += event == "call"

        slope(np.ones(3))
        sys.setprofile(profile)
        slope(np.ones(3))
        sys.setprofile(None)
        return count

    def plain(x):
        y = x * 1.0
        for _ in range(50):
            y = y * 0.5
        return np.sum(y)

    def in_place(x):
        y = x * 1.0
        for _ in range(50):
            y *= 0.5
        return np.sum(y)

    assert calls(in_place) <= calls(plain) + 50 * 20  # (39 more the long way)


def test_views_are_read_again_after_an_assignment():
    def function(x):
        y = np.array([x, x])
        part = y[:1]
        before = part * 2.0
        y[0] = 3.0 * x
        return (before + part * 2.0)[0] + -part[0]

    assert grad(function)(1.0) == 2.0 + 6.0 - 3.0


def test_values_of_an_enclosing_trace():
    assert grad(lambda x: grad(lambda y: x * y * y + x)(x) * x)(3.0) == 54.0
    assert jvp(lambda x: grad(lambda y: -x * y)(2.0), (1.0,), (1.0,)) == (-1.0, -1.0)


def test_an_array_is_taken_as_it_is_now():
    def function(x):
        data = np.array([1.0, 2.0])
        y = x * data
        data[:] = 0.0
        return np.sum(y)

    assert grad(function)(np.ones(2)).tolist() == [1.0, 2.0]


def test_an_error_says_where():
    place = []

    def function(x):
        place.append(located(user_source()))
        return x + np.ones(3)

    with pytest.raises(ValueError, match="broadcast") as caught:
        grad(function)(np.ones(2))
    assert "return x + np.ones(3)" in str(caught.value)
    with pytest.raises(DtypeError, match="not supported"):
        grad(lambda x: x + np.array(["a"]))(np.ones(1))


def test_what_numpy_raises_is_raised():
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        grad(lambda x: x / 0.0)(1.0)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        grad(lambda x: np.log(x))(0.0)

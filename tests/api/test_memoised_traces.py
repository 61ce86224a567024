"""Functions with custom rules are traced once per argument types if nothing else affects them."""

import dataclasses
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrans import custom_jvp, custom_vjp, grad, jacrev, jit, tree, vmap

SCALE = 2.0
TABLE = np.array([3.0])
OPTIONS = {"scale": 5.0}
X = np.array([0.5, 1.5])


def factor():
    return SCALE


def ruled(scale, transform=custom_vjp):
    """The sine, whose derivative is said to be ``scale()``."""
    if transform is custom_vjp:

        @custom_vjp
        def function(x):
            return np.sin(x)

        def forward(x):
            return function(x), x

        def backward(x, ct):
            return (scale() * ct * np.ones_like(x),)

        function.defvjp(forward, backward)
    else:

        @custom_jvp
        def function(x):
            return np.sin(x)

        function.defjvps(lambda tangent, result, x: scale() * tangent)
    return function


def slope(function):
    return grad(lambda x: np.sum(function(x)))(X)[0]


def calls_of(name, function):
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_name == name

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_rule_is_not_called_again():
    function = ruled(factor)
    assert calls_of("backward", lambda: slope(function)) == 1
    assert calls_of("backward", lambda: slope(function)) == 0
    assert calls_of("backward", lambda: grad(function)(0.5)) == 1  # another type


@pytest.mark.parametrize("transform", [custom_vjp, custom_jvp])
def test_nothing_is_stale(transform, monkeypatch):
    here = 1.0
    held = [1.0]
    scales = {
        "global": factor,
        "closure": lambda: here,
        "array": lambda: TABLE[0],
        "dict": lambda: OPTIONS["scale"],
        "list": lambda: held[0],
        "default": lambda: type(holder).scale,
        "module": lambda: sys.modules[__name__].SCALE,
        "scope": lambda: globals()["SCALE"],
    }

    class Holder:
        scale = 1.0

    holder = Holder()
    functions = {name: ruled(scale, transform) for name, scale in scales.items()}
    for function in functions.values():
        slope(function)
        slope(function)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 7.0)
    monkeypatch.setitem(OPTIONS, "scale", 7.0)
    monkeypatch.setattr(sys.modules[__name__], "TABLE", TABLE.copy())
    here = held[0] = TABLE[0] = Holder.scale = 7.0
    assert {name: slope(function) for name, function in functions.items()} == dict.fromkeys(
        scales, 7.0
    )


def test_functions_and_rules_that_become_others(monkeypatch):
    function = ruled(lambda: factor())
    assert slope(function) == slope(function) == 2.0
    monkeypatch.setattr(sys.modules[__name__], "factor", lambda: 11.0)
    assert slope(function) == 11.0
    outer = ruled(lambda: grad(function)(0.5))
    assert slope(outer) == slope(outer) == 11.0
    function.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (13.0 * ct,))
    assert slope(function) == slope(outer) == 13.0


class Named(NamedTuple):
    w: Any
    factor = 2.0

    def scaled(self, x):
        return self.w * x * self.factor * factor()

    @property
    def scale(self):
        return self.scaled(1.0)


@tree.register_dataclass
@dataclasses.dataclass
class Fields:
    w: Any
    factor = 2.0
    scaled, scale = Named.scaled, Named.scale


@pytest.mark.parametrize("kind", [Named, Fields])
def test_classes_of_arguments(kind, monkeypatch):
    @custom_vjp
    def function(model, x):
        return model.scaled(x)

    def backward(model, ct):
        return kind(np.zeros_like(model.w)), ct * model.scale

    function.defvjp(lambda model, x: (function(model, x), model), backward)
    model = kind(np.float64(3.0))
    slope = grad(function, 1)
    assert calls_of("backward", lambda: slope(model, 1.0)) == 1
    assert calls_of("backward", lambda: slope(model, 1.0)) == 0
    held = [5.0]
    monkeypatch.setitem(globals(), "TABLE", TABLE.copy())

    def counts(self):
        held[0] += 1.0
        return held[0]

    for change in (
        lambda: monkeypatch.setattr(kind, "factor", 7.0),
        lambda: monkeypatch.setitem(globals(), "SCALE", 5.0),
        lambda: monkeypatch.setattr(kind, "scale", property(lambda self: held[0])),
        lambda: held.__setitem__(0, 6.0),
        lambda: monkeypatch.setattr(kind, "scale", property(counts)),
        lambda: monkeypatch.setattr(kind, "scale", TABLE[0]),
        lambda: monkeypatch.setattr(kind, "scale", property(lambda self: TABLE[0])),
        lambda: TABLE.__setitem__(0, 9.0),
    ):
        change()
        for _ in range(2):
            before = held[0]
            found = slope(model, 1.0)
            held[0] = before
            assert found == model.scale


def test_only_an_instance_that_is_being_made_may_be_assigned_to():
    class Counts:
        made = 0.0

    class Box:
        def __init__(self, w):
            self.w = w
            Counts.made += 1.0

    function = ruled(lambda: Box(1.0).w * Counts.made)
    assert slope(function) < slope(function)


def test_code_and_defaults_that_become_others():
    def scale(by=2.0):
        return by

    function = ruled(scale)
    assert slope(function) == slope(function) == 2.0
    scale.__defaults__ = (3.0,)
    assert slope(function) == 3.0
    scale.__code__ = (lambda by: 5.0).__code__
    assert slope(function) == 5.0


def test_random_numbers_are_drawn_again():
    function = ruled(lambda: np.random.normal())
    assert slope(function) != slope(function)


def test_rules_that_count_and_branch():
    count = 0

    def counting():
        nonlocal count
        count += 1
        return float(count)

    function = ruled(counting)
    assert [slope(function) for _ in range(3)] == [1.0, 2.0, 3.0]

    @custom_vjp
    def steps(x):
        return 1.0 if x > 0 else -1.0

    steps.defvjp(lambda x: (steps(x), x), lambda x, ct: ((2.0 if x > 0 else 3.0) * ct,))
    assert [grad(steps)(x) for x in (1.0, -1.0, 1.0)] == [2.0, 3.0, 2.0]


def test_warnings_come_at_each_call():
    @custom_vjp
    def logarithm(x):
        return np.log(x)

    logarithm.defvjp(lambda x: (logarithm(x), x), lambda x, ct: (ct / x,))
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            grad(logarithm)(0.0)
        assert [str(w.message) for w in caught] == ["divide by zero encountered in log"]


@pytest.mark.parametrize("transform", [custom_vjp, custom_jvp])
def test_all_transforms(transform):
    function = ruled(factor, transform)
    for _ in range(2):
        np.testing.assert_array_equal(function(X), np.sin(X))
        np.testing.assert_array_equal(vmap(grad(function))(X), [2.0, 2.0])
        np.testing.assert_array_equal(jit(vmap(grad(function)))(X), [2.0, 2.0])
        np.testing.assert_array_equal(jacrev(function)(X), 2.0 * np.eye(2))
        assert grad(lambda x: function(x) * function(x))(0.5) == 4.0 * np.sin(0.5)


def test_threads():
    functions = [ruled(factor) for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(slope, [f for f in functions for _ in range(8)]))
    assert set(found) == {2.0}

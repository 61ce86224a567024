"""State that a function reaches through its arguments: static ones, and containers of others."""

import collections
import dataclasses
import enum
import typing

import numpy as np
import pytest

from functrans import checkpoint, custom_jvp, custom_vjp, grad, jit, lax, tree, vmap
from functrans.tree import Partial

X = np.array([1.0, 2.0, 3.0])
SCALE = 2.0


class Named(typing.NamedTuple):
    w: typing.Any

    def __call__(self, x):
        return self.w * x * SCALE * type(self).factor


@tree.register_dataclass
@dataclasses.dataclass
class Fields:
    w: typing.Any
    __call__ = Named.__call__


class Registered:
    def __init__(self, w):
        self.w = w

    __call__ = Named.__call__


tree.register(Registered, lambda x: ((x.w,), None), lambda _, parts: Registered(*parts))


def of_arguments(model, x):
    return model(x)


@custom_jvp
def with_jvp(model, x):
    return model(x)


with_jvp.defjvp(lambda primals, tangents: (primals[0](primals[1]), primals[0](tangents[1])))


@custom_vjp
def with_vjp(model, x):
    return model(x)


with_vjp.defvjp(
    lambda model, x: (model(x), model),
    lambda model, ct: (tree.map(np.zeros_like, model), model(ct)),
)


def slope_of(function):
    return grad(lambda model, x: np.sum(function(model, x)), 1)


FORMS = {
    "jit": jit(of_arguments),
    "jit of vmap": jit(vmap(of_arguments, (None, 0))),
    "vmap of jit": vmap(jit(of_arguments), (None, 0)),
    "gradient": jit(slope_of(of_arguments)),
    "scan": jit(lambda model, x: lax.scan(lambda m, y: (m, m(y)), model, x)[1]),
    "checkpoint": jit(checkpoint(of_arguments)),
    "custom_jvp": slope_of(with_jvp),
    "custom_vjp": slope_of(with_vjp),
    "jit of custom_vjp": jit(slope_of(with_vjp)),
}


@pytest.mark.parametrize("kind", [Named, Fields, Registered])
@pytest.mark.parametrize("name", FORMS)
def test_classes_of_containers(name, kind, monkeypatch):
    model, form = kind(np.float64(3.0)), FORMS[name]

    def check():
        expected = model(X) / (X if "grad" in name or "custom" in name else 1.0)
        for _ in range(2):
            np.testing.assert_array_equal(form(model, X), expected)

    monkeypatch.setattr(kind, "factor", 1.0, raising=False)
    check()
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    check()
    monkeypatch.setattr(kind, "factor", np.float64(7.0))
    check()
    monkeypatch.setattr(kind, "__call__", lambda self, x: self.w * x)
    check()


class Setting:
    def __init__(self, value):
        self.value = value


class Level(enum.Enum):
    LOW = 1.0


def test_objects_in_static_data():
    @tree.register_dataclass(static="how")
    @dataclasses.dataclass
    class Model:
        w: typing.Any
        how: typing.Any

    data, setting = np.ones(3000), Setting(2.0)
    weights = np.ones(3)
    model = Model(X, lambda x: x * data[0] * weights * setting.value)
    form = jit(lambda model: model.how(model.w))

    def other():
        return lambda x: x / data[0] * weights * setting.value

    for change in (
        lambda: None,
        lambda: setattr(setting, "value", 3.0),
        lambda: data.__setitem__(0, 5.0),
        lambda: weights.__setitem__(1, 7.0),
        lambda: setattr(model.how, "__code__", other().__code__),
    ):
        change()
        for _ in range(2):
            np.testing.assert_array_equal(form(model), model.how(model.w))

    sign = jit(lambda model: np.copysign(model.w, model.how) + (type(model.how) is bool))
    for how in (0.0, -0.0, 0, False, 1.0, True):
        expected = np.copysign(X, how) + (type(how) is bool)
        np.testing.assert_array_equal(sign(Model(X, how)), expected)


def test_functions_that_rebuild_containers():
    bias = 1.0

    class Box:
        def __init__(self, w):
            self.w, self.bias = w, bias

    tree.register(Box, lambda x: ((x.w,), None), lambda _, parts: Box(*parts))
    form = jit(lambda box: box.w + box.bias)
    for bias in (1.0, 4.0):
        np.testing.assert_array_equal(form(Box(X)), X + bias)


def test_partials_defaults_and_keys():
    scale = 2.0
    called = jit(lambda function, x: function(x))
    partial = Partial(lambda w, x: w * x * scale, X)
    missing = jit(lambda table, x: table["no"] * x)
    table = collections.defaultdict(lambda: scale, yes=1.0)
    keyed = jit(lambda table: sum(key.value * x for key, x in table.items()))
    levels = {Level.LOW: X}
    typed = jit(lambda table: sum(np.copysign(x, key) for key, x in table.items()))
    for scale in (2.0, 3.0):
        np.testing.assert_array_equal(called(partial, X), X * X * scale)
        np.testing.assert_array_equal(missing(table, X), scale * X)
        Level.LOW._value_ = scale
        np.testing.assert_array_equal(keyed(levels), scale * X)
    for key in (0.0, -0.0):
        np.testing.assert_array_equal(typed({key: X}), np.copysign(X, key))


def test_arrays_that_static_functions_read():
    data, shift = np.ones(3000), np.zeros(3)
    called = jit(lambda functions, x: functions[0](x) + functions[1](x), static_argnums=0)
    functions = (lambda x: x * data[0] + shift, lambda x: x * data[1])
    for change in (lambda: None, lambda: data.__imul__(3.0), lambda: shift.__iadd__(1.0)):
        change()
        for _ in range(2):
            expected = functions[0](X) + functions[1](X)
            np.testing.assert_array_equal(called(functions, X), expected)
    assert "data" in called.outside().by_reference


def test_equal_static_arguments_share_a_program():
    @dataclasses.dataclass(frozen=True)
    class Settings:
        power: int

    traces = []
    raised = jit(lambda x, how: (traces.append(1), x**how.power)[1], static_argnums=1)
    for _ in range(4):
        np.testing.assert_array_equal(raised(X, Settings(2)), X**2)
    assert len(traces) <= 2  # the list has changed once, by the trace itself


def test_scalars_with_attributes_and_records_in_rules():
    class Scaled(np.float64):
        pass

    number, record = Scaled(2.0), np.zeros(1, [("a", "f8")])[0]
    number.scale = 3.0
    record["a"] = 1.0

    @custom_jvp
    def function(x):
        return x * number * number.scale * record["a"]

    function.defjvp(lambda primals, tangents: (function(*primals), function(*tangents)))
    assert grad(function)(1.0) == 6.0
    number.scale = 5.0
    assert grad(function)(1.0) == 10.0
    record["a"] = 2.0
    assert grad(function)(1.0) == 20.0


def test_the_names_that_patterns_match():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self):
            self.x, self.y = 1.0, 2.0

    point = Point()

    def read(x):
        match point:
            case Point(a, b):
                return x * (10.0 * a + b)

    form = jit(read)
    np.testing.assert_array_equal(form(X), 12.0 * X)
    Point.__match_args__ = ("y", "x")
    np.testing.assert_array_equal(form(X), 21.0 * X)

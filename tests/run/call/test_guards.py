"""Guards: native code checks closed-over state before each call."""

import contextvars
import gc
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import cmp_to_key, partial

import numpy as np
import pytest

from functrans import grad, jit
from tests.amount import examples
from tests.run.call.test_inline_cache import python_calls

X = np.arange(1.0, 4.0)
LARGE = 5000


class Model:
    offset = 1.0

    def __init__(self, weights):
        self.weights = weights
        self.power = 2

    def __call__(self, x):
        return np.sum(self.weights) * x**self.power + self.offset


class Slotted:
    __slots__ = ("weights",)

    def __init__(self, weights):
        object.__setattr__(self, "weights", weights)

    def __setattr__(self, name, value):
        raise AttributeError("frozen")

    def __call__(self, x):
        return np.sum(self.weights) * x


@dataclass(slots=True)
class Point:
    a: float
    b: np.ndarray

    def __call__(self, x):
        return self.a * x + np.sum(self.b)


class Names(dict):
    pass


def cell():
    scale = 2.0

    def change():
        nonlocal scale
        scale += 1.0

    return lambda x: scale * x, [change]


def filled_cell():
    def change():
        nonlocal scale
        scale = np.full(LARGE, 3.0) if scale[0] == 2.0 else np.full(LARGE, 2.0)

    scale = np.full(LARGE, 2.0)
    return lambda x: np.sum(scale) * x, [change, lambda: scale.__imul__(2.0)]


def global_variable():
    module = types.ModuleType("of_a_user")
    exec("scale = 2.0\ndef f(x): return scale * x\n", vars(module))
    return module.f, [lambda: setattr(module, "scale", module.scale + 1.0)]


def module():
    module = types.ModuleType("of_a_user")
    module.scale = np.full(3, 2.0)
    for i in range(300):  # more than there are small integers
        setattr(module, f"a{i}", i)
    changes = [lambda: setattr(module, "scale", module.scale + 1), lambda: module.scale.fill(9)]
    return lambda x: module.scale * x, changes


def attribute():
    model = Model(np.ones(3))
    return model, [
        lambda: model.weights.__iadd__(1.0),
        lambda: setattr(model, "weights", np.full(3, 5.0)),
        lambda: setattr(model, "weights", np.full(LARGE, 5.0)),
        lambda: setattr(model, "power", model.power + 1),
        lambda: setattr(model, "other", 3),
        lambda: setattr(model, "offset", 4.0),
        lambda: setattr(model, "__dict__", {"weights": np.full(3, 6.0), "power": 2}),
    ]


def class_attribute():
    class Own(Model):
        offset = 3.0

    model = Own(np.ones(3))

    def another():
        model.__class__ = type("Other", (Model,), {"offset": 11.0})

    return model, [
        lambda: setattr(Own, "offset", 4.0),
        lambda: setattr(Own, "weights", 4.0),
        lambda: delattr(Own, "offset"),
        another,
    ]


def slots():
    model = Slotted(np.ones(LARGE))
    put = Slotted.weights.__set__
    return model, [
        lambda: put(model, np.full(LARGE, 3.0)),
        lambda: model.weights.__iadd__(1.0),
        lambda: put(model, np.full(3, 3.0)),
    ]


def dataclass_with_slots():
    point = Point(2.0, np.ones(3))
    return point, [lambda: setattr(point, "a", 3.0), lambda: setattr(point, "b", np.ones(LARGE))]


def unset_slot():
    point = Point(2.0, np.ones(3))
    point.a = None

    def f(x):
        return x * 2.0 if hasattr(point, "a") else x * 3.0

    changes = [lambda: delattr(point, "a"), lambda: setattr(point, "a", None)]
    return f, changes


def deleted_global():
    module = types.ModuleType("of_a_user")
    text = "scale = None\ndef f(x):\n try: return x * 2.0 if scale is None else x\n"
    exec(text + " except NameError: return x * 3.0\n", vars(module))
    return module.f, [lambda: delattr(module, "scale"), lambda: setattr(module, "scale", 1)]


def shadowed_builtin():
    module = types.ModuleType("of_a_user")
    exec("def f(x): return abs(x) + max(1.0, 2.0)\n", vars(module))
    return module.f, [
        lambda: setattr(module, "abs", lambda x: 3.0 * x),
        lambda: setattr(module, "max", min),
        lambda: delattr(module, "abs"),
    ]


def any_global():
    module = types.ModuleType("of_a_user")
    exec("def f(x): return x * globals().get('scale', 2.0)\n", vars(module))
    return module.f, [lambda: setattr(module, "scale", 3.0), lambda: setattr(module, "scale", 4.0)]


def items():
    parts = {"a": np.full(3, 2.0), "b": np.ones(LARGE)}
    return lambda x: sum(np.sum(part) * x**i for i, part in enumerate(parts.values())), [
        lambda: parts["a"].fill(4.0),
        lambda: parts.update(b=np.full(LARGE, 0.5)),
        lambda: parts.update(c=2.0),
        lambda: parts.pop("a"),
        lambda: parts.update(a=np.full(3, 2.0)),
    ]


def items_of_a_subclass():
    parts = Names(a=2.0)
    return lambda x: parts["a"] * x, [lambda: parts.update(a=3.0)]


def items_in_an_order():
    parts = OrderedDict(a=1.0, b=2.0)
    return lambda x: sum(i * part for i, part in enumerate(parts.values())) * x, [
        lambda: parts.move_to_end("a"),
        lambda: parts.update(a=5.0),
    ]


def elements():
    parts = [np.full(3, 2.0), np.ones(LARGE), 3.0]
    return lambda x: sum(np.sum(part) * x**i for i, part in enumerate(parts)), [
        lambda: parts[0].fill(4.0),
        lambda: parts.__setitem__(1, np.full(LARGE, 0.5)),
        lambda: parts.__setitem__(2, 4.0),
        lambda: parts.append(1.0),
        parts.reverse,
        parts.clear,
    ]


def defaults():
    weights = np.full(3, 2.0)

    def f(x, w=weights, *, v=weights):
        return x * np.sum(w) * np.sum(v)

    return f, [
        lambda: weights.fill(3.0),
        lambda: setattr(f, "__defaults__", (np.full(3, 5.0),)),
        lambda: setattr(f, "__kwdefaults__", {"v": np.full(3, 5.0)}),
        lambda: f.__kwdefaults__.update(v=np.full(3, 7.0)),
    ]


def numbers_as_defaults():
    def f(x, a=2.0, *, b=3.0):
        return x * a + b

    return f, [
        lambda: setattr(f, "__defaults__", (5.0,)),
        lambda: setattr(f, "__kwdefaults__", {"b": 4.0}),
        lambda: f.__kwdefaults__.update(b=7.0),
    ]


def code():
    def scaled(x):
        return 2.0 * x

    def f(x):
        return scaled(x) + 1.0

    return f, [
        lambda: setattr(scaled, "__code__", (lambda x: 3.0 * x).__code__),
        lambda: setattr(f, "__code__", (lambda x: scaled(x) - 1.0).__code__.replace(
            co_freevars=f.__code__.co_freevars)),
    ]  # fmt: skip


def function_attribute():
    def f(x):
        return f.scale * x

    f.scale = 2.0
    return f, [lambda: setattr(f, "scale", 3.0), lambda: setattr(f, "other", 3.0)]


def dtype_and_shape():
    weights = np.ones((2, 3), np.int64)
    return lambda x: weights * x, [
        lambda: setattr(weights, "shape", (6, 1)),
        lambda: setattr(weights, "dtype", np.uint64),
        lambda: weights.fill(3),
    ]


def odd_bytes():
    mask = np.array([True, False, True, True, True, False, True, False, True, True, True])
    changes = [partial(np.logical_not, mask[i], out=mask[i : i + 1]) for i in (0, 9, 10)]
    return lambda x: np.sum(mask) * x, changes


def fortran_order():
    weights = np.asfortranarray(np.ones((3, 4)))
    return lambda x: np.sum(weights[1]) * x, [lambda: weights.__setitem__((1, 2), 5.0)]


def in_a_set():
    some = {2.0}
    return lambda x: sum(some) * x, [lambda: some.add(3.0)]


def in_a_deque():
    some = deque([np.full(3, 2.0)])
    return lambda x: some[0] * x, [lambda: some[0].fill(3.0), lambda: some.appendleft(4.0)]


def in_a_context():
    scale = contextvars.ContextVar("scale", default=1.0)
    return lambda x: scale.get() * x, [lambda: scale.set(3.0)]


def module_found_by_a_string():
    name = "functrans_test_of_guards"
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].scale = 2.0
    other = types.SimpleNamespace(scale=7.0)
    changes = [
        lambda: setattr(sys.modules[name], "scale", 3.0),
        lambda: sys.modules.__setitem__(name, other),
    ]
    return lambda x: sys.modules["functrans_test_of_guards"].scale * x, changes


def class_that_loses_one_name_and_gains_another():
    class Base:
        scale = 2.0

    class Derived(Base):
        unused = 1.0

    def change():
        del Derived.unused
        Derived.scale = 3.0

    return lambda x: Derived.scale * x, [change]


def in_the_default_of_a_context():
    scales = [2.0]
    scale = contextvars.ContextVar("scale", default=scales)
    return lambda x: scale.get()[0] * x, [
        lambda: scales.__setitem__(0, 3.0),
        lambda: scale.set([5.0]),
    ]


def in_a_weak_dictionary():
    models = [Model(np.ones(3)), Model(np.ones(3))]
    some = weakref.WeakValueDictionary(first=models[0])
    changes = [
        lambda: setattr(models[0], "power", 3),
        lambda: some.update(second=models[1]),
        lambda: models.pop(0),
    ]
    return lambda x: sum(model(x) for model in some.values()), changes


def behind_a_weak_reference():
    model = Model(np.ones(3))
    reference = weakref.ref(model)
    changes = [lambda: setattr(model, "power", 3), lambda: model.weights.fill(4.0)]
    return lambda x: reference()(x), changes


def thread_local():
    local = threading.local()
    local.scale = 2.0
    return lambda x: local.scale * x, [lambda: setattr(local, "scale", 3.0)]


def referent_of_an_object_in_c():
    holder = cmp_to_key(lambda a, b: 0)(2.0)
    return lambda x: holder.obj * x, [lambda: setattr(holder, "obj", 3.0)]


PLACES = [
    module_found_by_a_string, class_that_loses_one_name_and_gains_another,
    cell, filled_cell, global_variable, module, attribute, class_attribute, slots,
    dataclass_with_slots, unset_slot, deleted_global, shadowed_builtin, any_global, items,
    items_of_a_subclass, items_in_an_order, elements, defaults, numbers_as_defaults,
    code, function_attribute, referent_of_an_object_in_c,
    dtype_and_shape, odd_bytes, fortran_order, in_a_set, in_a_deque, in_a_context,
    in_the_default_of_a_context, in_a_weak_dictionary, behind_a_weak_reference, thread_local,
]  # fmt: skip
ASKED = {
    module_found_by_a_string,  # code that names `sys` may read any global
    items_in_an_order,
    fortran_order,
    in_a_set,
    in_a_deque,
    in_a_context,
    in_the_default_of_a_context,
    in_a_weak_dictionary,
    behind_a_weak_reference,
    thread_local,
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_each_change_is_seen_at_once(place):
    function, changes = place()
    compiled = jit(function)
    for change in [lambda: None, *changes]:
        change()
        for _ in range(4):
            np.testing.assert_allclose(compiled(X), function(X), rtol=1e-14)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_without_a_change_machine_code_looks(place):
    function, changes = place()
    compiled = jit(function)
    for _ in range(3):
        compiled(X)
    calls = python_calls(compiled, X)
    assert calls if place in ASKED else not calls
    assert "_results" not in calls
    assert changes


def test_another_array_costs_no_python():
    model = Model(np.full(LARGE, 1.0))
    compiled = jit(grad(lambda x: np.sum(model(x))))
    for i in range(5):
        model.weights = np.full(LARGE, float(i))
        np.testing.assert_allclose(compiled(X), 2 * X * i * LARGE)
        calls = python_calls(compiled, X)
    assert not calls


def test_what_was_there_before_is_known_again():
    model = Model(np.ones(3))
    compiled = jit(model)
    for power in (1, 2, 1, 2, 1, 2):
        model.power = power
        np.testing.assert_allclose(compiled(X), model(X))
    for power in (1, 2, 1, 2):
        model.power = power
        assert not python_calls(compiled, X)
        np.testing.assert_allclose(compiled(X), model(X))


def test_arrays_of_another_kind_are_traced_with():
    model = Model(np.ones(LARGE))
    compiled = jit(model)
    for weights in (
        np.ones(LARGE),
        np.ones(LARGE, "f4"),
        np.ones((LARGE, 2)),
        np.ones(LARGE)[::-1],
    ):
        model.weights = weights
        for _ in range(3):
            result = compiled(X)
            assert result.dtype == model(X).dtype
            np.testing.assert_allclose(result, model(X))


def test_an_array_that_is_read_goes_with_its_owner():
    model = Model(np.ones(LARGE))
    compiled = jit(lambda x: model(x))
    for _ in range(4):
        compiled(X)
    first = weakref.ref(model.weights)
    model.weights = np.ones(LARGE)
    gc.collect()
    assert first() is None
    np.testing.assert_allclose(compiled(X), model(X))


def test_what_has_gone_is_not_followed():
    """Its memory may be another object's by then."""
    kept = {"model": Model(np.ones(3))}
    reference = weakref.ref(kept["model"])
    compiled = jit(lambda x: reference()(x) if reference() is not None else -x)
    for _ in range(4):
        compiled(X)
    del kept["model"]
    gc.collect()
    others = [Model(np.full(3, 9.0)) for _ in range(100)]
    np.testing.assert_allclose(compiled(X), -X)
    assert len(others) == 100


def test_no_reference_is_lost():
    model = Model(np.ones(LARGE))
    scale = 3.5
    compiled = jit(lambda x: model(x) * scale)
    for _ in range(4):
        compiled(X)
    watched = [model, model.weights, vars(model), Model, scale]
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(1000):
        compiled(X)
    assert [sys.getrefcount(each) for each in watched] == before


def test_threads_see_one_array_or_the_other():
    model = Model(np.full(LARGE, 1.0))
    compiled = jit(lambda x: model(x))
    for _ in range(4):
        compiled(X)
    stop, wrong = threading.Event(), []
    expected = [np.asarray(c * LARGE * X**2 + 1.0) for c in (1.0, 2.0)]

    def look():
        while not stop.is_set():
            result = compiled(X)
            if not any(np.allclose(result, each) for each in expected):
                wrong.append(result)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(examples(2000)):
        model.weights = np.full(LARGE, 1.0 + i % 2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong

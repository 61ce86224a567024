"""No stale results: compiled functions see every change of the state that they close over.

The holders of state (globals, cells, attributes, ...) are those of the fuzzer
`tests.fuzz.captured`. Each is created, read by a function, and changed by several statements in
turn. After each statement, the compiled function must agree with the plain one. The differentiated
function is ``sum(state * x)``, whose gradient is the state itself.
"""

import builtins
import ctypes
import dataclasses
import itertools
import sys
import threading
import types
import weakref
from collections import namedtuple

import numpy as np
import pytest

from functrans import Aval, custom_vjp, debug, grad, jit, load, save
from tests import amount
from tests.fuzz.captured import HEAD
from tests.fuzz.places import PLACES

SMALL, LARGE = 3, 700
"""Arrays that are constants until they change, and arrays that are inputs."""

FORMS = """
def f(x): return np.sum(({read}) * x)
class Holder:
    def __init__(self, f): self.f = f
    def __call__(self, x): return self.f(x)
    compiled = jit(__call__)
value = jit(f)
slope = jit(grad(f))
many = jit(vmap(f))
branch = jit(lambda x: lax.cond(np.sum(x) < 1e9, f, lambda x: -f(x), x))
loop = jit(lambda x: lax.scan(lambda c, y: (c + f(y), c), 0.0, x[None])[0])
each = jit(lambda x: lax.map(f, x[None])[0])
again = jit(grad(checkpoint(f)))
inner = jit(lambda x, g=jit(f): g(x))
around = grad(jit(f))
partial = jit(functools.partial(lambda x, k: f(x) * k, k=1.0))
held = jit(Holder(f))
method = Holder(f).compiled
"""
SLOPES = {SMALL: ("slope", "again", "around"), LARGE: ("slope",)}
VALUES = {
    SMALL: ("value", "branch", "loop", "each", "inner", "partial", "held", "method"),
    LARGE: ("value", "inner", "method"),
}
PLAIN = ("value", "slope", "method")
"""Tried with each place; of the other forms, the quick set has every other one with each place."""


def module_with(place, size):
    """A module in which something is read by functions that are compiled."""
    text = HEAD.format(size=size, seed=1) + place.setup.format(n=0)
    text += FORMS.format(read=place.read.format(n=0))
    module = types.ModuleType("closed_over_module")
    sys.modules[module.__name__] = module
    exec(compile(text, "closed_over_module", "exec"), module.__dict__)
    return module


def forms(size, number):
    """Those that are tried with the place of a number."""
    names = [*VALUES[size], *SLOPES[size], "many"]
    some = [name for name in names if name not in PLAIN][number % 2 :: 2]
    return names if amount.FULL else [name for name in names if name in (*PLAIN, *some)]


def check(module, size, names, after):
    x = np.linspace(1.0, 2.0, size)
    expected = module.f(x)
    slope = [module.f(row) for row in np.eye(size)]
    for name in names:
        given, wanted = (x[None], [expected]) if name == "many" else (x, expected)
        np.testing.assert_allclose(
            getattr(module, name)(given),
            slope if name in SLOPES[size] else wanted,
            err_msg=f"{name} {after}",
        )


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("name", PLACES)
def test_what_changes_is_seen(name, size):
    place = PLACES[name]
    names = forms(size, list(PLACES).index(name))
    module = module_with(place, size)
    try:
        check(module, size, names, "at first")
        for change in place.changes:
            exec(change.format(n=0), module.__dict__)
            check(module, size, names, change)
    finally:
        del sys.modules[module.__name__]


def counted(function):
    """A function, and what gives how often it has run: not a list, whose growth would be seen."""
    runs = itertools.count()

    def counting(*args):
        next(runs)
        return function(*args)

    return counting, runs


def test_parameters_that_change_at_each_step_are_traced_twice():
    class Model:
        def __init__(self):
            self.w, self.data = np.ones(3), np.ones((1000, 3))
            self.steps = 0

        def loss(self, x):
            return np.sum((self.data @ (self.w * x)) ** 2)

    model = Model()
    loss, runs = counted(model.loss)
    slope = jit(grad(loss))
    for step in range(6):
        expected = grad(model.loss)(np.ones(3))
        np.testing.assert_allclose(slope(np.ones(3)), expected)
        if step % 2:
            model.w -= 1e-4 * expected
        else:
            model.w = model.w - 1e-4 * expected
        model.data = model.data * 1.01
        model.steps += 1
    # a constant, and from its first change on an input
    assert next(runs) == 2


def test_what_is_large_is_neither_copied_nor_compared():
    data = np.ones((1000, 100))
    used = jit(lambda x: data[0, 0] * x)
    assert used(2.0) == 2.0
    report = used.outside()
    assert report.by_reference == {"data": data.nbytes} and not report.compared
    ((path, _),) = {id(entry[0]): entry for entry in used._entries.values()}.values()
    assert not path.captures
    data[0, 0] = 5.0
    assert used(2.0) == 10.0


def test_a_traced_index_into_a_large_table():
    table = np.arange(1000.0)
    taken = jit(lambda i: table[i])
    assert taken(7) == 7.0
    table[7] = -1.0
    assert taken(7) == -1.0


@pytest.mark.parametrize("size", [3, 1000])
def test_an_error_of_the_function_is_raised_as_it_is(size):
    """And not that of the trace in which a plain array refused a traced index."""
    table = np.arange(float(size))
    with pytest.raises(IndexError, match="list index out of range"):
        jit(lambda i: table[i] + [][0])(1)
    with pytest.raises(
        IndexError, match=f"index 2000 is out of bounds for axis 0 with size {size}"
    ):
        jit(lambda i: table[i])(2000)


def test_what_is_asked_for_its_numbers_is_compared():
    sizes, data = np.linspace(2.0, 3.0, 1000), np.ones(1000)
    repeated = jit(lambda x: sum(x * data for _ in range(int(sizes[0]))))
    assert repeated(1.0).tolist() == [2.0] * 1000
    sizes[0] = 3.0
    assert repeated(1.0).tolist() == [3.0] * 1000
    data[:] = 2.0
    assert repeated(1.0).tolist() == [6.0] * 1000


def test_python_branches_on_what_is_large():
    data = np.ones(1000)
    signed = jit(lambda x: np.sum(data) * x if data[0] > 0 else -x)
    assert signed(2.0) == 2000.0
    data[0] = -1.0
    assert signed(2.0) == -2.0


def test_a_function_that_writes_to_what_it_closes_over_writes_there():
    data, memory = np.ones(1000), [np.ones(1000)]

    @jit
    def writing(x):
        data[0] = 3.0
        memory.append(1)
        return x * data[0] * memory[0][1]

    assert writing(2.0) == 6.0
    assert data[0] == 3.0 and len(memory) == 2


@pytest.mark.dear
def test_other_threads_never_see_a_traced_value():
    class Model:
        def __init__(self):
            self.w = np.ones(1000)

    model, go_on, looked = Model(), threading.Event(), threading.Event()
    seen = []

    def look():
        go_on.wait(10)
        seen.append(type(model.w))
        looked.set()

    def reading(x):
        total = np.sum(model.w) * x
        if not isinstance(model.w, np.ndarray):  # while it is traced
            go_on.set()
            looked.wait(10)
        return total

    thread = threading.Thread(target=look)
    thread.start()
    assert jit(reading)(1.0) == 1000.0
    thread.join()
    assert seen == [np.ndarray]


def test_an_array_that_is_closed_over_and_given_up():
    w = np.ones(1000)
    step = jit(lambda x: x + w, donate_argnums=0)
    assert step(w).tolist() == [2.0] * 1000
    before = w.copy()
    np.testing.assert_array_equal(step(np.ones(1000)), 1.0 + before)


def test_a_result_is_not_the_array_that_is_closed_over():
    w = np.ones(1000)
    result = jit(lambda x: (w, x))(1.0)[0]
    result[0] = 5.0
    assert w[0] == 1.0 and not np.shares_memory(result, w)


def test_a_saved_program_has_what_there_was(tmp_path):
    w = np.ones(1000)
    save(lambda x: np.sum(w) * x, tmp_path / "program", Aval((), float))
    w[:] = 2.0
    assert load(tmp_path / "program")(1.0) == 1000.0


def test_static_arguments_are_objects_that_change():
    class Model:
        w = np.ones(3)

    model = Model()
    total = jit(lambda x, model: np.sum(model.w) * x, static_argnums=1)
    assert total(1.0, model) == 3.0
    model.w = np.zeros(3)
    assert total(1.0, model) == 0.0


NUMBERS = np.array([1.0, 2.0])
FIELDS = [("a", float), ("b", float)]


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        (range(0, 3, 2), range(0, 4, 2), lambda r: r.stop),
        (range(0), range(5, 5), lambda r: r.start),
        ((range(1),), (range(0, 1, 2),), lambda held: held[0].step),
        (
            NUMBERS.view(FIELDS)[0],
            NUMBERS.view([("b", float), ("a", float)])[0],
            lambda record: record["a"],
        ),
        (memoryview(NUMBERS), memoryview(NUMBERS.view(int)), lambda view: view[0]),
    ],
)
def test_values_that_are_equal_and_differ(first, second, read):
    held = types.SimpleNamespace(value=first)
    scaled = jit(lambda x: read(held.value) * x)
    for held.value in (first, second, first):
        assert scaled(1.0) == read(held.value)
    if isinstance(first, (range, tuple)):
        scaled = jit(lambda x, value: read(value) * x, static_argnums=1)
        assert [scaled(1.0, first), scaled(1.0, second)] == [read(first), read(second)]


class Named(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_int))


@pytest.mark.parametrize("buffer", [Named(b"x", 3), (ctypes.c_void_p * 2)(1, 2)])
def test_buffers_of_pointers_are_compared_by_their_bytes(buffer):
    """NumPy has no dtype for them."""
    scaled = jit(lambda x: bytes(buffer)[8] * x)
    for _ in range(2):
        assert scaled(1.0) == bytes(buffer)[8]
        ctypes.memset(ctypes.addressof(buffer) + 8, 7, 1)


def test_a_state_that_comes_back_is_not_traced_again():
    options = {"training": True}
    function, runs = counted(lambda x: 2.0 * x if options["training"] else x)
    compiled = jit(function)
    for i in range(8):
        options["training"] = i % 2 == 0
        assert compiled(1.0) == (2.0 if i % 2 == 0 else 1.0)
    assert next(runs) == 2


def test_a_large_array_is_not_kept_alive():
    holder = {"w": np.ones(1000)}
    total = jit(lambda x: np.sum(holder["w"]) * x)
    assert total(1.0) == 1000.0
    gone = weakref.ref(holder["w"])
    holder["w"] = np.zeros(1000)
    assert total(1.0) == 0.0
    assert gone() is None


def test_builtins_of_a_module_alone():
    own = dict(vars(builtins))
    scope = {"__builtins__": own}
    exec("def function(x):\n    return x * abs(-2.0)", scope)
    function = scope["function"]
    ruled = custom_vjp(function)
    ruled.defvjp(lambda x: (function(x), None), lambda _, ct: (ct * function(1.0),))
    compiled, slope = jit(function), grad(ruled)
    for replaced in (abs, lambda x: 5.0, lambda x: 7.0):
        own["abs"] = replaced
        for _ in range(3):
            assert compiled(3.0) == function(3.0)
            assert slope(3.0) == function(1.0)


def test_a_global_with_the_name_of_an_attribute_is_not_read():
    module = types.ModuleType("of_a_user")
    exec("def f(p): return p.w * scale", vars(module))
    module.scale, module.w = 2.0, -1
    weights = namedtuple("Weights", "w")(np.ones(3))
    compiled = jit(module.f)
    compiled(weights)
    for i in range(3):
        module.w = i
        with debug.profile() as profile:
            compiled(weights)
        assert "trace" not in str(profile)
    module.scale = 3.0
    np.testing.assert_array_equal(compiled(weights), np.full(3, 3.0))


def test_code_that_names_no_module():
    # a dataclass in such code has methods whose `__module__` is None
    scope = {"dataclass": dataclasses.dataclass, "__name__": "not imported"}
    exec("@dataclass\nclass Line:\n    slope: float = 2.0\n\nline = Line()", scope)
    function = jit(lambda x: scope["line"].slope * x)
    assert function(1.0) == 2.0
    scope["line"].slope = 3.0
    assert function(1.0) == 3.0

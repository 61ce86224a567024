"""Inline cache: repeated calls run no Python code, and return the same results."""

import copy
import dataclasses
import functools
import gc
import inspect
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import functrans
from functrans import clear_caches, config, grad, jit, value_and_grad, vmap
from functrans.api.compile import Jitted
from functrans.run.call import layouts
from functrans.run.call.program import NativeProgram

Pair = namedtuple("Pair", ["first", "second"])


@functrans.tree.register_dataclass(static="power")
@dataclasses.dataclass
class Layer:
    w: object
    b: object = 1.0
    power: int = 2


@functrans.tree.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    w: object
    b: object


def python_calls(function, *args, **kwargs):
    """The names of the Python functions that a call runs."""
    names = []

    def note(frame, event, _):
        if event == "call":
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(before)
    return names


def by_python(function, *args, **kwargs):
    """A call that native code has no part in, but for the program itself."""
    return type(function).__call__(function, *args, **kwargs)


def same(a, b):
    assert type(a) is type(b)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        a, b = ({name: getattr(each, name) for name in names} for each in (a, b))
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
        return
    if a is not None and type(a) is not int:
        assert a.dtype == b.dtype
        assert a.flags.writeable == b.flags.writeable
        np.testing.assert_array_equal(a, b, strict=True)


x = np.linspace(0.1, 1.0, 6).reshape(2, 3)

CALLS = [
    (lambda a: a * 2.0, (1.5,), {}),
    (lambda a: a * 2, (3,), {}),
    (lambda a: a * 2, (-(2**62),), {}),
    (lambda a: a * 2j, (1.5 + 2j,), {}),
    (lambda a: ~a, (np.array([True, False]),), {}),
    (lambda a, b: np.where(a, b, 2 * b), (True, x), {}),
    (lambda a, b: np.where(a, b, 2 * b), (False, x), {}),
    (lambda a: a * 2, (np.float32(1.5),), {}),
    (lambda a: a * 2, (np.array(1.5),), {}),
    (lambda a: a + 1, (np.arange(5, dtype=np.uint8),), {}),
    (lambda a: a + 1, (np.ones(3, np.float16),), {}),
    (lambda a: a * 1j, (np.ones(3, np.complex64),), {}),
    (lambda a: a.sum(), (np.zeros((0, 3)),), {}),
    (lambda a: a.T, (x,), {}),
    (lambda a, b: a @ b, (x, x.T.copy()), {}),
    (lambda *a: sum(a), (x, x, x, 1.0), {}),
    (lambda a, *, k, j: a * k - j, (x,), {"j": x, "k": 2.0}),
    (lambda p: type(p)(p.second, [p.first]), (Pair(x, {"b": 2.0, "a": x}),), {}),
    (lambda p: {"z": p["w"], "a": (p["v"][0], None, [])}, ({"w": x, "v": [x, None]},), {}),
    (lambda p: {1: p[1], (2, 3): p[1] * 2}, ({1: x},), {}),
    (lambda *a: [a[0], a[0], ()], (x,), {}),
    (lambda p: Layer(p.w**p.power, [p.b], p.power + 1), (Layer(x, 2.0),), {}),
    (lambda p: {"p": Slotted(p[0].b, p[0]), "w": p[1].w}, ([Slotted(x, 2.0), Layer(x)],), {}),
    (lambda *a: None, (x,), {}),
    (lambda: np.arange(3.0), (), {}),
    (lambda a: [a[i] * i for i in range(3)], ([x] * 400,), {}),
    (value_and_grad(lambda p: np.sum(p["w"] ** 2) * p["s"]), ({"w": x, "s": 2.0},), {}),
    (lambda a: a + 1, (np.zeros(200_000),), {}),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_like_the_last_runs_no_python(number):
    function, args, kwargs = CALLS[number]
    compiled = jit(function)
    for _ in range(2):
        compiled(*args, **kwargs)
    # the constructor of a named tuple is Python
    constructors = {Pair.__new__.__code__.co_name}
    assert set(python_calls(compiled, *args, **kwargs)) <= constructors
    same(compiled(*args, **kwargs), by_python(compiled, *args, **kwargs))


def called(function, *args):
    """A function that native code knows calls of."""
    compiled = jit(function)
    for _ in range(3):
        compiled(*args)
    assert python_calls(compiled, *args) == []
    return compiled


class Other(np.ndarray):
    pass


@pytest.mark.parametrize(
    "other",
    [
        np.ones((3, 2)),
        np.ones(6),
        np.ones((2, 3), np.float32),
        np.ones((2, 3), ">f8"),
        np.asfortranarray(x),
        np.ones((4, 6))[::2, ::2],
        np.frombuffer(bytes(49), np.uint8)[1:].view(np.float64).reshape(2, 3),
        np.ones((2, 3)).view(Other),
        2.0,
        3,
        [x],
        (x, x),
        {"a": x},
        np.float64(2),
    ],
    ids=lambda other: f"{type(other).__name__} {getattr(other, 'strides', '')}",
)
def test_what_is_otherwise_is_computed_as_ever(other):
    compiled = called(lambda tree: functrans.tree.map(lambda leaf: np.sin(leaf), tree), x)
    expected = functrans.tree.map(lambda leaf: np.sin(np.asarray(leaf)), other)
    for _ in range(4):
        found = compiled(other)
        for a, b in zip(functrans.tree.leaves(found), functrans.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b)
            assert a.dtype == b.dtype.newbyteorder("=")
    np.testing.assert_array_equal(compiled(x), by_python(compiled, x))


def test_calls_with_bfloat16_run_no_python():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    compiled = jit(lambda a: (a * 2, a.sum(), a.astype(np.float32)))
    a = np.array([1.5, -0.0, np.inf], bfloat16)
    for _ in range(2):
        expected = compiled(a)
    assert python_calls(compiled, a) == []
    same(compiled(a), expected)
    assert compiled(a.astype(np.float16))[0].dtype == np.float16


def test_several_kinds_of_calls_are_known_at_once():
    compiled = jit(lambda a: a + 1)
    kinds = [1, 1.0, x, x[0].copy()]
    for one in kinds * 3:
        compiled(one)
    for one in kinds:
        assert python_calls(compiled, one) == []
        same(compiled(one), by_python(compiled, one))


def test_of_many_kinds_of_calls_those_that_came_last_are_known():
    compiled = jit(lambda a: a * 2)
    for _ in range(3):
        for n in range(10):
            np.testing.assert_array_equal(compiled(np.ones(n)), np.full(n, 2.0))
    assert python_calls(compiled, np.ones(9)) == []
    assert python_calls(compiled, np.ones(0)) != []


def test_weak_and_strong_numbers_stay_apart():
    compiled = jit(lambda a, b: a * b)
    narrow = np.ones(2, np.float32)
    for _ in range(3):
        assert compiled(narrow, 2.0).dtype == np.float32
        assert compiled(narrow, np.float64(2.0)).dtype == np.float64
        assert compiled(narrow, np.array(2.0)).dtype == np.float64
        assert compiled(narrow, True).dtype == np.float32


def test_within_a_trace_the_call_is_recorded():
    compiled = called(lambda a: np.sum(np.sin(a)), x)
    np.testing.assert_allclose(
        grad(lambda a: compiled(a) * compiled(x))(x), np.cos(x) * compiled(x)
    )
    np.testing.assert_allclose(vmap(compiled)(x), np.sin(x).sum(1))
    np.testing.assert_allclose(jit(lambda a: compiled(a) * compiled(x))(x), compiled(x) ** 2)
    named = jit(grad(lambda a: compiled(a))).lower(x).graph()
    assert "cos" in str(named)


def test_errors_come_as_ever():
    compiled = called(lambda a, i: a[i], np.arange(3.0), 1)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 3"):
            compiled(np.arange(3.0), 9)
        with pytest.raises(OverflowError, match="which no int64 holds"):
            compiled(np.arange(3.0), 2**63)
        with pytest.raises(TypeError):
            compiled(np.arange(3.0))
    assert compiled(np.arange(3.0), 2) == 2.0


def test_what_is_read_outside_is_looked_at():
    table = np.ones(3)
    compiled = jit(lambda a: a * table)
    for value in (1.0, 2.0, 3.0):
        table[:] = value
        for _ in range(3):
            np.testing.assert_array_equal(compiled(np.ones(3)), table)


def test_checks_of_floats_count_at_once(monkeypatch):
    compiled = called(lambda a: np.log(a), -x)
    monkeypatch.setattr(config, "check_floats", True)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        compiled(-x)
    monkeypatch.setattr(config, "check_floats", False)
    assert python_calls(compiled, -x) == []


def test_branches_are_pythons():
    leaky = jit(lambda a: a if a > 0 else 0.1 * a)
    for _ in range(3):
        assert (leaky(2.0), leaky(-2.0)) == (2.0, -0.2)


def test_donated_arguments_are_pythons():
    step = jit(lambda a: a - 1.0, donate_argnums=0)
    for _ in range(4):
        given = np.ones(3)
        assert step(given) is given


def test_clearing_the_caches_forgets_calls_and_their_programs():
    compiled = called(lambda a: a * 7.0, x)
    (entry,) = compiled._recent
    program = next(weakref.ref(part) for part in entry if type(part) is NativeProgram)
    del entry
    clear_caches()
    gc.collect()
    assert program() is None
    assert python_calls(compiled, x) != []
    np.testing.assert_array_equal(compiled(x), x * 7.0)


def test_a_function_goes_with_its_last_reference():
    compiled = called(lambda a: a * 7.5, x)
    gone = weakref.ref(compiled)
    compiled.itself = compiled
    del compiled
    gc.collect()
    assert gone() is None


def shifted(a, by=1.0):
    """A function that pickle finds."""
    return a + by


def test_it_is_what_it_was():
    compiled = called(shifted, x)
    assert isinstance(compiled, Jitted)
    assert repr(compiled) == "jit(shifted)"
    assert str(inspect.signature(compiled)) == "(a, by=1.0)"
    assert callable(compiled)
    for again in (
        copy.copy(compiled),
        copy.deepcopy(compiled),
        pickle.loads(pickle.dumps(compiled)),
    ):
        np.testing.assert_array_equal(again(x), x + 1)
    wrapped = functools.wraps(compiled)(lambda *args: compiled(*args))
    assert wrapped.__name__ == "shifted"
    np.testing.assert_array_equal(wrapped(x), x + 1)
    np.testing.assert_array_equal(compiled.__call__(x), x + 1)
    np.testing.assert_array_equal(compiled(by=x, a=x), 2 * x)
    np.testing.assert_array_equal(functools.partial(compiled, by=2.0)(x), x + 2)


def test_a_class_of_the_users_keeps_its_own_call():
    class Counting(Jitted):
        count = 0

        def __call__(self, *args):
            type(self).count += 1
            return super().__call__(*args)

    compiled = jit(shifted)
    counting = Counting(
        shifted, compiled._static, compiled._donated, compiled._max_paths, compiled._where
    )
    for _ in range(5):
        np.testing.assert_array_equal(counting(x), x + 1)
    assert Counting.count == 5


def test_methods_see_their_instance():
    class Scale:
        def __init__(self):
            self.by = np.ones(3)

        @jit
        def __call__(self, a):
            return a * self.by

    scale = Scale()
    for value in (1.0, 2.0, 3.0):
        scale.by = np.full(3, value)
        for _ in range(3):
            np.testing.assert_array_equal(scale(x), x * value)


@pytest.mark.dear
def test_no_reference_is_lost_or_kept():
    unpack = jit(lambda p, k: Pair([p.first * k, p.first], {"b7": p.second["w7"], "n": None}))
    pick = jit(lambda a, i: a[i] * 2.0)
    large = jit(lambda a: a * 2.0)
    p = Pair(np.ones(3), {"w7": np.ones(2), "v": np.float64(2)})
    a, many, k = np.ones(3), np.zeros(200_000), np.float64(3)
    kept = [p, p.first, p.second, *p.second.values(), a, many, k, Pair, np.dtype(float), "w7", "b7"]

    def work(count):
        for i in range(count):
            unpack(p, k)
            large(many) if i % 10 == 0 else large(a)
            pick(a, 1)
            if i % 50 == 0:
                with pytest.raises(IndexError):
                    pick(a, 9)
                with pytest.raises(TypeError):
                    pick(a)

    work(200)
    gc.collect()
    before = [sys.getrefcount(one) for one in kept]
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        work(20_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    assert [sys.getrefcount(one) for one in kept] == before
    # one byte for each call would be 60,000
    assert grown < 60_000


def test_threads_call_one_function_at_once():
    compiled = jit(lambda p: np.sum(np.sin(p["a"])) * p["b"])
    sizes = [10, 3000, 40_000]
    wrong = []

    def work(n):
        given = {"a": np.full(n, 0.5), "b": 2.0}
        for _ in range(200):
            found = compiled(given)
            if not np.isclose(found, 2 * n * np.sin(0.5)):
                wrong.append((n, found))

    threads = [threading.Thread(target=work, args=(n,)) for n in sizes * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arguments_live_as_long_as_the_call():
    # which lets other threads run, and they may empty the containers meanwhile
    compiled = jit(lambda arrays: sum(np.sum(np.sqrt(a)) for a in arrays))
    given = [np.full(300_000, 4.0) for _ in range(3)]
    for _ in range(3):
        compiled(given)
    stop = threading.Event()

    def replace():
        while not stop.is_set():
            for i in range(3):
                given[i] = np.full(300_000, 4.0)

    other = threading.Thread(target=replace)
    other.start()
    try:
        for _ in range(300):
            assert compiled(given) == 3 * 300_000 * 2.0
    finally:
        stop.set()
        other.join()


def test_a_call_from_within_a_call():
    inner = called(lambda a: a + 1.0, x)

    def back(a):
        return inner(np.asarray(a)) * 2.0

    outer = jit(lambda a: functrans.callback(back, x)(a))
    for _ in range(4):
        np.testing.assert_array_equal(outer(x), (x + 1.0) * 2.0)


def test_other_containers_are_pythons():
    compiled = jit(lambda d: d["b"] - d["a"])
    for _ in range(4):
        np.testing.assert_array_equal(compiled(OrderedDict(b=x, a=2 * x)), -x)
        np.testing.assert_array_equal(compiled({"a": 2 * x, "b": x}), -x)


@pytest.mark.parametrize("shift", [-8, 8])
def test_types_that_are_laid_out_otherwise_are_noticed(shift, monkeypatch):
    class Called:
        def __call__(self):
            pass

    assert layouts.call_slot(Called) is not None
    monkeypatch.setattr(layouts, "CALL", layouts.CALL + shift)
    assert layouts.call_slot(Called) is None


def test_a_slot_is_found_where_it_is():
    class Two:
        __slots__ = ("first", "second")

    assert layouts.slot(Two, "second") - layouts.slot(Two, "first") == 8

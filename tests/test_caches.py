"""Caches: registered in one place, bounded, and emptied by `clear_caches`."""

import ast
import gc
import importlib
import pkgutil
import threading
import weakref
from functools import _lru_cache_wrapper
from pathlib import Path

import numpy as np
import pytest

import functrans
from functrans import caches, clear_caches, grad, hessian, jit, lax, vmap
from functrans.caches import Table, cached, cached_property, once
from functrans.run.call import steps
from functrans.run.call.program import NativeProgram

PACKAGE = Path(functrans.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def makes_a_cache(text):
    """Whether a file makes one by functools."""
    names = {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == "functools"
        for alias in node.names
    }
    return bool(names & {"cache", "lru_cache", "cached_property"}) or "functools.lru_cache" in text


def test_caches_are_made_in_one_place():
    makers = [path for path in SOURCES if makes_a_cache(path.read_text(encoding="utf-8"))]
    assert makers == [PACKAGE / "caches.py"]


def test_every_cache_has_a_bound_and_is_known():
    for module in pkgutil.walk_packages([str(PACKAGE)], "functrans."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.unfreeze()  # what collecting the tests has imported is frozen, and would not be listed
    objects = gc.get_objects()
    gc.freeze()
    found = [
        one
        for one in objects
        if type(one) is _lru_cache_wrapper and one.__module__.startswith("functrans")
    ]
    assert len(found) > 20
    known = set(map(id, caches._caches))
    unbounded = [one for one in found if one.cache_parameters()["maxsize"] is None]
    unknown = [one for one in found if id(one) not in known]
    assert not unbounded
    assert not [(one.__module__, one.__qualname__) for one in unknown]


def programs():
    # not isinstance: somewhere there may be a proxy of something that is gone
    gc.collect()
    return {id(one): one for one in gc.get_objects() if type(one) is NativeProgram}


def newton(x):
    return lax.while_loop(lambda y: np.abs(y * y - x) > 1e-9, lambda y: 0.5 * (y + x / y), x)


def test_what_is_cleared_dies_and_what_is_used_goes_on():
    x = np.linspace(1.0, 2.0, 7)
    before = set(programs())
    functions = [
        jit(vmap(grad(lambda row: np.sum(np.sin(row) * 1.171875)))),
        jit(hessian(lambda x: np.sum(x**3) * 1.171875)),
        jit(vmap(lambda x: newton(x) * 1.171875)),
        jit(lambda x: x * 1.171875 if x[0] > 0 else x),
    ]
    arguments = [x.reshape(7, 1), x, x, x]
    expected = [f(a) for f, a in zip(functions, arguments, strict=True)]
    native = functrans.compile(lambda x: x * 1.171875, 0.0)
    derivative = functrans.linearize(np.sin, x)[1]
    alive = [weakref.ref(one) for key, one in programs().items() if key not in before]
    assert len(alive) >= 4
    clear_caches()
    gc.collect()
    # what `compile` returned has its own
    assert sum(one() is not None for one in alive) <= 1
    assert native(2.0) == 2.34375
    np.testing.assert_allclose(derivative(np.ones(7)), np.cos(x))
    for function, argument, result in zip(functions, arguments, expected, strict=True):
        np.testing.assert_array_equal(function(argument), result)


def test_a_program_takes_its_temporary_memory_with_it(monkeypatch):
    freed, free = [], steps._free_arena

    def noting(table):
        freed.append(int(table[steps.KEPT_ARENA]))
        free(table)

    monkeypatch.setattr(steps, "_free_arena", noting)
    function = jit(lambda x: (x @ x) * 1.1875 @ x)
    function(np.ones((40, 40)))
    table = next(iter(function._entries.values()))[0].run._entry.__self__
    address = int(table[steps.KEPT_ARENA])
    assert address
    del table
    clear_caches()
    gc.collect()
    assert address in freed


def test_graphs_that_are_cleared_die():
    function = jit(lambda x: np.tanh(x) * 1.1796875)
    function(1.0)
    ((path, _),) = function._entries.values()
    graph = weakref.ref(path.graph)
    del path
    clear_caches()
    gc.collect()
    assert graph() is None


def test_clearing_while_others_call():
    stop = threading.Event()
    wrong = []

    def call(a):
        function = jit(lambda x: np.sum(np.cos(x * a)))
        while not stop.is_set():
            for n in (3, 4):
                if not np.isclose(function(np.ones(n)), n * np.cos(a)):
                    wrong.append(a)

    threads = [threading.Thread(target=call, args=(1 + i / 64,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        clear_caches()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_of_ever_new_types_remembers_so_many(monkeypatch):
    monkeypatch.setattr("functrans.api.cached_calls.MOST_ENTRIES", 4)
    function = jit(lambda x, n: x + n, static_argnums=1)
    for n in range(9):
        assert function(1.0, n) == 1.0 + n
    assert len(function._entries) == 4


def test_a_table_forgets_what_came_first():
    table = Table(2)
    for key in "abc":
        table.remember(key, key.upper())
    assert dict(table) == {"b": "B", "c": "C"}
    clear_caches()
    assert not table


def test_a_cache_is_cleared():
    calls = []
    double = cached(2)(lambda x: calls.append(x) or 2 * x)
    assert [double(1), double(1), double(2)] == [2, 2, 4]
    clear_caches()
    assert double(1) == 2
    assert calls == [1, 2, 1]


def test_once_is_once_for_all_threads():
    calls = []
    barrier = threading.Barrier(4)

    @once
    def slow():
        calls.append(threading.get_ident())
        return object()

    def ask():
        barrier.wait()
        found.append(slow())

    found = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clear_caches()
    assert {slow(), *found} == {found[0]}
    assert len(calls) == 1


def test_what_fails_is_done_again():
    outcomes = [ValueError("once"), 5]

    @once
    def next_outcome():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(ValueError, match="once"):
        next_outcome()
    assert next_outcome() == next_outcome() == 5


def test_a_property_is_worked_out_once_and_holds_no_lock():
    """Two threads inside of it wait for each other: with a lock they could not both be there."""
    both = threading.Barrier(2, timeout=60)

    class Two:
        @cached_property
        def slow(self):
            both.wait()
            return object()

    def read(i):
        found[i] = two.slow

    two, found = Two(), [None, None]
    threads = [threading.Thread(target=read, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is two.slow
    assert isinstance(Two.slow, cached_property)

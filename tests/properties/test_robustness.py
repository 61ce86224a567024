"""Robustness: long programs, recursion, many calls, arrays changed in between, threads."""

from __future__ import annotations

import gc
import importlib
import inspect
import itertools
import pkgutil
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import functrans
from functrans import checkpoint, grad, hessian, jit, jvp, linearize, vjp, vmap
from functrans.ir.evaluate import _evaluator
from functrans.transform.forward import tangent_graph
from functrans.transform.transpose import transpose_graph


def chain(length):
    """A function of ``3 length`` operations, each on the result of the one before."""

    def function(x):
        for _ in range(length):
            x = np.sin(x) * 1.01 + 0.1
        return x

    return function


TRANSFORMED = {
    "grad": grad,
    "grad of grad": lambda f: grad(grad(f)),
    "hessian": hessian,
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, x])),
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,)),
    "linearize": lambda f: lambda x: linearize(f, x)[1](1.0),
    "checkpoint": lambda f: grad(checkpoint(f)),
    "trace": lambda f: lambda x: str(functrans.trace(grad(f))(x)),
}


def python_calls(function, *args):
    """How many Python functions are called: a measure of work that does not depend on the clock."""
    count = 0

    def notice(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(notice)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_work_grows_with_the_length_of_the_program(name):
    transform = TRANSFORMED[name]
    transform(chain(3))(0.5)
    short, long = (python_calls(transform(chain(n)), 0.5) for n in (101, 404))
    assert long < 4.5 * short


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_long_program_needs_no_deep_stack(name):
    limit = sys.getrecursionlimit()
    depth = len(inspect.stack())
    function = TRANSFORMED[name](chain(700))
    sys.setrecursionlimit(depth + 150)
    try:
        function(0.5)
    finally:
        sys.setrecursionlimit(limit)


def test_recursion_in_the_users_function():
    def deep(x, n):
        return x if n == 0 else np.sin(deep(x, n - 1))

    derivative = grad(deep)(0.5, 100)
    assert jvp(lambda x: deep(x, 100), (0.5,), (1.0,))[1] == pytest.approx(derivative)


# -- caches ----------------------------------------------------------------------------------------


def test_a_changing_constant_is_no_new_program():
    grad(lambda x: x * np.sin(x * 0.5))(1.0)
    caches = [tangent_graph, transpose_graph, _evaluator]
    before = [cache.cache_info().currsize for cache in caches]
    for i in range(50):
        assert grad(lambda x, c=i / 7: x * c)(1.0) == i / 7
        rate, shift = i / 3, np.full(3, float(i))

        def f(x, rate=rate, shift=shift):
            return np.sum(np.exp(x * rate) + x * shift)

        np.testing.assert_allclose(grad(f)(np.zeros(3)), rate + shift)
    after = [cache.cache_info().currsize for cache in caches]
    assert all(b - a <= 4 for a, b in zip(before, after, strict=True))


def modules():
    for info in pkgutil.walk_packages(functrans.__path__, "functrans."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def test_caches_are_bounded():
    caches = {
        f"{module.__name__}.{name}": value.cache_parameters()["maxsize"]
        for module in modules()
        for name, value in vars(module).items()
        if hasattr(value, "cache_parameters")
    }
    assert len(caches) > 10
    unbounded = {name for name, maxsize in caches.items() if maxsize is None}
    # what these depend on does not grow with the number of calls
    assert {name for name in unbounded if not takes_few_values(name)} == set()


def takes_few_values(name):
    module, _, attribute = name.rpartition(".")
    function = inspect.unwrap(getattr(sys.modules[module], attribute))
    kinds = [p.annotation for p in inspect.signature(function).parameters.values()]
    return all(kind in ("str", "int", "np.dtype[Any]", "Any") for kind in kinds)


@pytest.mark.full
def test_memory_does_not_grow_with_the_number_of_calls():
    def call(i):
        c = np.full(4, float(i))
        grad(lambda x: np.sum(np.tanh(x * c) + i / 7))(np.zeros(4))
        vmap(grad(lambda x: x * x))(c)
        _, pullback = vjp(np.sin, c)
        pullback(c)

    def grown():
        """Bytes that a thousand calls leave behind, and the lines that allocated them."""
        earlier = tracemalloc.take_snapshot()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(1000):
            call(i)
        gc.collect()
        growth = tracemalloc.get_traced_memory()[0] - before
        lines = tracemalloc.take_snapshot().compare_to(earlier, "lineno")
        return growth, "\n".join(map(str, lines[:10]))

    # caches that are full of what came before would seem to grow: what leaves them is not counted
    functrans.clear_caches()
    tracemalloc.start()
    try:
        for i in range(1000):  # what has a bound is full then
            call(i)
        gc.collect()
        # a dictionary that doubles grows once, a leak grows each time
        growth, lines = min(grown() for _ in range(3))
    finally:
        tracemalloc.stop()
    assert growth < 30_000, lines  # less than 30 bytes a call


@pytest.mark.slow
def test_a_hundred_thousand_different_calls():
    tracemalloc.start()
    try:
        for i in range(100_000):
            n = 1 + i % 3000
            grad(lambda x, i=i: np.sum(x * i))(np.zeros(n))
            if i == 20_000:
                before = tracemalloc.get_traced_memory()[0]
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 20_000_000


# -- arrays that change ----------------------------------------------------------------------------


def test_an_array_that_changes_between_calls():
    c = np.ones(3)
    f = grad(lambda x: np.sum(x * c))
    assert list(f(np.zeros(3))) == [1.0, 1.0, 1.0]
    c[1] = 5.0
    assert list(f(np.zeros(3))) == [1.0, 5.0, 1.0]


def test_an_array_that_changes_while_the_function_runs():
    def f(x):
        c = np.ones(3)
        y = x * c
        c[1] = 5.0
        return np.sum(y) + np.sum(x * c)

    for transformed in (grad(f), jit(grad(f)), lambda x: vmap(grad(f))(x[None])[0]):
        assert list(transformed(np.zeros(3))) == [2.0, 6.0, 2.0]


@pytest.mark.parametrize("read_only", [False, True])
def test_an_array_that_changes_before_the_pullback(read_only):
    c, x = np.ones(3), np.array([1.0, 2.0, 3.0])
    seen = c.view()
    seen.flags.writeable = not read_only
    _, pullback = vjp(lambda x: x * x * c, x)
    _, pushforward = linearize(lambda x: x * x * seen, x)
    c[:], x[:] = 7.0, 9.0
    assert list(pullback(np.ones(3))[0]) == [2.0, 4.0, 6.0]
    if not read_only:
        assert list(pushforward(np.ones(3))) == [2.0, 4.0, 6.0]


def test_what_jit_captures_is_looked_at():
    c = np.ones(3)
    f = jit(lambda x: x * c)
    assert list(f(np.ones(3))) == [1.0, 1.0, 1.0]
    c[1] = 5.0
    assert list(f(np.ones(3))) == [1.0, 5.0, 1.0]


# -- threads ---------------------------------------------------------------------------------------


def in_threads(*functions):
    """The results of functions that run at the same time."""
    results = [None] * len(functions)
    barrier = threading.Barrier(len(functions))

    def run(i):
        barrier.wait()
        results[i] = functions[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.full
def test_two_threads_trace_at_the_same_time():
    def work(scale):
        def f(x):
            total = 0.0
            for k in range(30):
                total = total + np.sin(x * scale + k)
                total = total + grad(lambda y: y * x * scale)(1.0)
            return total

        def expected(x):
            return sum(scale * np.cos(x * scale + k) + scale for k in range(30))

        return lambda: [grad(f)(i / 9) - expected(i / 9) for i in range(20)]

    for differences in in_threads(work(1.0), work(2.0), work(3.0)):
        np.testing.assert_allclose(differences, 0.0, atol=1e-10)


def test_a_trace_is_not_seen_by_other_threads():
    def f(x):
        (inner,) = in_threads(lambda: type(np.add(functrans.stop_gradient(1.0), 1.0)))
        assert inner is np.float64
        (gradient,) = in_threads(lambda: grad(np.sin)(0.0))
        return x * gradient

    assert grad(f)(3.0) == 1.0


def test_two_threads_call_one_jitted_function():
    traces = itertools.count()  # (a list would be state that tracing changes)

    @jit
    def f(x):
        next(traces)
        return np.sum(np.cos(x) ** 2)

    x = np.arange(5.0)
    results = in_threads(*[lambda: [f(x) for _ in range(50)]] * 4)
    np.testing.assert_allclose(results, np.sum(np.cos(x) ** 2))
    assert next(traces) == 1

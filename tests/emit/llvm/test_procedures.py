"""Procedures: equal loops of a kernel are one function of its module, and compute what they did."""

import ctypes
import re

import numpy as np
import pytest

from functrans.emit.llvm.kernel import ENTRY, emit
from functrans.loop import repetition
from functrans.loop.failures import INTERRUPTED
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import (
    Assign,
    For,
    Kernel,
    Let,
    Reduce,
    Store,
    buffer,
    load,
    local,
    size,
)
from functrans.run.code import loading, native
from tests.emit.test_statements import by_llvm

F8 = np.dtype(float)
ZERO = const(0, INDEX)
X, Y, Z, W = (buffer(name, F8, (ZERO,)) for name in "xyzw")


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch):
    monkeypatch.setattr(repetition, "FEWEST", 1)
    monkeypatch.setattr(repetition, "FEWEST_SAVED", 1)


def stores(target, source, *, stop=None, times=2.0, shift=0, lanes=1, twice=None):
    """``target[i] = source[i + shift] * times + twice[i]`` for all i."""
    i = index("i")
    value = load(source, (i + shift,)) * times + load(twice or source, (i,))
    stop = size(0) if stop is None else stop
    return For(i, ZERO, stop, (Store(target, (i,), value),), lanes=lanes)


def in_steps(*body):
    step = index("t")
    return For(step, ZERO, const(3, INDEX), body)


def procedures(*body, buffers=(X, Y, Z, W), sizes=2, scratch=()):
    """The number of procedures of a kernel, and of their calls; LLVM accepts its text."""
    text = emit(Kernel(buffers, sizes, body, scratch))
    native.compile_object(text)
    return len(re.findall("define internal void @loop", text)), text.count("call void @loop")


def test_loops_that_differ_in_buffers_sizes_and_outer_numbers_are_one_procedure():
    k, t = index("k"), local(F8)
    body = (
        Let((t,), (load(X, (ZERO,)),)),
        *(stores(Y, X), stores(W, Z, stop=size(1))),
        For(k, ZERO, const(4, INDEX), (stores(Y, X, shift=k, times=t, stop=k),)),
        For(k, ZERO, const(5, INDEX), (stores(W, X, shift=k, times=t, stop=k),)),
    )
    assert procedures(in_steps(*body)) == (2, 4)


@pytest.mark.parametrize(
    "other",
    [
        {"times": 3.0},
        {"lanes": 4},
        {"shift": 1},
        {"stop": const(9, INDEX)},
        {"twice": Z},
        {"target": X},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_loops_stay_where_they_are(other):
    """Buffers that are the same in one loop, and not in the other, would alias in a procedure."""
    one, two = stores(Y, X), stores(**{"target": Z, "source": X} | other)
    assert procedures(in_steps(one, two)) == (0, 0)


def test_short_loops_stay_where_they_are(monkeypatch):
    monkeypatch.setattr(repetition, "FEWEST", 48)
    assert procedures(in_steps(stores(Y, X), stores(W, Z))) == (0, 0)


def test_loops_of_some_nodes_are_procedures_if_many_are_equal(monkeypatch):
    one = stores(Y, X)
    monkeypatch.setattr(repetition, "FEWEST_SAVED", 2 * repetition._size(one))
    assert procedures(in_steps(one, stores(W, Z))) == (0, 0)
    assert procedures(in_steps(one, stores(W, Z), stores(Y, Z))) == (1, 3)


def test_loops_that_change_a_local_of_others_stay_where_they_are():
    t, i, j = local(F8), index("i"), index("j")
    adds = [
        For(k, ZERO, size(0), (Assign((t,), (t + load(X, (k,)),)), Store(Y, (k,), t)))
        for k in (i, j)
    ]
    assert procedures(Let((t,), (const(0.0, F8),)), *adds) == (0, 0)


def test_the_largest_loops_are_procedures_and_loops_in_them_too_if_others_are_equal():
    k, m = index("k"), index("m")
    pair = [For(i, ZERO, size(0), (stores(to, X), stores(X, to))) for i, to in ((k, Y), (m, Z))]
    assert procedures(in_steps(*pair)) == (2, 4)
    assert procedures(in_steps(*pair, stores(W, X))) == (2, 5)


def values(body, n=11, scratch=()):
    given = np.random.default_rng(0).normal(size=(4, 2 * n))
    by_llvm(Kernel((X, Y, Z, W), 2, body, scratch), given, (n, n - 2))
    return given


@pytest.mark.parametrize("lanes", [1, 4])
def test_procedures_compute_what_the_loops_did(lanes, monkeypatch):
    i, k, t, s = index("i"), index("k"), local(F8, "t"), local(F8, "s")
    row = buffer("row", F8, (const(32, INDEX),))
    total = Reduce((s,), ("add",), (load(Y, (i,)),), ((i, ZERO, size(0)),))
    body = (
        *(stores(row, X, lanes=lanes), stores(Y, row, stop=size(1), lanes=lanes)),
        total,
        Let((t,), (s * 0.5,)),
        *(stores(Z, Y, lanes=lanes, times=t), stores(W, Z, lanes=lanes, times=s)),
        For(
            k, ZERO, const(4, INDEX), (stores(Y, X, shift=k, stop=k), stores(W, Y, shift=k, stop=k))
        ),
    )
    kernel = in_steps(*body), stores(X, W), stores(Z, X)
    assert procedures(*kernel, scratch=(row,))[1] >= 6
    found = values(kernel, scratch=(row,))
    monkeypatch.setattr(repetition, "FEWEST", 1 << 30)
    assert procedures(*kernel, scratch=(row,)) == (0, 0)
    np.testing.assert_array_equal(found, values(kernel, scratch=(row,)))


def test_a_kernel_returns_after_an_interrupted_procedure():
    """What follows may rely on all that the loop would have written."""
    n = 1 << 20
    flag = np.zeros(2, np.int64)

    def poll(_):
        flag[0] = INTERRUPTED

    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(poll)
    flag[1] = ctypes.cast(called, ctypes.c_void_p).value
    arrays = [np.ones(n), *np.zeros((3, n))]
    body = in_steps(stores(Y, X), stores(Z, X), stores(W, X, times=3.0))
    code = loading.link(native.compile_object(emit(Kernel((X, Y, Z, W), 2, (body,)))), ENTRY, {})
    words = np.array([flag.ctypes.data, *(one.ctypes.data for one in arrays), n, n], np.int64)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function(code.address)(0, 0, words.ctypes.data)
    assert [bool(one.any()) for one in arrays[1:]] == [True, False, False]

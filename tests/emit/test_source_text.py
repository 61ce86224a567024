"""Kernels written by hand as Python source, word for word."""

import ast

import numpy as np

from functrans.emit.source import emit
from functrans.loop.nodes import INDEX, bounded, guard, index
from functrans.loop.scalar import const, convert
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Store,
    While,
    buffer,
    load,
    local,
    size,
)

F8, F4 = np.dtype(float), np.dtype("f4")
N, ZERO, ONE = size(0), const(0, INDEX), const(1, INDEX)
X, Y = buffer("x", F8, (N,)), buffer("y", F8, (N,))
K, T = index("k"), local(F8, "t")


def source(*body, buffers=(X, Y), scratch=(), sizes=1):
    text = emit(Kernel(tuple(buffers), sizes, body, scratch))
    ast.parse(text)
    return text.splitlines()


def test_a_loop():
    assert source(For(K, ZERO, N, (Store(Y, (K,), load(X, (K,)) * 2.0),))) == [
        "def kernel(flag, x, y, n0, start, stop):",
        "    for k in range(n0):",
        "        y[k] = (x[k] * 2.0)",
    ]


def test_a_parallel_loop_does_a_part():
    loop = For(K, ZERO, N, (Store(Y, (K,), load(X, (K,))),), parallel=True)
    assert source(loop)[1] == "    for k in range(start, stop):"


def test_what_is_used_twice_has_a_name():
    value = load(X, (K,)) + 1.0
    assert source(For(K, ZERO, N, (Store(Y, (K,), value * value),)))[2:] == [
        "        v = (x[k] + 1.0)",
        "        y[k] = (v * v)",
    ]


def test_memory_that_has_changed_is_read_again():
    value = load(X, (ZERO,)) + 1.0
    text = "\n".join(source(Store(X, (ZERO,), value * value), Store(Y, (ZERO,), value)))
    assert text.count("(x[0] + 1.0)") == 2


def test_a_guard_computes_one_side():
    assert source(Store(Y, (ZERO,), guard(N < 3, load(X, (ONE,)), 0.5)))[1:] == [
        "    if (n0 < 3):",
        "        v = x[1]",
        "    else:",
        "        v = 0.5",
        "    y[0] = v",
    ]


def test_sums_and_numbers():
    reduce = Reduce((T,), ("add",), (load(X, (K,)),), ((K, ZERO, N),))
    assert source(reduce, Store(Y, (ZERO,), T))[1:] == [
        "    t = 0.0",
        "    for k in range(n0):",
        "        t = (t + x[k])",
        "    y[0] = t",
    ]


def test_statements_of_control():
    found = source(
        Let((T,), (load(X, (ZERO,)),)),
        While((), T < 100.0, (Assign((T,), (T * 2.0,)),)),
        If(T < 200.0, (Store(Y, (ZERO,), T),), ()),
    )
    assert found[1:] == [
        "    t = x[0]",
        "    while True:",
        "        if not (t < 100.0):",
        "            break",
        "        t = (t * 2.0)",
        "    if (t < 200.0):",
        "        y[0] = t",
    ]


def test_an_index_from_data_is_checked():
    p = buffer("p", INDEX, (N,))
    place = bounded(load(p, (ZERO,)), N)
    text = "\n".join(source(Store(Y, (ZERO,), load(X, (place,))), buffers=(X, Y, p)))
    assert "checked(" in text and "flag)" in text


def test_small_floats_are_rounded():
    x, y = buffer("x", F4, (N,)), buffer("y", F4, (N,))
    (line,) = source(Store(y, (ZERO,), load(x, (ZERO,)) * load(x, (ONE,))), buffers=(x, y))[1:]
    assert line == "    y[0] = (x[0] * x[1])"  # of two of them Numba makes one
    (line,) = source(Store(y, (ZERO,), convert(load(X, (ZERO,)), F4)), buffers=(X, y))[1:]
    assert line == "    y[0] = np.float32(x[0])"


def test_names_of_buffers_are_told_apart():
    other = buffer("x", F8, (N,))
    (line,) = source(Store(other, (ZERO,), load(X, (ZERO,))), buffers=(X, other))[1:]
    assert line == "    x_1[0] = x[0]"


def test_rows_and_calls_are_for_reading():
    row = buffer("row", F8, (const(4, INDEX),))
    call = Call("dcopy", (N, Address(X, (ONE,)), b"N"), reads=(X,), writes=())
    found = source(Store(row, (ZERO,), const(1.0, F8)), call, scratch=(row,))
    assert found[1:] == [
        "    row = np.empty((4,), np.float64)",
        "    row[0] = 1.0",
        "    dcopy(n0, address(x, (1,)), 'N')",
    ]


def test_a_kernel_of_nothing():
    assert source() == ["def kernel(flag, x, y, n0, start, stop):", "    pass"]

"""Each kind of statement, in kernels written by hand, compiled by both printers."""

import ctypes

import numpy as np
import pytest

from functrans.emit import source as emit_text
from functrans.emit.llvm import kernel as emit_llvm
from functrans.loop.nodes import INDEX, bounded, fold, guard, index
from functrans.loop.scalar import const, convert, unlikely, where
from functrans.loop.statements import (
    Assign,
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
from functrans.run.code import loading, native

F8 = np.dtype(np.float64)
ZERO = const(0, INDEX)
N = size(0)


NO_SIGNALS = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda flag: None)
"""What long loops call on the way (`functrans.emit.llvm.polling`)."""


def by_llvm(kernel, arrays, sizes, part=(0, 0), instructions=(), poll=NO_SIGNALS):
    text = emit_llvm.emit(kernel, instructions)
    code = loading.link(native.compile_object(text), emit_llvm.ENTRY, {})
    flag = np.array([0, ctypes.cast(poll, ctypes.c_void_p).value], np.int64)
    words = np.array([flag.ctypes.data, *(array.ctypes.data for array in arrays), *sizes], np.int64)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address)
    function(*part, words.ctypes.data)
    return flag[0]


def by_text(kernel, arrays, sizes, part=(0, 0)):
    numba = pytest.importorskip("numba")
    scope = emit_text.namespace()
    exec(emit_text.emit(kernel), scope)
    flag = np.zeros(1, np.int64)
    numba.njit(error_model="numpy")(scope["kernel"])(flag, *arrays, *sizes, *part)
    return flag[0]


BOTH = pytest.mark.parametrize("run", [by_llvm, by_text])


def x_and_y(rows, columns=None):
    shape = (rows,) if columns is None else (rows, columns)
    rng = np.random.default_rng(0)
    return rng.normal(size=shape), np.full(shape, 7.0)


@BOTH
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_loop_with_a_masked_rest(run, n, lanes):
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    body = Store(y, (i,), load(x, (i,)) * 2)
    kernel = Kernel((x, y), 1, (For(i, ZERO, N, (body,), lanes=lanes),))
    a, b = x_and_y(n + 2)
    run(kernel, [a, b], [n])
    np.testing.assert_array_equal(b[:n], a[:n] * 2)
    assert (b[n:] == 7).all()


@BOTH
def test_a_part_of_a_parallel_loop(run):
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    body = Store(y, (i,), load(x, (i,)) + 1)
    loop = For(i, ZERO, N, (body,), lanes=4, parallel=True, repeatable=True)
    a, b = x_and_y(50)
    run(Kernel((x, y), 1, (loop,)), [a, b], [50], (10, 31))
    np.testing.assert_array_equal(b[10:31], a[10:31] + 1)
    assert (b[:10] == 7).all() and (b[31:] == 7).all()


@BOTH
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 11])
def test_rows_side_by_side_in_lanes(run, columns):
    x, y, i = buffer("x", F8, (N, columns)), buffer("y", F8, (N, columns)), index()
    stores = tuple(
        Store(y, (i, const(c, INDEX)), load(x, (i, const(columns - 1 - c, INDEX))))
        for c in range(columns)
    )
    a, b = x_and_y(21, columns)
    run(Kernel((x, y), 1, (For(i, ZERO, N, stores, lanes=8, repeatable=True),)), [a, b], [21])
    np.testing.assert_array_equal(b, a[:, ::-1])


@BOTH
def test_gathers_backwards_and_by_data(run):
    x, p, y, i = buffer("x", F8, (N,)), buffer("p", INDEX, (N,)), buffer("y", F8, (N,)), index()
    value = load(x, (bounded(load(p, (i,)), N),)) + load(x, (N - 1 - i,))
    kernel = Kernel((x, p, y), 1, (For(i, ZERO, N, (Store(y, (i,), value),), lanes=8),))
    a, b = x_and_y(19)
    order = np.random.default_rng(0).permutation(19) - 19
    assert run(kernel, [a, order, b], [19]) == 0
    np.testing.assert_array_equal(b, a[order] + a[::-1])
    order[3] = 19
    assert run(kernel, [a, order, b], [19]) == 1


@BOTH
@pytest.mark.parametrize("lanes", [1, 4, 32])
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 200])
def test_several_reductions_in_one_loop(run, lanes, n):
    x, y, k = buffer("x", F8, (N,)), buffer("y", F8, (const(3, INDEX),)), index()
    value = load(x, (k,))
    names = tuple(local(F8) for _ in range(3))
    reduce = Reduce(
        names, ("add", "max", "mul"), (value, value, value + 1), ((k, ZERO, N),), lanes=lanes
    )
    stores = tuple(Store(y, (const(i, INDEX),), name) for i, name in enumerate(names))
    a, b = np.random.default_rng(0).normal(size=n) * 0.1, np.zeros(3)
    run(Kernel((x, y), 1, (reduce, *stores)), [a, b], [n])
    want = [a.sum(), a.max(initial=-np.inf), (a + 1).prod()]
    np.testing.assert_allclose(b, want, rtol=1e-13)


@BOTH
def test_a_reduction_in_each_lane(run):
    x, y, i, k = buffer("x", F8, (N, N)), buffer("y", F8, (N,)), index(), index()
    total = local(F8)
    reduce = Reduce((total,), ("add",), (load(x, (k, i)),), ((k, ZERO, N),))
    loop = For(i, ZERO, N, (reduce, Store(y, (i,), total)), lanes=16, repeatable=True)
    a, b = np.random.default_rng(0).normal(size=(37, 37)), np.zeros(37)
    run(Kernel((x, y), 1, (loop,)), [a, b], [37])
    np.testing.assert_allclose(b, a.sum(0), rtol=1e-12)


@BOTH
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_guard_reads_nothing_outside(run, lanes):
    # the array is the first page of a mapping of which the second may not be read
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    shifted = i + 1
    value = guard(shifted < N, load(x, (shifted,)), const(-1.0, F8))
    body = Store(y, (i,), value)
    a, b = x_and_y(13)
    run(Kernel((x, y), 1, (For(i, ZERO, N, (body,), lanes=lanes),)), [a, b], [13])
    np.testing.assert_array_equal(b, [*a[1:], -1])


@BOTH
@pytest.mark.parametrize("lanes", [1, 8])
def test_unlikely_values(run, lanes):
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    v = load(x, (i,))
    body = Store(y, (i,), unlikely(v > 2.0, v * 100, v))
    a, b = x_and_y(100)
    run(Kernel((x, y), 1, (For(i, ZERO, N, (body,), lanes=lanes),)), [a, b], [100])
    np.testing.assert_array_equal(b, np.where(a > 2, a * 100, a))


@BOTH
@pytest.mark.parametrize("first", [1.0, 3.0])
@pytest.mark.parametrize("lanes", [1, 8])
def test_unlikely_values_of_all_lanes(run, lanes, first):
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    v = rare = load(x, (i,))
    for number in range(1, 30):  # so many operations are a function
        rare = rare * 0.5 + number
    body = Store(y, (i,), unlikely(load(x, (ZERO,)) > 2.0, rare, v))
    a, b = x_and_y(100)
    a[0] = first
    run(Kernel((x, y), 1, (For(i, ZERO, N, (body,), lanes=lanes),)), [a, b], [100])
    expected = a
    for number in range(1, 30 * (first > 2)):
        expected = expected * 0.5 + number
    np.testing.assert_allclose(b, expected, rtol=1e-14)


@BOTH
@pytest.mark.parametrize("lanes", [1, 8])
def test_an_unlikely_value_of_constants(run, lanes):
    """It is a function without parameters, of one lane."""
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    rare, expected = const(3.0, F8), 3.0
    for number in range(1, 30):
        rare, expected = rare * 0.5 + number, expected * 0.5 + number
    v = load(x, (i,))
    body = Store(y, (i,), unlikely(v > 2.0, rare, v))
    a, b = x_and_y(100)
    run(Kernel((x, y), 1, (For(i, ZERO, N, (body,), lanes=lanes),)), [a, b], [100])
    np.testing.assert_allclose(b, np.where(a > 2, expected, a), rtol=1e-14)


@BOTH
def test_locals_while_and_if(run):
    y = buffer("y", F8, (const(2, INDEX),))
    value, steps = local(F8), local(F8)
    halve = Assign((value, steps), (value * 0.5, steps + 1))
    body = (
        Let((value, steps), (const(100.0, F8), const(0.0, F8))),
        While((), const(1.0, F8) < value, (halve,)),
        If(
            steps < 5.0,
            (Store(y, (ZERO,), value),),
            (Store(y, (ZERO,), -value), Store(y, (const(1, INDEX),), steps)),
        ),
    )
    b = np.zeros(2)
    run(Kernel((y,), 0, body), [b], [])
    np.testing.assert_array_equal(b, [-100 / 128, 7])


def test_a_short_loop_far_from_zero_is_few_operations():
    """Its outer loop does not poll in each iteration."""
    x, y, i, j = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index(), index()
    first, last = size(1), size(2)
    rest = For(j, first, last, (Store(y, (j,), load(x, (j,)) + 1),))
    kernel = Kernel((x, y), 3, (For(i, ZERO, N, (rest,)),))
    polls = []
    poll = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(polls.append)
    a, b = x_and_y(100_000)
    by_llvm(kernel, [a, b], [100_000, 99_998, 100_000], poll=poll)
    np.testing.assert_array_equal(b, [*np.full(99_998, 7.0), *(a[-2:] + 1)])
    assert 1 <= len(polls) < 100


@BOTH
def test_adding_to_memory_in_order(run):
    p, y, i = buffer("p", INDEX, (N,)), buffer("y", F8, (const(3, INDEX),)), index()
    place = load(p, (i,))
    loop = For(i, ZERO, N, (Store(y, (place,), convert(i, F8), "add"),))
    places, b = np.array([0, 1, 0, 2, 2, 2]), np.zeros(3)
    run(Kernel((p, y), 1, (loop,)), [places, b], [6])
    np.testing.assert_array_equal(b, np.bincount(places, weights=np.arange(6.0)))


@BOTH
@pytest.mark.parametrize("lanes", [1, 16])
def test_bools_in_memory_are_bytes(run, lanes):
    boolean = np.dtype(bool)
    x, m, i = buffer("x", F8, (N,)), buffer("m", boolean, (N,)), index()
    positive = const(0.0, F8) < load(x, (i,))
    body = (Store(m, (i,), positive | load(m, (i,))),)
    a = np.random.default_rng(0).normal(size=40)
    b = np.arange(40) % 3 == 0
    want = (a > 0) | b
    run(Kernel((x, m), 1, (For(i, ZERO, N, body, lanes=lanes),)), [a, b], [40])
    np.testing.assert_array_equal(b, want)


def test_a_fold_of_a_few_elements_is_written_out():
    few = fold("add", (4,), lambda k: convert(k, F8))
    assert few.op == "add"
    assert fold("add", (100,), lambda k: convert(k, F8)).op == "fold"


def test_vectors_are_vectors():
    x, y, i = buffer("x", F8, (N,)), buffer("y", F8, (N,)), index()
    v = load(x, (i,))
    body = Store(y, (i,), where(v < 0.0, v * v, v + 1))
    lanes = native.vector_bytes() // 8
    loop = For(i, ZERO, N, (body,), lanes=lanes, repeatable=True)
    text = native.assembly(emit_llvm.emit(Kernel((x, y), 1, (loop,))))
    register = {64: "zmm", 32: "ymm", 16: "xmm"}[native.vector_bytes()]
    if "rip" in text:  # x86
        assert register in text


@BOTH
def test_what_was_computed_before_a_loop_is_computed_again_in_it(run):
    y, i, t = buffer("y", F8, (const(3, INDEX),)), index(), local(F8)
    squared = (t + 1.0) * (t + 1.0)
    body = (Store(y, (i,), squared), Assign((t,), (t + 1.0,)))
    loop = For(i, ZERO, const(3, INDEX), body)
    kernel = Kernel((y,), 0, (Let((t,), (const(0.0, F8),)), If(squared < 10.0, (loop,))))
    found = np.zeros(3)
    run(kernel, [found], [])
    np.testing.assert_array_equal(found, [1.0, 4.0, 9.0])


@BOTH
@pytest.mark.parametrize("label", ["max", "and", "n0", "np"])
def test_locals_may_be_called_anything(run, label):
    x, y, k, t = buffer("x", F8, (N,)), buffer(label, F8, ()), index(), local(F8, label)
    fold = Reduce((t,), ("max",), (load(x, (k,)),), ((k, ZERO, N),))
    found = np.zeros(())
    run(Kernel((x, y), 1, (fold, Store(y, (), t))), [np.array([1.0, 3.0, 2.0]), found], [3])
    assert found == 3.0


@BOTH
@pytest.mark.parametrize("n", [0, 1, 7, 8, 21])
def test_lanes_fix_the_bits_of_a_sum(run, n):
    x, y, k, t = buffer("x", F8, (N,)), buffer("y", F8, ()), index(), local(F8)
    fold = Reduce((t,), ("add",), (load(x, (k,)),), ((k, ZERO, N),), lanes=4)
    a = np.random.default_rng(0).normal(size=n)
    found = np.zeros(())
    run(Kernel((x, y), 1, (fold, Store(y, (), t))), [a, found], [n])
    parts = [0.0] * 4
    for place, value in enumerate(a):
        parts[place % 4] += value
    assert found == (parts[0] + parts[2]) + (parts[1] + parts[3])

"""Kernels written by hand as LLVM text: which instructions each kind of memory access becomes."""

import re

import numpy as np
import pytest

from functrans.emit.llvm.counters import MANY_ADDRESSES
from functrans.emit.llvm.kernel import ENTRY, emit
from functrans.loop.nodes import INDEX, bounded, guard, index
from functrans.loop.scalar import const, convert, eq, lookup, maximum, minimum, sqrt, where
from functrans.loop.statements import (
    Address,
    Call,
    For,
    If,
    Kernel,
    Reduce,
    Store,
    buffer,
    load,
    local,
    size,
)
from functrans.run.code import native
from functrans.run.code.machine import Machine
from tests.emit.test_statements import by_llvm

F8 = np.dtype(float)
N, ZERO, ONE = size(0), const(0, INDEX), const(1, INDEX)
X, Y = buffer("x", F8, (N,)), buffer("y", F8, (N,))
P = buffer("p", INDEX, (N,))
K = index("k")
AVX2 = Machine("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32)


def text(*body, buffers=(X, Y), scratch=()):
    """The LLVM text of a kernel, which LLVM accepts."""
    written = emit(Kernel(tuple(buffers), 1, body, scratch))
    native.compile_object(written)
    return written


def vector_loop(value, position=K, buffers=(X, Y), **how):
    how = {"lanes": 8, "repeatable": True} | how
    return text(For(K, ZERO, N, (Store(Y, (position,), value),), **how), buffers=buffers)


def test_neighbours_are_loaded_and_stored_as_vectors():
    found = vector_loop(load(X, (K,)) * 2.0)
    assert re.search(r"load <8 x double>, ptr .*, align 8", found)
    assert re.search(r"store <8 x double> .*, align 8", found)
    assert "fmul contract <8 x double>" in found
    assert "masked" not in found


def test_without_leave_to_repeat_the_rest_is_masked():
    found = vector_loop(load(X, (K,)) * 2.0, repeatable=False)
    assert "llvm.masked.load.v8f64" in found and "llvm.masked.store.v8f64" in found


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_, np.int16, np.float16])
@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_the_rest_is_stored_in_pieces_where_that_is_faster(dtype, lanes):
    x, y = (buffer(name, np.dtype(dtype), (N,)) for name in "xy")
    kernel = Kernel((x, y), 1, (For(K, ZERO, N, (Store(y, (K,), load(x, (K,))),), lanes),))
    assert "masked.store" in emit(kernel) and "masked.store" not in emit(kernel, {"pieces"})
    for count in range(2 * lanes + 2):
        given = np.random.default_rng(count).integers(0, 2, count + 3).astype(dtype)
        found = 1 - given if dtype != np.bool_ else ~given
        untouched = found[count:].copy()
        by_llvm(kernel, [given, found], (count,), instructions={"pieces"})
        np.testing.assert_array_equal(found, [*given[:count], *untouched])


def test_a_whole_number_of_vectors_has_no_rest():
    assert "masked" not in vector_loop(load(X, (K,)) * 2.0, repeatable=False, whole=True)


@pytest.mark.parametrize(("count", "has_rest"), [(16, False), (17, True)])
def test_a_constant_number_of_whole_vectors_has_no_rest(count, has_rest):
    store = Store(Y, (K,), load(X, (K,)) * 2.0)
    assert ("rest" in text(For(K, ZERO, const(count, INDEX), (store,), 8))) is has_rest


def test_what_does_not_depend_on_the_loop_is_loaded_once_and_spread():
    found = vector_loop(load(X, (ZERO,)) * load(X, (K,)))
    assert "insertelement" in found and "shufflevector" in found


def test_no_index_moves_along_what_has_no_elements():
    """Such a load is never reached, and stands there with one address all the same."""
    empty = buffer("e", F8, (N, const(0, INDEX)))
    found = vector_loop(load(empty, (K, ZERO)) + load(X, (K,)), buffers=(X, Y, empty))
    assert "gather" not in found


def test_the_rest_of_pairs_is_a_masked_vector():
    pairs = buffer("pairs", F8, (N, const(2, INDEX)))
    value = load(pairs, (K, ZERO)) * load(pairs, (K, const(1, INDEX)))
    found = vector_loop(value, repeatable=False, buffers=(X, Y, pairs))
    assert "llvm.masked.load.v16f64" in found and "gather" not in found


def test_places_from_data_are_gathered():
    found = vector_loop(load(X, (bounded(load(P, (K,)), N),)), buffers=(X, Y, P))
    assert "call <8 x double> @llvm.masked.gather.v8f64" in found
    # the places themselves lie side by side
    assert "load <8 x i64>" in found


@pytest.mark.parametrize("place", [50, 1 << 40])
@pytest.mark.parametrize("lanes", [8, 12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_, np.int16])
def test_one_place_for_some_lanes_is_loaded_once(dtype, lanes, place):
    """It is no gather of equal places, and not loaded for vectors without such lanes."""
    x, out = buffer("x", np.dtype(dtype), (N,)), buffer("o", np.dtype(dtype), (N,))
    at = const(place, INDEX)
    value = guard(eq(K, at), load(x, (at,)), False)
    kernel = Kernel((x, out), 1, (For(K, ZERO, N, (Store(out, (K,), value),), lanes=lanes),))
    assert "gather" not in emit(kernel)
    given, found = np.arange(1, 72).astype(dtype), np.zeros(71, dtype)
    by_llvm(kernel, [given, found], [71])
    np.testing.assert_array_equal(found, np.where(np.arange(71) == place, given, False))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_, np.int16])
def test_places_in_a_row_are_loaded_singly_where_that_is_faster(dtype):
    rows, out = buffer("r", np.dtype(dtype), (N, N)), buffer("o", np.dtype(dtype), (N,))
    inside, everywhere = (
        load(rows, (place, bounded(load(P, (K,)), N))) for place in (ONE, bounded(load(P, (K,)), N))
    )
    for value, gathers in ((inside, False), (everywhere, True)):
        loop = For(K, ZERO, N, (Store(out, (K,), value),), lanes=8, repeatable=True)
        made = Kernel((rows, P, out), 1, (loop,))
        assert "call <8 x" in emit(made)
        written = emit(made, {"loads"})
        native.compile_object(written)
        assert ("masked.gather" in written) == gathers


def test_elements_of_a_small_table_are_loaded_singly_where_that_is_faster():
    table = buffer("t", F8, (const(9, INDEX),))
    value = load(table, (bounded(load(P, (K,)), const(9, INDEX)),))
    loop = For(K, ZERO, N, (Store(Y, (K,), value),), lanes=8, repeatable=True)
    assert "masked.gather" not in emit(Kernel((table, P, Y), 1, (loop,)), {"loads"})


def test_a_vector_loop_does_not_store_to_one_place():
    with pytest.raises(AssertionError, match="stores to one place"):
        vector_loop(load(X, (K,)), position=ZERO)


def test_one_iteration_at_a_time_has_no_vectors():
    assert " x double>" not in vector_loop(load(X, (K,)) * 2.0, lanes=1)


def test_a_function_of_many_arguments_has_one_entry():
    found = vector_loop(load(X, (K,)))
    assert len(re.findall(rf"^define .*@{ENTRY}\(", found, re.M)) == 1


def test_a_parallel_loop_takes_its_range_from_the_caller():
    whole = vector_loop(load(X, (K,)))
    part = vector_loop(load(X, (K,)), parallel=True)
    assert whole != part


def test_a_guard_is_a_branch_or_a_mask():
    value = guard(K < 3, load(X, (K,)), 0.0)
    assert "br i1" in vector_loop(value, lanes=1)
    assert "llvm.masked.load.v8f64" in vector_loop(value)


@pytest.mark.parametrize(
    ("op", "lanes", "words"),
    [("add", 8, "fadd"), ("max", 4, "llvm.vector.reduce|select|maximum|fcmp"), ("mul", 1, "fmul")],
)
def test_partial_results_are_a_vector(op, lanes, words):
    total = local(F8)
    found = text(
        Reduce((total,), (op,), (load(X, (K,)),), ((K, ZERO, N),), lanes=lanes),
        Store(Y, (ZERO,), total),
    )
    assert re.search(words, found)
    assert (f"<{lanes} x double>" in found) == (lanes > 1)


def test_calls_take_everything_by_its_address():
    call = Call(
        "dcopy", (N, Address(X, (ZERO,)), ONE, Address(Y, (ZERO,)), b"N"), reads=(X,), writes=(Y,)
    )
    found = text(call)
    assert re.search(r"declare void @dcopy\(ptr, ptr, ptr, ptr, ptr\)", found)


def test_rows_on_the_stack():
    row = buffer("row", F8, (16,))
    body = (Store(row, (ZERO,), load(X, (ZERO,))), Store(Y, (ZERO,), load(row, (ZERO,))))
    assert re.search(r"mul i64 1, 16\n.* alloca double, .*, align 64", text(*body, scratch=(row,)))


def test_what_is_read_is_read_again_after_it_was_written():
    first = Store(X, (ZERO,), load(X, (ONE,)) + 1.0)
    again = Store(Y, (ZERO,), load(X, (ONE,)) + 1.0)
    assert text(first, again).count("load double") == 2
    # nobody writes to X here
    assert text(Store(Y, (ZERO,), load(X, (ONE,))), Store(Y, (ONE,), load(X, (ONE,)))).count(
        "load double"
    ) == 1  # fmt: skip


def test_a_store_to_another_buffer_changes_nothing():
    value = load(X, (ONE,)) + 1.0
    written = load(Y, (ONE,))  # so that values from both buffers may change
    found = text(Store(Y, (ZERO,), value), Store(Y, (N - 1,), value), Store(X, (ZERO,), written))
    assert found.count("fadd") == 1
    found = text(Store(Y, (ZERO,), value), Store(X, (ZERO,), written), Store(Y, (N - 1,), value))
    assert found.count("fadd") == 2


def test_what_was_written_is_not_read_again():
    body = (Store(X, (K,), load(X, (K,)) * 2.0), Store(Y, (K,), load(X, (K,)) + load(Y, (K,))))
    kernel = Kernel((X, Y), 1, (For(K, ZERO, N, body, lanes=4),))
    found = emit(kernel)
    assert found.count("= load <4 x double>") == 2
    # elements that a mask leaves out are in memory only
    assert found.count("@llvm.masked.load.v4f64.p0(ptr %") == 3
    x, y = np.arange(10.0), np.ones(10)
    by_llvm(kernel, [x, y], [10])
    np.testing.assert_array_equal(x, 2 * np.arange(10.0))
    np.testing.assert_array_equal(y, 2 * np.arange(10.0) + 1)


def test_branches():
    found = text(If(load(X, (ZERO,)) < 1.0, (Store(Y, (ZERO,), const(1.0, F8)),)))
    assert "fcmp" in found and "br i1" in found


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_, np.int64])
@pytest.mark.parametrize("stride", [2, 3, 5, 8, -1, -2, -3, -7])
@pytest.mark.parametrize("first", [0, 3])
def test_strided_loads_are_vectors_and_shuffles(stride, first, dtype, lanes):
    count, dtype = 4 * lanes, np.dtype(dtype)
    # the buffer ends with the last element that is read
    size = abs(stride) * (count - 1) + 1 + first
    x, y = buffer("x", dtype, (size,)), buffer("y", dtype, (count,))
    i = index("i", count)
    start = first if stride > 0 else size - 1
    place = const(start, INDEX) + i * stride
    loop = For(i, ZERO, const(count, INDEX), (Store(y, (i,), load(x, (place,))),),
               lanes=lanes, whole=True)  # fmt: skip
    made = Kernel((x, y), 0, (loop,))
    assert "gather" not in emit(made) and f"load <{lanes} x" in emit(made)
    given = (np.arange(size) % 7 * (np.arange(size) % 3 > 0)).astype(dtype)
    out = np.zeros(count, dtype)
    by_llvm(made, [given, out], [])
    np.testing.assert_array_equal(out, given[start::stride][:count])


@pytest.mark.parametrize("step", [1, -1, 2])
def test_adjacent_entries_of_a_table_are_a_vector(step):
    out, i = buffer("y", np.int64, (16,)), index("i", 16)
    table = tuple((7 * n) % 32 for n in range(32))
    place = i * step + (1 if step > 0 else 15)
    body = Store(out, (i,), lookup(table, place, INDEX))
    made = Kernel((out,), 0, (For(i, ZERO, const(16, INDEX), (body,), lanes=8, whole=True),))
    assert ("gather" in emit(made)) == (step != 1)
    found = np.zeros(16, np.int64)
    by_llvm(made, [found], [])
    np.testing.assert_array_equal(
        found, [table[step * n + (1 if step > 0 else 15)] for n in range(16)]
    )


def test_the_innermost_loop_of_a_sum_is_unrolled_if_it_is_short():
    table, other = buffer("t", F8, (N, 3)), index("j")

    def loops(stop):
        total = local(F8, "total")
        bounds = ((K, ZERO, N), (other, ZERO, stop))
        fold = Reduce((total,), ("add",), (load(table, (K, other)),), bounds)
        return text(fold, Store(Y, (ZERO,), total), buffers=(table, Y)).count("phi i64")

    assert loops(const(3, INDEX)) == 1
    assert loops(const(300, INDEX)) == loops(N) == 2


def test_an_index_has_other_values_in_the_next_loop_over_it():
    """What depends on it is not computed before that loop, with a value of the one before."""
    table, other, row = buffer("t", F8, (N, 3)), index("j"), index("i")
    bounds = (K, ZERO, const(2, INDEX)), (other, ZERO, const(3, INDEX))
    first, second = local(F8, "first"), local(F8, "second")
    chosen = where(eq(other, 1), const(2.0, F8), 0.5) * load(X, (row,))
    body = (
        Reduce((first,), ("add",), (load(table, (K, other)),), bounds),
        For(
            row,
            ZERO,
            N,
            (
                Reduce((second,), ("add",), (chosen,), bounds),
                Store(Y, (row,), second + first),
            ),
            lanes=8,
            repeatable=True,
        ),
    )
    values, x, y = np.arange(30.0).reshape(10, 3), np.arange(10.0), np.zeros(10)
    by_llvm(Kernel((table, X, Y), 1, body), [values, x, y], [10])
    np.testing.assert_array_equal(y, 6 * x + values[:2].sum())


def test_bools_in_lanes_are_the_bits_of_a_number():
    table, out = buffer("t", np.bool_, (N,)), buffer("o", np.bool_, (N,))

    def combined(op, value):
        total = local(np.bool_, "total")
        fold = Reduce((total,), (op,), (load(table, (K,)),), ((K, ZERO, N),), lanes=64)
        body = fold, Store(out, (ZERO,), total)
        assert text(*body, buffers=(table, out)).count("shufflevector") <= 1
        kernel = Kernel((table, out), 1, body)
        found = []
        for place in (None, 0, 63, 70):
            given = np.full(71, not value)
            if place is not None:
                given[place] = value
            result = np.zeros(71, bool)
            by_llvm(kernel, [given, result], [71])
            found.append(bool(result[0]))
        return found

    assert combined("or", True) == [False, True, True, True]
    assert combined("and", False) == [True, False, False, False]


@pytest.mark.parametrize("how", [{}, {"repeatable": False}])
def test_numbers_that_no_iteration_changes_are_computed_before_a_vector_loop(how):
    total = local(F8, "total")
    first = Reduce((total,), ("add",), (load(X, (K,)),), ((K, ZERO, N),), lanes=8)
    i = index("i")
    value = load(X, (i,)) * sqrt(where(total < 0, -total, total))
    loop = For(i, ZERO, N, (Store(Y, (i,), value),), **({"lanes": 8, "repeatable": True} | how))
    kernel = Kernel((X, Y), 1, (first, loop))
    sqrt_of_one, loop_of_vectors = "call double @llvm.sqrt.f64", "fmul contract <8 x double>"
    assert emit(kernel).count(sqrt_of_one) == 1 and "sqrt.v8" not in emit(kernel)
    between = emit(kernel).partition(sqrt_of_one)[2].partition(loop_of_vectors)[0]
    assert re.search(r"^loop\d+:", between, re.MULTILINE)
    x, result = np.arange(-3.0, 18), np.empty(21)
    by_llvm(kernel, [x, result], [21])
    np.testing.assert_allclose(result, x * np.sqrt(x.sum()))


def test_numbers_of_a_loop_inside_of_a_sum_are_computed_in_that_loop():
    """They do not depend on the sum's own index, and are not known before it."""
    total, inner, i, k = local(F8, "total"), local(F8, "inner"), index("i"), index("k")
    number = sqrt(convert(k, F8) + 1.0)
    reads = Reduce((inner,), ("add",), (number * load(X, (k,)),), ((k, ZERO, N),))
    sums = Reduce((total,), ("add",), (inner * load(X, (i,)),), ((i, ZERO, N),), body=(reads,))
    kernel = Kernel((X, Y), 1, (sums, Store(Y, (ZERO,), total)))
    x, result = np.arange(-3.0, 18), np.zeros(21)
    by_llvm(kernel, [x, result], [21])
    np.testing.assert_allclose(result[0], x.sum() * (x * np.sqrt(np.arange(21) + 1.0)).sum())


@pytest.mark.parametrize("addresses", [MANY_ADDRESSES - 1, MANY_ADDRESSES])
def test_the_counter_of_a_loop_with_many_addresses_is_hidden_from_llvm(addresses):
    value = load(X, (K,))
    for number in range(1, addresses - 1):
        value = value + load(X, (K + number,))
    loop = For(K, ZERO, N - addresses, (Store(Y, (K,), value),), lanes=8)
    kernel = Kernel((X, Y), 1, (loop,))
    body = re.search(r"^loop\d+:.*?br i1", emit(kernel), re.MULTILINE | re.DOTALL)[0]
    assert body.count("getelementptr") == addresses
    assert body.count('call i64 asm "", "=r,0"') == (addresses >= MANY_ADDRESSES)
    for extent in (addresses, addresses + 17, 300):
        x, result = np.arange(float(extent)), np.zeros(extent)
        by_llvm(kernel, [x, result], [extent])
        windows = np.lib.stride_tricks.sliding_window_view(x, addresses - 1)[: extent - addresses]
        np.testing.assert_array_equal(result[: extent - addresses], windows.sum(axis=1))
        assert not result[extent - addresses :].any()


def test_the_counter_of_sums_is_not_hidden():
    """LLVM would move sums from register to register, and spill some: 1.6 times the time."""
    sums = tuple(local(F8, f"sum{number}") for number in range(MANY_ADDRESSES))
    values = tuple(load(X, (K + number,)) for number in range(MANY_ADDRESSES))
    stores = (Store(Y, (const(n, INDEX),), total) for n, total in enumerate(sums))
    for lanes, whole in (1, False), (8, False), (8, True):
        fold = Reduce(sums, ("add",) * len(sums), values, ((K, ZERO, N),), lanes=lanes, whole=whole)
        assert "asm" not in text(fold, *stores)


@pytest.mark.parametrize(("stop", "polls"), [
    (const(64, INDEX), False),
    (const(65, INDEX), True),
    (N, True),
    (minimum(N, const(64, INDEX)), False),
    (maximum(minimum(N - K, const(4, INDEX)), ZERO), False),
    (maximum(N - K, ZERO), True),
    (minimum(K * 8 + 8, N) - K * 8, False),
])  # fmt: skip
def test_a_loop_that_ends_before_its_first_poll_has_no_strips(stop, polls):
    i, j = index("i"), index("j")
    store = Store(Y, (j,), load(X, (j,)) * 2.0)
    inner = For(i, ZERO, stop, (For(j, ZERO, N, (store,), lanes=4),))
    outer = For(K, ZERO, N, (inner,))  # in strips of a length that the kernel computes
    assert len(re.findall("^strip", text(outer), re.M)) == 1 + polls


def test_a_loop_without_iterations_is_not_written():
    nothing = For(K, const(3, INDEX), const(3, INDEX), (Store(Y, (K,), load(X, (K,))),))
    assert "loop" not in text(nothing)


SELECTIONS = {
    "where": lambda old, new: where(new > 0.5, new, old),
    "maximum": maximum,
    "both arms": lambda old, new: where(new > 0.5, new, where(new < -1.0, old, -old)),
}


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_selection_in_place_is_stored_as_a_whole(dtype, name, monkeypatch):
    """LLVM makes a masked store of it where one side is what was there, which is slow on AMD."""
    x, y = (buffer(each, np.dtype(dtype), (N,)) for each in "xy")
    value = SELECTIONS[name](load(y, (K,)), load(x, (K,)))
    stores = [Store(y, (K,), value)]
    if name == "maximum":
        stores.append(Store(y, (K,), load(x, (K,)), op="max"))
    for each in stores:
        kernel = Kernel((x, y), 1, (For(K, ZERO, N, (each,), lanes=8, repeatable=True),))
        monkeypatch.setattr(native.machine, "current", lambda: AVX2)
        code = native.assembly(emit(kernel, AVX2.instructions))
        monkeypatch.undo()
        assert "vmaskmov" not in code
        old, new = np.random.default_rng(0).normal(size=(2, 37)).astype(dtype)
        found = old.copy()
        by_llvm(kernel, [new, found], (37,), instructions={"pieces"})
        wanted = {
            "where": np.where(new > 0.5, new, old),
            "maximum": np.maximum(new, old),
            "both arms": np.where(new > 0.5, new, np.where(new < -1.0, old, -old)),
        }
        np.testing.assert_array_equal(found, wanted[name])

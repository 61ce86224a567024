"""Sums of several vectors are added up together: fewer instructions, the same bits."""

import re
from dataclasses import replace

import numpy as np
import pytest

from functrans import jit
from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, convert
from functrans.loop.statements import Kernel, Reduce, Store, buffer, load, local, size
from tests.emit.test_statements import by_llvm

N, ZERO = size(0), const(0, INDEX)
K = index("k")


def kernel(count, dtype, lanes, op="add"):
    """Sums of the first rows of a matrix."""
    dtype = np.dtype(dtype)
    x, y = buffer("x", dtype, (const(20, INDEX), N)), buffer("y", dtype, (const(20, INDEX),))
    sums = tuple(local(dtype, f"sum{number}") for number in range(count))
    numbers = [const(number, INDEX) for number in range(count)]
    values = tuple(load(x, (number, K)) for number in numbers)
    fold = Reduce(sums, (op,) * count, values, ((K, ZERO, N),), lanes=lanes)
    stores = (Store(y, (n,), total) for n, total in zip(numbers, sums, strict=True))
    return Kernel((x, y), 1, (fold, *stores))


@pytest.mark.parametrize("op", ["add", "max", "mul"])
@pytest.mark.parametrize(
    ("dtype", "lanes"), [("f4", 16), ("f8", 8), ("f4", 4), ("i4", 8), ("f8", 2)]
)
def test_sums_have_the_bits_of_those_added_up_alone(dtype, lanes, op):
    rng = np.random.default_rng(0)
    for extent in (0, 1, 17, 300):
        x = (rng.standard_normal((20, extent)) * 3 + 1).astype(dtype)
        alone = []
        for row in x:
            result = np.zeros(20, dtype)
            by_llvm(kernel(1, dtype, lanes, op), [np.stack([row] * 20), result], [extent])
            alone.append(result[0])
        for count in (2, 3, 7, 16, 20):
            found = np.zeros(20, dtype)
            by_llvm(kernel(count, dtype, lanes, op), [x, found], [extent])
            np.testing.assert_array_equal(found[:count], alone[:count])
            assert not found[count:].any()


@pytest.mark.parametrize(("dtype", "lanes"), [("f4", 16), ("f8", 8)])
def test_as_many_sums_as_lanes_are_added_up_by_one_addition_less(dtype, lanes):
    after = emit(kernel(lanes, dtype, lanes)).rpartition("\nend")[2]
    assert len(re.findall("= fadd", after)) == lanes - 1


@pytest.mark.parametrize("lanes", [4, 8, 32])
@pytest.mark.parametrize("dtype", ["i8", "i1", "f4", "f8"])
def test_conditions_that_hold_are_counted_as_bits(dtype, lanes):
    x, y = buffer("x", np.dtype(bool), (N,)), buffer("y", np.dtype(dtype), (const(1, INDEX),))
    total = local(np.dtype(dtype), "sum")
    value = convert(load(x, (K,)), np.dtype(dtype))
    fold = Reduce((total,), ("add",), (value,), ((K, ZERO, N),), lanes=lanes)
    counted = Kernel((x, y), 1, (fold, Store(y, (ZERO,), total)))
    # numbers as narrow as the result of a comparison are added as they are
    assert ("ctpop" in emit(counted)) == (lanes >= 8 and dtype != "i1")
    for extent in (0, 1, 7, 32, 100):
        given, found = np.random.default_rng(extent).random(extent) > 0.3, np.zeros(1, dtype)
        by_llvm(counted, [given, found], [extent])
        assert found[0] == given.sum()


@pytest.mark.parametrize(
    ("op", "dtype"), [("max", "f4"), ("min", "i8"), ("or", "?"), ("and", "i4")]
)
def test_the_last_vector_may_overlap_where_elements_may_be_combined_twice(op, dtype):
    plain = kernel(1, dtype, 8, op)
    (fold, *stores) = plain.body
    overlapping = replace(plain, body=(replace(fold, repeatable=True), *stores))
    assert "masked" not in emit(overlapping)
    combine = {"max": np.maximum, "min": np.minimum, "or": np.bitwise_or, "and": np.bitwise_and}
    for extent in (8, 9, 17, 300):
        given = np.random.default_rng(extent).integers(-99, 99, (20, extent)).astype(dtype)
        found = np.zeros(20, dtype)
        by_llvm(overlapping, [given, found], [extent])
        assert found[0] == combine[op].reduce(given[0])


def test_conditions_have_at_most_one_vector_of_bytes_as_accumulator():
    schedule = str(jit(lambda x: np.any(x, axis=1)).lower(np.ones((20, 900), bool)).schedule())
    assert re.search(r"or over k in 0..900 by (16|32|64):", schedule)

"""Products whose rows are in pages of their own, or whose sums are large: without AVX-512."""

import re

import numpy as np
import pytest

from functrans import config, jit
from tests.targets import take_host_for

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.standard_normal(shape)


def test_rows_in_pages_of_their_own_are_prefetched_while_they_are_packed(monkeypatch):
    def fetches(rows, terms, columns, ahead):
        given = array(rows, terms), array(terms, columns)
        take_host_for(monkeypatch, vector_bytes=32, registers=16, blocking={"ahead": ahead})
        return str(jit(lambda x, y: x @ y).lower(*given).llvm()).count("call void @llvm.prefetch")

    assert fetches(120, 300, 500, 24) > fetches(120, 300, 500, 0)
    assert fetches(120, 300, 64, 24) == fetches(120, 300, 64, 0)  # rows are near each other


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "columns", "transposed"),
    [(300, 260, True), (256, 265, True), (252, 300, True), (300, 260, False)],
)
def test_parts_of_long_sums_that_pack_in_the_arena(monkeypatch, dtype, rows, columns, transposed):
    take_host_for(monkeypatch, vector_bytes=32, registers=16, largest_stack=1 << 17)
    terms = 2600
    x = RNG.integers(-9, 9, (terms, rows) if transposed else (rows, terms)).astype(dtype)
    y = RNG.integers(-9, 9, (terms, columns)).astype(dtype)

    def product(x, y):
        return (x.T if transposed else x) @ y

    plan = str(jit(product).lower(x, y).schedule())
    assert re.search(r"_right: \w+\[8, .* in the arena", plan)
    found = []
    for threads in 1, 2, 5:
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(product)(x, y))
    for each in found:
        np.testing.assert_array_equal(each, product(x, y))  # whole numbers, without rounding

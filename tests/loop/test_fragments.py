"""Fragments of tensor core products: each sum belongs to one thread; rounding to tf32."""

import numpy as np
import pytest

from functrans.loop.fragments import as_tf32, own_columns, own_rows, own_sums
from functrans.loop.scalar import Scalar, evaluate


@pytest.mark.parametrize(("rows", "columns"), [(16, 8), (16, 16), (64, 32)])
def test_each_sum_is_one_of_one_thread(rows, columns):
    places = [
        (own_rows(lane // 4, rows)[row], own_columns(lane % 4, columns)[column])
        for lane in range(32)
        for row, column in own_sums(rows, columns)
    ]
    assert sorted(places) == [(i, j) for i in range(rows) for j in range(columns)]


def test_four_registers_after_the_other_are_a_fragment():
    places = [(row, column) for row, column in own_sums(32, 16)]
    rows, columns = own_rows(0, 32), own_columns(0, 16)
    found = [(rows[row], columns[column]) for row, column in places]
    assert found[:4] == [(0, 0), (0, 1), (8, 0), (8, 1)]
    assert found[4] == (0, 8)
    assert found[8] == (16, 0)


TINY, LARGE = np.float32(1e-45), np.finfo(np.float32).max

ROUNDED = [
    (0.0, 0.0), (-0.0, -0.0), (1.0, 1.0), (TINY, 0.0), (LARGE, np.inf), (-LARGE, -np.inf),
    (1 + 2**-10, 1 + 2**-10), (1 + 2**-11, 1 + 2**-10), (-1 - 2**-11, -1 - 2**-10),
    (1 + 2**-11 - 2**-23, 1.0), (np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan),
]  # fmt: skip


def test_rounding_to_tf32():
    numbers, expected = np.array(ROUNDED, np.float32).T
    x = Scalar("parameter", (), np.dtype(np.float32), 0)
    found = evaluate(as_tf32(x), {x: numbers})
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[:-1], np.signbit(expected)[:-1])

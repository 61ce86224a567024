"""Panels of columns that overlap, so that no tile needs masks."""

import numpy as np
import pytest

from functrans import jit
from tests.lower.product.test_kernel import array, check, kernels
from tests.targets import take_host_for


@pytest.mark.parametrize("rows", [20, 130])
@pytest.mark.parametrize("columns", [7, 17, 40, 68])
@pytest.mark.parametrize("terms", [9, 90, 900])
def test_the_last_panel_overlaps_the_one_before(rows, columns, terms, monkeypatch):
    """Where a block has both; then no tile needs masks."""
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    for dtype, rtol in ((np.float32, 1e-3), (np.float64, 1e-9)):
        x, w = array(rows, terms, dtype=dtype), array(terms, columns, dtype=dtype)
        check(lambda x, w: (x @ w, np.tanh(x) @ w), x, w, rtol=rtol)
        check(lambda x, w: x.T @ w.T, x.T.copy(), w.T.copy(), rtol=rtol)
    if rows == 130 and terms == 9 and columns > 12:
        copy, product = kernels(lambda x, w: x @ w, x, w)
        assert "if (" not in copy and "_block[" not in product, (copy, product)


def test_overlapping_columns_have_the_bits_of_others(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    x, w = array(130, 40), array(40, 68)
    whole, part = (jit(lambda x, w: x @ w)(x, w[:, :n].copy()) for n in (68, 67))
    np.testing.assert_array_equal(whole[:, :67], part)


@pytest.mark.parametrize("columns", [5, 7, 12, 13, 23, 34])
@pytest.mark.parametrize("terms", [9, 900])
def test_few_columns_are_one_tile_whose_last_vector_overlaps(columns, terms, monkeypatch):
    """Terms that are added to memory, some at a time, are added once where vectors overlap."""
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    for dtype, rtol in ((np.float32, 1e-3), (np.float64, 1e-9)):
        for rows in (60, 131):
            x, w = array(rows, terms, dtype=dtype), array(terms, columns, dtype=dtype)
            check(lambda x, w: x @ w, x, w, rtol=rtol)
        vectors = -(-columns * dtype().itemsize // 32)
        if terms == 9 and vectors in (2, 3, 5):
            *_, product = kernels(lambda x, w: x @ w, x, w)
            assert "_block[" not in product, product


def test_lanes_of_one_tile_that_overlap_have_the_bits_of_others(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    x, w = array(131, 40), array(40, 16)
    whole = jit(lambda x, w: x @ w)(x, w)
    for columns in (7, 11):
        part = jit(lambda x, w: x @ w)(x, w[:, :columns].copy())
        np.testing.assert_array_equal(whole[:, :columns], part)

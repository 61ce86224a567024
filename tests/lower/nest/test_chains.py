"""Chains of dependent loads (searches): several vectors are interleaved to hide latency."""

import numpy as np
import pytest

from functrans import jit
from functrans.lower.nest.vectors import Vectors
from functrans.run.code import host


def loops(f, *args):
    return [line for line in jit(f).lower(*args).schedule().splitlines() if " by " in line]


def test_searches_go_side_by_side():
    x, row = np.linspace(-1, 2, 1000), np.linspace(0, 1, 100)
    lanes = host.target().lanes(8)
    many = lanes * host.target()[Vectors].chains
    (search,) = loops(lambda row, x: np.searchsorted(row, x), row, x)
    assert search.endswith(f"by {many}")
    (read,) = loops(lambda row, i: row[i] * 2.0, row, np.arange(1000) % 100)
    assert read.endswith(f"by {lanes}")


@pytest.mark.dear
def test_searches_of_all_lengths():
    row = np.sort(np.random.default_rng(0).normal(size=300))
    for n in (0, 1, 2, 17, 300, 2600):
        x = np.random.default_rng(n).normal(size=n)
        x[: min(n // 5, 300)] = row[: n // 5]
        for side in ("left", "right"):
            found = jit(lambda row, x, side=side: np.searchsorted(row, x, side))(row, x)
            np.testing.assert_array_equal(found, np.searchsorted(row, x, side))

"""Scatters with index arrays along later axes proceed row by row, in the order of updates."""

import numpy as np
import pytest

from functrans import jit

RNG = np.random.default_rng(0)


def set_columns(x, i, v):
    y = x.copy()
    y[:, i] = v
    return y


def add_columns(x, i, v):
    y = x.copy()
    np.add.at(y, (slice(None), i), v)
    return y


def set_pairs(x, i, v):
    y = x.copy().reshape(x.shape[0], 2, 10)
    y[:, i % 2, i // 2] = v
    return y


@pytest.mark.parametrize("function", [set_columns, add_columns, set_pairs])
@pytest.mark.parametrize("rows", [0, 1, 2, 17, 300])
@pytest.mark.parametrize("count", [1, 9, 300])
def test_columns_that_are_written_to_more_than_once(function, rows, count):
    x, v = RNG.standard_normal((rows, 20)), RNG.standard_normal((rows, count))
    i = RNG.integers(0, 20, count)
    np.testing.assert_array_equal(jit(function)(x, i, v), function(x, i, v))


def test_the_loop_over_rows_is_the_outer_one():
    x, v, i = np.ones((300, 20)), np.ones((300, 33)), np.arange(33) % 20
    schedule = jit(set_columns).lower(x, i, v).schedule()
    loops = [
        line.split("..")[1].split()[0] for line in schedule.splitlines() if " for u in" in line
    ]
    assert loops == ["300", "33"]

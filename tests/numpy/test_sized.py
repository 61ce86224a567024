"""`size=`: a fixed number of results, NumPy's first ones followed by a fill value."""

import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans import numpy as fnp
from functrans.errors import TracerIndexError
from functrans.testing import check_grads

rng = np.random.default_rng(3)
INTEGERS = rng.integers(-3, 6, 300)
OTHERS = rng.integers(0, 9, 17)
HALVES = rng.integers(-4, 5, 17) / 2
HOLES = np.array([1.0, np.nan, 2.0, np.nan, 1.0])
NONE = np.zeros(0)

PAIRS = [
    (INTEGERS, OTHERS), (INTEGERS, HALVES), (HALVES, HOLES), (HOLES, HALVES), (HOLES, HOLES),
    (NONE, HALVES), (HALVES, NONE), (INTEGERS[:1], OTHERS[:2]),
]  # fmt: skip


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def filled_up(x, size, value):
    more = np.full((size, *x.shape[1:]), value, x.dtype)
    return np.concatenate([x, more])[:size]


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setxor1d", "setdiff1d"])
def test_sets(name, pair):
    expected = getattr(np, name)(*pair)
    for size in {len(expected), len(expected) + 3, max(len(expected) - 1, 0)}:

        def function(x, y, size=size):
            return getattr(fnp, name)(x, y, size=size, fill_value=-9)

        wanted = filled_up(expected, size, -9)
        same(function(*pair), wanted)
        same(jit(function)(*pair), wanted)
        same(vmap(function)(*(np.stack([x, x]) for x in pair))[1], wanted)


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setxor1d", "setdiff1d"])
def test_sets_of_values_that_are_known(name):
    function = getattr(np, name)
    found = []
    grad(lambda x: found.append(function(x, HALVES)) or x.sum())(INTEGERS + 0.0)
    np.testing.assert_array_equal(found[0]._value, function(INTEGERS + 0.0, HALVES))
    check_grads(lambda x: function(x, HALVES) ** 2, (np.array([0.1, 3.3, -0.7]),), order=1)
    with pytest.raises(TracerIndexError, match=rf"functrans\.numpy\.{name}\(x, y, size=n\)"):
        jit(lambda x: function(x, HALVES).sum())(HALVES)


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize(
    "x", [INTEGERS, HALVES, HOLES, HOLES * (1 + 1j), NONE, HALVES.reshape(1, 17)]
)
def test_unique(x, equal_nan):
    values, first, inverse, counts = np.unique(x, True, True, True, equal_nan=equal_nan)
    size = len(values) + 2

    def function(x):
        return fnp.unique(x, True, True, True, equal_nan=equal_nan, size=size, fill_value=7)

    for found in (
        function(x),
        jit(function)(x),
        [out[1] for out in vmap(function)(np.stack([x, x]))],
    ):
        same(found[0], filled_up(values, size, 7))
        same(found[1][: len(first)], first)
        same(found[2], inverse)
        same(found[3], filled_up(counts, size, 0))


def test_the_named_tuples_of_unique_elements():
    found = jit(lambda x: fnp.unique_counts(x, size=3))(np.array([4, 4, 9]))
    assert found._fields == ("values", "counts")
    same(found.values, np.array([4, 9, 4]))
    same(found.counts, np.array([2, 1, 0]))


def test_positions():
    m = rng.integers(0, 2, (3, 5))
    rows, columns = np.nonzero(m)
    size = len(rows) + 2
    for transform in (jit, lambda f: f):
        found = transform(lambda m: fnp.nonzero(m, size=size, fill_value=(-1, -2)))(m)
        same(found[0], filled_up(rows, size, -1))
        same(found[1], filled_up(columns, size, -2))
        same(transform(lambda m: fnp.argwhere(m, size=2))(m), np.argwhere(m)[:2])
        same(transform(lambda m: fnp.flatnonzero(m, size=2))(m), np.flatnonzero(m)[:2])
        same(transform(lambda m: fnp.where(m, size=size))(m)[0], filled_up(rows, size, 0))


def test_elements():
    m = rng.normal(size=(4, 5))
    chosen = np.array([True, False, True, False])

    def function(m):
        by_axis = fnp.compress(m[:, 0] < 9.0, m, axis=0, size=6, fill_value=0.5)
        return by_axis, fnp.extract(m > 0, m, size=20), fnp.compress(chosen, m, axis=1, size=3)

    found = jit(function)(m)
    np.testing.assert_array_equal(found[0], np.pad(m, ((0, 2), (0, 0)), constant_values=0.5))
    np.testing.assert_array_equal(found[1], filled_up(m[m > 0], 20, 0))
    np.testing.assert_array_equal(found[2][:, :2], np.compress(chosen, m, axis=1))
    check_grads(function, (m,), order=1, max_elements=4)


def test_counts_up_to_a_length():
    x = np.array([0, 2, 2, 9, 3])
    for function in (jit(lambda x: fnp.bincount(x, length=4)), lambda x: fnp.bincount(x, length=4)):
        same(function(x), np.array([1, 0, 2, 1]))
    weighted = jit(lambda x, w: fnp.bincount(x, w, length=12))(x, np.arange(5.0))
    same(weighted, np.bincount(x, np.arange(5.0), minlength=12))

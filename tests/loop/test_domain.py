"""Index expressions evaluated for all iterations at once, and bounds of data-dependent indices."""

import numpy as np
import pytest

from functrans.loop.domain import LARGEST, Fault, TooLarge, Unknown, Values, aligned, bounds
from functrans.loop.nodes import INDEX, bounded, index
from functrans.loop.scalar import const, idiv, irem, maximum, minimum, where
from functrans.loop.statements import buffer, load, local, size

P, J = index("i"), index("j")
N = size(0)
DATA = load(buffer("p", INDEX, (N,)), (P,))


@pytest.fixture
def values():
    """Two loops, of 3 and of 4 iterations, in a kernel of size 12."""
    known = Values((12,))
    known.bind(P, np.arange(3))
    known.bind(J, np.arange(4).reshape(1, 4))
    return known


def test_every_iteration(values):
    np.testing.assert_array_equal(values(P * 4 + J), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
    np.testing.assert_array_equal(values(where(P < 1, J, N - 1))[:, 1], [1, 11, 11])
    assert values(P * 4).size == 3  # nothing is enumerated along loops that do not matter


def test_numbers(values):
    assert values.number(N * 2 + 1) == 25
    with pytest.raises(Fault, match="not one number"):
        values.number(P)
    with pytest.raises(Fault):
        values.number(DATA)


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        (bounded(DATA, N), 0, 11),
        (irem(DATA, const(5, INDEX)), -4, 4),
        (idiv(bounded(DATA, N), const(5, INDEX)), 0, 2),
        (bounded(DATA, N) * 2 - 3, -3, 19),
        (minimum(bounded(DATA, N), const(4, INDEX)), 0, 4),
        (maximum(bounded(DATA, N), const(4, INDEX)), 4, 11),
        (where(DATA < 3, const(2, INDEX), const(7, INDEX)), 2, 7),
        (DATA + 1, *(int(x) for x in (np.iinfo(int).min, np.iinfo(int).max))),  # it may wrap
    ],
)
def test_bounds_of_data(values, expression, low, high):
    assert values(expression) == Unknown(low, high)


def test_what_a_comparison_says(values):
    assert values.assuming(DATA < N, True, DATA).high == 11
    assert values.assuming(DATA < N, False, DATA).low == 12
    low = values.assuming(const(3, INDEX) <= DATA, True, DATA)
    assert low.low == 3


def test_scopes(values):
    t = local(INDEX)
    with values.scope():
        values.bind(t, np.asarray(5))
        assert values.number(t + 1) == 6
        values.bind(t, np.asarray(7))
        assert values.number(t + 1) == 8
    with pytest.raises(Fault, match="is used where there is none"):
        values(t + 1)


def test_too_many_iterations():
    side = int(LARGEST**0.5) + 1
    with pytest.raises(TooLarge):
        aligned(np.arange(side), np.arange(side).reshape(1, side))


def test_bounds_of_nothing():
    assert bounds(np.zeros(0)) == Unknown(0, 0)
    assert bounds(np.array([3, -1])) == Unknown(-1, 3)

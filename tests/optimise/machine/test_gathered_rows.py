"""Gathers of columns read rows of a transposed copy where that is faster; bitwise equal results."""

import numpy as np
import pytest

from functrans import jacfwd, jit, vmap

RNG = np.random.default_rng(0)


def stored(function, *args):
    """The shapes of the arrays of floats that a program stores between its nests."""
    text = str(jit(function).lower(*args).schedule())
    return [
        line.split(": ")[1].split(" in ")[0]
        for line in text.splitlines()
        if " in the arena" in line and ": float" in line
    ]


FORMS = {
    "transposed after it": lambda x, i: x[:, :, i].transpose(2, 1, 0),
    "transposed before it": lambda x, i: np.transpose(x, (2, 1, 0))[i],
    "merged and transposed": lambda x, i: (2 * x[:, :, i]).reshape(len(x), -1).T,
    "with an axis of one element": lambda x, i: x[:, :, i].transpose(2, 1, 0)[..., None],
    "at pairs of indices": lambda x, i: x[:, i % 3, i].T,
}


@pytest.mark.parametrize("function", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("length", [1, 3, 4, 17])
@pytest.mark.parametrize("count", [0, 1, 40, 300])
def test_a_gather_of_rows_is_numpys(function, length, count):
    x, i = RNG.standard_normal((length, 3, 20)), RNG.integers(-20, 20, count)
    assert np.array_equal(jit(function)(x, i), function(x, i))


@pytest.mark.parametrize("function", FORMS.values(), ids=FORMS)
def test_what_is_read_often_is_stored_by_rows(function):
    x = RNG.standard_normal((17, 3, 20))
    assert len(stored(function, x, RNG.integers(0, 20, 300))) == 1
    assert not stored(function, x, RNG.integers(0, 20, 5))
    assert not stored(function, x[:3], RNG.integers(0, 20, 300))


def test_a_result_that_follows_the_indices_is_read_where_it_is():
    x, i = RNG.standard_normal((17, 3, 20)), RNG.integers(0, 20, 300)
    assert not stored(lambda x, i: x[:, :, i], x, i)
    assert not stored(lambda x, i: np.sum(x[:, :, i], axis=0), x, i)


def test_an_index_out_of_bounds_is_refused():
    x = RNG.standard_normal((17, 20))
    with pytest.raises(IndexError, match="20"):
        jit(lambda x, i: x[:, i].T)(x, np.array([3] * 60 + [20]))


def test_tangents_of_a_gather_are_rows():
    """The axis of the inputs is the first of tangents, and the last of a Jacobian."""
    i = RNG.integers(0, 20, 300)
    x, a = RNG.standard_normal(5), RNG.standard_normal((5, 3, 20))

    def positions(x):
        return np.tensordot(np.sin(x), a, 1)[:, i].T

    want = np.cos(x) * a[:, :, i].T
    assert np.allclose(jit(jacfwd(positions))(x), want)
    assert "[20, 3, 5]" in " ".join(stored(jacfwd(positions), x))
    many = RNG.standard_normal((4, 5))
    want = np.cos(many)[:, None, None] * a[:, :, i].T
    assert np.allclose(jit(vmap(jacfwd(positions)))(many), want)

"""In-place updates do not copy their operand if nothing else uses it."""

import numpy as np
import pytest

from functrans import grad, jit, vmap

RNG = np.random.default_rng(0)
SIZES = [0, 1, 2, 17, 300, 2600]


def arguments(size):
    x, v = RNG.standard_normal(size), RNG.standard_normal(2 * size)
    i, j = (RNG.integers(0, max(size, 1), 2 * size) for _ in range(2))  # some twice
    return x, i, j, v


def two_sets(x, i, j, v):
    y = x * 2
    y[i] = v
    y[j] = 1.0
    return y


def add_in_place(x, i, j, v):
    y = np.sin(x)
    y[i] += v
    y[j] *= 2
    np.add.at(y, i, v)
    return y


def read_before(x, i, j, v):
    y = x + 1
    z = np.exp(y) * y
    y[i] = v
    return y, z


def read_after(x, i, j, v):
    y = x + 1
    y[i] = v
    before = y * 3
    y[j] = v[::-1]
    return y, before


def both_are_results(x, i, j, v):
    y = x + 1
    y[i] = v
    before = y.copy()
    y[j] = 0.0
    return before, y


def of_itself(x, i, j, v):
    y = x + 1
    y[i] = v
    y[j] = y[i]
    return y


def slices(x, i, j, v):
    y = x * 3
    y[i] = v
    y[1::2] = 5.0
    y[: x.shape[0] // 2] += 1.0
    y[j] = v
    return y


FUNCTIONS = [two_sets, add_in_place, read_before, read_after, both_are_results, of_itself, slices]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_like_numpy(function, size):
    given = arguments(size)
    found, expected = jit(function)(*given), function(*given)
    for one, other in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_for_each_of_many(function):
    x, i, j, v = (np.stack(each) for each in zip(*(arguments(17) for _ in range(5)), strict=True))
    found = np.asarray(jit(vmap(function))(x, i, j, v))
    expected = [np.asarray(function(*each)) for each in zip(x, i, j, v, strict=True)]
    axis = found.ndim - 2
    np.testing.assert_allclose(found, np.stack(expected, axis), rtol=1e-12)


@pytest.mark.parametrize("function", [two_sets, add_in_place, of_itself])
def test_gradients(function):
    x, i, j, v = arguments(17)
    v[:] = v[0]  # which of two updates comes last makes no difference
    loss = lambda x, v: np.sum(np.sin(function(x, i, j, v)))  # noqa: E731
    slopes = jit(grad(loss, argnums=(0, 1)))(x, v)
    steps = [1e-6 * RNG.standard_normal(each.shape) for each in (x, v)]
    ends = [loss(x + sign * steps[0], v + sign * steps[1]) for sign in (1, -1)]
    along = sum(np.sum(slope * step) for slope, step in zip(slopes, steps, strict=True))
    np.testing.assert_allclose(2 * along, ends[0] - ends[1], rtol=1e-6)


def copies(function):
    """How many arrays of 2600 numbers a program keeps, when few of them are written to."""
    x, i, j, v = (each[:2600] for each in arguments(2600))
    few = i[:10], j[:10], v[:10]
    return jit(function).lower(x, *few).cost().temporary_bytes // x.nbytes


@pytest.mark.parametrize("function", [two_sets, add_in_place])
def test_no_copy(function):
    assert copies(function) == 0


def test_a_copy_of_what_is_read_again():
    assert copies(of_itself) == 0  # what is read is known by then
    assert copies(lambda x, i, j, v: read_after(x, i, j, v)[0]) == 0
    x, i, j, v = arguments(300)

    def late(x, i, j, v):
        y = x + 1
        y[i] = v
        z = y.copy()
        z[j] = v
        return z[::-1] * y

    np.testing.assert_allclose(jit(late)(x, i, j, v), late(x, i, j, v))
    assert copies(late) == 2

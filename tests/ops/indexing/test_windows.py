"""Slices with traced bounds of known length, against NumPy with plain bounds."""

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import errors, grad, jit, lax, vmap

x = np.arange(10.0) * 1.5
m = np.arange(40.0).reshape(5, 8)


def written(m, i, j):
    m = m.copy()
    m[i : i + 2, j : j + 3] = 7.0
    view = m[i : i + 2]
    view[0] *= 2
    m[i : i + 2, 0] += 1
    return m, view


READS = {
    "start and size": lambda m, i, j: m[0, i : i + 3],
    "from the other side": lambda m, i, j: m[0, 3 - i : 5 - i],
    "multiples": lambda m, i, j: m[0, 2 * i : 2 * (i + 1)],
    "around": lambda m, i, j: m[0, j - 2 : j + 2],
    "steps": lambda m, i, j: m[0, i : i + 5 : 2],
    "two axes": lambda m, i, j: m[i : i + 2, j : j + 3],
    "with an integer": lambda m, i, j: m[i, j : j + 2],
    "with an index array": lambda m, i, j: m[i : i + 2, [3, 1]],
    "with new axes": lambda m, i, j: m[..., None, j : j + 2],
    "two variables": lambda m, i, j: m[0, i + j : j + i + 2],
    "nothing": lambda m, i, j: m[i:i],
    "the wrong way": lambda m, i, j: m[0, j : j - 2],
    "written": written,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("integer", [int, np.int32, np.int64])
def test_like_numpy(read, integer):
    i, j = integer(1), integer(3)
    for got, expected in zip(_parts(jit(read)(m, i, j)), _parts(read(m, i, j)), strict=True):
        np.testing.assert_array_equal(got, expected)


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


def test_counted_from_the_end():
    window = jit(lambda x, i: x[i : i + 2])
    np.testing.assert_array_equal(window(x, -5), x[-5:-3])
    np.testing.assert_array_equal(window(x, 8), x[8:10])


@pytest.mark.parametrize("i", [-1, -11, 9, 100])
def test_a_window_that_is_not_inside_raises(i):
    with pytest.raises(IndexError):
        jit(lambda x, i: x[i : i + 2])(x, i)


def test_derivatives_and_batches():
    def energy(x, i):
        return np.sum(x[i : i + 3] ** 2)

    np.testing.assert_array_equal(jit(grad(energy))(x, 4), grad(energy)(x, 4))
    batched = vmap(energy, in_axes=(None, 0))
    np.testing.assert_array_equal(batched(x, np.array([0, 4])), [energy(x, 0), energy(x, 4)])


def test_in_a_loop_over_blocks():
    def sums(x):
        return lax.map(lambda k: np.sum(fnp.asarray(x)[2 * k : 2 * k + 2]), np.arange(5))

    np.testing.assert_array_equal(sums(x), x.reshape(5, 2).sum(1))
    np.testing.assert_array_equal(jit(sums)(x), x.reshape(5, 2).sum(1))


def test_bounds_of_an_enclosing_function():
    def outer(x, i):
        stop = i + 3
        return grad(lambda x: np.sum(x[i:stop] ** 2))(x)

    np.testing.assert_array_equal(jit(outer)(x, 4), outer(x, 4))


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i:],
        lambda x, i: x[:i],
        lambda x, i: x[i : 2 * i],
        lambda x, i: x[i + 3 : i : -1],
        lambda x, i: x[i : i + 4 : i],
        lambda x, i: x[::i],
        lambda x, i: x[:i:-1],
    ],
)
def test_sizes_that_are_not_known_are_refused(read):
    with pytest.raises(errors.TracerIndexError, match="write x\\[start : start \\+ n\\]"):
        jit(read)(x, 3)


def test_small_integers_may_wrap_and_are_refused():
    with pytest.raises(errors.TracerIndexError):
        jit(lambda x, i: x[i : i + np.uint8(10)])(x, np.uint8(250))


@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply", "divide", "min", "max"])
def test_at_takes_windows_and_plain_arrays(method):
    expected = getattr(fnp.at(m)[2:4, 1], method)(5.0)
    assert type(expected) is np.ndarray
    plain = m.copy()
    operation = {"set": lambda a, b: b, "min": np.minimum, "max": np.maximum}.get(
        method, getattr(np, method, None)
    )
    plain[2:4, 1] = operation(m[2:4, 1], 5.0)
    np.testing.assert_array_equal(expected, plain)
    got = jit(lambda m, i: getattr(m.at[i : i + 2, 1], method)(5.0))(m, 2)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(jit(lambda m, i: m.at[i : i + 2, 1].get())(m, 2), m[2:4, 1])

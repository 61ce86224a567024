"""A step of a compiled loop that changes a few elements of a large carry writes them in place."""

import operator

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap

N = 400


def by_position(a, x, i):
    return a.at[i].set(x + i)


def added(a, x, i):
    return a.at[i].add(x * a[i - 1])


def rows_that_are_read(a, x, i):
    """What is read at the same and at other positions is what was there before the step."""
    return a.at[i].set(a[i] + a[(i * 7) % len(a)] * x)


def twice(a, x, i):
    """The second value is added to the first, at the same position or at another one."""
    return a.at[i].set(x * i).at[(i * i) % len(a)].add(a[i])


def from_the_end(a, x, i):
    return a.at[-1 - i].set(x + np.sum(a[:5]))


def around(a, x, i):
    """A window of which each step reads what the last one has written."""
    return a.at[(i + np.arange(3)) % len(a)].set(x * a[i])


def of_equals_the_last(a, x, i):
    return a.at[np.array([1, 5, 1]) + i % 7].set(_column(a, x * np.arange(1, 4)))


def of_equals_the_sum(a, x, i):
    return a.at[np.array([[-1, 5], [2, 5]]) - i % 7].add(_column(a, x * np.arange(4).reshape(2, 2)))


def _column(a, values):
    return np.reshape(values, (*np.shape(values), *(1,) * (a.ndim - 1)))


STEPS = [
    by_position, added, rows_that_are_read, twice, from_the_end,
    around, of_equals_the_last, of_equals_the_sum,
]  # fmt: skip
STARTS = {
    "vector": np.linspace(-1, 1, N),
    "rows": np.linspace(-1, 1, N * 3).reshape(N, 3),
    "integers": np.arange(N),
}


def python_loop(step, a, x, steps):
    for i in range(steps):
        a = np.asarray(step(At(a), x, i))
    return a


class At:
    """An array with JAX's ``at``, by copies."""

    def __init__(self, array):
        self.array = array

    def __getattr__(self, name):
        return getattr(self.array, name)

    def __getitem__(self, i):
        return self.array[i]

    def __len__(self):
        return len(self.array)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array)

    @property
    def at(self):
        outer = self

        class Ref:
            def __getitem__(self, i):
                def written(value, adds):
                    made = np.array(outer.array)
                    if adds:
                        np.add.at(made, i, value)
                    else:
                        made[i] = value
                    return At(made)

                self.set = lambda value: written(value, False)
                self.add = lambda value: written(value, True)
                return self

        return Ref()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_it_is_what_a_python_loop_gives(step, start):
    a = STARTS[start]
    x = 2 if a.dtype.kind == "i" else 0.75
    expected = python_loop(step, a, x, 300)

    def scanned(a, x):
        return lax.fori_loop(0, 300, lambda i, a: step(a, x, i), a)

    def counted(a, x):
        return lax.while_loop(
            lambda c: c[0] < 300, lambda c: (c[0] + 1, step(c[1], x, c[0])), (0, a)
        )

    before = a.copy()
    np.testing.assert_allclose(jit(scanned)(a, x), expected, rtol=1e-13)
    np.testing.assert_allclose(jit(counted)(a, x)[1], expected, rtol=1e-13)
    np.testing.assert_array_equal(a, before)


@pytest.mark.dear
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_its_gradient_is_that_of_the_evaluated_loop(step):
    def loss(a, x):
        a = lax.fori_loop(0, 30, lambda i, a: step(a, x, i), a)
        return np.sum(a**2) + a[3] * a[7]

    def until(a, x):
        ended = lax.while_loop(
            lambda c: c[0] < 30, lambda c: (c[0] + 1, step(c[1], x, c[0])), (0, a)
        )
        return np.sum(ended[1] ** 2)

    a = np.linspace(-1, 1, N)
    for function in (loss, until):
        expected = grad(function, argnums=(0, 1))(a, 0.3)
        found = jit(grad(function, argnums=(0, 1)))(a, 0.3)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    xs = np.array([0.3, -0.2, 1.1])
    np.testing.assert_allclose(jit(vmap(loss, in_axes=(None, 0)))(a, xs), [loss(a, x) for x in xs])


def test_the_array_is_copied_once_and_not_in_each_step():
    def filled(a, x):
        return lax.fori_loop(0, N, lambda i, a: a.at[i].set(x * i), a)

    def until(a, x):
        return lax.while_loop(
            lambda c: c[0] < N, lambda c: (c[0] + 1, c[1].at[c[0]].set(x)), (0, a)
        )

    for function in (filled, until):
        source = jit(function).lower(np.zeros((N, 3)), 2.0).source()
        assert "_carry[" not in source


@pytest.mark.parametrize("dtype", ["?", "b", "B", "e", "f", "F"])
@pytest.mark.parametrize("operation", ["set", "add", "multiply", "max", "min"])
def test_elements_are_combined_as_without_a_loop(dtype, operation):
    if dtype == "F" and operation in ("max", "min"):
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2 if dtype == "?" else 5, N).astype(dtype)
    values = rng.integers(0, 2 if dtype == "?" else 3, (4, 20)).astype(dtype)
    at = rng.integers(-N, N, (4, 20))

    by_numpy = {
        "set": operator.setitem, "add": np.add.at, "multiply": np.multiply.at,
        "max": np.maximum.at, "min": np.minimum.at,
    }  # fmt: skip
    expected = a.copy()
    for i in range(4):
        by_numpy[operation](expected, at[i], values[i])

    def looped(a, at, values):
        return lax.fori_loop(0, 4, lambda i, a: getattr(a.at[at[i]], operation)(values[i]), a)

    np.testing.assert_array_equal(jit(looped)(a, at, values), expected)


def test_windows_are_written_in_place():
    def by_bounds(a, x):
        def step(i, a):
            a = a.copy()
            a[i : i + 5] = x * a[i + 1 : i + 6]
            return a

        return lax.fori_loop(0, 30, step, a)

    def by_start(a, x):
        def step(i, a):
            part = lax.dynamic_slice_in_dim(a, i + 1, 5)
            return lax.dynamic_update_slice_in_dim(a, x * part, i, 0)

        return lax.fori_loop(0, 30, step, a)

    a = np.linspace(-1, 1, N * 2).reshape(N, 2)
    expected = a.copy()
    for i in range(30):
        expected[i : i + 5] = 0.5 * expected[i + 1 : i + 6]
    for function in (by_bounds, by_start):
        np.testing.assert_array_equal(jit(function)(a, 0.5), expected)
        assert "_carry[" not in jit(function).lower(a, 0.5).source()


def test_what_is_given_out_as_well_is_not_overwritten():
    def history(a):
        def step(a, i):
            following = a.at[i].set(1.0)
            return following, following.sum()

        return lax.scan(step, a, np.arange(5))

    def old(a):
        return lax.scan(lambda a, i: (a.at[i].set(i + 1.0), a[:3]), a, np.arange(3))

    def swapped(a, b):
        return lax.fori_loop(0, 3, lambda i, c: (c[1].at[i].set(9.0), c[0]), (a, b))

    a = np.zeros(N)
    np.testing.assert_array_equal(jit(history)(a)[1], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(jit(old)(a)[1], [[0, 0, 0], [1, 0, 0], [1, 2, 0]])
    first, second = jit(swapped)(a, a + 1)
    for found, expected in zip((first, second), swapped(a, a + 1), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_index_beyond_the_array_raises():
    def beyond(a, n):
        return lax.fori_loop(0, n, lambda i, a: a.at[i].set(1.0), a)

    with pytest.raises(IndexError):
        jit(beyond)(np.zeros(N), N + 1)

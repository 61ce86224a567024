"""A step of a compiled loop that changes a few elements of a large carry writes them in place."""

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


STEPS = [by_position, added, rows_that_are_read, twice, from_the_end]
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
                    made[i] = made[i] + value if adds else value
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

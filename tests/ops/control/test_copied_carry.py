"""A step that changes a copy of its carry changes the carry itself, if nobody needs the old one."""

import numpy as np
import pytest

from functrans import grad, jit, lax

ROWS, N = 3, 40


def slices_added(a, x, i):
    """Of equal shape, so that the sum is assembled: rows, a part of each, one of them twice."""
    b = a.copy()
    for row in range(ROWS):
        b[row, :17] += x * i
        b[row, 20:37] += a[0, 1:18] * 0.5
        b[row, 5:22] += np.sin(a[row, 3:20])
    return b


def old_one_is_read_afterwards(a, x, i):
    b = slices_added(a, x, i)
    return b * 0.5 + a[::-1] * 0.25


def old_one_is_a_row_of_a_product(a, x, i):
    b = slices_added(a, x, i)
    b[1] += np.cumsum(a[2]) * 0.01
    return b * 0.5


def restored(a, x, i):
    """What is set is partly set back: this is no copy of an element to itself."""
    b = a.copy()
    for k in range(6):
        b[:, 6 * k : 6 * k + 5] = x + k
    for k in range(6):
        b[:, 6 * k + 1 : 6 * k + 4] = a[:, 6 * k + 1 : 6 * k + 4]
    return b


STEPS = [slices_added, old_one_is_read_afterwards, old_one_is_a_row_of_a_product, restored]
A = np.random.default_rng(0).standard_normal((ROWS, N))


def python_loop(step, a, x, steps, others=lambda a, b: b):
    stack = []
    for i in range(steps):
        before, a = a, step(a, x, i)
        stack.append(others(before, a))
    return a, np.array(stack)


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_like_a_python_loop(step, steps):
    expected, _ = python_loop(step, A, 0.3, steps)

    def until(a, x):
        test = lambda c: (c[0] < steps) & (c[1][0, 0] < 1e9)  # noqa: E731
        return lax.while_loop(test, lambda c: (c[0] + 1, step(c[1], x, c[0])), (0, a))[1]

    given = A.copy()
    scanned = jit(lambda a, x: lax.fori_loop(0, steps, lambda i, a: step(a, x, i), a))
    np.testing.assert_allclose(scanned(given, 0.3), expected, rtol=1e-12)
    np.testing.assert_allclose(jit(until)(given, 0.3), expected, rtol=1e-12)
    np.testing.assert_array_equal(given, A)


@pytest.mark.parametrize("stacked", [lambda a, b: a, lambda a, b: b, lambda a, b: a - b])
def test_stacks_of_the_old_and_the_new_one(stacked):
    step = lambda a, i: (slices_added(a, 0.3, i), stacked(a, slices_added(a, 0.3, i)))  # noqa: E731
    a, stack = jit(lambda a: lax.scan(step, a, np.arange(7)))(A)
    expected, rows = python_loop(slices_added, A, 0.3, 7, stacked)
    np.testing.assert_allclose(a, expected, rtol=1e-12)
    np.testing.assert_allclose(stack, rows, rtol=1e-11, atol=1e-11)


def test_two_carries_change_places():
    def step(c, i):
        return (slices_added(c[1], 0.3, i), slices_added(c[0], 0.1, i)), c[0][0]

    (a, b), rows = jit(lambda a, b: lax.scan(step, (a, b), np.arange(5)))(A, A * 2)
    c = A, A * 2
    for i in range(5):
        np.testing.assert_allclose(rows[i], c[0][0], rtol=1e-12)
        c = step(c, i)[0]
    np.testing.assert_allclose(a, c[0], rtol=1e-12)
    np.testing.assert_allclose(b, c[1], rtol=1e-12)


def sliced_weights(w, xs):
    def step(h, x):
        for row in range(ROWS):
            h = np.tanh(h * w[row, :13] + x * w[row, 13:26]) + w[row, 26:39]
        return h, np.sum(h)

    h, sums = lax.scan(step, np.zeros(13), xs)
    return np.sum(h * h) + np.sum(sums**2)


def test_gradient_of_slices_of_weights():
    xs = np.random.default_rng(1).standard_normal((11, 13))
    compiled = jit(grad(sliced_weights, argnums=(0, 1)))
    for found, expected in zip(
        compiled(A, xs), grad(sliced_weights, argnums=(0, 1))(A, xs), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    # the sum of gradients is only in the result's memory
    text = compiled.lower(A, xs).schedule()
    assert f"float64[2, {ROWS}, {N}]" not in text


@pytest.mark.parametrize("n", [5, 100, 131])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elementwise_steps_of_large_carries(n, dtype):
    """The rest of a vector is updated once, also where vectors overlap otherwise."""
    a = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)

    def step(c, x):
        return (c[0] * dtype(0.5) + np.sin(c[1]) * x, c[1] + np.outer(c[0][0], c[0][1])), c[1][0]

    (p, q), rows = jit(lambda c, xs: lax.scan(step, c, xs))(
        (a, a + 1), np.arange(6.0).astype(dtype)
    )
    c = a, a + 1
    for x, row in zip(np.arange(6.0).astype(dtype), rows, strict=True):
        c, expected = step(c, x)
        np.testing.assert_allclose(row, expected, rtol=1e-4)
    for found, expected in zip((p, q), c, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)

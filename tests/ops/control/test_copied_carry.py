"""A step that adds slices to a copy of its carry changes the carry itself, if nobody needs it."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Store, buffer, load
from functrans.loop.walk import walk
from functrans.ops.control.compiled.in_place import without_copy

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


STEPS = [slices_added, old_one_is_read_afterwards, old_one_is_a_row_of_a_product]
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


F8 = np.dtype(float)
B, C, D = buffer("b", F8, (9,)), buffer("c", F8, (9,)), buffer("d", F8, (9,))
K, J = index("k", 9), index("j", 9)


def each(*body, at=K):
    return For(at, ZERO, const(9, INDEX), body)


COPY = Store(C, (K,), load(B, (K,)))
ADD = each(Store(C, (J,), load(D, (J,)), "add"), at=J)


def remaining(*statements):
    """What is stored where in the statements without the copy of B in C."""
    kept = without_copy(statements, B, C)
    assert all(loop.body for loop in kept)
    return [(one.target, one.value) for one in walk(kept) if isinstance(one, Store)]


def test_a_copy_is_left_out():
    added = C, load(D, (J,))
    assert remaining(each(COPY), ADD) == [added]
    other = Store(D, (K,), load(B, (8 - K,)))
    backwards = D, load(B, (8 - K,))
    assert remaining(each(COPY, other), ADD) == [backwards, added]
    inside = each(each(Store(C, (J,), load(B, (J,))), at=J))
    assert remaining(each(other), inside, ADD) == [backwards, added]


def test_a_copy_is_needed():
    reads_later = each(Store(D, (K,), load(B, (K,))))
    assert without_copy([each(COPY), ADD, reads_later], B, C) is None
    assert without_copy([each(COPY, Store(C, (K,), load(B, (8 - K,)), "add")), ADD], B, C) is None
    assert without_copy([each(Store(C, (K,), load(B, (8 - K,)))), ADD], B, C) is None
    assert without_copy([each(Store(C, (K,), load(B, (K,)) * 2.0)), ADD], B, C) is None
    assert without_copy([each(Store(C, (K,), load(D, (K,)))), ADD], B, C) is None
    assert without_copy([], B, C) is None

"""while_loop against Python's while: also in reverse mode, and batched with different lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, hessian, jacfwd, jacrev, jit, jvp, lax, linearize, vjp, vmap
from functrans.errors import StepLimitError
from tests.amount import examples
from tests.lax.bodies import WIDTH, arrays, close, programs

LIMIT = 7


def looped(program):
    """Steps until a growing number passes a bound that depends on the data."""

    def f(a, x):
        size, u, v = np.sum(x * x) * 0 + 0.1, x, x * 0.5
        while size < 4.0:
            u, v = program(u, v, a)
            size = size + 0.7 + np.sum(u * u) * 0.1
        return np.sum(u * v) + size

    return f


def as_operation(program, **options):
    def f(a, x):
        def body(state):
            size, u, v = state
            u, v = program(u, v, a)
            return size + 0.7 + np.sum(u * u) * 0.1, u, v

        start = (np.sum(x * x) * 0 + 0.1, x, x * 0.5)
        size, u, v = lax.while_loop(lambda state: state[0] < 4.0, body, start, **options)
        return np.sum(u * v) + size

    return f


bodies = programs(results=2)
seeds = st.integers(0, 1000)
limits = st.sampled_from([None, LIMIT])


@settings(max_examples=examples(20), deadline=None)
@given(bodies, seeds, limits)
def test_value_and_derivatives(program, seed, limit):
    expected, found = looped(program), as_operation(program, max_steps=limit)
    args = arrays(seed, WIDTH, WIDTH)
    close(found(*args), expected(*args))
    close(grad(found, (0, 1))(*args), grad(expected, (0, 1))(*args))
    close(jacfwd(found, (0, 1))(*args), grad(expected, (0, 1))(*args))
    tangents = arrays(seed + 1, WIDTH, WIDTH)
    close(jvp(found, args, tangents), jvp(expected, args, tangents))


@pytest.mark.dear
@settings(max_examples=examples(10), deadline=None)
@given(bodies, seeds, limits)
def test_second_derivatives_in_every_order_of_modes(program, seed, limit):
    args = arrays(seed, WIDTH, WIDTH)
    expected = hessian(looped(program), (0, 1))(*args)
    found = as_operation(program, max_steps=limit)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            close(outer(inner(found, (0, 1)), (0, 1))(*args), expected)


@settings(max_examples=examples(10), deadline=None)
@given(bodies, seeds, limits, st.sampled_from([(0, 0), (0, None), (None, 0)]))
def test_lanes_end_at_different_times(program, seed, limit, axes):
    lanes = 3
    shapes = [(WIDTH,) if axis is None else (lanes, WIDTH) for axis in axes]
    args = arrays(seed, *shapes)

    def lane(i):
        return [x if axis is None else x[i] for x, axis in zip(args, axes, strict=True)]

    expected, found = looped(program), as_operation(program, max_steps=limit)
    close(vmap(found, in_axes=axes)(*args), np.stack([expected(*lane(i)) for i in range(lanes)]))
    gradients = [grad(expected, (0, 1))(*lane(i)) for i in range(lanes)]
    stacked = [np.stack(parts) for parts in zip(*gradients, strict=True)]
    close(vmap(grad(found, (0, 1)), in_axes=axes)(*args), stacked)

    def total(f):
        return lambda *args: np.sum(vmap(f, in_axes=axes)(*args) ** 2)

    def total_of_loop(*args):
        rows = [
            [x if a is None else x[i] for x, a in zip(args, axes, strict=True)]
            for i in range(lanes)
        ]
        return sum(expected(*row) ** 2 for row in rows)

    close(grad(total(found), (0, 1))(*args), grad(total_of_loop, (0, 1))(*args))
    close(jacrev(grad(total(found)))(*args), jacfwd(grad(total_of_loop))(*args), tolerance=1e-8)


@pytest.mark.dear
@settings(max_examples=examples(6), deadline=None)
@given(bodies, seeds, limits)
def test_compiled(program, seed, limit):
    expected, found = looped(program), as_operation(program, max_steps=limit)
    args = arrays(seed, WIDTH, WIDTH)
    close(jit(found)(*args), expected(*args))
    close(jit(grad(found, (0, 1)))(*args), grad(expected, (0, 1))(*args))


# -- by hand ---------------------------------------------------------------------------------------


def halvings(x):
    return lax.while_loop(lambda s: s[0] > 1.0, lambda s: (s[0] / 2, s[1] + 1), (x, 0))


def test_arguments_have_jaxs_names():
    halve = lax.while_loop(cond_fun=lambda x: x > 1, body_fun=lambda x: x / 2, init_val=5.0)
    assert halve == lax.fori_loop(0, 3, body_fun=lambda i, x: x / 2, init_val=5.0) == 0.625


def test_no_steps_and_many():
    assert halvings(0.5) == (0.5, 0)
    assert halvings(1000.0) == (1000.0 / 1024, 10)
    close(grad(lambda x: halvings(x)[0])(0.5), 1.0)
    close(grad(lambda x: halvings(x)[0])(1000.0), 1 / 1024)


def test_the_trip_count_is_found_anew_at_each_call():
    gradient = jit(grad(lambda x: halvings(x)[0]))
    for x in (0.5, 3.0, 1000.0, 3.0):
        close(gradient(x), 0.5 ** halvings(x)[1])


def test_a_lane_that_would_not_end_in_another_ones_place_does_not_matter():
    # the body of a lane that is done would divide by zero for ever
    def f(x):
        return lax.while_loop(lambda v: v > 1.0, lambda v: v / (v - 1.0) * 0.1, x)

    with np.errstate(all="raise"):
        found = vmap(f)(np.array([1.0, 1.5, 3.0]))
    close(found, np.array([f(1.0), f(1.5), f(3.0)]))


def test_a_pullback_is_kept_and_used_again():
    def f(x):
        return lax.while_loop(lambda v: np.sum(v) < 10.0, lambda v: v * v + 1.0, x)

    def g(x):
        while np.sum(x) < 10.0:
            x = x * x + 1.0
        return x

    x = np.array([0.1, 0.4])
    value, pullback = vjp(f, x)
    _, expected = vjp(g, x)
    close(value, g(x))
    for ct in (np.array([1.0, 0.0]), np.array([0.3, -2.0])):
        close(pullback(ct), expected(ct))
    # under a transform of its own, too
    close(
        grad(lambda ct: np.sum(pullback(ct)[0] ** 2))(x),
        grad(lambda ct: np.sum(expected(ct)[0] ** 2))(x),
    )
    close(vmap(pullback)(np.eye(2)), (jacrev(g)(x),))
    _, push = linearize(f, x)
    close(push(np.ones(2)), jvp(g, (x,), (np.ones(2),))[1])


def test_a_step_that_reads_a_number_of_python():
    # what does not change is computed before the loop: there it is weak, and in the loop it is not
    def f(a):
        return lax.fori_loop(0, 3, lambda k, c: c * (a * a), 1.0)

    assert grad(f)(0.5) == 6 * 0.5**5
    assert grad(grad(f))(0.5) == 30 * 0.5**4


def test_a_number_that_an_inner_loop_reads_in_each_step():
    # it is weak in the loop; the same multiplication gives a strong number in the derivative
    def scaled(x, k):
        step = lambda s: (s[0] + 1, np.sin(s[1]) * np.tanh(k))  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 2, step, (np.int64(0), x))[1]

    def f(x):
        return np.sum(lax.fori_loop(0, 3, lambda k, x: scaled(x, k * 0.3 + 0.1), x))

    def unrolled(x):
        for k in range(3):
            for _ in range(2):
                x = np.sin(x) * np.tanh(k * 0.3 + 0.1)
        return np.sum(x)

    x = np.array([0.3, -0.2])
    np.testing.assert_allclose(grad(f)(x), grad(unrolled)(x), rtol=1e-12)
    np.testing.assert_allclose(jit(hessian(f))(x), hessian(unrolled)(x), rtol=1e-12)


@pytest.mark.full
def test_a_while_loop_in_a_scan_and_a_scan_in_a_while_loop():
    def f(x, rows):
        def inner(v):
            return lax.while_loop(lambda u: u < 2.0, lambda u: u * 1.5 + 0.1 * x, v)

        return lax.scan(lambda c, row: (np.sin(c) + inner(row * c), inner(row)), x, rows)

    def g(x, rows):
        def inner(u):
            while u < 2.0:
                u = u * 1.5 + 0.1 * x
            return u

        ys, c = [], x
        for row in rows:
            ys.append(inner(row))
            c = np.sin(c) + inner(row * c)
        return c, np.stack(ys)

    def total(f):
        return lambda x, rows: f(x, rows)[0] + np.sum(f(x, rows)[1] ** 2)

    args = (0.7, np.array([0.2, 1.0, 0.5]))
    close(f(*args), g(*args))
    close(grad(total(f), (0, 1))(*args), grad(total(g), (0, 1))(*args))
    close(jacrev(grad(total(f)))(*args), jacrev(grad(total(g)))(*args))
    close(jit(grad(total(f), (0, 1)))(*args), grad(total(g), (0, 1))(*args))

    def h(x):
        def body(v):
            return v + lax.fori_loop(0, 3, lambda i, s: s + np.cos(v * i) * 0.2, 0.1)

        return lax.while_loop(lambda v: v < 3.0, body, x)

    def k(x):
        while x < 3.0:
            x = x + sum((np.cos(x * i) * 0.2 for i in range(3)), 0.1)
        return x

    close(grad(h)(0.3), grad(k)(0.3))
    close(grad(grad(h))(0.3), grad(grad(k))(0.3))


def test_the_limit():
    def f(x):
        return lax.while_loop(lambda v: v > 1.0, lambda v: v / 2, x, max_steps=10)

    close(f(1000.0), 1000 / 1024)
    close(grad(f)(1000.0), 1 / 1024)
    for call in (f, grad(f), jit(f), jit(grad(f)), lambda x: vmap(f)(np.array([3.0, x]))):
        with pytest.raises(StepLimitError, match="max_steps=10"):
            call(2000.0)


def test_third_derivatives_add_cotangents_of_a_stack():
    def f(x):
        def step(state):
            return np.sin(state[0]) * x + state[0], state[1] + 1

        return lax.while_loop(lambda state: state[1] < 3, step, (x, 0))[0]

    def along(f):
        return lambda x: jvp(f, (x,), (1.0,))[1]

    expected = along(along(along(f)))(0.7)
    for third in (jit(grad(grad(grad(f)))), grad(jit(grad(grad(f)))), grad(grad(jit(grad(f))))):
        np.testing.assert_allclose(third(0.7), expected)

"""scan against a Python loop: values, derivatives in both modes, batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, hessian, jacfwd, jacrev, jit, jvp, lax, vmap
from tests.amount import examples
from tests.lax.bodies import WIDTH, arrays, close, programs

STEPS = 4
WEIGHTS = np.linspace(-1, 1, WIDTH)
ALL = (0, 1, 2)


def looped(program, reverse):
    """The loop as a function of a const, the first carry and the elements."""

    def f(const, init, xs):
        carry, ys = (init, init * 0.5), [None] * STEPS
        for i in reversed(range(STEPS)) if reverse else range(STEPS):
            *carry, ys[i] = program(*carry, xs[i], const)
        return np.sum(carry[0] * WEIGHTS) + np.sum(np.stack(ys) ** 2) + np.sum(carry[1])

    return f


def scanned(program, reverse, **options):
    def f(const, init, xs):
        def body(carry, x):
            *carry, y = program(*carry, x, const)
            return tuple(carry), y

        carry, ys = lax.scan(body, (init, init * 0.5), xs, reverse=reverse, **options)
        return np.sum(carry[0] * WEIGHTS) + np.sum(ys**2) + np.sum(carry[1])

    return f


bodies = programs(results=3)
seeds = st.integers(0, 1000)


@settings(max_examples=examples(25), deadline=None)
@given(bodies, st.booleans(), seeds)
def test_value_and_derivatives(program, reverse, seed):
    expected, found = looped(program, reverse), scanned(program, reverse)
    args = arrays(seed, WIDTH, WIDTH, (STEPS, WIDTH))
    close(found(*args), expected(*args))
    close(grad(found, ALL)(*args), grad(expected, ALL)(*args))
    close(jacfwd(found, ALL)(*args), grad(expected, ALL)(*args))
    tangents = arrays(seed + 1, WIDTH, WIDTH, (STEPS, WIDTH))
    close(jvp(found, args, tangents), jvp(expected, args, tangents))


@settings(max_examples=examples(12), deadline=None)
@given(bodies, st.booleans(), seeds)
def test_second_derivatives_in_every_order_of_modes(program, reverse, seed):
    args = arrays(seed, WIDTH, WIDTH, (STEPS, WIDTH))
    expected = hessian(looped(program, reverse), ALL)(*args)
    found = scanned(program, reverse)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            close(outer(inner(found, ALL), ALL)(*args), expected)


@settings(max_examples=examples(12), deadline=None)
@given(bodies, st.booleans(), seeds, st.sets(st.sampled_from(ALL), min_size=1))
def test_batched_on_any_subset_of_inputs(program, reverse, seed, mapped):
    shapes = (WIDTH,), (WIDTH,), (STEPS, WIDTH)
    lanes = 3
    # the mapped axis of xs is the one behind that of the steps
    axes = tuple((1 if i == 2 else 0) if i in mapped else None for i in ALL)
    shapes = [
        s if axis is None else (*s[:axis], lanes, *s[axis:])
        for s, axis in zip(shapes, axes, strict=True)
    ]
    args = arrays(seed, *shapes)

    def lane(i):
        return [x if a is None else np.take(x, i, a) for x, a in zip(args, axes, strict=True)]

    expected, found = looped(program, reverse), scanned(program, reverse)
    close(vmap(found, in_axes=axes)(*args), np.stack([expected(*lane(i)) for i in range(lanes)]))
    gradients = [grad(expected, ALL)(*lane(i)) for i in range(lanes)]
    stacked = [np.stack(parts) for parts in zip(*gradients, strict=True)]
    close(vmap(grad(found, ALL), in_axes=axes)(*args), stacked)


@pytest.mark.dear
@settings(max_examples=examples(8), deadline=None)
@given(bodies, st.booleans(), seeds)
def test_compiled(program, reverse, seed):
    expected, found = looped(program, reverse), scanned(program, reverse)
    args = arrays(seed, WIDTH, WIDTH, (STEPS, WIDTH))
    close(jit(found)(*args), expected(*args))
    close(jit(grad(found, ALL))(*args), grad(expected, ALL)(*args))


@settings(max_examples=examples(8), deadline=None)
@given(bodies, st.booleans(), seeds, st.integers(1, STEPS + 1))
def test_checkpointed_segments_give_the_same(program, reverse, seed, every):
    args = arrays(seed, WIDTH, WIDTH, (STEPS, WIDTH))
    expected = looped(program, reverse)
    found = scanned(program, reverse, checkpoint_every=every)
    close(found(*args), expected(*args))
    close(grad(found, ALL)(*args), grad(expected, ALL)(*args))
    close(jacfwd(grad(found))(*args), jacfwd(grad(expected))(*args))


# -- what a carry may be ---------------------------------------------------------------------------


def test_a_python_number_takes_the_dtype_that_the_body_gives_it():
    xs = np.ones(3, np.float32)
    total, _ = lax.scan(lambda s, x: (s + x, None), 0, xs)
    assert total == 3 and total.dtype == np.float32


def test_a_python_number_that_stays_one_leaves_the_dtype_of_others_alone():
    _, ys = lax.scan(lambda s, x: (s + s, x * s), 1.0, np.ones(3, np.float32))
    assert ys.dtype == np.float32
    close(ys, np.array([1.0, 2.0, 4.0]))


def test_pytrees_without_leaves_and_no_steps():
    assert lax.scan(lambda c, x: (c, None), {"a": ()}, length=3) == ({"a": ()}, None)
    carry, ys = lax.scan(lambda c, x: (c + x, {"y": c}), 1.0, np.zeros(0))
    assert carry == 1.0 and ys["y"].shape == (0,)


def test_integers_and_bools_ride_along():
    def f(x):
        def body(carry, _):
            i, flag, v = carry
            return (i + 1, ~flag, np.where(flag, v * x, v + i)), i

        (i, _, v), numbers = lax.scan(body, (0, np.True_, x), length=4)
        return v * i + np.sum(numbers)

    def g(x):
        v, flag = x, True
        for i in range(4):
            v, flag = (v * x if flag else v + i), not flag
        return v * 4 + 6

    close(f(1.3), g(1.3))
    close(grad(f)(1.3), grad(g)(1.3))
    close(grad(grad(f))(1.3), grad(grad(g))(1.3))


def test_a_scan_of_a_scan():
    def f(w, x):
        def inner(c, w):
            return np.sin(w * c) + x, c * c

        def outer(c, row):
            c, squares = lax.scan(inner, c, row)
            return c, np.sum(squares)

        c, sums = lax.scan(outer, x, w)
        return c + np.sum(sums * sums)

    def g(w, x):
        c, total = x, 0.0
        for row in w:
            squares = 0.0
            for v in row:
                squares, c = squares + c * c, np.sin(v * c) + x
            total = total + squares**2
        return c + total

    args = arrays(3, (3, 2), ())
    close(grad(f, (0, 1))(*args), grad(g, (0, 1))(*args))
    close(hessian(f, (0, 1))(*args), hessian(g, (0, 1))(*args))


def test_map_is_a_loop_in_python():
    xs = np.linspace(0.1, 1, 5)
    close(lax.map(lambda x: (np.sin(x), x * x), xs), (np.sin(xs), xs * xs))
    close(grad(lambda xs: np.sum(lax.map(np.sin, xs)))(xs), np.cos(xs))


@pytest.mark.parametrize("bounds", [(0, 4), (2, 5), (3, 3), (5, 2)])
def test_fori_loop_with_known_and_with_traced_bounds(bounds):
    def f(x, lower, upper):
        return lax.fori_loop(lower, upper, lambda i, v: np.sin(v) * (x + i), x)

    def g(x):
        v = x
        for i in range(*bounds):
            v = np.sin(v) * (x + i)
        return v

    close(f(0.7, *bounds), g(0.7))
    close(grad(lambda x: f(x, *bounds))(0.7), grad(g)(0.7))
    close(jit(f)(0.7, *bounds), g(0.7))
    close(jit(grad(f))(0.7, *bounds), grad(g)(0.7))


@pytest.mark.parametrize("bounds", [(0, 4), (np.int32(1), np.int64(4))])
@pytest.mark.parametrize("start", [np.float32(1), np.ones(2, np.float32), np.int8(1), 1.0, 1])
@pytest.mark.parametrize(
    "step", [lambda i, v: v + i, lambda i, v: v * (1.0 + 0.25 * i), lambda i, v: v + i * i + True]
)
def test_the_index_of_fori_loop_is_a_python_integer(bounds, start, step):
    def python(v):
        for i in range(*bounds):
            v = step(i, v)
        return v

    if np.asarray(python(start)).dtype != np.asarray(start).dtype and isinstance(start, np.int8):
        pytest.skip("an integer that becomes a float is no carry")
    expected = np.asarray(python(start))
    for loop in (lax.fori_loop, jit(lax.fori_loop, static_argnums=2)):
        found = loop(*bounds, step, start)
        assert np.asarray(found).dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_numbers_that_meet_numbers_stay_numbers():
    x = np.float32(2)
    assert jit(lambda n, x: x * (1.0 + 0.5 * n))(3, x).dtype == np.float32
    assert grad(lambda x: x * (1.0 + 0.5 * jit(lambda n: n * 2)(3)))(x).dtype == np.float32

"""Python features in user functions: control flow, in-place assignment, exceptions, generators."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functrans as ft
from functrans import grad, hessian, jacfwd, jacrev, jit, jvp, linearize, value_and_grad, vjp, vmap
from functrans.testing import check_grads

POINT = np.array([0.3, -1.2, 2.5, 0.9])


def absolute(x):
    if x > 0:
        return x**3
    return -(x**3)


def square_root(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


def horner(x, coefficients=(1.0, -2.0, 0.5, 3.0)):
    total = 0.0
    for c in coefficients:
        total = total * x + c
    return total


def power(x, n):
    if n == 0:
        return 1.0
    half = power(x, n // 2)
    return half * half * (x if n % 2 else 1.0)


def first_large(x):
    for element in x:
        if element > 0.5:
            return element**2
    raise ValueError("there is none")


@pytest.mark.parametrize("x", [2.0, -1.5])
def test_the_branch_that_is_taken_is_differentiated(x):
    sign = np.sign(x)
    assert grad(absolute)(x) == pytest.approx(sign * 3 * x**2)
    assert jvp(absolute, (x,), (1.0,))[1] == pytest.approx(sign * 3 * x**2)
    assert linearize(absolute, x)[1](2.0) == pytest.approx(sign * 6 * x**2)
    assert vjp(absolute, x)[1](2.0)[0] == pytest.approx(sign * 6 * x**2)
    assert hessian(absolute)(x) == pytest.approx(sign * 6 * x)
    assert grad(grad(grad(absolute)))(x) == pytest.approx(sign * 6)
    assert ft.hvp(absolute)(x, 1.0) == pytest.approx(sign * 6 * x)


def test_a_loop_until_convergence():
    for order, derivative in enumerate((square_root, grad(square_root), grad(grad(square_root)))):
        expected = [np.sqrt(2), 0.5 / np.sqrt(2), -0.25 * 2**-1.5][order]
        assert derivative(2.0) == pytest.approx(expected)
    assert jacfwd(jacrev(square_root))(2.0) == pytest.approx(-0.25 * 2**-1.5)


def test_loops_recursion_and_early_returns():
    check_grads(horner, (1.7,), order=3)
    check_grads(lambda x: power(x, 11), (1.1,), order=3)
    assert grad(lambda x: power(x, 5))(2.0) == 80.0
    np.testing.assert_array_equal(grad(first_large)(POINT), [0, 0, 2 * POINT[2], 0])
    with pytest.raises(ValueError, match="there is none"):
        grad(first_large)(-(POINT**2))


def test_control_flow_on_what_is_not_traced():
    @jit
    def f(x):
        return horner(x) if x.ndim == 0 else np.sum(x)

    assert f(2.0) == horner(2.0)
    assert f(np.ones(3)) == 3.0
    np.testing.assert_array_equal(vmap(lambda x: power(x, 3))(POINT), POINT * POINT * POINT)


def test_integers_count_under_derivatives():
    def series(x, n):
        return sum(x**k / (k + 1.0) for k in range(n))

    assert grad(series)(0.5, 4) == pytest.approx(
        sum(k * 0.5 ** (k - 1) / (k + 1) for k in range(1, 4))
    )
    assert grad(lambda x: x * int(np.argmax(np.stack([x, 2 * x]))))(3.0) == 1.0


def assigned(x):
    y = np.zeros_like(x)
    y[0] = x[1] ** 2
    y[1:] = x[:-1] * 2.0
    y += x
    y[x > 1.0] *= 10.0
    row = y[1:3]
    row -= 1.0
    y[::2] = np.sin(y[::2]) * y[1::2]
    return np.sum(y * x)


@pytest.mark.dear
def test_assignment_in_place():
    check_grads(assigned, (POINT,), order=2)
    stacked = np.stack([POINT, 2 * POINT])
    np.testing.assert_allclose(vmap(assigned)(stacked), [assigned(x) for x in stacked])
    np.testing.assert_allclose(jit(assigned)(POINT), assigned(POINT))
    np.testing.assert_allclose(jit(grad(assigned))(POINT), grad(assigned)(POINT))
    per_sample = [grad(assigned)(x) for x in stacked]
    np.testing.assert_allclose(vmap(grad(assigned))(stacked), per_sample)
    np.testing.assert_allclose(hessian(assigned)(POINT), jit(hessian(assigned))(POINT))


def test_assignment_in_an_inner_function():
    def f(x):
        def inner(y):
            z = y.copy()
            z[0] = x[1] * y[0]
            return np.sum(z**2)

        return np.sum(grad(inner)(x))

    check_grads(f, (POINT,), order=2)


def test_an_augmented_number_is_a_new_number():
    def f(x):
        y = x
        y *= 3.0
        return x * y

    assert grad(f)(2.0) == 12.0


def test_exceptions_leave_nothing_behind():
    def fails(x):
        np.sin(x)
        raise KeyError("mine")

    for transform in (grad, value_and_grad, jacfwd, jacrev, hessian, vmap, jit, ft.checkpoint):
        argument = np.ones(2) if transform is vmap else 1.0
        with pytest.raises(KeyError, match="mine"):
            transform(fails)(argument)
        # outside of every trace, NumPy's own arrays come out of what the library computes
        assert type(ft.stop_gradient(np.float64(1.0))) is np.float64
        assert grad(np.sin)(0.0) == 1.0
    with pytest.raises(KeyError, match="mine"):
        grad(lambda x: vmap(lambda y: fails(y) * x)(np.ones(2)))(1.0)
    assert grad(np.sin)(0.0) == 1.0


def test_an_exception_that_is_caught_inside():
    def f(x):
        try:
            return grad(lambda y: first_large(y * x))(np.zeros(2))[0]
        except ValueError:
            return x**2

    assert grad(f)(3.0) == 6.0


def test_generators_inside_and_around():
    def f(x):
        def terms():
            for k in range(4):
                yield x**k

        return sum(terms())

    assert grad(f)(2.0) == 1 + 4 + 12
    points = (grad(f)(x) for x in (1.0, 2.0))
    assert next(points) == 6.0
    assert grad(lambda x: x * next(points))(1.0) == 17.0


def test_a_generator_left_in_the_middle_of_a_trace():
    def interrupted(x):
        yield np.sin(x)
        yield np.cos(x)

    kept = []

    def f(x):
        generator = interrupted(x)
        kept.append(generator)
        return next(generator)

    assert grad(f)(0.0) == 1.0
    assert grad(np.sin)(0.0) == 1.0
    with pytest.raises(ft.errors.LeakedTracerError, match="argument 0"):
        next(kept[0])


def matched(x, y):
    match (x > 0, y > 0):
        case (True, True):
            return x * y
        case (True, False):
            return x + y
    return y * y


def asked(x, y):
    return 2.0 * x if (x > y) is True else y if math.isnan(x) is False else x


def told_by_another(x, y):
    def is_positive(t):
        return t > 0

    return y if is_positive(x) is not False else x * x


def looked_up(x, y):
    return {True: x * y, False: y}[x > 0] + (x, y)[y > 0] + int(x > 0) * y


@pytest.mark.parametrize("f", [matched, asked, told_by_another, looked_up])
def test_a_comparison_of_python_numbers_is_a_bool_where_python_sees_the_difference(f):
    compiled, slope = jit(f), jit(grad(f))
    for x, y in [(1.5, 2.0), (1.5, -2.0), (-1.0, 2.0), (math.nan, 1.0)]:
        np.testing.assert_equal(compiled(x, y), f(x, y))
        np.testing.assert_equal(jvp(f, (x, y), (0.0, 0.0))[0], f(x, y))
        if x == x:
            at = (f(x + 1e-6, y) - f(x - 1e-6, y)) / 2e-6
            assert slope(x, y) == pytest.approx(at, abs=1e-6)
            assert grad(f)(x, y) == pytest.approx(at, abs=1e-6)


def test_a_comparison_without_a_value_has_no_identity():
    with pytest.raises(ft.errors.TracerBoolError, match="is True"):
        ft.lax.fori_loop(0, 3, lambda i, c: c + (1.0 if (i > 1) is True else 2.0), 0.0)

"""Implicit differentiation of roots and linear systems; associative scans."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, hessian, jacfwd, jacrev, jit, lax, vmap
from functrans.errors import NotDifferentiableError
from tests.amount import examples
from tests.lax.bodies import close

# -- custom_root -----------------------------------------------------------------------------------


def system(x, theta):
    return np.stack([x[0] ** 2 + x[1] - theta[0], np.sin(x[0]) * theta[1] + 2 * x[1]])


def newton_step(f, x):
    return x - np.linalg.solve(jacfwd(f)(x), f(x))


def newton(f, x):
    return lax.while_loop(lambda x: np.sum(f(x) ** 2) > 1e-28, lambda x: newton_step(f, x), x)


def dense(g, y):
    return np.linalg.solve(jacfwd(g)(y), y)


START = np.array([1.0, 0.5])
THETA = np.array([2.0, 0.7])


def root(theta):
    return lax.custom_root(lambda x: system(x, theta), START, newton, dense)


def unrolled_root(theta):
    x = START
    for _ in range(8):
        x = newton_step(lambda x: system(x, theta), x)
    return x


@pytest.mark.parametrize(
    "derivative",
    [jacfwd, jacrev, hessian, lambda f: jacrev(jacrev(f)), lambda f: jit(jacrev(f))],
    ids=["jacfwd", "jacrev", "hessian", "jacrev of jacrev", "compiled"],
)
def test_a_newton_solve_has_the_derivatives_of_the_unrolled_one(derivative):
    close(root(THETA), unrolled_root(THETA), 1e-10)
    close(derivative(root)(THETA), derivative(unrolled_root)(THETA), 1e-10)


def test_lanes_of_newton_solves():
    thetas = np.stack([THETA, THETA * 1.1, THETA * 0.8])
    expected = np.stack([jacrev(unrolled_root)(theta) for theta in thetas])
    close(vmap(jacrev(root))(thetas), expected, 1e-10)


def fixed_point(a, tolerance=1e-15):
    def iterate(f, x):
        return lax.while_loop(lambda x: np.abs(f(x)) > tolerance, lambda x: f(x) + x, x)

    return lax.custom_root(lambda x: np.cos(a * x) - x, 0.5, iterate, lambda g, y: y / g(1.0))


def unrolled_fixed_point(a):
    x = 0.5
    for _ in range(120):
        x = np.cos(a * x)
    return x


def test_a_fixed_point_has_the_derivatives_of_the_unrolled_one():
    for derivative in (grad, lambda f: grad(grad(f))):
        close(derivative(fixed_point)(0.8), derivative(unrolled_fixed_point)(0.8), 1e-10)


def test_the_memory_does_not_depend_on_the_number_of_iterations():
    width = 20_000

    def gradient(rate):
        def iterate(f, x):
            return lax.while_loop(lambda x: np.max(np.abs(f(x))) > 1e-9, lambda x: x + f(x), x)

        def f(a):
            x = lax.custom_root(
                lambda x: rate * (a - x), np.zeros(width), iterate, lambda g, y: y / -rate
            )
            return np.sum(x * x)

        return grad(f)

    def peak(function, x):
        function(x)
        tracemalloc.start()
        function(x)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    a = np.linspace(1, 2, width)
    close(gradient(0.05)(a), 2 * a, 1e-6)
    # about thirty iterations and about four hundred
    assert peak(gradient(0.05), a) < 1.2 * peak(gradient(0.5), a)


def test_the_root_does_not_depend_on_the_guess():
    def f(guess):
        return lax.custom_root(lambda x: x * x - 2.0, guess, newton_1d, lambda g, y: y / g(1.0))

    def newton_1d(f, x):
        return lax.while_loop(lambda x: abs(f(x)) > 1e-12, lambda x: x - f(x) / grad(f)(x), x)

    close(f(1.0), np.sqrt(2.0))
    assert grad(f)(1.0) == 0.0


def test_a_pytree_of_unknowns():
    def f(p):
        def residual(x):
            return {"u": x["u"] * x["v"] - p, "v": x["u"] - x["v"]}

        def iterate(f, x):
            def step(x):
                return {"u": (x["u"] + p / x["u"]) / 2, "v": (x["u"] + p / x["u"]) / 2}

            return lax.fori_loop(0, 30, lambda i, x: step(x), x)

        def solve(g, y):
            a, c = g({"u": 1.0, "v": 0.0}), g({"u": 0.0, "v": 1.0})
            det = a["u"] * c["v"] - c["u"] * a["v"]
            return {
                "u": (y["u"] * c["v"] - c["u"] * y["v"]) / det,
                "v": (a["u"] * y["v"] - y["u"] * a["v"]) / det,
            }

        x = lax.custom_root(residual, {"u": 1.0, "v": 1.0}, iterate, solve)
        return x["u"] + 2 * x["v"]

    close(f(2.0), 3 * np.sqrt(2.0))
    close(grad(f)(2.0), 1.5 / np.sqrt(2.0))


# -- custom_linear_solve ---------------------------------------------------------------------------


def conjugate_gradients(matvec, b):
    def step(state):
        x, r, p = state
        q = matvec(p)
        alpha = np.sum(r * r) / np.sum(p * q)
        following = r - alpha * q
        return x + alpha * p, following, following + p * np.sum(following**2) / np.sum(r * r)

    start = (np.zeros_like(b), b, b)
    return lax.while_loop(lambda s: np.sum(s[1] ** 2) > 1e-26, step, start)[0]


MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
B = np.array([1.0, -2.0, 0.5])


def test_conjugate_gradients():
    def solved(m, b):
        symmetric = (m + m.T) / 2
        return lax.custom_linear_solve(
            lambda x: symmetric @ x, b, conjugate_gradients, symmetric=True
        )

    def direct(m, b):
        return np.linalg.solve((m + m.T) / 2, b)

    close(solved(MATRIX, B), direct(MATRIX, B))
    for derivative in (jacfwd, jacrev):
        close(derivative(solved, (0, 1))(MATRIX, B), derivative(direct, (0, 1))(MATRIX, B))
    close(jacrev(jacrev(solved))(MATRIX, B), jacrev(jacrev(direct))(MATRIX, B), 1e-8)
    bs = np.stack([B, 2 * B + 1])
    close(vmap(solved, in_axes=(None, 0))(MATRIX, bs), np.stack([direct(MATRIX, b) for b in bs]))
    close(jit(jacrev(solved))(MATRIX, B), jacrev(direct)(MATRIX, B))


def test_a_system_that_is_not_symmetric():
    lower = np.tril(MATRIX)

    def solved(m, b, **options):
        return lax.custom_linear_solve(lambda x: m @ x, b, dense, **options)

    close(solved(lower, B), np.linalg.solve(lower, B))
    with pytest.raises(NotDifferentiableError, match="transpose_solve"):
        grad(lambda b: np.sum(solved(lower, b)))(B)
    gradient = grad(lambda m, b: np.sum(solved(m, b, transpose_solve=dense) ** 2), (0, 1))
    close(
        gradient(lower, B),
        grad(lambda m, b: np.sum(np.linalg.solve(m, b) ** 2), (0, 1))(lower, B),
    )
    # a forward derivative needs no transposed solver
    close(jacfwd(solved)(lower, B), jacfwd(np.linalg.solve)(lower, B))


# -- associative_scan ------------------------------------------------------------------------------


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 9), st.booleans(), st.integers(0, 1), st.integers(0, 1000))
def test_running_compositions(n, reverse, axis, seed):
    rng = np.random.default_rng(seed)
    shape = (n, 2) if axis == 0 else (2, n)
    a, b = rng.normal(size=shape), rng.normal(size=shape)

    def compose(f, g):  # of the maps x -> a x + b
        return f[0] * g[0], f[1] * g[0] + g[1]

    def by_loop(a, b):
        order = range(n)[::-1] if reverse else range(n)
        total, results = None, [None] * n
        for i in order:
            element = (np.take(a, i, axis), np.take(b, i, axis))
            total = element if total is None else compose(total, element)
            results[i] = total
        if not results:
            return a, b
        return tuple(np.stack(parts, axis) for parts in zip(*results, strict=True))

    def found(a, b):
        return lax.associative_scan(compose, (a, b), reverse=reverse, axis=axis)

    close(found(a, b), by_loop(a, b))

    def total(f):
        return lambda a, b: sum(np.sum(np.sin(x)) for x in f(a, b))

    if n:
        close(grad(total(found), (0, 1))(a, b), grad(total(by_loop), (0, 1))(a, b))


def test_compiled_running_products():
    x = np.linspace(0.5, 1.5, 7)
    found = jit(lambda x: lax.associative_scan(np.multiply, x, reverse=True))
    close(found(x), np.cumprod(x[::-1])[::-1])


def test_cumlogsumexp():
    x = np.array([[0.5, -1.0, 2.0], [800.0, 801.0, -900.0]])
    expected = np.logaddexp.accumulate(x, axis=1)
    close(lax.cumlogsumexp(x, axis=1), expected)
    close(lax.cumlogsumexp(x[:, ::-1], axis=1, reverse=True), expected[:, ::-1])
    small = x[0]
    gradient = grad(lambda x: np.sum(lax.cumlogsumexp(x) ** 2))(small)
    close(gradient, grad(lambda x: np.sum(np.log(np.cumsum(np.exp(x))) ** 2))(small))
    assert np.isfinite(jacrev(lax.cumlogsumexp)(np.array([-np.inf, 0.0, 800.0]))[1:]).all()

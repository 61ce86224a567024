"""Implicit differentiation of SciPy's solvers, against finite differences."""

from functools import partial

import numpy as np
import pytest
import scipy.optimize

from functrans import errors, grad, hessian, implicit, jacobian, jit, jvp, vmap
from functrans.testing import check_grads

START = np.array([0.5, 0.2, 0.1])
A = np.array([1.0, 2.0, 0.5])
TIMES = np.linspace(0.0, 2.0, 9)
MEASURED = np.exp(-1.3 * TIMES) + 0.1 * np.sin(5 * TIMES)


def cost(x, a):
    return np.sum((x - a) ** 2) + np.sum(x**4) + x[0] * x[1]


def equations(x, a):
    return x**3 + x - a + 0.1 * np.roll(x, 1)


def residuals(x, y):
    return x[0] * np.exp(-x[1] * TIMES) - y


def minimized(x, a, method="BFGS"):
    return scipy.optimize.minimize(cost, x, (a,), method=method, jac=grad(cost), tol=1e-10)


def minimized_with_hessian(x, a):
    newton = {"method": "trust-exact", "jac": grad(cost), "hess": hessian(cost)}
    return scipy.optimize.minimize(cost, x, (a,), **newton, tol=1e-7)


def rooted(x, a):
    return scipy.optimize.root(equations, x, (a,), tol=1e-13)


def by_fsolve(x, a):
    return scipy.optimize.fsolve(equations, x, (a,), xtol=1e-13)


def fitted(x, y):
    return scipy.optimize.least_squares(
        residuals, x, jacobian(residuals), args=(y,), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )


def crossing(x, a):
    return scipy.optimize.root_scalar(lambda x: x**3 + x - a, bracket=(-5, 5), xtol=1e-14)


SOLUTIONS = {
    "minimize": (implicit(minimized_with_hessian, objective=cost), START, A),
    "root": (implicit(rooted, equation=equations), START, A),
    "fsolve": (implicit(by_fsolve, equation=equations), START, A),
    "least_squares": (implicit(fitted, residuals=residuals), np.ones(2), MEASURED),
    "root_scalar": (implicit(crossing, equation=lambda x, a: x**3 + x - a), 1.0, 3.0),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_derivatives(name):
    solution, start, at = SOLUTIONS[name]
    check_grads(lambda a: solution(start, a), (at,), order=1, atol=1e-5, rtol=1e-5)
    dense = jacobian(solution, argnums=1)(start, at)
    np.testing.assert_allclose(jit(jacobian(solution, argnums=1))(start, at), dense, rtol=1e-9)
    _, along = jvp(lambda a: solution(start, a), (at,), (np.ones_like(at),))
    np.testing.assert_allclose(along, np.sum(dense, axis=-1) if np.ndim(at) else dense, rtol=1e-9)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_it_is_the_solution(name):
    solution, start, at = SOLUTIONS[name]
    found = solution(start, at)
    assert np.shape(found) == np.shape(start)
    assert type(found) in (np.ndarray, np.float64)
    np.testing.assert_allclose(jit(solution)(start, at), found, rtol=1e-9)
    both = vmap(solution, in_axes=(None, 0))(start, np.stack([at, at * 1.1]))
    np.testing.assert_allclose(both[0], found, rtol=1e-9)


@pytest.mark.parametrize("how", ["dense", "sparse", "cg", "minres", "gmres", "lgmres", "bicgstab"])
@pytest.mark.parametrize("jitted", [False, True])
def test_linear_solvers(how, jitted):
    solution = implicit(minimized_with_hessian, objective=cost, linear_solve=how)
    slope = jacobian(solution, argnums=1)
    found = (jit(slope) if jitted else slope)(START, A)
    x = solution(START, A)
    expected = np.linalg.solve(hessian(cost)(x, A), 2 * np.eye(3))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_linear_solver_of_the_users():
    def halves(g, y):
        return y / 2

    shifted = implicit(lambda x, a: a / 2, equation=lambda x, a: 2 * x - a, linear_solve=halves)
    np.testing.assert_array_equal(jacobian(shifted, argnums=1)(np.zeros(2), np.ones(2)),
                                  np.eye(2) / 2)  # fmt: skip


@pytest.mark.dear
def test_many_unknowns():
    """A chain of springs with a sparse Hessian: sums of the products are right, and quick."""
    n = 2000

    def energy(x, k):
        return np.sum(k * np.diff(x, prepend=0.0, append=1.0) ** 2) + np.sum((x - 1.0) ** 4)

    def lowest(x, k):
        gradient, curvature = grad(energy), hessian(energy, sparse=True)
        for _ in range(60):
            x = x - scipy.sparse.linalg.spsolve(curvature(x, k).tocsc(), gradient(x, k))
        return x

    k = 1.0 + np.arange(n + 1.0) / n
    values = [
        jit(grad(lambda k, how=how: np.sum(
            implicit(lowest, objective=energy, linear_solve=how)(np.zeros(n), k))))(k)
        for how in ("sparse", "cg")
    ]  # fmt: skip
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5, atol=1e-8)


def test_second_derivatives_and_pytrees():
    def solved(x, p):
        return np.sqrt(p["a"] * p["b"])

    root = implicit(solved, equation=lambda x, p: x**2 - p["a"] * p["b"])
    at = {"a": 2.0, "b": 3.0}
    slopes = grad(lambda p: root(1.0, p))(at)
    np.testing.assert_allclose(slopes["a"], 3 / (2 * 6**0.5))
    twice = grad(grad(lambda a: root(1.0, {"a": a, "b": 3.0})))(2.0)
    np.testing.assert_allclose(twice, -0.25 * 3**0.5 * 2**-1.5)


def test_the_start_has_no_derivative():
    solution = implicit(rooted, equation=equations)
    np.testing.assert_array_equal(jacobian(solution)(START, A), np.zeros((3, 3)))


def test_integers_are_no_trouble():
    solution = implicit(lambda x, a, n: a ** (1 / n), equation=lambda x, a, n: x**n - a)
    np.testing.assert_allclose(grad(solution, argnums=1)(1, 8.0, 3), 1 / 12)


def test_messages():
    def none_found(x, a):
        return scipy.optimize.root(lambda x: x**2 + a, x)

    lost = implicit(none_found, equation=lambda x, a: x**2 + a)
    for call in (lost, jit(lost), grad(lambda x, a: np.sum(lost(x, a)), argnums=1)):
        with pytest.raises(errors.NotConvergedError, match="none_found has found no solution"):
            call(np.ones(1), 1.0)
    allowed = implicit(none_found, equation=lambda x, a: x**2 + a, require_success=False)
    assert allowed(np.ones(1), 1.0).shape == (1,)

    short = implicit(rooted, equation=lambda x, a: x[:2])
    with pytest.raises(errors.ShapeError, match="as many elements as the solution, 3, but"):
        short(START, A)
    long = implicit(lambda x: np.ones(4), equation=lambda x: x)
    with pytest.raises(errors.ShapeError, match=r"shape \(4,\) for a start of shape \(3,\)"):
        long(START)
    pair = implicit(lambda x: (x, 1), equation=lambda x: x)
    with pytest.raises(TypeError, match="return the solution alone"):
        pair(START)
    with pytest.raises(TypeError, match="one thing that says what a solution is"):
        implicit(rooted)
    with pytest.raises(TypeError, match="one thing that says what a solution is"):
        implicit(rooted, equation=equations, objective=cost)
    with pytest.raises(ValueError, match="'dense', 'sparse', 'bicgstab'"):
        implicit(rooted, equation=equations, linear_solve="lu")


@pytest.mark.parametrize("kind", ["closure", "partial"])
def test_traced_values_around_the_solver(kind):
    def f(a):
        solver = (lambda x: rooted(x, a)) if kind == "closure" else partial(rooted, a=a)
        return np.sum(implicit(solver, equation=lambda x: equations(x, a))(START))

    for transform in (grad(f), jit(f)):
        with pytest.raises(errors.TracerConversionError, match="takes a from around it"):
            transform(A)


def test_what_the_equation_takes_from_around_it_is_differentiated():
    def f(a):
        fixed = np.asarray(A)
        return np.sum(
            implicit(lambda x: rooted(x, fixed), equation=lambda x: equations(x, a))(START)
        )

    expected = grad(lambda a: np.sum(implicit(rooted, equation=equations)(START, a)))(A)
    np.testing.assert_allclose(grad(f)(A), expected, rtol=1e-9)

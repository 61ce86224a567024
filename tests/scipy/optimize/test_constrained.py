"""Constrained minima, linear programs and global searches, against SciPy and finite differences.

Each is a function of one number, compiled and batched, and compared with its values outside a
trace, where SciPy computes.
"""

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize

from functrans import errors, jacfwd, jacrev, jit, vmap

C = np.array([1.0, -2.0, 3.0])
_rng = np.random.default_rng(0)
A, B, D = _rng.normal(size=(6, 3)), _rng.normal(size=6), _rng.normal(size=6)
T = np.linspace(0, 3, 12)
Y = 2 * np.exp(-1.3 * T) + 0.1 * np.sin(20 * T)


def parabola(a):
    return lambda x: np.sum((x - a * C) ** 2) + 0.1 * x[0] * x[2]


def wells(a):
    return lambda x: (x[0] ** 2 - 1) ** 2 + (x[0] - a) ** 2 + 0.1 * (x[1] - x[0]) ** 2


def in_a_box(method):
    def solve(a):
        box = [(0, None), (0.0, 5.0), (None, 2 * a)]
        return minimize(parabola(a), np.full(3, 0.5), method=method, bounds=box, tol=1e-11).x

    return solve


def under(*constraints, **options):
    def solve(a):
        given = [c(a) if callable(c) else c for c in constraints]
        return minimize(parabola(a), np.ones(3), constraints=given, tol=1e-12, **options).x

    return solve


def fit(**options):
    def solve(a):
        given = {"bounds": ([0, 0], [2.2, 1.2]), "xtol": 1e-12, "ftol": 1e-12, **options}
        return optimize.least_squares(
            lambda p: p[0] * np.exp(-p[1] * T) - a * Y, [1.0, 1.0], **given
        ).x

    return solve


PROBLEMS = {
    **{f"box {m}": in_a_box(m) for m in (None, "SLSQP", "Nelder-Mead")},
    "equal": under(lambda a: {"type": "eq", "fun": lambda x: np.sum(x**2) - a}),
    "in a ball": under(lambda a: {"type": "ineq", "fun": lambda x: a - np.sum(x**2)}),
    "inactive": under(
        lambda a: {"type": "ineq", "fun": lambda x: a - x[0] - x[2]},
        lambda a: {"type": "ineq", "fun": lambda x, b: b - x[0], "args": (9.0,)},
        bounds=Bounds(-1, 2),
    ),
    "linear": under(LinearConstraint(np.ones((2, 3)), [1.0, -9.0], [1.0, 2.0])),
    "nonlinear": under(lambda a: NonlinearConstraint(lambda x: a * x[0] ** 2 + x[1], 1.0, 2.0)),
    "nnls": lambda a: optimize.nnls(A, B + a * D)[0],
    "nnls without a residual": lambda a: optimize.nnls(A.T + a * np.eye(3, 6), a * C + 1)[0],
    "lsq_linear with more columns": lambda a: optimize.lsq_linear(A.T + a, a * C + 1).x,
    "lsq_linear": lambda a: optimize.lsq_linear(A, B + a * D, bounds=(-0.2, 0.2)).x,
    "linprog": lambda a: optimize.linprog(
        [-1.0, -2.0, -0.5], [[1, 1, 0.2], [1, 3, 1], [0, 0, 1]], np.array([4.0, 6.0, 1.0]) * a
    ).x,
    "equations": lambda a: optimize.linprog(
        np.array([1.0, 2.0, 0.5]) * a, A_eq=[[1, 1, 0.2], [1, 3, 1]], b_eq=np.array([4, 6]) * a
    ).x,
    "isotonic": lambda a: optimize.isotonic_regression(B + a * D).x,
    "decreasing": lambda a: optimize.isotonic_regression(
        B + a * D, weights=D**2, increasing=False
    ).x,
    "fit in a box": fit(),
    **{
        loss: fit(loss=loss, f_scale=0.1, bounds=(-9, 9))
        for loss in ("soft_l1", "huber")
    },
    "curve": lambda a: optimize.curve_fit(
        lambda t, p, q: p * np.exp(-q * t), T, a * Y, bounds=(0, [9.0, 1.2])
    )[0],
    "leastsq": lambda a: optimize.leastsq(lambda p: p[0] * np.exp(-p[1] * T) - a * Y, [1, 1])[0],
    "evolution": lambda a: optimize.differential_evolution(
        wells(a), [(-3, 3), (-2, 2)], rng=0, maxiter=30
    ).x,
    "shgo": lambda a: optimize.shgo(wells(a), [(-3, 3), (-2, 2)]).x,
}  # fmt: skip
ROUGH = {"evolution", "box Nelder-Mead"}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", PROBLEMS)
def test_values_and_derivatives(name):
    solve, a, h = PROBLEMS[name], 1.3, 1e-3
    expected = solve(a)
    found = vmap(solve)(np.array([a, a + h]))
    np.testing.assert_allclose(found, [expected, solve(a + h)], rtol=1e-4, atol=1e-5)
    slope = (solve(a + h) - solve(a - h)) / (2 * h)
    rtol = 2e-2 if name in ROUGH else 1e-3
    np.testing.assert_allclose(jacrev(solve)(a), slope, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(jacfwd(solve)(a), jacrev(solve)(a), atol=1e-8)


def test_second_derivatives():
    first = jacrev(PROBLEMS["in a ball"])
    slope = (first(1.3 + 1e-3) - first(1.3 - 1e-3)) / 2e-3
    np.testing.assert_allclose(jacfwd(first)(1.3), slope, rtol=1e-3)


def test_when_compiled():
    solve = PROBLEMS["inactive"]
    np.testing.assert_allclose(jit(solve)(1.3), solve(1.3), rtol=1e-6)
    np.testing.assert_allclose(jit(jacrev(solve))(1.3), jacrev(solve)(1.3), rtol=1e-9)


def test_assignments():
    def least(a):
        cost = a * A[:4] + np.outer(D[:4], C)
        return np.sum(cost[optimize.linear_sum_assignment(cost)])

    np.testing.assert_allclose(vmap(least)(np.array([0.5, 2.0])), [least(0.5), least(2.0)])
    rows, columns = optimize.linear_sum_assignment(2 * A[:4] + np.outer(D[:4], C))
    np.testing.assert_allclose(jacrev(least)(2.0), np.sum(A[rows, columns]))


def test_reports():
    def report(a):
        found = minimize(parabola(a), np.ones(3), bounds=[(0, 1)] * 3)
        program = optimize.linprog([-a], [[1.0]], [2.0])
        return found.fun, found.jac, found.success, program.fun, program.slack, program.status

    for x, y in zip(jit(report)(1.3), report(1.3), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


REFUSED = {
    r"minimize\(\.\.\., callback=\.\.\.\) is not supported .*: leave it out":
        lambda a: minimize(parabola(a), np.ones(3), bounds=Bounds(0, 1), callback=print).x,
    r"least_squares\(\.\.\., loss=function\) is not supported .*: use one of":
        lambda a: optimize.least_squares(lambda x: x - a, [1.0], loss=lambda z: z).x,
    r"linprog\(\.\.\., integrality=\.\.\.\) .*: solve it outside of the traced function":
        lambda a: optimize.linprog([a], integrality=1).x,
    r"scipy\.optimize\.brute is not supported .*: use differential_evolution, or":
        lambda a: optimize.brute(lambda x: (x - a) ** 2, [(0, 1)]),
    r"scipy\.optimize\.fmin_bfgs is not supported .*: use minimize":
        lambda a: optimize.fmin_bfgs(lambda x: np.sum((x - a) ** 2), [1.0], disp=False),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        vmap(REFUSED[words])(np.ones(2))


def test_an_unknown_constraint():
    with pytest.raises(ValueError, match="Unknown constraint type 'less'"):
        jit(under(lambda a: {"type": "less", "fun": lambda x: a - x[0]}))(1.0)


@pytest.mark.parametrize(
    "bounds", [None, [(0, 3)], np.array([[0, 1.0], [0, 2.0]]), (0, 3), ((0, 1), (0, 2))], ids=str
)
def test_forms_of_bounds(bounds):
    def lowest(a):
        return optimize.linprog([-a, -2.0], [[1.0, 1.0]], [2.5], bounds=bounds).x

    np.testing.assert_allclose(jit(lowest)(1.0), lowest(1.0))


def test_where_there_is_no_minimum():
    def program(a):
        return optimize.linprog([-a], bounds=(0, None)).fun

    assert np.isnan(jacfwd(program)(1.0)) and np.isnan(jit(program)(1.0))


def test_interior_points_at_a_bound():
    """The method stops at some 1e-3 from the bound, which is active nevertheless."""

    def lowest(a):
        bounds = [(-0.5 * a, 0.4), (None, a)]
        f = lambda x: np.sum((x - a * np.array([0.55, -2.5])) ** 2) + 0.3 * x[0] * x[1]  # noqa: E731
        return minimize(f, np.array([0.1, 0.05]), method="trust-constr", bounds=bounds).x

    np.testing.assert_allclose(jacrev(lowest)(1.3), [0.0, -2.5], atol=1e-6)


def test_fewer_residuals_than_parameters():
    with pytest.raises(TypeError, match="vector length N=2 must not exceed"):
        jit(lambda a: optimize.leastsq(lambda p: a * p[:1], [1.0, 2.0])[0])(2.0)

"""Compiled linear algebra, unrolled or by LAPACK: NumPy's results and errors."""

import numba
import numpy as np
import pytest
import scipy.linalg

import functrans
from functrans import config, grad, hessian, jit, lax, value_and_grad, vmap
from functrans.loop.target import CPU
from functrans.ops.linalg import factorisations as linalg
from functrans.ops.linalg.compiled import lapack
from functrans.ops.linalg.matrices import Matrices

SIZES = (1, 2, 3, 4, 6, 7, 8, 9, 20)
LEADING = ((), (2,), (3, 17))

WRITTEN_OUT, BY_LAPACK = 3, 12


solve = linalg.solve


def solve_triangular(a, b):
    return linalg.solve_triangular(a, b, lower=True)


ERRORS = {
    "inv": (linalg.inv, "Singular matrix"),
    "solve": (lambda a: linalg.solve(a, np.ones(len(a))), "Singular matrix"),
    "many columns": (lambda a: linalg.solve(a, np.ones((len(a), 50))), "Singular matrix"),
    "triangular": (lambda a: solve_triangular(a, np.ones(len(a))), "Singular matrix"),
    "triangular, many columns": (
        lambda a: solve_triangular(a, np.ones((len(a), 50))),
        "Singular matrix",
    ),
    "cholesky": (linalg.cholesky, "Matrix is not positive definite"),
}


def matrices(*shape, dtype=np.float64):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def without_numpy(f, *args):
    """The compiled function's result; it may not call NumPy."""
    compiled = jit(f)
    result = compiled(*args)
    assert "call NumPy" not in compiled.lower(*args).schedule()
    return result


def check(found, expected, tolerance):
    """The errors in proportion to the largest element."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.full
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_size_gives_what_numpy_gives(n, dtype):
    rough = 1e-9 if dtype == np.float64 else 5e-3
    for leading in LEADING:
        a = matrices(*leading, n, n, dtype=dtype) + np.eye(n, dtype=dtype)
        positive = a @ np.swapaxes(a, -1, -2) + np.eye(n, dtype=dtype)
        stable = np.tril(a) + 2 * n * np.eye(n, dtype=dtype)
        right = matrices(*leading, n, 20, dtype=dtype)
        results = without_numpy(
            lambda a, positive, stable, b: (
                linalg.inv(a),
                linalg.det(a),
                *linalg.slogdet(a),
                linalg.cholesky(positive),
                linalg.solve(a, b[..., :1]),
                linalg.solve(a, b),
                solve_triangular(stable, b[..., :2]),
                solve_triangular(stable, b),
            ),
            a, positive, stable, right,
        )  # fmt: skip
        expected = (
            np.linalg.inv(a),
            np.linalg.det(a),
            *np.linalg.slogdet(a),
            np.linalg.cholesky(positive),
            np.linalg.solve(a, right[..., :1]),
            np.linalg.solve(a, right),
            np.linalg.solve(stable, right[..., :2]),
            np.linalg.solve(stable, right),
        )
        for found, value in zip(results, expected, strict=True):
            check(found, value, rough)


@pytest.mark.parametrize("n", [WRITTEN_OUT, BY_LAPACK])
@pytest.mark.parametrize("columns", [1, 50])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_every_kind_of_triangle(n, columns, lower, trans, unit_diagonal):
    a, b = matrices(n, n) / n + 2 * np.eye(n), matrices(n, columns)
    options = {"lower": lower, "trans": trans, "unit_diagonal": unit_diagonal}
    found = without_numpy(lambda a, b: linalg.solve_triangular(a, b, **options), a, b)
    check(found, scipy.linalg.solve_triangular(a, b, **options), 1e-13)
    stacks = np.stack([a, 2 * a]), np.stack([b, b])
    found = jit(lambda a, b: linalg.solve_triangular(a, b, **options))(*stacks)
    check(found[1], scipy.linalg.solve_triangular(2 * a, b, **options), 1e-13)


@pytest.mark.full
def test_pivots_are_the_largest():
    a = np.array([[1e-20, 1.0, 2.0], [1.0, 1.0, 3.0], [2.0, 5.0, 1.0]])
    check(jit(linalg.inv)(a), np.linalg.inv(a), 1e-15)
    swapped = np.eye(8)[[3, 1, 7, 0, 2, 6, 5, 4]]
    np.testing.assert_array_equal(jit(linalg.solve)(swapped, np.arange(8.0)), swapped.T @ range(8))
    assert jit(linalg.det)(swapped) == np.rint(np.linalg.det(swapped))


def test_nothing_in_gives_nothing_out():
    for shape in ((0, 0), (3, 0, 0), (0, 2, 2), (0, 12, 12)):
        a = np.zeros(shape)
        for f in (linalg.inv, linalg.cholesky):
            assert without_numpy(f, a).shape == shape
        np.testing.assert_array_equal(without_numpy(linalg.det, a), np.linalg.det(a))
        for found, value in zip(jit(linalg.slogdet)(a), np.linalg.slogdet(a), strict=True):
            np.testing.assert_array_equal(found, value)
        assert without_numpy(linalg.solve, a, np.zeros((*shape[:-1], 2))).shape == (*shape[:-1], 2)
    for n in (WRITTEN_OUT, BY_LAPACK):
        assert without_numpy(linalg.solve, np.eye(n), np.zeros((n, 0))).shape == (n, 0)


# -- errors ----------------------------------------------------------------------------------------


def spoilt(n):
    """A matrix that is singular, and so not positive definite."""
    a = np.eye(n)
    a[1, 1] = 0
    return a


def steps(f):
    return lambda stack: lax.scan(lambda total, a: (total + f(a).sum(), None), 0.0, stack)[0]


def until_small(f):
    """A loop that the results of a failed call would never end."""

    def body(carry):
        return (np.nan * f(carry[1]).sum(), carry[1])

    return lambda a: lax.while_loop(lambda carry: ~(carry[0] < 1), body, (2.0, a))[0]


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("n", [WRITTEN_OUT, BY_LAPACK])
def test_errors_are_numpys(name, n):
    f, message = ERRORS[name]
    one = spoilt(n)
    among_others = np.stack([*[np.eye(n)] * 30, one, *[np.eye(n)] * 9])
    for compiled, given in (
        (jit(f), one),
        (jit(vmap(f)), among_others),
        (jit(steps(f)), among_others),
        (jit(until_small(f)), one),
    ):
        # a note says which line of the user's it was
        with pytest.raises(np.linalg.LinAlgError, match=f"^{message}(\n  in .*)*$"):
            compiled(given)
    with pytest.raises(np.linalg.LinAlgError, match=f"^{message}$"):
        f(one)
    # and the program is as good as before
    assert np.isfinite(jit(f)(np.eye(n))).all()


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("n", [WRITTEN_OUT, BY_LAPACK])
def test_nan_is_let_through(name, n):
    f, _ = ERRORS[name]
    assert np.isnan(jit(f)(np.full((n, n), np.nan))).any()


def test_determinants_of_singular_matrices():
    for n in (2, 3, 5, 12):
        assert jit(linalg.det)(spoilt(n)) == 0
        assert jit(linalg.slogdet)(spoilt(n)) == (0, -np.inf)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000))
    same_rows = np.stack([[x, y], [x, y]]).T
    np.testing.assert_array_equal(jit(linalg.det)(same_rows), 0)


@pytest.mark.parametrize("n", [4, 5, 9, 20])
def test_gradients_of_determinants_of_regular_and_singular_matrices(n):
    """They are the cofactors, by the inverse where that is exact, and else by singular values."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(5, n, n))
    a[1, -1] = a[1, 0]  # one singular value is 0
    a[2, 1], a[2, 2] = a[2, 0], 2 * a[2, 0]  # two: all cofactors are
    a[3] += 1e5 * np.outer(a[3, 0], a[3, 1])  # the inverse would lose digits
    a[4] *= 1e-200 if n == 4 else 1e-3
    found = jit(grad(lambda a: np.sum(linalg.det(a))))(a)
    for one, own in zip(a, found, strict=True):
        minors = [[np.delete(np.delete(one, i, 0), j, 1) for j in range(n)] for i in range(n)]
        signs = (-1.0) ** np.add.outer(range(n), range(n))
        expected = signs * np.linalg.det(np.array(minors))
        values = np.linalg.svd(one)[1]
        size = 1e-10 * np.prod(values[:-1]) + 1e-15 * values[0] ** (n - 1)
        np.testing.assert_allclose(own, expected, rtol=0, atol=size)


@pytest.mark.full
def test_a_failure_is_a_status_for_other_callers():
    inv = functrans.compile(linalg.inv, np.eye(3))
    cholesky = functrans.compile(linalg.cholesky, np.eye(12))
    out, large = np.empty((3, 3)), np.empty((12, 12))
    for compiled, a, result, status in (
        (inv, np.eye(3), out, 0),
        (inv, spoilt(3), out, 2),
        (cholesky, np.eye(12), large, 0),
        (cholesky, -np.eye(12), large, 3),
    ):
        assert compiled.ctypes(a.ctypes.data, result.ctypes.data) == status

    @numba.njit
    def call(a):
        return inverse(a)[0, 0]

    inverse = inv.numba
    assert call(2 * np.eye(3)) == 0.5
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        call(spoilt(3))


# -- programs --------------------------------------------------------------------------------------


def kalman(ys, transition, noise):
    """The log-likelihood of measurements of the first two of three states."""
    measure = np.eye(2, 3)

    def step(carry, y):
        mean, cov, total = carry
        mean, cov = transition @ mean, transition @ cov @ transition.T + 0.01 * np.eye(3)
        s = measure @ cov @ measure.T + noise
        difference = y - measure @ mean
        inverse = np.linalg.inv(s)
        gain = cov @ measure.T @ inverse
        total = total - 0.5 * (difference @ inverse @ difference + np.log(np.linalg.det(s)))
        return (mean + gain @ difference, cov - gain @ s @ gain.T, total), None

    (_, _, total), _ = lax.scan(step, (np.zeros(3), np.eye(3), 0.0), ys)
    return total


@pytest.mark.full
def test_the_gradient_of_a_kalman_filter():
    ys, noise = matrices(30, 2), 0.1 * np.eye(2)
    transition = np.eye(3) + 0.05 * matrices(3, 3)
    f = value_and_grad(kalman, (1, 2))
    value, slopes = without_numpy(f, ys, transition, noise)
    expected, by_numpy = f(ys, transition, noise)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for found, slope in zip(slopes, by_numpy, strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-9)
    several = np.stack([ys, ys[::-1]])
    values = jit(vmap(kalman, (0, None, None)))(several, transition, noise)
    np.testing.assert_allclose(values[0], value, rtol=1e-12)


@pytest.mark.full
def test_a_gaussian_process():
    x, y = matrices(20, 2), matrices(20)

    def f(scale):
        distance = ((x[:, None] - x) ** 2).sum(-1)
        factor = np.linalg.cholesky(np.exp(-distance * scale) + 0.1 * np.eye(20))
        white = linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * white @ white + np.log(np.diagonal(factor)).sum()

    for derivative in (value_and_grad(f), hessian(f)):
        np.testing.assert_allclose(without_numpy(derivative, 0.7), derivative(0.7), rtol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [WRITTEN_OUT, 8, BY_LAPACK])
@pytest.mark.parametrize("columns", [1, 50])
@pytest.mark.parametrize("leading", [(), (30,)])
def test_transposed_matrices(n, columns, leading):
    a, b = matrices(*leading, n, n) + np.eye(n), matrices(*leading, n, columns)
    turned = np.swapaxes(a, -1, -2)
    both = without_numpy(lambda a, b: (solve(a, b), solve(np.swapaxes(a, -1, -2), b)), a, b)
    check(both[0], np.linalg.solve(a, b), 1e-9)
    check(both[1], np.linalg.solve(turned, b), 1e-9)
    a = np.tril(a) + 2 * n * np.eye(n)
    found = without_numpy(
        lambda a, b: linalg.solve_triangular(np.swapaxes(a, -1, -2), b, lower=False), a, b
    )
    check(found, np.linalg.solve(np.swapaxes(a, -1, -2), b), 1e-12)


def test_one_elimination_serves_several_equations():
    def f(a, b):
        return solve(a, b).sum() + linalg.slogdet(a).logabsdet

    a, b = matrices(BY_LAPACK, BY_LAPACK) + 9 * np.eye(BY_LAPACK), matrices(BY_LAPACK, 2)
    schedule = jit(value_and_grad(f)).lower(a, b).schedule()
    assert schedule.count("dgetrf") == 1
    assert schedule.count("dgetrs") == 2
    for found, value in zip(jit(grad(f, (0, 1)))(a, b), grad(f, (0, 1))(a, b), strict=True):
        check(found, value, 1e-12)


def test_matrices_that_no_step_changes_are_treated_once():
    def f(a, xs):
        def step(total, x):
            lower = np.linalg.cholesky(a + x * np.eye(len(a)))
            total = np.linalg.inv(a) @ total + lower.sum(axis=0)
            return total, linalg.slogdet(a).logabsdet

        return lax.scan(step, np.zeros(len(a)), xs)

    for n in (WRITTEN_OUT, BY_LAPACK):
        a, xs = matrices(n, n), np.arange(5.0)
        a = a @ a.T + n * np.eye(n)
        for found, value in zip(without_numpy(f, a, xs), f(a, xs), strict=True):
            check(found, value, 1e-12)
    schedule = jit(f).lower(a, xs).schedule()
    before_the_loop = schedule[: schedule.index("for t in")]
    assert before_the_loop.count("dpotrf") == schedule.count("dpotrf") == 1
    assert before_the_loop.count("dgetrf") == schedule.count("dgetrf") == 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_singular_values_for_small_determinants(n):
    for f in (grad(linalg.det), hessian(linalg.det)):
        for a in (matrices(n, n), np.zeros((n, n))):
            np.testing.assert_allclose(without_numpy(f, a), f(a), atol=1e-15)
        assert "gesdd" not in jit(f).lower(a).schedule()


@pytest.mark.parametrize("n", [4, BY_LAPACK])
@pytest.mark.parametrize("leading", [(), (20,)])
def test_derivatives_of_larger_determinants(n, leading):
    f = grad(lambda a: linalg.det(a).sum())
    a = matrices(*leading, n, n)
    check(without_numpy(f, a), f(a), 1e-12)
    a[..., 1, :] = a[..., 0, :]
    check(without_numpy(f, a), f(a), 1e-12)
    a[..., 1, 1] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        jit(f)(a)


def test_derivatives_of_determinants_of_float32_are_exact():
    """A float32 inverse would lose digits, and singular values take ten times as long."""
    f = grad(lambda a: linalg.det(a).sum())
    a = (matrices(4, 40, 40) / 6).astype(np.float32)
    exact = f(a.astype(np.float64))
    found = jit(f)(a)
    assert found.dtype == np.float32
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7 * np.abs(other).max())


@pytest.mark.parametrize("n", [5, BY_LAPACK])
def test_threads_give_equal_bits(n, monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    a, b = matrices(100, n, n), matrices(100, n, 3)
    f = jit(lambda a, b: (linalg.solve(a, b), linalg.inv(a), linalg.slogdet(a).logabsdet))
    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(config, "threads", count)
        results.append(f(a, b))
    for others in results[1:]:
        for found, first in zip(others, results[0], strict=True):
            np.testing.assert_array_equal(found, first)


def test_both_ways_are_tested():
    assert BY_LAPACK > CPU[Matrices].largest > CPU[Matrices].largest_inverted > WRITTEN_OUT
    assert set(lapack.PREFIXES) == {np.dtype(np.float64), np.dtype(np.float32)}

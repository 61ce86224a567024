"""Distributions of vectors and matrices against SciPy's, and their derivatives."""

import copy

import numpy as np
import pytest
import scipy.stats

from functrans import grad, jit, vmap
from functrans.scipy import stats
from functrans.testing import check_grads

rng = np.random.default_rng(0)
points = rng.normal(size=(5, 2, 3))
rows = np.array([[2.0, 0.3], [0.3, 1.0]])
columns = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, -0.3], [0.1, -0.3, 1.5]])
directions = points[:, 0] / np.linalg.norm(points[:, 0], axis=-1, keepdims=True)
table = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 2.0]])
chances = np.array([0.2, 0.9, 0.0, 1.0, 0.55])

CALLS = {
    "matrix_normal": lambda s, x, m, r, c: s.matrix_normal.logpdf(x, m, r, c),
    "matrix_normal, no mean": lambda s, x, m, r, c: s.matrix_normal.logpdf(x, rowcov=r, colcov=c),
    "matrix_t": lambda s, x, m, r, c: s.matrix_t.logpdf(x, m, r, c, 3.5),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CALLS)
def test_distributions_of_matrices(name):
    call, mean = CALLS[name], points[4]
    for x in (points[0], points):
        found = jit(lambda *args: call(stats, *args))(x, mean, rows, columns)
        np.testing.assert_allclose(found, call(scipy.stats, x, mean, rows, columns), rtol=1e-12)

    def symmetric(x, m, r, c):
        return call(stats, x, m, r @ r.T, c @ c.T)

    check_grads(symmetric, (points[0], mean, rows, columns), order=2, max_elements=4)


def test_spreads_that_are_numbers():
    found = grad(lambda c: stats.matrix_normal.logpdf(points[0], None, 2.0, c))(1.5)
    step = 1e-6
    above, below = (
        scipy.stats.matrix_normal.logpdf(points[0], None, 2.0 * np.eye(2), c * np.eye(3))
        for c in (1.5 + step, 1.5 - step)
    )
    np.testing.assert_allclose(found, (above - below) / (2 * step), rtol=1e-8)


@pytest.mark.dear
def test_directions():
    def logpdf(module, x, kappa):
        return module.vonmises_fisher.logpdf(x, directions[0], kappa)

    for kappa in (0.3, 4.0, 900.0):
        found = jit(lambda x, kappa: logpdf(stats, x, kappa))(directions, kappa)
        np.testing.assert_allclose(found, logpdf(scipy.stats, directions, kappa), rtol=1e-11)
    # compiled, since SciPy takes no arrays without axes
    check_grads(jit(lambda kappa: logpdf(stats, directions, kappa)), (2.5,), order=2)
    with pytest.raises(ValueError, match=r"vectors of length 1.*: mu is not"):
        grad(lambda kappa: stats.vonmises_fisher.logpdf(directions, np.ones(3), kappa)[0])(1.0)


def test_tables():
    row, col = table.sum(-1), table.sum(-2)
    stack = np.stack([table, table[:, ::-1], table - 1])
    found = jit(lambda x: stats.random_table.logpmf(x, row, col))(stack)
    np.testing.assert_allclose(found[0], scipy.stats.random_table.logpmf(table, row, col))
    assert found[1] == found[2] == -np.inf


def test_draws_of_several_kinds():
    m = np.array([4, 3, 6])
    draws = np.array([[1, 2, 2], [5, 0, 0], [0, 0, 5], [1, 1, 1]])
    found = jit(lambda x: stats.multivariate_hypergeom.logpmf(x, m, 5))(draws)
    expected = scipy.stats.multivariate_hypergeom.logpmf(draws, m, 5)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_numbers_of_successes():
    numbers = np.arange(-1.0, 7)
    found = jit(lambda p: stats.poisson_binom.logpmf(numbers, p))(chances)
    expected = scipy.stats.poisson_binom.logpmf(numbers, chances)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    inner = np.array([0.2, 0.9, 0.5])
    check_grads(lambda p: stats.poisson_binom.logpmf(np.arange(4), p), (inner,), order=2)
    stack = np.stack([inner, inner[::-1] / 2])
    mapped = vmap(lambda p: stats.poisson_binom.logpmf(1, p))(stack)
    np.testing.assert_allclose(mapped, [scipy.stats.poisson_binom.logpmf(1, p) for p in stack])


@pytest.mark.parametrize("name", ["mean", "var", "cov", "entropy"])
def test_moments_of_dirichlets(name):
    alpha = np.array([0.5, 2.0, 3.5])
    found = getattr(stats.dirichlet, name)
    wanted = getattr(scipy.stats.dirichlet, name)(alpha)
    np.testing.assert_allclose(jit(found)(alpha), wanted, rtol=1e-13)
    np.testing.assert_allclose(jit(lambda a: getattr(stats.dirichlet(a), name)())(alpha), wanted)
    assert np.isnan(jit(found)(-alpha)).all()
    check_grads(found, (alpha,))


def test_entropies_of_normals():
    mean = np.array([1.0, 2.0])
    wanted = scipy.stats.multivariate_normal.entropy(mean, rows)
    entropy = stats.multivariate_normal.entropy
    np.testing.assert_allclose(jit(entropy)(mean, rows), wanted, rtol=1e-14)
    np.testing.assert_allclose(
        jit(entropy)(mean, 2.0), scipy.stats.multivariate_normal.entropy(mean, 2.0)
    )
    check_grads(lambda factor: entropy(mean, factor @ factor.T), (rows,))


@pytest.mark.parametrize("name", ["norm", "multivariate_normal"])
def test_copies_of_distributions(name):
    assert copy.copy(getattr(stats, name)).name == name


@pytest.mark.parametrize("name", ["multivariate_normal", "multivariate_t", "wishart"])
def test_single_precision_is_widened(name):
    """SciPy's densities of vectors and matrices in float32 are in float64."""
    matrix = np.float32([[2.0, 0.3], [0.3, 1.1]])
    x, others = np.float32([0.1, 0.7]), (np.float32([0.1, 0.2]), matrix)
    single = (matrix, 3.0, matrix) if name == "wishart" else (x, *others)
    double = [x if isinstance(x, float) else x.astype(float) for x in single]
    found = jit(getattr(stats, name).logpdf)(*single)
    assert found.dtype == np.float64
    expected = getattr(scipy.stats, name).logpdf(*double)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_covariances_of_another_size_are_refused():
    words = r"^a covariance or spread of shape \(1, 3, 3\) for matrices with 3 rows or columns: "
    with pytest.raises(ValueError, match=words):
        jit(lambda x: stats.matrix_normal.logpdf(x, rowcov=np.eye(3)[None]))(np.ones((3, 2)))

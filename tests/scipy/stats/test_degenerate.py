"""Degenerate normal and t densities against SciPy's, with derivatives along the support."""

import numpy as np
import pytest
import scipy.stats

from functrans import grad, jit
from functrans.scipy import stats
from functrans.testing import check_grads

BASIS = np.array([[1.0, 0.3], [-0.4, 1.2], [0.7, 0.1], [0.2, -0.5]])
INSIDE = BASIS @ np.array([[0.3, 1.0, -2.0], [-0.5, 0.2, 0.1]])


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_degenerate_normal_density(rank):
    cov = np.eye(4) + 0.3 if rank == 4 else BASIS[:, :rank] @ BASIS[:, :rank].T
    along = np.ones(4) if rank == 4 else BASIS[:, :rank].sum(1)
    points = np.stack([along, -2 * along, along + np.array([0, 0, 0, 0.1])])
    mean = np.full(4, 0.5)
    found = jit(lambda x: stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True))(
        points + mean
    )
    expected = scipy.stats.multivariate_normal.logpdf(points + mean, mean, cov, allow_singular=True)
    assert np.isneginf(expected[2]) == (rank < 4)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_degenerate_t_density():
    cov = BASIS @ BASIS.T
    found = jit(lambda x: stats.multivariate_t.logpdf(x, None, cov, 3.5, allow_singular=True))(
        INSIDE.T
    )
    np.testing.assert_allclose(found, scipy.stats.multivariate_t(None, cov, 3.5, True).logpdf(
        INSIDE.T
    ), rtol=1e-10)  # fmt: skip


@pytest.mark.full
def test_derivatives_along_the_support():
    def density(scale, point):
        basis = BASIS * scale
        cov = basis @ basis.T
        return stats.multivariate_normal.logpdf(basis @ point, None, cov, allow_singular=True)

    # the density is that of `point` but for the volume of the basis
    check_grads(density, (np.array([1.1, 0.8]), np.array([0.3, -0.4])), order=2)


def test_the_slope_in_the_covariance_is_the_pseudo_inverse():
    cov, x = BASIS @ BASIS.T, INSIDE[:, 0]
    found = grad(
        lambda cov: stats.multivariate_normal.logpdf(x, None, cov, allow_singular=True)
    )(cov)  # fmt: skip
    inverse = np.linalg.pinv(cov)
    expected = 0.5 * (np.outer(inverse @ x, inverse @ x) - inverse)
    np.testing.assert_allclose(0.5 * (found + found.T), expected, atol=1e-9)

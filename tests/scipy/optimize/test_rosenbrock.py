"""The Rosenbrock function and its derivatives, which run from SciPy's source, against SciPy."""

import numpy as np
import pytest
import scipy.optimize as scipys

from functrans import grad, hessian, jit
from functrans.scipy import optimize as ours
from tests.scipy.comparison import check

POINTS = {
    "two": np.array([-1.2, 1.0]),
    "three": np.array([1.2, 0.7, 0.3]),
    "five": np.array([0.1, -0.4, 1.3, 2.0, -1.0]),
    "single": np.array([1.2, 0.7, 0.3], np.float32),
    "whole": np.array([2, 3, 1]),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", ["rosen", "rosen_der", "rosen_hess"])
def test_like_scipy(name, point):
    check(lambda of, x: getattr(of, name)(x), ours, scipys, [POINTS[point]], compiled=True)


@pytest.mark.parametrize("point", POINTS)
def test_products_with_the_hessian_like_scipy(point):
    operands = [POINTS[point], POINTS[point][::-1]]
    check(lambda of, x, p: of.rosen_hess_prod(x, p), ours, scipys, operands, compiled=True)


@pytest.mark.parametrize("name", ["rosen", "rosen_der"])
def test_of_columns(name):
    check(
        lambda of, x: getattr(of, name)(x), ours, scipys, [np.arange(6.0).reshape(3, 2) / 4],
        compiled=True,
    )  # fmt: skip


def test_derivatives_by_scipys_names():
    x = POINTS["five"]
    np.testing.assert_allclose(grad(scipys.rosen)(x), scipys.rosen_der(x), rtol=1e-12)
    np.testing.assert_allclose(hessian(scipys.rosen)(x), scipys.rosen_hess(x), rtol=1e-12)
    found = jit(grad(lambda x: scipys.rosen_der(x) @ x[::-1]))(x)
    by_hand = scipys.rosen_hess(x) @ x[::-1] + scipys.rosen_der(x)[::-1]
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)


@pytest.mark.parametrize("name", ["rosen_der", "rosen_hess"])
def test_one_number_has_no_valley(name):
    with pytest.raises(IndexError, match="out of bounds"):
        jit(getattr(scipys, name))(np.array([1.0]))

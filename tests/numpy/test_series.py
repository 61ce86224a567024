"""Evaluation of the polynomial series of `numpy.polynomial` on traced values."""

from importlib import import_module

import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans.numpy.series import BASES
from functrans.testing import check_grads

X = np.array([-0.9, 0.0, 0.3, 1.7])
COEFFICIENTS = [np.array([0.5, -1.0, 2.0, 0.3, 0.7])[:n] for n in (1, 2, 3, 5)]


@pytest.fixture(params=BASES)
def names(request):
    return import_module(f"numpy.polynomial.{request.param}"), BASES[request.param].prefix


@pytest.mark.parametrize("c", [*COEFFICIENTS, np.arange(12).reshape(3, 4), 2.0], ids=np.shape)
@pytest.mark.parametrize("x", [X, X.reshape(2, 2), 0.3, np.arange(4)], ids=np.shape)
@pytest.mark.parametrize("tensor", [True, False])
def test_sums(names, x, c, tensor):
    module, prefix = names
    numpys = getattr(module, f"{prefix}val")
    function = eval(f"lambda x, c: module.{prefix}val(x, c, tensor={tensor})", {"module": module})
    try:
        expected = numpys(x, c, tensor=tensor)
    except ValueError:
        pytest.skip("shapes do not fit")
    found = jit(function)(x, c)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("r", [[1, -2], X, np.arange(12.0).reshape(3, 4), 2.0], ids=np.shape)
@pytest.mark.parametrize("x", [X, X.reshape(2, 2), 0.3, np.arange(4)], ids=np.shape)
@pytest.mark.parametrize("tensor", [True, False])
def test_products_of_roots(x, r, tensor):
    def function(x, r):
        return np.polynomial.polynomial.polyvalfromroots(x, r, tensor=tensor)

    try:
        expected = function(x, r)
    except ValueError:
        with pytest.raises(ValueError):
            jit(function)(x, r)
        return
    for found in (jit(function)(x, np.array(r)), jit(lambda x: function(x, r))(x)):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_vandermonde(names):
    module, prefix = names
    for degree in (0, 1, 4):
        scope = {"module": module, "degree": degree}
        function = eval(f"lambda x: module.{prefix}vander(x, degree)", scope)
        np.testing.assert_allclose(jit(function)(X), function(X), rtol=1e-13)


def test_derivatives():
    fitted = np.polynomial.Chebyshev([1.0, 0.5, -2.0], domain=[0, 3])

    def function(x, c):
        return (
            fitted(x[1])
            + np.sum(np.polynomial.legendre.legval(x, c))
            + np.polynomial.Polynomial([1.0, 2.0])(x[0])
        )

    check_grads(function, (X, COEFFICIENTS[-1]), order=2)
    slope = np.polynomial.legendre.legval(X, np.polynomial.legendre.legder(COEFFICIENTS[-1]))
    slope[0] += 2.0
    slope[1] += fitted.deriv()(X[1])
    np.testing.assert_allclose(grad(function)(X, COEFFICIENTS[-1]), slope)
    both = vmap(grad(function), in_axes=(0, None))(np.stack([X, X]), COEFFICIENTS[-1])
    np.testing.assert_allclose(both[1], slope)

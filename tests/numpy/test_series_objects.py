"""Polynomial objects with traced coefficients, against NumPy's with plain ones."""

from functools import partial

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

from functrans import grad, jit, vmap
from functrans.testing import check_grads

C, D = np.array([0.5, -1.0, 2.0, 0.3]), np.array([1.5, 0.2])
X = np.array([-0.9, 0.0, 0.3, 1.7])
KINDS = [Polynomial, Chebyshev, Legendre, Hermite, HermiteE, Laguerre]
USES = {
    "value": lambda make, c, d: make(c)(X),
    "sum": lambda make, c, d: (make(c) + make(d))(X) + (make(c) + 2.0)(X) + (3 + make(d))(X),
    "difference": lambda make, c, d: (make(d) - make(c))(X) + (2.0 - make(c))(X),
    "product": lambda make, c, d: (make(c) * make(d) * 2)(X) + (d[0] * make(c))(X[0]),
    "scaled": lambda make, c, d: (make([1.0, 2.0]) * c[1])(X) - (make([1.0, 2.0]) + d[0])(X),
    "negative": lambda make, c, d: (-make(c))(X),
    "power": lambda make, c, d: (make(c) ** 3)(X) + (make(d) ** 0)(X),
    "derivative": lambda make, c, d: make(c).deriv()(X) + make(c).deriv(2)(X) * make(d).deriv(3)(X),
    "integral": lambda make, c, d: make(c).integ()(X) + make(d).integ(2, [0.5, 1.0])(X),
    "of whole numbers": lambda make, c, d: make([1, c[0], 2])(X),
    "at traced places": lambda make, c, d: make([1, c[0], 2])(d),
}
BOUNDED = lambda make, c, d: make(c).integ(2, [d[0]], lbnd=d[1])(X) + make(c).integ(k=2.0)(X)  # noqa: E731


def same(use, make):
    # terms of a series cancel: products are added up in another order by compiled code
    assert_close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-11)
    expected = use(make, C, D)
    assert_close(jit(lambda c, d: use(make, c, d))(C, D), expected)
    lanes = vmap(lambda c, d: use(make, c, d))(np.stack([D[0] * C, C]), np.stack([D, D]))
    assert_close(lanes[1], expected)
    assert_close(lanes[0], use(make, D[0] * C, D))
    check_grads(lambda c, d: use(make, c, d), (C, D), order=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
def test_series(kind, use):
    same(USES[use], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", [*USES, "integral from a place"])
def test_series_in_a_domain(kind, use):
    same(
        {**USES, "integral from a place": BOUNDED}[use],
        lambda c: kind(c, domain=[-2, 3], window=[0, 1]),
    )


@pytest.mark.parametrize("use", [use for use in USES if use != "scaled"])
def test_poly1d(use):
    function = USES[use]
    if use == "integral":
        function = lambda make, c, d: make(c).integ()(X) + make(d).integ(2, 0.5)(X)  # noqa: E731
    elif use == "product":
        function = lambda make, c, d: (make(c) * make(d) * 2 * d[0])(X)  # noqa: E731
    same(function, np.poly1d)


def test_poly1d_of_roots():
    same(lambda make, c, d: make(c, True)(X), np.poly1d)


def test_by_their_full_names():
    def function(a):
        return np.polynomial.Polynomial([1, a, a])(2.0) + np.poly1d([1, a])(a)

    assert grad(function)(1.5) == 8.0
    assert jit(function)(1.5) == 13.0


def test_objects_of_plain_coefficients_stay_numpys():
    @jit
    def function(x):
        p = np.polynomial.Polynomial([1, 2, 0]) * np.poly1d([1, 2])(3)
        assert type(p.coef) is np.ndarray
        return p(x)

    assert function(2.0) == 25.0


def test_a_matrix_is_no_vector_of_coefficients():
    for make in (np.poly1d, Polynomial):
        with pytest.raises(ValueError, match="must be a vector"):
            jit(lambda c: make(c)(0.5))(np.ones((2, 2)))  # noqa: B023

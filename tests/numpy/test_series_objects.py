"""Polynomial objects with traced coefficients, against NumPy's with plain ones."""

import sys
from functools import partial

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

from functrans import grad, jit, tree, vmap
from functrans.numpy.series import BASES
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


@pytest.mark.dear
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


FUNCTIONS = {
    "fromroots": (lambda f, x: f(x)),
    "line": (lambda f, x: (f(x[0], x[1]), f(x[0], 0))),
    "companion": (lambda f, x: f(x)),
    "roots": (lambda f, x: (f(x[:2]), f(x + 1j), f(x[:1]))),
    "vander": (lambda f, x: f(x, 2)),
    "val": (lambda f, x: f(0.3, x)),
    "add": (lambda f, x: f(x, x[:2])),
    "sub": (lambda f, x: f(x[:2], np.ones(4))),
    "mul": (lambda f, x: f(x, [1, 2])),
    "pow": (lambda f, x: f(x, 3)),
    "der": (lambda f, x: (f(x), f(x, 2, scl=3.0), f(x, 5))),
    "int": (lambda f, x: (f(x), f(x, 2, [x[0], 2.0], lbnd=-1, scl=0.5))),
    "fit": (
        lambda f, x: (
            f(x, x**2, 1),
            f(np.arange(4.0), np.outer(x, x), [2, 0], w=[1.0, 2.0, x[1], 1.0]),
            f([0.0, 1.0, 2.0, 4.0], x, 2),
        )
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_coefficients(kind, name):
    module = sys.modules[kind.__module__]
    function = getattr(module, BASES[kind.__module__.rpartition(".")[2]].prefix + name)
    apply = partial(FUNCTIONS[name], function)
    for found, expected in zip(tree.leaves(jit(apply)(C)), tree.leaves(apply(C)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    check_grads(lambda x: sum(abs(np.sum(r)) for r in tree.leaves(apply(x))), (C,), order=1)


@pytest.mark.parametrize("kind", KINDS)
def test_conversions_and_roots_of_series(kind):
    module, prefix = sys.modules[kind.__module__], BASES[kind.__module__.rpartition(".")[2]].prefix

    def apply(c):
        powers = [
            f(c) for name, f in vars(module).items() if name in (f"{prefix}2poly", f"poly2{prefix}")
        ]
        of_roots = kind.fromroots(c, domain=[0, 4])
        return *powers, of_roots.coef, of_roots(1.3), kind(c[:2], domain=[0, 3]).roots()

    for found, expected in zip(jit(apply)(C), apply(C), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
    check_grads(lambda c: sum(map(np.sum, apply(c))), (C,), order=1)


@pytest.mark.parametrize("kind", KINDS)
def test_fits_of_traced_values(kind):
    at = np.linspace(0.0, 3.0, 7)

    def fitted(y):
        series = kind.fit(at, np.sin(y * at), 3, w=at + 1)
        return series(1.3), series.convert().coef, series.convert(kind=Chebyshev).coef

    for found, expected in zip(jit(fitted)(0.7), fitted(0.7), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    check_grads(lambda y: sum(map(np.sum, fitted(y))), (0.7,), order=1)


def test_roots_of_known_coefficients():
    roots = np.polynomial.polynomial.polyroots
    c = np.array([6.0, -5.0, 1.0, 0.0])
    np.testing.assert_allclose(grad(lambda c: roots(c)[0])(c), -np.array([1, 2, 4, 0]) / -1.0)
    with pytest.raises(ValueError, match="maximum degree of at least 1"):
        jit(np.polynomial.polynomial.polycompanion)(c[:1])


def test_a_series_of_a_traced_series():
    apply = lambda a: Chebyshev([1.0, 2.0, a])(Polynomial([a, 1.0]))(0.3)  # noqa: E731
    np.testing.assert_allclose(jit(apply)(0.7), apply(0.7), rtol=1e-13)
    check_grads(apply, (0.7,), order=1)

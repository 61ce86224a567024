"""Diagonals scattered into matrices, as in gradients of traces."""

import numpy as np
import pytest

from functrans import grad, jit


@pytest.mark.parametrize("shape", [(1, 1), (17, 17), (5, 9), (9, 5), (300, 300), (4, 20, 20)])
@pytest.mark.parametrize("offset", [-2, 0, 3])
def test_gradients_of_diagonals(shape, offset):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    weights = np.ones_like(np.diagonal(x, offset, -2, -1)) * 3.0
    f = jit(grad(lambda x: np.sum(np.diagonal(x, offset, -2, -1) * weights)))
    rows, columns = np.indices(shape)[-2:]
    np.testing.assert_array_equal(f(x), 3.0 * (columns - rows == offset))


def test_nothing_is_divided():
    source = jit(grad(lambda x: np.sum(np.diag(x) ** 2))).lower(np.ones((100, 100))).source()
    assert "irem" not in source and "idiv" not in source


SIZES = [1, 2, 17, 300]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("special", [0.0, -0.0, np.inf, np.nan])
def test_products_with_diagonal_matrices_are_numpys(n, special):
    rng = np.random.default_rng(n)
    v, b = rng.standard_normal(n), rng.standard_normal((n, n))
    b[n // 2, n // 3] = special
    for function in (lambda v, b: np.diag(v) @ b, lambda v, b: b @ np.diag(v)):
        with np.errstate(invalid="ignore"):
            want = function(v, b)
        np.testing.assert_array_equal(jit(function)(v, b), want)


def test_products_with_diagonal_matrices_have_few_terms():
    v, b = np.ones(300), np.ones((300, 300))
    for function in (lambda v, b: np.diag(v) @ b, lambda v, b: b @ np.diag(v)):
        schedule = str(jit(function).lower(v, b).schedule())
        assert "finite[" in schedule


def test_diagonals_of_what_is_no_zero_are_assignments():
    def function(v, b):
        b = b.copy()
        np.fill_diagonal(b, v)
        return b

    v, b = np.arange(9.0), np.ones((9, 9))
    np.testing.assert_array_equal(jit(function)(v, b), function(v, b))

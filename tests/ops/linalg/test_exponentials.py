"""Compiled exponentials of matrices and their derivatives, against mpmath with 60 digits."""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg

from functrans import config, grad, jit, jvp
from functrans.scipy import linalg

RNG = np.random.default_rng(0)


def exact(a):
    with mp.workdps(60):
        found = mp.expm(mp.matrix(np.asarray(a, float).tolist()))
        return np.array([[float(x) for x in row] for row in found.tolist()])


def error(got, expected):
    """In the norm, in units of what the dtype resolves."""
    distance = np.linalg.norm(np.asarray(got, float) - expected)
    return distance / np.linalg.norm(expected) / np.finfo(got.dtype).eps


def calls_numpy(f, *args):
    return "call NumPy" in jit(f).lower(*args).schedule()


@pytest.mark.dear
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 12])
def test_errors_are_those_of_the_squarings(n):
    a = RNG.normal(size=(n, n))
    assert not calls_numpy(linalg.expm, a)
    compiled = jit(linalg.expm)
    for scale in (0.0, 1e-200, 1e-5, 0.3, 1.0, 6.0, 30.0):
        # each squaring may double it
        bound = 10 + 2 * np.abs(a * scale).sum(0).max()
        assert error(compiled(a * scale), exact(a * scale)) < bound


HARD = {
    # the norm alone would have them halved twenty times, or a hundred
    "large beside the diagonal": [[1.0, 1e6], [0.0, -1.0]],
    "nilpotent": [[0.0, 1e30, 0.0], [0.0, 0.0, 1e-30], [0.0, 0.0, 0.0]],
    "turned": [[0.0, 1e3], [-1e-3, 0.0]],
    "stiff": [[-2000.0, 1.0, 0.0], [3.0, -1.0, 0.5], [0.0, 0.25, -0.5]],
}


@pytest.mark.parametrize("a", HARD.values(), ids=HARD)
def test_as_exact_as_scipy(a):
    a = np.array(a)
    expected = exact(a)
    own, other = error(jit(linalg.expm)(a), expected), error(scipy.linalg.expm(a), expected)
    assert own < 2 * max(other, 8)


@pytest.mark.dear
@pytest.mark.parametrize("n", [3, 6, 9])
@pytest.mark.filterwarnings("ignore:overflow")
def test_the_diagonal_of_a_triangle_keeps_its_digits(n):
    # squared 50 times, what is wrong in the last digit would be wrong in the second
    a = np.zeros((4, n, n))
    a[0, 0, 1], a[1, 2, 0] = 1e15, -1e14
    a[2, 1:, 1:] = np.tril(np.random.default_rng(n).normal(size=(n - 1, n - 1)))
    a[2, 1, 0], a[3, 0, 0], a[3, 1, 1] = 1e9, 1e5, -1e5
    expected = scipy.linalg.expm(a)
    np.testing.assert_allclose(jit(linalg.expm)(a), expected, rtol=1e-12, atol=1e-18)
    infinite = np.full((1, 1), -np.inf)
    np.testing.assert_array_equal(jit(linalg.expm)(infinite), [[0.0]])


def test_terms_that_cancel():
    """Its square is zero, but powers of rounded numbers would be less exact than squarings."""
    a = np.array([[100.0, 100.0, 0.0], [-100.0, -100.0, 0.0], [0.0, 0.0, 0.0]])
    assert error(jit(linalg.expm)(a), np.eye(3) + a) < 1e4


TWO_ROWS = {
    "any": lambda t, u, v: [[t, u], [v, -u]],
    "symmetric": lambda t, u, v: [[5 * t, u], [u, 5 * v]],
    "turns": lambda t, u, v: [[0.0, 9 * t], [-9 * t, 0.0]],
    "a triangle": lambda t, u, v: [[9 * t, u], [0.0, 9 * v]],
    "a diagonal": lambda t, u, v: [[30 * t, 0.0], [0.0, 30 * v]],
    "a stiff one": lambda t, u, v: [[-700 * abs(t), u], [v, -3.0]],
    "equal eigenvalues": lambda t, u, v: [[t, u], [0.0, t]],
    "a square of zero": lambda t, u, v: [[t, t], [-t, -t]],
}


@pytest.mark.parametrize("make", TWO_ROWS.values(), ids=TWO_ROWS)
def test_each_element_of_two_rows_is_exact(make):
    compiled = jit(linalg.expm)
    for t, u, v in RNG.normal(size=(9, 3)):
        a = np.array(make(t, u, v))
        np.testing.assert_allclose(compiled(a), exact(a), rtol=1e-14)


def test_two_rows_with_large_exponents():
    compiled = jit(linalg.expm)
    np.testing.assert_array_equal(compiled(np.diag([1000.0, -1000.0])), np.diag([np.inf, 0.0]))
    got = compiled(np.diag([-2000.0, -1.0]))
    np.testing.assert_allclose(got, np.diag([0.0, np.exp(-1.0)]), rtol=1e-15)
    assert np.isnan(compiled(np.full((2, 2), np.nan))).all()


def test_small_elements_keep_their_digits():
    a = np.array([[0.1, 1e-30], [2e-25, 0.3]])
    np.testing.assert_allclose(jit(linalg.expm)(a), exact(a), rtol=1e-15)


@pytest.mark.dear
def test_matrices_of_a_stack_are_halved_as_often_as_each_needs(monkeypatch):
    a = RNG.normal(size=(3, 5, 3, 3)) * 10.0 ** RNG.integers(-3, 2, size=(3, 5, 1, 1))
    a[1, 2, 0, 1], a[2, 3, 1, 1] = np.nan, np.inf
    monkeypatch.setattr(config, "parallel_threshold", 1)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(linalg.expm)(a))
    for got in found[1:]:
        np.testing.assert_array_equal(got, found[0])
    for position in np.ndindex(3, 5):
        if np.isfinite(a[position]).all():
            assert error(found[0][position], exact(a[position])) < 300
        else:
            assert np.isnan(found[0][position]).all()


@pytest.mark.dear
@pytest.mark.parametrize("n", [2, 4, 10])
def test_single_precision(n):
    a = (RNG.normal(size=(n, n)) * 2).astype(np.float32)
    got = jit(linalg.expm)(a)
    assert got.dtype == np.float32 and error(got, exact(a)) < 10 + 2 * np.abs(a).sum(0).max()


@pytest.mark.dear
@pytest.mark.parametrize("n", [1, 2, 5])
def test_derivatives(n):
    a, e = RNG.normal(size=(2, n, n))
    block = np.block([[a, e * 1e-3], [0 * a, a]])
    expected = exact(block)[:n, n:] * 1e3

    def along(a, e):
        return jvp(linalg.expm, (a,), (e,))[1]

    assert not calls_numpy(along, a, e)
    np.testing.assert_allclose(jit(along)(a, e), expected, rtol=1e-12, atol=1e-13)
    # brought to each other's size
    np.testing.assert_allclose(jit(along)(a, e * 1e200), expected * 1e200, rtol=1e-12)
    assert not jit(along)(a, 0 * e).any()
    got = jit(grad(lambda a: np.sum(linalg.expm(a) * e)))(a)
    assert np.sum(got * e) == pytest.approx(np.sum(jit(along)(a, e) * e), rel=1e-12)


def test_what_is_empty():
    assert jit(linalg.expm)(np.zeros((0, 0))).shape == (0, 0)
    assert jit(linalg.expm)(np.zeros((0, 3, 3))).shape == (0, 3, 3)

"""Schur factors: results invariant to signs and phases, 2 x 2 blocks, repeated eigenvalues."""

import numpy as np
import pytest

from functrans import grad, jvp
from functrans.ops.linalg.schur import schur_p


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def complex_matrix(n):
    return draw(n, n) + 1j * draw(n, n, seed=1)


def sizes(a):
    t, q = schur_p(a)
    return np.abs(t) ** 2, np.abs(q) ** 2


MATRICES = {f"{n} real": draw(n, n, seed=n) for n in (1, 2, 3, 6, 7)} | {
    f"{n} complex": complex_matrix(n) for n in (1, 2, 3, 6)
}


@pytest.mark.parametrize("name", MATRICES)
def test_derivatives_without_signs_and_phases(name):
    a = MATRICES[name]
    direction = draw(*a.shape, seed=5) * (1 if a.dtype.kind == "f" else 1 - 0.5j)
    found = jvp(sizes, (a,), (direction,))[1]
    step = 1e-6
    for x, above, below in zip(
        found, sizes(a + step * direction), sizes(a - step * direction), strict=True
    ):
        scale = 1 + np.max(np.abs(x))
        np.testing.assert_allclose(x, (above - below) / (2 * step), atol=1e-6 * scale)


@pytest.mark.parametrize("name", MATRICES)
def test_the_derivative_is_that_of_a_factorisation(name):
    a = MATRICES[name]
    (t, q), (dt, dq) = jvp(lambda a: schur_p(a), (a,), (draw(*a.shape, seed=5),))
    turn = q.conj().T @ dq
    np.testing.assert_allclose(turn, -turn.conj().T, atol=1e-10)
    np.testing.assert_allclose(dt[t == 0], 0, atol=1e-10)
    whole = dq @ t @ q.conj().T + q @ dt @ q.conj().T + q @ t @ dq.conj().T
    np.testing.assert_allclose(whole, draw(*a.shape, seed=5), atol=1e-8)


@pytest.mark.parametrize(
    "a", [np.eye(3), np.diag([2.0, 2.0, 5.0]), np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]])]
)
def test_equal_eigenvalues_have_a_finite_derivative_and_a_right_trace(a):
    slope = grad(lambda a: np.trace(schur_p(a)[0] @ schur_p(a)[0]))(a)
    np.testing.assert_allclose(slope, 2 * a.T, atol=1e-12)
    for x in jvp(lambda a: schur_p(a), (a,), (draw(*a.shape),))[1]:
        assert np.all(np.isfinite(x))

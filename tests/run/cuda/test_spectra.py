"""Spectra on a device: values, vectors, derivatives, and NumPy's exceptions on reading results."""

import numpy as np
import pytest

import functrans
from functrans import grad, jit

A = np.random.default_rng(0).normal(size=(3, 3))


def entropy(a):
    values = np.linalg.eigvalsh(a @ a.T)
    return np.sum(values * np.log(values))


def test_what_lives_there_stays_there(emulated):
    values, vectors = jit(np.linalg.eigh)(functrans.device_put(A + A.T))
    assert type(values) is type(vectors) is functrans.DeviceArray
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A + A.T), atol=1e-14)
    turned = np.asarray(vectors).T @ (A + A.T) @ np.asarray(vectors)
    np.testing.assert_allclose(turned, np.diag(np.asarray(values)), atol=1e-14)
    u, s, vh = map(np.asarray, jit(np.linalg.svd)(functrans.device_put(A)))
    np.testing.assert_allclose((u * s) @ vh, A, atol=1e-14)


def test_complex_vectors(emulated):
    a = A + A.T + 1j * (A - A.T)
    values, vectors = map(np.asarray, jit(np.linalg.eigh, device="cuda")(a))
    assert vectors.dtype == np.complex128
    np.testing.assert_allclose((vectors * values) @ vectors.conj().T, a, atol=1e-13)


def test_slopes(emulated):
    np.testing.assert_allclose(jit(grad(entropy), device="cuda")(A), grad(entropy)(A), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "words"),
    [(np.linalg.eigvalsh, "Eigenvalues did not converge"), (np.linalg.svd, "SVD did not converge")],
)
def test_failures_come_when_one_looks(emulated, function, words):
    broken = jit(function)(functrans.device_put(np.full((3, 3), np.nan)))
    with pytest.raises(np.linalg.LinAlgError, match=words):
        np.asarray(broken[0])

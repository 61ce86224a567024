"""The transforms of `functrans.ops.fft` against products with their matrices."""

import numpy as np
import pytest
import scipy.fft

from functrans.ir.types import aval_of
from functrans.ops.fft.fourier import fft_p, irfft_p, rfft_p
from functrans.ops.fft.trigonometric import trigonometric_p
from functrans.trace.stage import rewrite
from tests.primitives.harness import pullback_graph, run, tangent_graph

rng = np.random.default_rng(2)


def transposed(function, x, ct):
    """The cotangent of what is transformed."""
    graph = rewrite(lambda x: [function(x)], [aval_of(x)])
    tangent = tangent_graph(graph, (True,))
    pulled = pullback_graph(tangent, len(tangent.inputs) - 1, 1)
    return run(pulled, [*[x] * (len(tangent.inputs) - 1), ct])[-1]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17])
def test_fourier_transforms_are_products(n):
    k = np.arange(n)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / n)
    z = rng.normal(size=n) + 1j * rng.normal(size=n)
    x = z.real
    m = n // 2 + 1
    np.testing.assert_allclose(fft_p(z, axis=0, inverse=False, norm="backward"), matrix @ z)
    np.testing.assert_allclose(rfft_p(x, axis=0, norm="backward"), (matrix @ x)[:m], atol=1e-12)
    got = transposed(lambda z: fft_p(z, axis=0, inverse=True, norm="backward"), z, z)
    np.testing.assert_allclose(got, matrix.conj() @ z / n)
    got = transposed(lambda x: rfft_p(x, axis=0, norm="ortho"), x, z[:m])
    np.testing.assert_allclose(got, np.real(matrix[:m].T @ z[:m]) / np.sqrt(n), atol=1e-12)
    # from the parts of the half to n real numbers: a product with a real matrix
    parts = np.eye(2 * m)
    back = np.fft.irfft(parts[:, :m] + 1j * parts[:, m:], n, axis=1).T
    got = transposed(lambda z: irfft_p(z, axis=0, points=n, norm="backward"), z[:m], x)
    pulled = back.T @ x
    # a cotangent stands for real(ct * tangent)
    np.testing.assert_allclose(got, pulled[:m] - 1j * pulled[m:], atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("kind", ["cos", "sin"])
@pytest.mark.parametrize("type", [1, 2, 3, 4])
def test_transforms_by_cosines_and_sines_are_products(n, kind, type):
    transform = {"cos": scipy.fft.dct, "sin": scipy.fft.dst}[kind]
    matrix = transform(np.eye(n), type=type, axis=0)
    x, ct = rng.normal(size=(2, n))
    function = lambda x: trigonometric_p(x, kind=kind, type=type, axis=0)  # noqa: E731
    np.testing.assert_allclose(function(x), matrix @ x)
    np.testing.assert_allclose(transposed(function, x, ct), matrix.T @ ct, atol=1e-13)

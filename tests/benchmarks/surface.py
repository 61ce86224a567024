"""Workloads over the breadth of NumPy and SciPy: decompositions, FFT, convolutions, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.workloads import Job, Library

Workload = Callable[[Library], Job]


def _symmetric(rng: Any, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    return (x + np.swapaxes(x, -1, -2)) / 2


def eigenvalues(lib: Library) -> Job:
    """Value and gradient of a function of the eigenvalues and vectors of a 200x200 matrix."""
    xp, rng = lib.np, np.random.default_rng(0)

    def f(a: Any, v: Any) -> Any:
        w, vectors = xp.linalg.eigh((a + a.T) / 2)
        return xp.sum(xp.exp(w / 20) * (v @ vectors) ** 2)

    return Job(lib.value_and_grad(f), (_symmetric(rng, 200, 200), rng.standard_normal(200)), f)


def eigenvalues_of_many(lib: Library) -> Job:
    """Gradients of the largest eigenvalues of 1000 matrices of 8x8."""
    xp, rng = lib.np, np.random.default_rng(0)

    def f(a: Any) -> Any:
        return xp.linalg.eigvalsh((a + a.T) / 2)[-1]

    return Job(lib.vmap(lib.grad(f)), (_symmetric(rng, 1000, 8, 8),), lib.vmap(f))


def singular_values(lib: Library) -> Job:
    """Value and gradient of the nuclear norm of a 200x100 matrix."""
    xp, rng = lib.np, np.random.default_rng(0)

    def f(a: Any) -> Any:
        return xp.sum(xp.linalg.svd(a, full_matrices=False)[1])

    return Job(lib.value_and_grad(f), (rng.standard_normal((200, 100)),), f)


def orthogonal_triangular(lib: Library) -> Job:
    """Value and gradient through the QR factors of a 300x100 matrix."""
    xp, rng = lib.np, np.random.default_rng(0)
    weights = rng.standard_normal((300, 100))

    def f(a: Any) -> Any:
        q, r = xp.linalg.qr(a)
        return xp.sum(q * weights) + xp.sum(r * r * r)

    return Job(lib.value_and_grad(f), (rng.standard_normal((300, 100)),), f)


def gaussian_process(lib: Library) -> Job:
    """Value and gradient of the likelihood of a Gaussian process of 500 points, by Cholesky."""
    xp, rng = lib.np, np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 500))
    y = np.sin(x) + 0.1 * rng.standard_normal(500)

    def f(p: Any) -> Any:
        gap = x[:, None] - x[None, :]
        kernel = p[0] * xp.exp(-gap * gap / (2 * p[1] * p[1])) + p[2] * xp.eye(500)
        factor = xp.linalg.cholesky(kernel)
        white = xp.linalg.solve(factor, y)
        return 0.5 * xp.sum(white * white) + xp.sum(xp.log(xp.diagonal(factor)))

    return Job(lib.value_and_grad(f), (np.array([1.0, 1.0, 0.05]),), f)


def spectral_energy(lib: Library) -> Job:
    """Value and gradient of a filtered signal of 65,536 points, by real transforms."""
    xp, rng = lib.np, np.random.default_rng(0)
    n = 65_536
    response = (1 / (1 + 1j * np.arange(n // 2 + 1) / 300)).astype(np.complex128)

    def f(x: Any) -> Any:
        filtered = xp.fft.irfft(xp.fft.rfft(x) * response, n)
        return xp.sum(xp.tanh(filtered) ** 2)

    return Job(lib.value_and_grad(f), (rng.standard_normal(n),), f)


def image_transform(lib: Library) -> Job:
    """A 512x512 image through a transform, a mask and back."""
    xp, rng = lib.np, np.random.default_rng(0)
    mask = rng.uniform(0, 1, (512, 512))

    def f(x: Any) -> Any:
        return xp.real(xp.fft.ifft2(xp.fft.fft2(x) * mask))

    return Job(f, (rng.standard_normal((512, 512)),))


def complex_product(lib: Library) -> Job:
    """Value and gradient of a product of 256x256 complex matrices."""
    xp, rng = lib.np, np.random.default_rng(0)
    a, b = (
        rng.standard_normal((256, 256)) + 1j * rng.standard_normal((256, 256)) for _ in range(2)
    )

    def f(a: Any, b: Any) -> Any:
        c = a @ b
        return xp.sum(xp.real(c) ** 2 + xp.imag(c) ** 2)

    return Job(lib.value_and_grad(f), (a, b), f)


def quantum_circuit(lib: Library) -> Job:
    """The gradient of an expectation over the angles of a circuit of 10 qubits and 60 rotations."""
    xp, rng = lib.np, np.random.default_rng(0)
    qubits, layers = 10, 6

    def rotation(state: Any, angle: Any, qubit: int) -> Any:
        state = xp.reshape(state, (2**qubit, 2, -1))
        c, s = xp.cos(angle / 2), xp.sin(angle / 2)
        a, b = state[:, 0], state[:, 1]
        return xp.stack([c * a - 1j * s * b, c * b - 1j * s * a], axis=1)

    def f(angles: Any) -> Any:
        state = xp.zeros(2**qubits, dtype=np.complex128) + np.eye(2**qubits)[0]
        phases = np.exp(1j * np.linspace(0, 3, 2**qubits))
        for layer in range(layers):
            for qubit in range(qubits):
                state = rotation(state, angles[layer, qubit], qubit)
            state = xp.reshape(state, (-1,)) * phases
        sizes = xp.real(state) ** 2 + xp.imag(state) ** 2
        return xp.sum(sizes * np.linspace(-1, 1, 2**qubits))

    return Job(lib.grad(f), (rng.uniform(0, 6, (layers, qubits)),), f)


def random_normals(lib: Library) -> Job:
    """A million random normals, float32."""

    def f(key: Any) -> Any:
        return lib.random.normal(key, (1_000_000,), np.float32)

    return Job(f, (np.array([0, 7], np.uint32),))


def brownian_paths(lib: Library) -> Job:
    """The gradient of the price of an Asian option by 20,000 random paths of 50 steps."""
    xp = lib.np

    def f(p: Any, key: Any) -> Any:
        spot, vol = p[0], p[1]
        steps = lib.random.normal(key, (20_000, 50), np.float64)
        logs = xp.cumsum(-0.5 * vol * vol * 0.02 + vol * np.sqrt(0.02) * steps, axis=1)
        means = xp.mean(spot * xp.exp(logs), axis=1)
        return xp.mean(xp.maximum(means - 100.0, 0.0))

    return Job(lib.grad(f), (np.array([100.0, 0.2]), np.array([0, 7], np.uint32)), f)


def _pooled(lib: Library, x: Any) -> Any:
    """Means over 2x2 windows."""
    batch, channels, height, width = x.shape
    windows = lib.np.reshape(x, (batch, channels, height // 2, 2, width // 2, 2))
    return lib.np.mean(windows, axis=(3, 5))


def lenet(lib: Library) -> Job:
    """Value and gradient of LeNet over 128 images of 28x28, float32."""
    xp, rng = lib.np, np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    params = {
        "first": weight(6, 1, 5, 5),
        "second": weight(16, 6, 5, 5),
        "third": weight(120, 256).T,
        "fourth": weight(84, 120).T,
        "last": weight(10, 84).T,
    }
    x = rng.standard_normal((128, 1, 28, 28)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        x = _pooled(lib, xp.tanh(lib.lax.conv(x, params["first"], (1, 1), "VALID")))
        x = _pooled(lib, xp.tanh(lib.lax.conv(x, params["second"], (1, 1), "VALID")))
        x = xp.reshape(x, (128, -1))
        x = xp.tanh(x @ params["third"])
        x = xp.tanh(x @ params["fourth"])
        z = x @ params["last"]
        return xp.mean(lib.special.logsumexp(z, axis=1) - xp.sum(z * y, axis=1))

    return Job(lib.value_and_grad(loss), (params, x, y), loss)


def convolution_layer(lib: Library) -> Job:
    """Value and gradient of a 64-channel 3x3 layer over 16 images of 56x56, float32."""
    xp, rng = lib.np, np.random.default_rng(0)
    x = rng.standard_normal((16, 64, 56, 56)).astype(np.float32)
    kernel = (rng.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32)

    def f(kernel: Any, x: Any) -> Any:
        return xp.mean(xp.maximum(lib.lax.conv(x, kernel, (1, 1), "SAME"), np.float32(0)))

    return Job(lib.value_and_grad(f, argnums=(0, 1)), (kernel, x), f)


def mixture(lib: Library) -> Job:
    """Value and gradient of the likelihood of a mixture of 16 normals, 10,000 points."""
    xp, rng = lib.np, np.random.default_rng(0)
    x = rng.standard_normal((10_000, 4))
    params = (rng.standard_normal(16), rng.standard_normal((16, 4)), rng.standard_normal((16, 4)))

    def f(params: Any, x: Any) -> Any:
        logits, means, logs = params
        weights = logits - lib.special.logsumexp(logits)
        inside = lib.stats.norm.logpdf(x[:, None, :], means, xp.exp(logs))
        return -xp.mean(lib.special.logsumexp(weights + xp.sum(inside, axis=-1), axis=1))

    return Job(lib.value_and_grad(f), (params, x), f)


SURFACE: dict[str, tuple[Workload, float]] = {
    "eigenvalues": (eigenvalues, 0.9),
    "eigenvalues of many": (eigenvalues_of_many, 3.0),
    "singular values": (singular_values, 0.9),
    "QR": (orthogonal_triangular, 0.9),
    "Gaussian process": (gaussian_process, 0.9),
    "spectral energy": (spectral_energy, 0.9),
    "image transform": (image_transform, 0.9),
    "complex product": (complex_product, 0.9),
    "quantum circuit": (quantum_circuit, 0.9),
    "random normals": (random_normals, 0.9),
    "Brownian paths": (brownian_paths, 0.9),
    "LeNet": (lenet, 1),
    "convolution layer": (convolution_layer, 1),
    "normal mixture": (mixture, 0.9),
}
"""Each workload, and how many times faster than JAX it is to be; 1.5 in the geometric mean."""

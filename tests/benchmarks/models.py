"""Likelihoods and residuals as workloads: triangular factors, and blocks of a Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.workloads import Job, Library

Made = Callable[[Library], Job]


def triangular_mixture(points: int, width: int, components: int) -> Made:
    """The gradient of a mixture's log-likelihood, inverse covariances by triangular factors."""

    def make(lib: Library) -> Job:
        xp, rng = lib.np, np.random.default_rng(0)
        params = (
            rng.standard_normal(components),
            rng.standard_normal((components, width)),
            0.1 * rng.standard_normal((components, width)),
            rng.standard_normal((components, width, width)) / width,
        )
        x = rng.standard_normal((points, width))

        def loss(params: Any, x: Any) -> Any:
            logits, means, logs, below = params
            factors = xp.tril(below, -1) + xp.exp(logs)[:, :, None] * np.eye(width)
            centred = x[None] - means[:, None]
            white = centred @ xp.swapaxes(factors, 1, 2)
            inside = logits + xp.sum(logs, axis=1) - 0.5 * xp.sum(white * white, axis=2).T
            total = xp.sum(lib.special.logsumexp(inside, axis=1))
            return total - points * lib.special.logsumexp(logits)

        return Job(lib.grad(loss), (params, x), loss)

    return make


def gaussian_process(points: int) -> Made:
    """The gradient of a marginal likelihood, by a Cholesky factor and a triangular solution."""

    def make(lib: Library) -> Job:
        xp, rng = lib.np, np.random.default_rng(0)
        x = np.sort(rng.uniform(0, 10, points))
        y = np.sin(x) + 0.1 * rng.standard_normal(points)

        def loss(p: Any, x: Any, y: Any) -> Any:
            amplitude, length, noise = xp.exp(p[0]), xp.exp(p[1]), xp.exp(p[2])
            gap = (x[:, None] - x[None, :]) / length
            kernel = amplitude * xp.exp(-0.5 * gap * gap) + noise * np.eye(points)
            factor = xp.linalg.cholesky(kernel)
            white = lib.linalg.solve_triangular(factor, y, lower=True)
            return 0.5 * xp.sum(white * white) + xp.sum(xp.log(xp.diagonal(factor)))

        return Job(lib.grad(loss), (np.array([0.0, 0.0, -3.0]), x, y), loss)

    return make


def bundle_blocks(observations: int) -> Made:
    """The Jacobian of each reprojection by its camera and point (bundle adjustment)."""

    def make(lib: Library) -> Job:
        xp, rng = lib.np, np.random.default_rng(0)

        def turned(r: Any, x: Any) -> Any:
            """Rodrigues' rotation of a point, also by nothing."""
            square = xp.sum(r * r)
            is_small = square < 1e-16
            angle = xp.sqrt(xp.where(is_small, 1.0, square))
            axis = r / angle
            cosine, sine = xp.cos(angle), xp.sin(angle)
            far = x * cosine + xp.cross(axis, x) * sine + axis * (axis @ x) * (1 - cosine)
            return xp.where(is_small, x + xp.cross(r, x), far)

        def residual(p: Any, seen: Any) -> Any:
            camera, point = xp.reshape(p[:9], (3, 3)), p[9:12]
            seen_from = turned(camera[0], point) + camera[1]
            flat = seen_from[:2] / seen_from[2]
            square = xp.sum(flat * flat)
            focal, first, second = camera[2]
            return focal * flat * (1 + square * (first + square * second)) - seen

        p = 0.3 * rng.standard_normal((observations, 12))
        p[:, 5] += 5
        p[:, 6] += 1
        seen = rng.standard_normal((observations, 2))
        return Job(lib.vmap(lib.jacfwd(residual)), (p, seen), lib.vmap(residual))

    return make

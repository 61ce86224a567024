"""Matrices for tests: what the samples of linear algebra are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import Shape
from functrans.ops.samples import Domain


def _positive_definite(rng: np.random.Generator, shape: Shape) -> Any:
    x = rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def _far_from_singular(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.normal(size=shape) + 2 * shape[-1] * np.eye(shape[-1])


def _near_identity(rng: np.random.Generator, shape: Shape) -> Any:
    return np.eye(shape[-1]) + rng.normal(size=shape) / (4 * shape[-1])


positive_definite = Domain(_positive_definite)
regular = Domain(_far_from_singular)
near_identity = Domain(_near_identity)
"""Of any size, their determinants are neither huge nor tiny."""

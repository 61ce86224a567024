"""Positive semidefinite matrices that may be singular: factors restricted to their range.

The density of a degenerate distribution is that on the range of the matrix, in the basis of its
eigenvectors.

References
----------
The documentation of `scipy.stats.multivariate_normal`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.numpy import linalg
from functrans.numpy.creation import diag
from functrans.numpy.reductions import sum
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import greater
from functrans.records import NamedTuple


class Range(NamedTuple):
    """The range of a positive semidefinite matrix, where it is regular."""

    factor: Any
    """The Cholesky factor of the matrix on its range, in the basis of `onto`; 1 elsewhere."""
    onto: Any
    """The eigenvectors, with 0 for those in the null space."""
    null: Any
    """The eigenvectors in the null space, with 0 for the others."""
    rank: Any
    smallest: Any
    """The size up to which an eigenvalue counts as 0."""


def range_of(matrix: Any) -> Range:
    """The range of a matrix; derivatives hold the rank and the eigenvectors fixed."""
    values, vectors = linalg.eigh(stop_gradient(matrix))
    info = np.finfo(matrix.dtype)
    guard = 1e3 if info.bits == 32 else 1e6  # the tolerance of `scipy.linalg.pinvh`
    smallest = guard * float(info.eps) * absolute(values).max()
    kept = greater(values, smallest)
    onto, null = select(kept, vectors, 0.0), select(kept, 0.0, vectors)
    inside = onto.T @ matrix @ onto + diag(select(kept, 0.0, 1.0))
    return Range(linalg.cholesky(inside), onto, null, sum(select(kept, 1.0, 0.0)), smallest)

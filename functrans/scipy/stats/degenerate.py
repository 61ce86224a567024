"""Positive semidefinite matrices that may be singular: factors restricted to their range.

A density over a degenerate matrix is one over its range, in the basis of its eigenvectors.

References
----------
The documentation of `scipy.stats.multivariate_normal`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.numpy import linalg
from functrans.numpy.creation import diag
from functrans.numpy.reductions import sum
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import greater


class Range(NamedTuple):
    """Where a positive semidefinite matrix is regular."""

    factor: Any
    """The Cholesky factor of the matrix there, in the basis of `onto`, and 1 elsewhere."""
    onto: Any
    """Its eigenvectors, and 0 for those that the matrix takes to 0."""
    null: Any
    """Those, and 0 for the others."""
    rank: Any
    smallest: Any
    """The size up to which an eigenvalue is taken for 0."""


def range_of(matrix: Any) -> Range:
    """The rank and the eigenvectors are held fixed by derivatives, as they must be in the range."""
    values, vectors = linalg.eigh(stop_gradient(matrix))
    info = np.finfo(matrix.dtype)
    guard = 1e3 if info.bits == 32 else 1e6  # of `scipy.linalg.pinvh`
    smallest = guard * float(info.eps) * absolute(values).max()
    kept = greater(values, smallest)
    onto, null = select(kept, vectors, 0.0), select(kept, 0.0, vectors)
    inside = onto.T @ matrix @ onto + diag(select(kept, 0.0, 1.0))
    return Range(linalg.cholesky(inside), onto, null, sum(select(kept, 1.0, 0.0)), smallest)

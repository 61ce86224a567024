"""B-splines: their weights at a coordinate, and the coefficients of those through given data.

The coefficients are found by recursive filters forwards and backwards along each axis, for each
pole of the inverse of the B-spline's values at the integers (Unser, Aldroubi, Eden, "B-spline
signal processing", 1993).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.lax.scanning import scan
from functrans.numpy.arrays import astype
from functrans.numpy.shapes import moveaxis
from functrans.ops.arrays.structural import reshape
from functrans.ops.indexing.views import unlinked
from functrans.ops.linalg.products import matmul

_ENDS = {"reflect": "reflect", "grid-mirror": "reflect", "nearest": "reflect", "grid-wrap": "wrap"}
"""The boundary conditions of the recursive filter by SciPy's mode; "mirror" for all others."""


def spline_weights(u: Any, order: int) -> list[Any]:
    """The values of the nonzero uniform B-splines at ``u`` in [0, 1] between two knots.

    They are computed by the Cox-de Boor recursion.
    """
    weights: list[Any] = [u * 0.0 + 1.0]
    for k in range(1, order + 1):
        rising = [(u + (k - j)) / k * weights[j - 1] for j in range(1, k + 1)]
        falling = [((1 + j) - u) / k * weights[j] for j in range(k)]
        inner = [a + b for a, b in zip(rising[:-1], falling[1:], strict=True)]
        weights = [falling[0], *inner, rising[-1]]
    return weights


def _poles(order: int) -> list[float]:
    """The prefilter's poles: roots in the unit circle of the sampled B-spline's polynomial."""
    values = [float(w) for w in spline_weights(0.0 if order % 2 else 0.5, order)]
    roots = np.roots(values[:-1] if order % 2 else values)
    return sorted(float(root.real) for root in roots if abs(root) < 1)


def _history(size: int, pole: float, ends: str) -> Any:
    """The weights of the data in the filter's initial state, for the given boundary condition."""
    if ends == "wrap":
        elements = -np.arange(size) % size
    elif ends == "reflect":
        ahead = np.arange(size)
        elements = np.concatenate([[0], ahead, ahead[:0:-1]])
    else:
        ahead = np.arange(size)
        elements = np.concatenate([ahead, ahead[-2:0:-1]])
    weights = np.zeros(size)
    np.add.at(weights, elements, pole ** np.arange(len(elements), dtype=float))
    return weights / (1 - pole ** len(elements))


def coefficients(x: Any, axis: int, order: int, mode: str) -> Any:
    """The coefficients of the spline through the data along an axis."""
    size = x.shape[axis]
    if order < 2 or size < 2:
        return x
    rows = moveaxis(x, axis, 0)
    for pole in _poles(order):
        rows = _filtered(rows, pole, _ENDS.get(mode, "mirror"))
    return unlinked(moveaxis(rows, 0, axis))


def _filtered(rows: Any, pole: float, ends: str) -> Any:
    """Filter rows by one pole: sums with weights ``pole**distance``, by two recursions."""
    size, rest = rows.shape[0], rows.shape[1:]
    weights = _history(size, pole, ends).astype(rows.dtype)
    flattened = reshape(rows, shape=(size, rows.size // size))

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        total = row + pole * total
        return total, total

    def run(weights: Any, backwards: bool) -> Any:
        first = reshape(matmul(weights, flattened), shape=rest)
        edge = rows[-1] if backwards else rows[0]
        # the initial state for which the result at the first row is `first`
        return scan(step, (first - edge) / pole, rows, reverse=backwards)[1]

    both = run(weights, False) + run(weights[::-1].copy(), True) - rows
    return (1 - pole) / (1 + pole) * both


def doubles(x: Any) -> Any:
    """Convert to the dtype in which splines are computed."""
    return astype(x, np.complex128 if x.dtype.kind == "c" else np.float64)

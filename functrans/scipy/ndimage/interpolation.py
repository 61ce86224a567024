"""Spline interpolation of images at coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import astype, inexact
from functrans.ops.elementwise.choice import select
from functrans.ops.indexing.gather import gather
from functrans.scipy.ndimage.boundaries import check_constant
from functrans.scipy.ndimage.splines import spline_weights

# -- coordinates beyond the boundary ---------------------------------------------------------------


def _in_mirror(at: Any, size: int) -> Any:
    period = 2.0 * (size - 1)
    # coordinates less than 1 beyond the last element stay, so that half-way ones round as in SciPy
    folded = np.abs(at) - period * np.floor(np.abs(at) / period)
    behind = folded >= select(at < 0, size - 1.0, size * 1.0)
    return select(behind, period - folded, folded)


def _reflected(at: Any, size: int) -> Any:
    period = 2.0 * size
    inside = (at >= 0) & (at <= size - 1)
    folded = at - period * np.floor(at / period)
    folded = select(folded > size - 0.5, period - 1 - folded, folded)
    return select(inside, at, folded)


def _wrapped(period_of: Callable[[int], float]) -> Callable[[Any, int], Any]:
    def fold(at: Any, size: int) -> Any:
        period = period_of(size)
        inside = (at >= 0) & (at <= size - 1)
        # SciPy maps negative multiples of the period to the end of the period
        before = at + period * (np.floor(-at / period) + 1)
        behind = at - period * np.floor(at / period)
        return select(inside, at, select(at < 0, before, behind))

    return fold


_FOLDS: dict[str, Callable[[Any, int], Any]] = {
    "mirror": _in_mirror,
    "reflect": _reflected,
    "grid-mirror": _reflected,
    "nearest": lambda at, size: np.clip(at, -8.0, size + 8.0),  # so are neighbours' indices
    "wrap": _wrapped(lambda size: size - 1.0),
    "grid-wrap": _wrapped(float),
    "constant": lambda at, size: at,
    "grid-constant": lambda at, size: at,
}


_ENDING = ("constant", "wrap")
"""The modes in which the last element belongs to the interval before it."""


_BEYOND = 12
"""A bound of the distance from the boundary to a neighbour of a folded coordinate."""


def _mirrored_index(i: Any, size: int) -> Any:
    period = max(2 * (size - 1), 1)
    # at most one reflection, without a division, unless the axis is short
    i = abs(i) if size > 2 * _BEYOND else i % period
    return np.minimum(i, period - i) if size > 1 else i * 0


def _reflected_index(i: Any, size: int) -> Any:
    i = np.maximum(i, -1 - i) if size > 2 * _BEYOND else i % (2 * size)
    return np.minimum(i, 2 * size - 1 - i)


_INDICES: dict[str, Callable[[Any, int], Any]] = {
    "mirror": _mirrored_index,
    "constant": _mirrored_index,
    "wrap": _mirrored_index,
    "reflect": _reflected_index,
    "grid-mirror": _reflected_index,
    "nearest": lambda i, size: np.clip(i, 0, size - 1),
    "grid-constant": lambda i, size: np.clip(i, 0, size - 1),
    "grid-wrap": lambda i, size: i % size,
}
"""The index of the element that replaces a neighbour beyond the boundary, by mode."""

# -- interpolation ---------------------------------------------------------------------------------


def at_coordinates(
    x: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any, margin: int
) -> Any:
    """Interpolate with spline coefficients, which have a margin around an image."""
    check_constant(cval, x)
    count = len(coordinates)
    if any(n == 0 for n in x.shape[:count]):
        raise ShapeError(f"an image of shape {x.shape} has no elements to interpolate between")
    places = np.broadcast_arrays(*(inexact(at) for at in coordinates))
    taps = [
        _Taps(astype(at, np.float64) + margin, size, order, mode)
        for at, size in zip(places, x.shape, strict=False)
    ]
    total = None
    for each in product(range(order + 1), repeat=count):
        weight: Any = 1.0
        for along, n in zip(taps, each, strict=True):
            weight = weight * along.weights[n]
        seen = gather(x, *(along.indices[n] for along, n in zip(taps, each, strict=True)),
                      axes=tuple(range(count)))  # fmt: skip
        if mode == "grid-constant":
            there = [along.present[n] for along, n in zip(taps, each, strict=True)]
            seen = select(_all(there), seen, cval)
        term = weight * seen
        total = term if total is None else total + term
    if mode == "constant":
        total = select(_all([along.inside for along in taps]), total, cval)
    return total


def _all(conditions: Sequence[Any]) -> Any:
    found = conditions[0]
    for one in conditions[1:]:
        found = found & one
    return found


class _Taps:
    """The neighbours of coordinates along an axis, and their B-spline weights.

    Parameters
    ----------
    at : array
        Coordinates.
    size, order, mode
        The size of the axis, the order of the splines and the boundary mode.
    """

    def __init__(self, at: Any, size: int, order: int, mode: str) -> None:
        self.inside = (at >= 0) & (at <= size - 1)
        folded = _FOLDS[mode](at, size) if size > 1 or mode.endswith("constant") else at * 0.0
        whole = np.floor(folded if order % 2 else folded + 0.5)
        if order == 1 and mode in _ENDING:
            whole = np.minimum(whole, max(size - 2.0, 0.0))
        u = folded - whole if order % 2 else folded - whole + 0.5
        # coordinates may be infinite where the result is the constant: any valid integer will do
        first = astype(np.clip(whole, -1e15, 1e15), np.int64) - order // 2
        first = np.clip(first, -_BEYOND, size + _BEYOND)
        given = [first + n for n in range(order + 1)]
        self.weights = spline_weights(u, order)
        self.present = [(i >= 0) & (i < size) for i in given]
        self.indices = [_INDICES[mode](i, size) for i in given]


def rounded(x: Any, dtype: Any) -> Any:
    """Convert a result to its dtype; integers are rounded and clipped, bools truncated."""
    if dtype == np.bool_:
        x = np.trunc(x)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = np.trunc(x + np.copysign(0.5, x))
        x = np.clip(x, float(limits.min), float(limits.max))
    return astype(x, dtype)


# -- transformations -------------------------------------------------------------------------------


def open_grid(shape: Sequence[int]) -> list[Any]:
    """The indices along each axis, in shapes that broadcast."""
    return list(np.ogrid[tuple(slice(0, n) for n in shape)]) if shape else []

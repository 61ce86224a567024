"""The axis arguments of SciPy's statistics: one axis, several, or all."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from functrans.numpy.arrays import axes_of, inexact
from functrans.ops.arrays.structural import expand_axes

__all__ = ["on_slices"]


def on_slices(
    *samples: Any, axis: Any, keepdims: bool = False
) -> tuple[list[Any], Callable[[Any], Any]]:
    """Move the axes given by ``axis`` to the end, and merge them.

    Parameters
    ----------
    *samples : array_like
        Samples; leading axes of size 1 are added to those with fewer axes.
    axis : int, tuple of int or None
        None for all axes.
    keepdims : bool
        Whether results keep the reduced axes with size 1.

    Returns
    -------
    samples : list of array
        Floats.
    kept : callable
        A function that reshapes a result without the last axis according to ``keepdims``.
    """
    arrays = [inexact(x) for x in samples]
    rank = max(x.ndim for x in arrays)
    arrays = [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]
    axes = axes_of(axis, rank)
    last = tuple(range(rank - len(axes), rank))

    def joined(x: Any) -> Any:
        x = np.moveaxis(x, axes, last)
        outer = x.shape[: rank - len(axes)]
        return x.reshape((*outer, prod(x.shape[rank - len(axes) :])))

    return list(map(joined, arrays)), lambda x: expand_axes(x, axes) if keepdims else x

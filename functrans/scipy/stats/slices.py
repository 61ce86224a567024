"""Samples along axes, as SciPy's statistics take them: one axis, several, or all of them."""

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
    """Samples with what ``axis`` names last, as one axis; and what gives results their axes.

    Parameters
    ----------
    *samples : array_like
        Samples with fewer axes than others get axes of size 1 in front.
    axis : int, tuple of int or None
        None for all of them.
    keepdims : bool
        Whether results are to have axes of size 1 where samples had theirs.

    Returns
    -------
    samples : list of array
        Floats.
    kept : callable
        From a result without the last axis to one with the axes that are asked for.
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

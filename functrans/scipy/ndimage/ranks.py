"""Rank filters of images: maximum, minimum and median of a neighbourhood."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axis_of
from functrans.ops.arrays.structural import reshape
from functrans.ops.convolution.windows import Window, windows_of
from functrans.ops.reductions.reduce import reduce_max, reduce_min
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import (
    axes_in_order,
    delivered,
    extended,
    footprint_axes,
    in_doubles,
    per_axis,
    result_dtype,
)
from functrans.trace.tracer import Tracer

__all__ = [
    "maximum_filter", "maximum_filter1d", "median_filter", "minimum_filter", "minimum_filter1d",
    "percentile_filter", "rank_filter",
]  # fmt: skip


def _around(
    x: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: Any, *,
    separable: bool = False,
) -> Any:  # fmt: skip
    """The neighbourhood of each element, along an additional last axis.

    The sizes of a box are in the order of ``axes`` if the filter is ``separable``, otherwise in
    ascending order, as in SciPy.
    """
    if x.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    chosen = axes_in_order(axes, x.ndim)
    count = len(chosen)
    if footprint is not None:
        taken = np.asarray(footprint, bool)
    elif size is not None:
        taken = np.ones([int(n) for n in per_axis(size, count, "size")], bool)
    else:
        raise RuntimeError("no footprint provided")
    if taken.ndim != count:
        raise RuntimeError("footprint array has incorrect shape.")
    sizes = taken.shape
    origins, modes = per_axis(origin, count, "origin"), per_axis(mode, count, "mode")
    if not (separable and taken.all()):
        chosen, origins, modes = footprint_axes(chosen, x.ndim, origins, modes)
    widths, full = [(0, 0)] * x.ndim, ["nearest"] * x.ndim
    for axis, taps, start, one in zip(chosen, sizes, origins, modes, strict=True):
        before = taps // 2 + start
        if not 0 <= before < taps:
            raise ValueError("invalid origin")
        widths[axis], full[axis] = (before, taps - 1 - before), one
    windows = tuple(Window(x.shape[axis], taps) for axis, taps in zip(chosen, sizes, strict=True))
    seen = windows_of(extended(x, widths, full, cval), axes=chosen, windows=windows)
    seen = reshape(seen, shape=(*x.shape, int(np.prod(sizes, dtype=int))))
    return seen if taken.all() else seen[..., np.flatnonzero(taken)]


def _extreme(
    reduce: Any, input: Any, size: Any, footprint: Any, output: Any, mode: Any, cval: Any,
    origin: Any, axes: Any,
) -> Any:  # fmt: skip
    x = array(input)
    dtype = result_dtype(output, x)
    if isinstance(cval, Tracer) or cval != 0:
        x = in_doubles(x)  # the constant need not be a number of an integer dtype
    seen = _around(x, size, footprint, mode, cval, origin, axes, separable=True)
    return delivered(reduce(seen, axes=(x.ndim,)), dtype)


@answers("scipy.ndimage:maximum_filter")
def maximum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Maximum filter: the largest element of each neighbourhood.

    Parameters
    ----------
    input : array
    size : int or sequence of int, optional
        The size of the box.
    footprint : array of bool, optional
        The neighbourhood, in place of a box. It must not be traced.
    output : dtype, optional
        By default that of the input.
    mode : {"reflect", "constant", "nearest", "mirror", "wrap"}, optional
        What lies beyond the boundary: for all axes, or one for each.
    cval : number, optional
        The value beyond the boundary in the mode ``"constant"``.
    origin : int or sequence of int, optional
        The offset of the neighbourhood relative to its centre.
    axes : sequence of int, optional
        By default all.

    Returns
    -------
    array
        The derivative is divided equally among equal maxima.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import ndimage
    >>> grad(lambda x: ndimage.maximum_filter(x, 3).sum())(np.array([1.0, 5.0, 2.0, 3.0]))
    array([0., 3., 0., 1.])
    """
    return _extreme(reduce_max, input, size, footprint, output, mode, cval, origin, axes)


@answers("scipy.ndimage:minimum_filter")
def minimum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Minimum filter: the smallest element of each neighbourhood; see `maximum_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.minimum_filter(x, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([1., 1., 2., 2.])
    """
    return _extreme(reduce_min, input, size, footprint, output, mode, cval, origin, axes)


@answers("scipy.ndimage:maximum_filter1d")
def maximum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Maximum filter over ``size`` elements along an axis; see `maximum_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.maximum_filter1d(x, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([5., 5., 5., 3.])
    """
    own = (axis_of(axis, array(input).ndim),)
    return _extreme(reduce_max, input, size, None, output, mode, cval, origin, own)


@answers("scipy.ndimage:minimum_filter1d")
def minimum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Minimum filter over ``size`` elements along an axis; see `maximum_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.minimum_filter1d(x, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([1., 1., 2., 2.])
    """
    own = (axis_of(axis, array(input).ndim),)
    return _extreme(reduce_min, input, size, None, output, mode, cval, origin, own)


@answers("scipy.ndimage:rank_filter")
def rank_filter(
    input: Any, rank: int, size: Any = None, footprint: Any = None, output: Any = None,
    mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Rank filter: the element of a given rank in each sorted neighbourhood.

    Parameters
    ----------
    input : array
    rank : int
        0 is the smallest, -1 the largest.
    size, footprint, output, mode, cval, origin, axes : optional
        As for `maximum_filter`.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.rank_filter(x, 1, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([1., 2., 3., 3.])
    """
    x = array(input)
    dtype = result_dtype(output, x)
    seen = _around(x, size, footprint, mode, cval, origin, axes)
    count = seen.shape[-1]
    if not -count <= rank < count:
        raise RuntimeError("rank not within filter footprint size")
    return delivered(np.sort(seen, axis=-1)[..., rank], dtype)


@answers("scipy.ndimage:median_filter")
def median_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Median filter: the median of each neighbourhood; see `maximum_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.median_filter(x, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([1., 2., 3., 3.])
    """
    return percentile_filter(input, 50.0, size, footprint, output, mode, cval, origin, axes=axes)


@answers("scipy.ndimage:percentile_filter")
def percentile_filter(
    input: Any, percentile: float, size: Any = None, footprint: Any = None, output: Any = None,
    mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Percentile filter: the element at a percentile of each sorted neighbourhood.

    Parameters
    ----------
    input : array
    percentile : float
        If negative, counted from 100.
    size, footprint, output, mode, cval, origin, axes : optional
        As for `maximum_filter`.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.percentile_filter(x, 100, 3))(np.array([1.0, 5.0, 2.0, 3.0]))
    array([5., 5., 5., 3.])
    """
    x = array(input)
    dtype = result_dtype(output, x)
    percentile = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= percentile <= 100:
        raise RuntimeError("invalid percentile")
    seen = _around(x, size, footprint, mode, cval, origin, axes)
    count = seen.shape[-1]
    rank = count - 1 if percentile == 100 else int(count * percentile / 100.0)
    return delivered(np.sort(seen, axis=-1)[..., rank], dtype)

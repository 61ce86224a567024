"""SciPy's compiled kernels for image filters, on traced values: a stand-in for ``_nd_image``.

The filters of `scipy.ndimage` are Python functions that check their arguments and call a kernel,
which writes to an array. They run from their own source (`functrans.scipy.source.reinterpret`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from functrans import numpy as ours
from functrans.numpy.arrays import common_dtype
from functrans.numpy.reductions import root
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.arrays.structural import astype, reshape
from functrans.ops.convolution.convolution import convolve as contracted
from functrans.ops.convolution.windows import Window, windows_of
from functrans.ops.reductions.reduce import reduce_max, reduce_min
from functrans.scipy.ndimage.boundaries import delivered, extended, in_doubles
from functrans.scipy.ndimage.interpolation import at_coordinates, open_grid, rounded
from functrans.scipy.ndimage.splines import coefficients, doubles
from functrans.scipy.source.reinterpret import NumpyWith
from functrans.trace.tracer import Tracer

Axes = tuple[int, ...]

MODES = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")
"""The boundary modes, by SciPy's numbers."""


def _widths(ndim: int, axes: Axes, sizes: Sequence[int], origins: Sequence[int]) -> Any:
    """The numbers of elements before and behind each element along all axes of an array."""
    widths = [(0, 0)] * ndim
    for axis, taps, origin in zip(axes, sizes, origins, strict=True):
        before = taps // 2 + origin
        widths[axis] = before, taps - 1 - before
    return widths


# -- weighted sums ---------------------------------------------------------------------------------


def correlated(
    x: Any, weights: Any, axes: Axes, output: Any, mode: str, cval: Any, origins: Sequence[int]
) -> Any:
    """The weighted sums of the neighbours of each element along some axes, for an output."""
    # SciPy adds up in doubles, which can be told from singles where the result is wider
    x = in_doubles(x) if output.dtype in (np.float32, np.complex64) else doubles(x)
    weights = astype(weights, common_dtype(x))
    widths = _widths(x.ndim, axes, weights.shape, origins)
    # windows have zeros around them
    zero = mode.endswith("constant") and not isinstance(cval, Tracer) and cval == 0
    windows = [
        (axis, Window(x.shape[axis], taps, offset=-widths[axis][0] if zero else 0))
        for axis, taps in zip(axes, weights.shape, strict=True)
    ]
    x = x if zero else extended(x, widths, mode, cval)
    labels = tuple(range(x.ndim))
    return contracted(x, weights, (labels, axes, labels), tuple(windows))


def _correlate1d(
    input: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int
) -> None:
    sums = correlated(input, weights, (axis,), output, MODES[mode], cval, (origin,))
    output[...] = delivered(sums, output.dtype)


def _correlate(
    input: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Sequence[int]
) -> None:
    axes = tuple(range(input.ndim))
    sums = correlated(input, weights, axes, output, MODES[mode], cval, origins)
    output[...] = delivered(sums, output.dtype)


def _uniform_filter1d(
    input: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int
) -> None:
    sums = correlated(input, np.ones(size), (axis,), output, MODES[mode], cval, (origin,))
    output[...] = delivered(sums / size, output.dtype)


# -- order statistics ------------------------------------------------------------------------------


def _around(
    x: Any, footprint: Any, axes: Axes, mode: int, cval: Any, origins: Sequence[int]
) -> Any:
    """The neighbourhood of each element, along an additional last axis."""
    if isinstance(cval, Tracer) or cval != 0:
        x = in_doubles(x)  # the constant need not be a number of an integer dtype
    footprint = np.asarray(footprint)
    widths = _widths(x.ndim, axes, footprint.shape, origins)
    windows = [Window(x.shape[a], n) for a, n in zip(axes, footprint.shape, strict=True)]
    wider = extended(x, widths, MODES[mode], cval)
    seen = windows_of(wider, axes=axes, windows=tuple(windows))
    seen = reshape(seen, shape=(*x.shape, footprint.size))
    return seen if footprint.all() else seen[..., np.flatnonzero(footprint)]


def _extreme(minimum: bool) -> Callable[..., Any]:
    return reduce_min if minimum else reduce_max


def _min_or_max_filter1d(
    input: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int, minimum: bool
) -> None:
    seen = _around(input, np.ones(size, bool), (axis,), mode, cval, (origin,))
    output[...] = delivered(_extreme(minimum)(seen, axes=(input.ndim,)), output.dtype)


def _min_or_max_filter(
    input: Any, footprint: Any, structure: None, output: Any, mode: int, cval: Any,
    origins: Sequence[int], minimum: bool,
) -> None:  # fmt: skip
    seen = _around(input, footprint, tuple(range(input.ndim)), mode, cval, origins)
    output[...] = delivered(_extreme(minimum)(seen, axes=(input.ndim,)), output.dtype)


def _rank_filter(
    input: Any, rank: int, footprint: Any, output: Any, mode: int, cval: Any,
    origins: Sequence[int],
) -> None:  # fmt: skip
    seen = _around(input, footprint, tuple(range(input.ndim)), mode, cval, origins)
    output[...] = delivered(np.sort(seen, axis=-1)[..., rank], output.dtype)


def _rank_filter_of_vector(
    x: Any, rank: int, size: int, output: Any, mode: int, cval: Any, origin: int
) -> None:
    _rank_filter(x, rank, np.ones(size, bool), output, mode, cval, (origin,))


# -- splines ---------------------------------------------------------------------------------------


def _spline_filter1d(input: Any, order: int, axis: int, output: Any, mode: int) -> None:
    found = coefficients(doubles(input), axis, order, MODES[mode])
    output[...] = delivered(found, output.dtype)


def _geometric_transform(
    filtered: Any, mapping: None, coordinates: Any, matrix: Any, offset: Any, output: Any,
    order: int, mode: int, cval: Any, margin: int, *arguments: Any,
) -> None:  # fmt: skip
    if coordinates is None:
        grid = open_grid(output.shape)
        coordinates = [
            sum(row[j] * at for j, at in enumerate(grid)) + moved
            for row, moved in zip(matrix, offset, strict=True)
        ]
    found = at_coordinates(doubles(filtered), [*coordinates], order, MODES[mode], cval, margin)
    output[...] = rounded(found, output.dtype)


def _zoom_shift(
    filtered: Any, factors: Any, shift: Any, output: Any, order: int, mode: int, cval: Any,
    margin: int, grid_mode: bool,
) -> None:  # fmt: skip
    coordinates = open_grid(output.shape)
    if shift is not None:
        coordinates = [at + by for at, by in zip(coordinates, shift, strict=True)]
    if factors is not None and grid_mode:  # elements are areas, with their centres in between
        coordinates = [(at + 0.5) * by - 0.5 for at, by in zip(coordinates, factors, strict=True)]
    elif factors is not None:
        coordinates = [at * by for at, by in zip(coordinates, factors, strict=True)]
    found = at_coordinates(doubles(filtered), coordinates, order, MODES[mode], cval, margin)
    output[...] = rounded(found, output.dtype)


def _asarray(x: Any, dtype: Any = None) -> Any:
    if dtype is None and isinstance(x, np.ndarray):
        return x  # it may be written to, as the result of a kernel
    # what is computed of plain arrays is no part of the program
    return ours.asarray(x, dtype) if holds_tracer(x) else np.asarray(x, dtype)


def _sqrt(x: Any, out: Any = None, casting: Any = None) -> Any:
    """The root of a sum of squares, with derivative 0 where that is 0."""
    if out is None:
        return root(ours.asarray(x))
    out[...] = delivered(root(in_doubles(x)), out.dtype)
    return out


NAMES = {
    # kernels read before they write: no two arrays share memory
    "np": NumpyWith(asarray=_asarray, sqrt=_sqrt, may_share_memory=lambda x, y: False),
    "_nd_image": SimpleNamespace(
        correlate=_correlate,
        correlate1d=_correlate1d,
        geometric_transform=_geometric_transform,
        min_or_max_filter=_min_or_max_filter,
        min_or_max_filter1d=_min_or_max_filter1d,
        rank_filter=_rank_filter,
        spline_filter1d=_spline_filter1d,
        uniform_filter1d=_uniform_filter1d,
        zoom_shift=_zoom_shift,
    ),
    "_rank_filter_1d": SimpleNamespace(rank_filter=_rank_filter_of_vector),
}
"""The replacements for names in the modules of `scipy.ndimage`."""

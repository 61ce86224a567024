"""Linear filters of images: correlation, convolution and uniform filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axis_of, common_dtype
from functrans.ops.arrays.structural import astype
from functrans.ops.convolution.convolution import convolve as contracted
from functrans.ops.convolution.windows import Window
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.indexing.views import flip, unlinked
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
    "convolve", "convolve1d", "correlate", "correlate1d", "uniform_filter", "uniform_filter1d",
]  # fmt: skip

Axes = tuple[int, ...]


def _correlated(
    x: Any, weights: Any, axes: Axes, modes: Sequence[str], cval: Any, origins: Sequence[int]
) -> Any:
    """The weighted sums of the neighbours of each element along some axes."""
    windows = []
    widths = [(0, 0)] * x.ndim
    full = ["constant"] * x.ndim
    for axis, taps, mode, origin in zip(axes, weights.shape, modes, origins, strict=True):
        before = taps // 2 + origin
        if not 0 <= before < max(taps, 1):
            raise ValueError(
                "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= "
                "(len(weights)-1) // 2"
            )
        zero = mode in ("constant", "grid-constant") and not isinstance(cval, Tracer) and cval == 0
        if not zero:
            widths[axis], full[axis] = (before, taps - 1 - before), mode
        windows.append((axis, Window(x.shape[axis], taps, offset=-before if zero else 0)))
    x = extended(x, widths, full, cval)
    labels = tuple(range(x.ndim))
    return contracted(x, weights, (labels, axes, labels), tuple(windows))


def _filtered(
    input: Any, weights: Any, axes: Axes, output: Any, modes: Any, cval: Any, origins: Any
) -> Any:
    x, weights = array(input), array(weights)
    dtype = result_dtype(output, x, weights)
    numbers = in_doubles(x)
    weights = astype(weights, common_dtype(numbers) if weights.dtype.kind != "c" else weights.dtype)
    return delivered(_correlated(numbers, weights, axes, modes, cval, origins), dtype)


@answers("scipy.ndimage:correlate1d")
def correlate1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Correlate an array with weights, or their conjugates, along an axis.

    Parameters
    ----------
    input : array
    weights : array
        A vector.
    axis : int, optional
    output : dtype, optional
        By default that of the input.
    mode : {"reflect", "constant", "nearest", "mirror", "wrap"}, optional
        What lies beyond the boundary.
    cval : number, optional
        The value beyond the boundary in the mode ``"constant"``.
    origin : int, optional
        The offset of the filter relative to its centre.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.correlate1d(x, [1.0, 0.0, -1.0]))(np.array([1.0, 2.0, 4.0]))
    array([-1., -3., -2.])
    """
    x, weights = array(input), array(weights)
    if weights.ndim != 1 or weights.size < 1:
        raise RuntimeError("no filter weights given")
    along = (axis_of(axis, x.ndim),)
    return _filtered(x, conj(weights), along, output, [mode], cval, [origin])


@answers("scipy.ndimage:convolve1d")
def convolve1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Convolve an array with weights along an axis; the parameters are those of `correlate1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.convolve1d(x, [1.0, 0.0, -1.0]))(np.array([1.0, 2.0, 4.0]))
    array([1., 3., 2.])
    """
    weights = array(weights)
    turned = conj(unlinked(flip(weights)))
    return correlate1d(input, turned, axis, output, mode, cval, _turned(origin, weights.size))


def _turned(origin: int, taps: int) -> int:
    """The origin of the reversed weights."""
    return -origin - (taps % 2 == 0)


@answers("scipy.ndimage:correlate")
def correlate(
    input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Correlate an array with weights that have as many axes.

    Parameters
    ----------
    input, weights : array
    output, cval : optional
        As for `correlate1d`.
    mode, origin : optional
        As for `correlate1d`: for all axes, or one for each.
    axes : sequence of int, optional
        The axes of the weights; by default all.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import ndimage
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> grad(lambda w: ndimage.correlate(x, w, mode="constant")[0, 0])(np.ones((2, 2)))
    array([[0., 0.],
           [0., 0.]])
    """
    return _over_footprint(input, conj(array(weights)), output, mode, cval, origin, axes)


def _over_footprint(
    input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any,
    convolution: bool = False,
) -> Any:  # fmt: skip
    """The weighted sums of neighbours, or the sums with reversed weights of a convolution."""
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    count = len(chosen)
    if weights.ndim != count:
        raise RuntimeError(f"weights.ndim ({weights.ndim}) must match len(axes) ({count}).")
    origins, modes = per_axis(origin, count, "origin"), per_axis(mode, count, "mode")
    chosen, origins, modes = footprint_axes(chosen, x.ndim, origins, modes)
    if convolution:
        origins = [_turned(*one) for one in zip(origins, weights.shape, strict=True)]
        weights = unlinked(flip(weights))
    return _filtered(x, weights, chosen, output, modes, cval, origins)


@answers("scipy.ndimage:convolve")
def convolve(
    input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Convolve an array with weights that have as many axes; as `correlate`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.convolve(x, np.ones((2, 2)), mode="constant"))(np.eye(2))
    array([[2., 1.],
           [1., 1.]])
    """
    return _over_footprint(input, array(weights), output, mode, cval, origin, axes, True)


# -- means -----------------------------------------------------------------------------------------


def one_after_another(x: Any, axes: Axes, output: Any, run: Callable[[Any, int, int], Any]) -> Any:
    """Apply filters along several axes in turn, with intermediate results in the output dtype."""
    dtype = result_dtype(output, x)
    x = delivered(x, dtype)
    for number, axis in enumerate(axes):
        x = run(x, axis, number)
    return x


@answers("scipy.ndimage:uniform_filter1d")
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """The mean of ``size`` neighbours along an axis; the parameters are those of `correlate1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.uniform_filter1d(x, 3))(np.array([3.0, 0.0, 6.0]))
    array([2., 3., 4.])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    x = array(input)
    dtype = result_dtype(output, x)
    numbers = in_doubles(x)
    ones = np.ones(size, numbers.dtype)
    axis = axis_of(axis, x.ndim)
    return delivered(_correlated(numbers, ones, (axis,), [mode], cval, [origin]) / size, dtype)


@answers("scipy.ndimage:uniform_filter")
def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Uniform filter: the mean of a box around each element.

    Parameters
    ----------
    input : array
    size, mode, origin : optional
        As for `uniform_filter1d`: for all axes, or one for each.
    output, cval : optional
        As for `correlate1d`.
    axes : sequence of int, optional
        By default all.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.uniform_filter)(np.arange(9.0).reshape(3, 3))[1, 1]
    np.float64(4.0)
    """
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    count = len(chosen)
    sizes, modes = per_axis(size, count, "size"), per_axis(mode, count, "mode")
    origins = per_axis(origin, count, "origin")
    kept = [number for number in range(count) if sizes[number] > 1]

    def run(x: Any, axis: int, place: int) -> Any:
        n = kept[place]
        return uniform_filter1d(x, int(sizes[n]), axis, None, modes[n], cval, origins[n])

    return one_after_another(x, tuple(chosen[n] for n in kept), output, run)

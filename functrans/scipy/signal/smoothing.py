"""Smoothing, detrending and polyphase resampling."""

from __future__ import annotations

from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import astype, axis_of, flat, inexact
from functrans.numpy.define import refuse
from functrans.numpy.reductions import mean
from functrans.numpy.shapes import moveaxis
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import reshape
from functrans.ops.convolution.convolution import convolve
from functrans.ops.convolution.windows import Window
from functrans.ops.indexing.views import unlinked
from functrans.ops.linalg.products import matmul
from functrans.scipy.define import answers
from functrans.scipy.entries import of_scipys
from functrans.trace.tracer import Tracer

__all__ = ["detrend", "resample_poly", "savgol_filter", "upfirdn"]

_signal = lazy("scipy:signal")


def _by_matrix(matrix: Any, x: Any, axis: int) -> Any:
    """Multiply a constant matrix by the vectors along an axis."""
    columns = moveaxis(x, axis, 0)
    flattened = reshape(columns, shape=(columns.shape[0], columns.size // columns.shape[0]))
    product = matmul(matrix.astype(x.dtype), flattened)
    shape = (matrix.shape[0], *columns.shape[1:])
    return unlinked(moveaxis(reshape(product, shape=shape), 0, axis))


@answers("scipy.signal:detrend")
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """Subtract the mean, or piecewise linear least-squares fits, along an axis.

    Parameters
    ----------
    data : array
    axis : int, optional
    type : {"linear", "constant"}, optional
    bp : sequence of int, optional
        The breakpoints between the lines.
    overwrite_data : bool, optional
        Has no effect.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.detrend(x, type="constant"))(np.array([1.0, 2.0, 6.0]))
    array([-2., -1.,  3.])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = inexact(data)
    axis = axis_of(axis, x.ndim)
    if type in ("constant", "c"):
        return x - mean(x, axis, keepdims=True)
    size = x.shape[axis]
    ends = np.sort(np.unique(np.concatenate([[0], np.atleast_1d(bp), [size]]))).tolist()
    if ends[0] < 0 or ends[-1] > size:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in pairwise(ends):
        line = np.stack([np.arange(1, stop - start + 1) / (stop - start), np.ones(stop - start)], 1)
        basis = np.linalg.qr(line)[0]
        part = read_along(x, axis, start, stop - start)
        parts.append(part - _by_matrix(basis, _by_matrix(basis.T, part, axis), axis))
    return concatenate(parts, axis=axis)


@answers("scipy.signal:savgol_filter")
def savgol_filter(
    x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1,
    mode: str = "interp", cval: float = 0.0,
) -> Any:  # fmt: skip
    """Savitzky-Golay filter: local polynomial least-squares fits in a sliding window.

    Parameters
    ----------
    x : array
    window_length, polyorder : int
        The size of the window, and the degree of the polynomials.
    deriv : int, optional
        The order of the derivative to compute.
    delta : float, optional
        The distance between samples.
    axis : int, optional
    mode : {"interp", "mirror", "constant", "nearest", "wrap"}, optional
        Boundary treatment: "interp" evaluates the polynomial of the outermost window; the others
        pad the data as in `scipy.ndimage`.
    cval : float, optional
        The padding value of the mode ``"constant"``.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.savgol_filter(x, 3, 2))(np.array([1.0, 4.0, 9.0, 16.0])).round(12)
    array([ 1.,  4.,  9., 16.])
    """
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    x = inexact(x)
    axis = axis_of(axis, x.ndim)
    weights = _signal.resolve().savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    convolve1d = of_scipys("ndimage", "convolve1d")
    if mode != "interp":
        return convolve1d(x, weights, axis=axis, mode=mode, cval=cval)
    size, half = x.shape[axis], window_length // 2
    if window_length > size:
        raise ValueError(
            "If mode is 'interp', window_length must be less than or equal to the size of x."
        )
    y = convolve1d(x, weights, axis=axis, mode="constant")
    # the values at the ends of the polynomials through the first and the last window
    fits = [
        _signal.resolve().savgol_coeffs(
            window_length, polyorder, deriv=deriv, delta=delta, pos=place, use="dot"
        )
        for place in range(window_length)
    ]
    first = read_along(x, axis, 0, window_length)
    last = read_along(x, axis, size - window_length, window_length)
    return concatenate(
        [
            _by_matrix(np.stack(fits[:half]), first, axis),
            read_along(y, axis, half, size - 2 * half),
            _by_matrix(np.stack(fits[window_length - half :]), last, axis),
        ] if half else [y],
        axis=axis,
    )  # fmt: skip


@answers("scipy.signal:upfirdn")
def upfirdn(
    h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant",
    cval: float = 0,
) -> Any:  # fmt: skip
    """Upsample by inserting zeros, apply an FIR filter, and downsample.

    Parameters
    ----------
    h : array
        The filter.
    x : array
    up, down : int, optional
        The factors of upsampling and downsampling.
    axis : int, optional
    mode : {"constant"}, optional
        There are zeros beyond the data.
    cval : 0

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.upfirdn([1.0, 1.0], x, up=2))(np.array([1.0, 2.0]))
    array([1., 1., 2., 2.])
    """
    if mode != "constant" or isinstance(cval, Tracer) or cval != 0:
        refuse(f"upfirdn with mode={mode!r} and cval={cval!r}", "pad x before")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    x, taps = inexact(x), inexact(h)
    if taps.ndim != 1 or taps.size == 0:
        raise ValueError("h must be 1-D with non-zero length")
    axis = axis_of(axis, x.ndim)
    length = (x.shape[axis] - 1) * up + taps.size
    window = Window(-(-length // down), taps.size, stride=down, dilation=-1, base=up)
    labels = tuple(range(x.ndim))
    return convolve(x, taps, (labels, (axis,), labels), ((axis, window),))


@answers("scipy.signal:resample_poly")
def resample_poly(
    x: Any, up: int, down: int, axis: int = 0, window: Any = ("kaiser", 5.0),
    padtype: str = "constant", cval: Any = None,
) -> Any:  # fmt: skip
    """Resample data by a rational factor with a polyphase low-pass filter.

    Parameters
    ----------
    x : array
    up, down : int
        The new rate is ``up / down`` times the old one.
    axis : int, optional
    window : str, tuple or array, optional
        The window of the filter that SciPy designs, or the filter coefficients.
    padtype : {"constant"}, optional
        There are zeros beyond the data.
    cval : None or 0

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.resample_poly(x, 1, 2))(np.ones(40))[8:12].round(2)
    array([1., 1., 1., 1.])
    """
    if padtype != "constant" or cval not in (None, 0):
        refuse(f"resample_poly with padtype={padtype!r} and cval={cval!r}", "pad x before")
    x = inexact(x)
    axis = axis_of(axis, x.ndim)
    common = gcd(up, down)
    up, down = up // common, down // common
    if up == down == 1:
        return x * 1.0
    size = -(-x.shape[axis] * up // down)
    if isinstance(window, (str, tuple)):
        most = max(up, down)
        half = 10 * most
        h = astype(_signal.resolve().firwin(2 * half + 1, 1.0 / most, window=window), x.dtype)
    else:
        h = flat(inexact(window))
        half = (h.size - 1) // 2
    h = h * up
    # zeros in front align the centre of the filter with a sample of the result
    before = down - half % down
    removed = (half + before) // down
    length = (removed + size - 1) * down + 1 - (x.shape[axis] - 1) * up
    behind = max(length - before - h.size, 0)
    ends = [np.zeros(n, h.dtype) for n in (before, behind)]
    y = upfirdn(concatenate([ends[0], h, ends[1]], axis=0), x, up, down, axis)
    return read_along(y, axis, removed, size)

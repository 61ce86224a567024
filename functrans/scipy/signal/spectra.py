"""Spectral estimation: Welch's method, and the inverse of the short-time Fourier transform.

The other estimators run from SciPy's source. What is here SciPy computes by a loop over the
segments of a signal; all segments are transformed at once instead (Oppenheim and Schafer,
"Discrete-time signal processing", chapter 10).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ir.types import is_complex, real_dtype
from functrans.numpy import fft
from functrans.numpy.arrays import array, astype, axis_of, known
from functrans.numpy.quantiles import median
from functrans.numpy.reductions import mean
from functrans.numpy.shapes import moveaxis
from functrans.ops.arrays.structural import zeros
from functrans.ops.indexing.gather import scatter_add
from functrans.scipy.define import answers
from functrans.scipy.source.reinterpret import module

__all__ = ["csd", "istft"]


def _transformed(
    x: Any, win: Any, detrend: Any, nperseg: int, noverlap: int, nfft: int, sides: str
) -> Any:
    """The Fourier transforms of all segments of the last axis, along two new axes."""
    starts = np.arange(0, x.shape[-1] - nperseg + 1, nperseg - noverlap)
    segments = detrend(x[..., starts[:, None] + np.arange(nperseg)])
    transform = fft.rfft if sides == "onesided" else fft.fft
    dtype = np.result_type(segments.dtype, np.complex64)  # SciPy converts windows to it
    return transform(astype(win.real, real_dtype(dtype)) * segments, nfft, -1)


NAMES = {"_fft_helper": _transformed}
"""The replacements for names in SciPy's module of spectral estimators."""


@answers("scipy.signal:csd")
def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """The cross power spectral density of two signals, by Welch's method.

    It averages the spectra of overlapping segments.

    Parameters
    ----------
    x, y : array
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
        As SciPy's.

    Returns
    -------
    frequencies, densities : array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import signal
    >>> grad(lambda x: np.sum(signal.periodogram(x)[1]))(np.array([1.0, 0.0])).round(6)
    array([ 1., -1.])
    """
    if known(np.asarray(fs) > 0) == np.False_:
        raise ValueError(f"Sampling frequency {fs=} must be positive!")
    frequencies, *_, found = module("scipy.signal._spectral_py")._spectral_helper(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis
    )
    if not found.size:
        return frequencies, found
    powers = moveaxis(found, axis - 1 if axis < 0 else axis, -1)
    return frequencies, moveaxis(_averaged(powers, average), -1, axis)


def _averaged(powers: Any, average: str) -> Any:
    """Average over the segments, along the axis before the last one."""
    count = powers.shape[-2]
    if count == 1:
        return powers[..., 0, :]
    if average == "mean":
        return mean(powers, axis=-2)
    if average != "median":
        raise ValueError(f"average must be 'median' or 'mean', got {average}")
    bias = float(module("scipy.signal._spectral_py")._median_bias(count))
    if is_complex(powers.dtype):
        return (median(powers.real, axis=-2) + 1j * median(powers.imag, axis=-2)) / bias
    return median(powers, axis=-2) / bias


@answers("scipy.signal:istft")
def istft(
    Zxx: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1,
    freq_axis: int = -2, scaling: str = "spectrum",
) -> tuple[Any, Any]:  # fmt: skip
    """The inverse short-time Fourier transform, by overlap-add; see `stft`."""
    z = array(Zxx)
    z = astype(z, np.result_type(z.dtype, np.complex64))
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    time, frequency = axis_of(time_axis, z.ndim), axis_of(freq_axis, z.ndim)
    if time == frequency:
        raise ValueError("Must specify differing time and frequency axes!")
    default = 2 * (z.shape[frequency] - 1) if input_onesided else z.shape[frequency]
    weights, size = module("scipy.signal._spectral_py")._triage_segments(
        window, default if nperseg is None else int(nperseg), math.inf
    )
    points = size if input_onesided and size == default + 1 else default
    points = points if nfft is None else int(nfft)
    step = size - (size // 2 if noverlap is None else int(noverlap))
    if points < size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    if step <= 0:
        raise ValueError("noverlap must be less than nperseg.")
    rows = moveaxis(z, (time, frequency), (0, 1))
    parts = (fft.irfft if input_onesided else fft.ifft)(rows, points, 1)[:, :size]
    weights = weights.astype(real_dtype(parts.dtype))
    if scaling == "spectrum":
        parts = parts * weights.sum()
    elif scaling == "psd":
        parts = parts * np.sqrt(float(fs) * np.sum(weights**2))
    else:
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    parts = parts * weights.reshape(-1, *(1,) * (z.ndim - 2))
    places = step * np.arange(rows.shape[0])[:, None] + np.arange(size)
    length = size + (rows.shape[0] - 1) * step
    empty = zeros((length, *rows.shape[2:]), parts.dtype)
    x = scatter_add(empty, parts, places, axes=(0,), unique=False)
    squares = np.broadcast_to(weights**2, places.shape)
    total = scatter_add(zeros((length,), weights.dtype), squares, places, axes=(0,), unique=False)
    if boundary:
        x, total = x[size // 2 : -(size // 2)], total[size // 2 : -(size // 2)]
    x = x / np.where(total > 1e-10, total, 1).reshape(-1, *(1,) * (x.ndim - 1))
    # SciPy counts the times along the first axis
    x = moveaxis(x, 0, time - (frequency < time) if time != z.ndim - 1 else -1)
    return np.arange(x.shape[0]) / float(fs), x

"""Spectral estimation: Welch's method, short-time Fourier transforms and their inverse.

The signal is divided into overlapping segments, each of which is detrended, multiplied by a window
and transformed (Oppenheim and Schafer, "Discrete-time signal processing", chapter 10).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from functrans.ir.types import is_complex, real_dtype
from functrans.lazily import lazy
from functrans.numpy import fft
from functrans.numpy.arrays import array, astype, axis_of
from functrans.numpy.define import refuse
from functrans.numpy.elementwise import unwrap
from functrans.numpy.padding import pad
from functrans.numpy.quantiles import median
from functrans.numpy.reductions import mean
from functrans.numpy.shapes import moveaxis
from functrans.ops.arrays.structural import zeros
from functrans.ops.elementwise.complex_numbers import conj, real
from functrans.ops.indexing.gather import scatter_add
from functrans.scipy.define import answers
from functrans.scipy.signal.smoothing import detrend as detrended

__all__ = ["coherence", "csd", "istft", "periodogram", "spectrogram", "stft", "welch"]

_get_window = lazy("scipy.signal:get_window")
LENGTH = 256
"""The default length of a segment."""

_BOUNDARIES: dict[Any, dict[str, Any]] = {
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"},
}


def _window(window: Any, nperseg: Any, length: int | None) -> Any:
    """The window of a segment, whose length is limited to that of the signal."""
    if isinstance(window, (str, tuple)):
        size = LENGTH if nperseg is None else int(nperseg)
        if size < 1:
            raise ValueError("nperseg must be a positive integer")
        return _get_window(window, size if length is None else min(size, length))
    weights = np.asarray(window)
    if weights.ndim != 1 or (length is not None and length < weights.size):
        raise ValueError("window must be 1-D, and no longer than the input signal")
    if nperseg not in (None, weights.size):
        raise ValueError("value specified for nperseg is different from length of window")
    return weights


class _Cut(NamedTuple):
    """The segmentation of a signal, with its window and detrending."""

    weights: Any
    step: int
    points: int
    one_sided: bool
    detrend: Any

    def frequencies(self, fs: float) -> Any:
        return (np.fft.rfftfreq if self.one_sided else np.fft.fftfreq)(self.points, 1 / fs)

    def starts(self, length: int) -> Any:
        return np.arange(0, length - self.weights.size + 1, self.step)

    def transformed(self, x: Any) -> Any:
        """The Fourier transforms of all segments of the last axis, along two new axes."""
        within = np.arange(self.weights.size)
        segments = x[..., self.starts(x.shape[-1])[:, None] + within]
        if callable(self.detrend):
            segments = self.detrend(segments)
        elif self.detrend:
            segments = detrended(segments, type=self.detrend)
        weighted = astype(self.weights, real_dtype(segments.dtype)) * segments
        return (fft.rfft if self.one_sided else fft.fft)(weighted, self.points, -1)


def _cut(weights: Any, noverlap: Any, nfft: Any, detrend: Any, one_sided: bool, axis: int) -> _Cut:
    size = weights.size
    points = size if nfft is None else int(nfft)
    if points < size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    if callable(detrend) and axis != -1:
        refuse(f"a function as detrend= along axis {axis}", "move the axis to the end")
    return _Cut(weights, size - overlap, points, one_sided, detrend)


def _scale(weights: Any, fs: float, scaling: str) -> float:
    if scaling == "density":
        return float(1.0 / (fs * (weights * weights).sum()))
    if scaling == "spectrum":
        return float(1.0 / weights.sum() ** 2)
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _floats(x: Any) -> Any:
    found = array(x)
    return astype(found, np.result_type(found.dtype, np.float32))


def _along_last(x: Any, axis: int) -> Any:
    return moveaxis(x, axis_of(axis, x.ndim), -1)


def _powers(x: Any, y: Any, cut: _Cut, scale: float) -> Any:
    """The cross spectra ``conj(X) Y`` of two signals, or the real power spectra of one."""
    first = cut.transformed(x)
    if y is x:
        products = real(first) ** 2 + first.imag**2
    else:
        products = conj(first) * cut.transformed(y)
    if cut.one_sided:
        twice = np.full(products.shape[-1], 2.0, real_dtype(products.dtype))
        twice[0] = 1.0
        if cut.points % 2 == 0:
            twice[-1] = 1.0  # the Nyquist frequency has no negative counterpart
        products = products * twice
    return products * scale


def _averaged(powers: Any, average: str) -> Any:
    """Average over the segments, along the axis before the last one."""
    count = powers.shape[-2]
    if count == 1:
        return powers[..., 0, :]
    if average == "mean":
        return mean(powers, axis=-2)
    if average != "median":
        raise ValueError(f"average must be 'median' or 'mean', got {average}")
    even = 2 * np.arange(1.0, (count - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    if is_complex(powers.dtype):
        return (median(powers.real, axis=-2) + 1j * median(powers.imag, axis=-2)) / bias
    return median(powers, axis=-2) / bias


@answers("scipy.signal:csd")
def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """The cross power spectral density of two signals, by Welch's method; see `welch`."""
    fs = float(fs)
    alike = y is x
    one = _along_last(_floats(x), axis)
    other = one if alike else _along_last(_floats(y), axis)
    if one.size == 0 or other.size == 0:
        rows = np.broadcast_shapes(one.shape[:-1], other.shape[:-1])
        empty = moveaxis(zeros((*rows, min(one.shape[-1], other.shape[-1])), one.dtype), -1, axis)
        return empty, empty
    length = max(one.shape[-1], other.shape[-1])
    if not alike:
        one, other = (_longer(each, length - each.shape[-1]) for each in (one, other))
    weights = _window(window, nperseg, length)
    one_sided = return_onesided and not is_complex(one.dtype) and not is_complex(other.dtype)
    cut = _cut(weights, noverlap, nfft, detrend, one_sided, axis)
    powers = _averaged(_powers(one, other, cut, _scale(weights, fs, scaling)), average)
    return cut.frequencies(fs), moveaxis(powers, -1, axis)


def _longer(x: Any, count: int, before: int = 0, **options: Any) -> Any:
    """Pad the last axis."""
    widths = [(0, 0)] * (x.ndim - 1) + [(before, count)]
    return pad(x, widths, **options) if count or before else x


@answers("scipy.signal:welch")
def welch(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, detrend: Any = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> Any:  # fmt: skip
    """The power spectral density by Welch's method: periodograms averaged over segments.

    Parameters
    ----------
    x : array
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
    return csd(
        x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )


@answers("scipy.signal:periodogram")
def periodogram(
    x: Any, fs: float = 1.0, window: Any = "boxcar", nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
) -> Any:  # fmt: skip
    """The power spectral density of a signal by its periodogram; see `welch`."""
    x = array(x)
    size = x.shape[axis]
    if nfft is not None and nfft < size:
        x = moveaxis(moveaxis(x, axis, 0)[:nfft], 0, axis)
        size, nfft = nfft, None
    return welch(
        x, fs, "boxcar" if window is None else window, size, 0, nfft, detrend, return_onesided,
        scaling, axis,
    )  # fmt: skip


@answers("scipy.signal:coherence")
def coherence(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant", axis: int = -1,
) -> tuple[Any, Any]:  # fmt: skip
    """The magnitude-squared coherence of two signals; see `welch`."""
    options = {"fs": fs, "window": window, "nperseg": nperseg, "noverlap": noverlap, "nfft": nfft,
               "detrend": detrend, "axis": axis}  # fmt: skip
    frequencies, crossed = csd(x, y, **options)
    size = real(crossed) ** 2 + crossed.imag**2
    return frequencies, size / welch(x, **options)[1] / welch(y, **options)[1]


@answers("scipy.signal:stft")
def stft(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: Any = 256, noverlap: Any = None,
    nfft: Any = None, detrend: Any = False, return_onesided: bool = True, boundary: Any = "zeros",
    padded: bool = True, axis: int = -1, scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The short-time Fourier transform of a signal.

    Parameters
    ----------
    x : array
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, boundary, padded, axis, scaling
        As SciPy's.

    Returns
    -------
    frequencies, times, transform : array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.stft(x, nperseg=4)[2])(np.ones(8)).shape
    (3, 5)
    """
    if scaling not in ("psd", "spectrum"):
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    scaling = "density" if scaling == "psd" else scaling
    return _by_time(x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
                    axis, boundary, padded)  # fmt: skip


def _by_time(
    x: Any, fs: float, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any,
    return_onesided: bool, scaling: str, axis: int, boundary: Any = None, padded: bool = False,
    squared: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Frequencies, times, and the spectra or powers of all segments."""
    fs = float(fs)
    if boundary is not None and boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option {boundary!r}: one of {[*_BOUNDARIES]}")
    row = _along_last(_floats(x), axis)
    weights = _window(window, nperseg, row.shape[-1])
    one_sided = return_onesided and not is_complex(row.dtype)
    cut, half = _cut(weights, noverlap, nfft, detrend, one_sided, axis), weights.size // 2
    if boundary is not None:
        row = _longer(row, half, half, **_BOUNDARIES[boundary])
    if padded:
        row = _longer(row, (-(row.shape[-1] - weights.size) % cut.step) % weights.size)
    scale = _scale(weights, fs, scaling)
    found = _powers(row, row, cut, scale) if squared else cut.transformed(row) * math.sqrt(scale)
    times = (cut.starts(row.shape[-1]) + weights.size / 2) / fs
    if boundary is not None:
        times = times - weights.size / 2 / fs
    return cut.frequencies(fs), times, moveaxis(found, -1, axis - 1 if axis < 0 else axis)


@answers("scipy.signal:spectrogram")
def spectrogram(
    x: Any, fs: float = 1.0, window: Any = ("tukey", 0.25), nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, mode: str = "psd",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The spectrogram of a signal: its power by frequency and time; see `stft`."""
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(f"unknown value for mode {mode}")
    weights = _window(window, nperseg, np.shape(x)[axis])
    overlap = weights.size // 8 if noverlap is None else noverlap
    frequencies, times, found = _by_time(
        x, fs, weights, None, overlap, nfft, detrend, return_onesided, scaling, axis,
        squared=mode == "psd",
    )  # fmt: skip
    if mode == "magnitude":
        found = np.abs(found)
    if mode in ("angle", "phase"):
        found = np.angle(found)
    if mode == "phase":
        found = unwrap(found, axis=axis - 1 if axis < 0 else axis)
    return frequencies, times, found


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
    weights = _window(window, default if nperseg is None else nperseg, None)
    size = weights.size
    if nfft is None:
        nfft = size if input_onesided and size == default + 1 else default
    cut = _cut(weights, noverlap, nfft, None, input_onesided, -1)
    rows = moveaxis(z, (time, frequency), (0, 1))
    parts = (fft.irfft if input_onesided else fft.ifft)(rows, cut.points, 1)[:, :size]
    weights = weights.astype(real_dtype(parts.dtype))
    if scaling == "spectrum":
        parts = parts * weights.sum()
    elif scaling == "psd":
        parts = parts * math.sqrt(float(fs) * np.sum(weights**2))
    else:
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    parts = parts * weights.reshape(-1, *(1,) * (z.ndim - 2))
    places = cut.step * np.arange(rows.shape[0])[:, None] + np.arange(size)
    length = size + (rows.shape[0] - 1) * cut.step
    empty = zeros((length, *rows.shape[2:]), parts.dtype)
    x = scatter_add(empty, parts, places, axes=(0,), unique=False)
    total = np.zeros(length, weights.dtype)
    np.add.at(total, places, np.broadcast_to(weights**2, places.shape))
    if boundary:
        x, total = x[size // 2 : -(size // 2)], total[size // 2 : -(size // 2)]
    x = x / np.where(total > 1e-10, total, 1).reshape(-1, *(1,) * (x.ndim - 1))
    # SciPy counts the times along the first axis
    x = moveaxis(x, 0, time - (frequency < time) if time != z.ndim - 1 else -1)
    return np.arange(x.shape[0]) / float(fs), x

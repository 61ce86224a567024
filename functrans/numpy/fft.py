"""`numpy.fft` for arrays and for traced values: Fourier transforms and their frequencies.

The derivative of a transform is the transform. Results have the dtypes that NumPy gives them:
complex64 of float32, complex128 of float64 and of integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_bfloat16
from functrans.numpy.arrays import array, astype, axis_of, inexact
from functrans.numpy.define import answers
from functrans.numpy.shapes import roll
from functrans.ops.arrays.shape import read_along, with_extent
from functrans.ops.arrays.slicing import embed
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.fft import fourier

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Transform = Callable[..., Any]

# -- common to all transforms ----------------------------------------------------------------------


def resized(x: Any, axis: int, extent: int) -> Any:
    """Truncate or zero-pad an array to an extent along an axis."""
    size = x.shape[axis]
    if extent <= size:
        return x if extent == size else read_along(x, axis, 0, extent)
    index = tuple((0, size, 1) if i == axis else whole(n) for i, n in enumerate(x.shape))
    return embed(x, index=index, shape=with_extent(x.shape, axis, extent))


def norm_of(norm: Any) -> str:
    """The full name of a normalisation."""
    norm = "backward" if norm is None else norm
    if norm not in fourier.OTHER_WAY:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return str(norm)


def _points(n: Any, otherwise: int) -> int:
    points = otherwise if n is None else operator.index(n)
    fourier.check_points(points)
    return points


def _signal(a: Any) -> Any:
    """Convert to floats or complex numbers; unlike in `inexact`, bfloat16 becomes float32."""
    x = array(a)
    return astype(x, np.float32) if is_bfloat16(x.dtype) else inexact(x)


def _complex_transform(a: Any, n: Any, axis: int, norm: Any, inverse: bool) -> Any:
    x = _signal(a)
    axis = axis_of(axis, x.ndim)
    x = resized(x, axis, _points(n, x.shape[axis]))
    return fourier.fft_p(x, axis=axis, inverse=inverse, norm=norm_of(norm))


# -- along one axis --------------------------------------------------------------------------------


@answers(np.fft.fft)
def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The discrete Fourier transform along an axis, truncated or zero-padded to ``n`` points."""
    return _complex_transform(a, n, axis, norm, inverse=False)


@answers(np.fft.ifft)
def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The inverse of `fft`."""
    return _complex_transform(a, n, axis, norm, inverse=True)


@answers(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The Fourier transform of real numbers: the nonnegative frequencies."""
    x = _signal(a)
    axis = axis_of(axis, x.ndim)
    x = resized(x, axis, _points(n, x.shape[axis]))
    return fourier.rfft_p(x, axis=axis, norm=norm_of(norm))


@answers(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The inverse of `rfft`, with ``n`` real results (by default an even number)."""
    x = _signal(a)
    axis = axis_of(axis, x.ndim)
    points = _points(n, 2 * (x.shape[axis] - 1))
    result = fourier.irfft_p(
        resized(x, axis, fourier.half(points)), axis=axis, points=points, norm=norm_of(norm)
    )
    return astype(result, x.dtype) if x.dtype == np.float16 else result


@answers(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The Fourier transform of a Hermitian-symmetric signal, of which one half is given."""
    return irfft(conj(_signal(a)), n, axis, fourier.OTHER_WAY[norm_of(norm)])


@answers(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The inverse of `hfft`."""
    return conj(rfft(a, n, axis, fourier.OTHER_WAY[norm_of(norm)]))


# -- along several ---------------------------------------------------------------------------------


def extents_and_axes(
    x: Any, s: Any, axes: Any, real_result: bool = False
) -> tuple[list[int], list[int]]:
    """The transformed axes and their numbers of points."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(x.ndim)
    places = [axis_of(axis, x.ndim) for axis in axes]
    if s is None:
        extents = [x.shape[axis] for axis in places]
        if real_result:
            extents[-1] = 2 * (extents[-1] - 1)
        return extents, places
    if len(s) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    return [
        x.shape[axis] if n in (-1, None) else operator.index(n)
        for n, axis in zip(s, places, strict=True)
    ], places


def one_by_one(transform: Transform, x: Any, extents: Any, axes: Any, norm: Any) -> Any:
    """Apply a transform along several axes, from the last to the first."""
    for extent, axis in reversed(list(zip(extents, axes, strict=True))):
        x = transform(x, extent, axis, norm)
    return x


@answers(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The Fourier transform along several axes, or all of them."""
    x = _signal(a)
    return one_by_one(fft, x, *extents_and_axes(x, s, axes), norm)


@answers(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The inverse of `fftn`."""
    x = _signal(a)
    return one_by_one(ifft, x, *extents_and_axes(x, s, axes), norm)


@answers(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The Fourier transform of real numbers along several axes: `rfft` along the last of them."""
    x = _signal(a)
    extents, places = extents_and_axes(x, s, axes)
    x = rfft(x, extents[-1], places[-1], norm)
    return one_by_one(fft, x, extents[:-1], places[:-1], norm)


@answers(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The inverse of `rfftn`."""
    x = _signal(a)
    extents, places = extents_and_axes(x, s, axes, real_result=True)
    x = one_by_one(ifft, x, extents[:-1], places[:-1], norm)
    return irfft(x, extents[-1], places[-1], norm)


@answers(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The Fourier transform along two axes."""
    return fftn(a, s, axes, norm)


@answers(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The inverse of `fft2`."""
    return ifftn(a, s, axes, norm)


@answers(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The Fourier transform of real numbers along two axes."""
    return rfftn(a, s, axes, norm)


@answers(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The inverse of `rfft2`."""
    return irfftn(a, s, axes, norm)


# -- frequencies -----------------------------------------------------------------------------------


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The sample frequencies of `fft`.

    Parameters
    ----------
    n : int
        The number of points.
    d : float
        The distance of adjacent points, which may be traced.
    device : None or "cpu"
    dtype : dtype, optional
        A dtype of floats.

    Returns
    -------
    array of shape (n,)
        ``[0, 1, ..., -2, -1] / (n * d)``, the positive ones first.

    Examples
    --------
    >>> fftfreq(5, 0.1)
    array([ 0.,  2.,  4., -4., -2.])
    """
    return _in_dtype(np.fft.fftfreq(operator.index(n), device=device) / d, dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The sample frequencies of `rfft`; see `fftfreq`.

    Examples
    --------
    >>> rfftfreq(5, 0.1)
    array([0., 2., 4.])
    """
    return _in_dtype(np.fft.rfftfreq(operator.index(n), device=device) / d, dtype)


def _in_dtype(x: Any, dtype: Any) -> Any:
    if dtype is None:
        return x
    if np.dtype(dtype).kind != "f":
        raise DtypeError(f"frequencies are floats, not {np.dtype(dtype)}")
    return astype(x, dtype)


@answers(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Shift the frequency 0 to the centre of axes."""
    x, places = _shifted_axes(x, axes)
    return roll(x, [x.shape[axis] // 2 for axis in places], places)


@answers(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    x, places = _shifted_axes(x, axes)
    return roll(x, [-(x.shape[axis] // 2) for axis in places], places)


def _shifted_axes(x: Any, axes: Any) -> tuple[Any, list[int]]:
    x = array(x)
    if axes is None:
        return x, list(range(x.ndim))
    given: Sequence[int] = axes if isinstance(axes, (tuple, list)) else (axes,)
    return x, [axis_of(axis, x.ndim) for axis in given]

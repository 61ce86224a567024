"""Convolution and correlation of signals of one or several axes, direct or by FFT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.lazily import lazy
from functrans.numpy import fft
from functrans.numpy.arrays import array, astype, axes_of, common_dtype, inexact
from functrans.numpy.padding import pad
from functrans.ops.arrays.shape import read_along
from functrans.ops.arrays.structural import reshape
from functrans.ops.convolution.convolution import convolve as contracted
from functrans.ops.convolution.windows import Window
from functrans.ops.indexing.views import flip, unlinked
from functrans.scipy.define import answers
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

Axes = tuple[int, ...]

_fast = lazy("scipy.fft:next_fast_len")
_plain_convolve2d = lazy("scipy.signal:convolve2d")

_METHODS = ("auto", "direct", "fft")


def _places(mode: str, size: int, taps: int) -> tuple[int, int]:
    """The offset of a mode's result in the full convolution, and its length."""
    if mode == "full":
        return 0, size + taps - 1
    if mode == "same":
        return (taps - 1) // 2, size
    return taps - 1, size - taps + 1


def _check_mode(mode: Any) -> None:
    if mode not in ("full", "same", "valid"):
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")


def _larger_first(x: Any, y: Any, axes: Axes) -> bool:
    """Whether the first operand is the larger one in all axes; ``valid`` requires this of one."""
    if all(x.shape[i] >= y.shape[i] for i in axes):
        return True
    if all(x.shape[i] <= y.shape[i] for i in axes):
        return False
    raise ShapeError(
        "for mode 'valid', one of the arrays must be at least as large as the other in every "
        f"axis{here()}: found shapes {x.shape} and {y.shape}"
    )


def _starts(x: Any, y: Any, axes: Axes, mode: str) -> list[tuple[int, int]]:
    """The offsets and lengths of a mode along some axes; raises for sums of no products."""
    starts = [_places(mode, x.shape[i], y.shape[i]) for i in axes]
    if 0 in (x.size, y.size) and all(places > 0 for _, places in starts):
        raise ShapeError(
            f"in1 and in2 cannot be empty{here()}: found shapes {x.shape} and {y.shape}"
        )
    return starts


def _slid(x: Any, y: Any, axes: Axes, starts: Sequence[tuple[int, int]], backwards: bool) -> Any:
    """Sliding dot products along some axes; the others broadcast.

    ``starts`` has the offsets and lengths from `_places`.
    """
    labels = tuple(range(x.ndim))
    windows = []
    for axis, (start, places) in zip(axes, starts, strict=True):
        taps = y.shape[axis]
        if backwards:
            windows.append((axis, Window(places, taps, dilation=-1, offset=start)))
        else:
            windows.append((axis, Window(places, taps, offset=start - taps + 1)))
    x, x_labels = _without_units(x, y, axes)
    y, y_labels = _without_units(y, x if x.ndim == len(labels) else y, axes)
    return contracted(x, y, (x_labels, y_labels, labels), tuple(windows))


def _without_units(x: Any, other: Any, axes: Axes) -> tuple[Any, Axes]:
    """Drop broadcast axes of size 1; the array, and the labels of its remaining axes."""
    kept = [i for i, n in enumerate(x.shape) if i in axes or n != 1 or other.shape[i] == 1]
    return reshape(x, shape=tuple(x.shape[i] for i in kept)), tuple(kept)


WORTH_A_TRANSFORM = 32
"""Products per element, for each doubling of their number, that take as long as a transform."""


def _convolved(x: Any, y: Any, axes: Axes, mode: str, method: str) -> Any:
    _check_mode(mode)
    if mode == "valid" and not _larger_first(x, y, axes):
        x, y = y, x
    starts = _starts(x, y, axes, mode)
    full = [x.shape[i] + y.shape[i] - 1 for i in axes]
    taps = prod(min(x.shape[i], y.shape[i]) for i in axes)
    worth = taps > WORTH_A_TRANSFORM * math.log2(max(prod(full), 2))
    if method != "direct" and worth and common_dtype(x, y).kind in "fc":
        return _by_transforms(x, y, axes, starts, full)
    if all(x.shape[i] <= y.shape[i] for i in axes):
        x, y = y, x
    return _slid(x, y, axes, starts, backwards=True)


def _by_transforms(
    x: Any, y: Any, axes: Axes, starts: Sequence[tuple[int, int]], full: Sequence[int]
) -> Any:
    """Convolution as a product of Fourier transforms."""
    dtype = common_dtype(x, y)
    is_real = dtype.kind == "f"
    sizes = [_fast.resolve()(n, is_real) for n in full]
    there, back = (fft.rfftn, fft.irfftn) if is_real else (fft.fftn, fft.ifftn)
    out = back(there(x, sizes, axes) * there(y, sizes, axes), sizes, axes)
    for axis, (start, places) in zip(axes, starts, strict=True):
        out = read_along(out, axis, start, places)
    return astype(out, dtype)


def _checked(in1: Any, in2: Any, method: str) -> tuple[Any, Any]:
    if method not in _METHODS:
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    x, y = array(in1), array(in2)
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    return x, y


@answers("scipy.signal:convolve")
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Convolve two arrays of the same number of axes.

    Parameters
    ----------
    in1, in2 : array
    mode : {"full", "same", "valid"}, optional
        All positions at which they overlap; the central part, of the size of ``in1``; or only the
        positions of complete overlap.
    method : {"auto", "direct", "fft"}, optional
        Sums of products, Fourier transforms, or whichever is faster.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import signal
    >>> x, k = np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0])
    >>> grad(lambda k: signal.convolve(x, k, "same") @ x)(k)
    array([14.,  8.])
    """
    x, y = _checked(in1, in2, method)
    return _convolved(x, y, tuple(range(x.ndim)), mode, method) if x.ndim else x * y


@answers("scipy.signal:correlate")
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Correlate two arrays of the same number of axes; the parameters are those of `convolve`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(signal.correlate)(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0]))
    array([10., 21., 32.,  3.])
    """
    x, y = _checked(in1, in2, method)
    _check_mode(mode)
    axes = tuple(range(x.ndim))
    if not axes:
        return x * np.conjugate(y)
    if mode == "valid" and not _larger_first(x, y, axes):
        return np.conjugate(unlinked(flip(correlate(y, x, mode, method))))
    starts = _starts(x, y, axes, mode)
    return _slid(x, np.conjugate(y), axes, starts, backwards=False)


def _along_axes(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    x, y = array(in1), array(in2)
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    if not x.ndim:
        return x * y
    chosen = axes_of(axes, x.ndim)
    if not chosen:
        raise ValueError("when provided, axes cannot be empty")
    if x.size == 0 or y.size == 0:
        return np.zeros(0)
    for i, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)):
        if i not in chosen and n != m and 1 not in (n, m):
            raise ValueError(f"incompatible shapes for in1 and in2: {x.shape} and {y.shape}")
    if any(1 not in (x.shape[i], y.shape[i]) for i in chosen):  # else SciPy transforms nothing
        x, y = (astype(z, np.promote_types(inexact(z).dtype, np.float32)) for z in (x, y))
    whole = _convolved(x, y, chosen, mode, "fft")
    if mode != "same" or whole.shape == x.shape:
        return whole
    # the middle of axes along which the first operand is broadcast: the result has its shape
    middles = ((m - n) // 2 for n, m in zip(x.shape, whole.shape, strict=True))
    return whole[tuple(slice(at, at + n) for at, n in zip(middles, x.shape, strict=True))]


@answers("scipy.signal:fftconvolve")
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolve two arrays along some axes; along the others they broadcast.

    Parameters
    ----------
    in1, in2 : array
    mode : {"full", "same", "valid"}, optional
        As for `convolve`.
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    array of floats

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.fftconvolve(x, np.ones((1, 2)), axes=1))(np.eye(2))
    array([[1., 1., 0.],
           [0., 1., 1.]])
    """
    return _along_axes(in1, in2, mode, axes)


@answers("scipy.signal:oaconvolve")
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolve two arrays of very different sizes along some axes; see `fftconvolve`."""
    return _along_axes(in1, in2, mode, axes)


_MARGINS = {
    "fill": "constant",
    "pad": "constant",
    "wrap": "wrap",
    "circular": "wrap",
    "symm": "symmetric",
    "symmetric": "symmetric",
}


def _with_margin(x: Any, y: Any, boundary: str, fillvalue: Any) -> Any:
    """Pad a matrix by the extent of the other operand."""
    widths = [(n - 1, n - 1) for n in y.shape]
    name = _MARGINS[boundary]
    return pad(x, widths, name, **({"constant_values": fillvalue} if name == "constant" else {}))


def _on_a_plane(x: Any, y: Any, mode: str, boundary: str, fillvalue: Any, backwards: bool) -> Any:
    _check_mode(mode)
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    if boundary not in _MARGINS:
        raise ValueError(
            "Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or "
            "'symm')."
        )
    x = astype(x, common_dtype(x, y))
    if not isinstance(fillvalue, Tracer) and np.any(fillvalue):
        one = np.ones((1, 1), x.dtype)
        _plain_convolve2d(one, one, fillvalue=fillvalue)  # raises if its dtype cannot hold it
    sizes = x.shape
    padded = _with_margin(x, y, boundary, fillvalue) if mode != "valid" else x
    starts = []
    for n, m in zip(sizes, y.shape, strict=True):
        start, places = _places(mode, n, m)
        if mode == "same" and not backwards:
            # SciPy's centre of an even number of weights differs here
            start = m // 2
        # offsets include the padding, which the mode `valid` does not have
        starts.append((start + m - 1 if mode != "valid" else start, places))
    return _slid(padded, y, (0, 1), starts, backwards)


@answers("scipy.signal:convolve2d")
def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """Convolve two matrices.

    Parameters
    ----------
    in1, in2 : array
    mode : {"full", "same", "valid"}, optional
        As for `convolve`.
    boundary : {"fill", "wrap", "symm"}, optional
        The padding of ``in1``: a constant, periodic or symmetric.
    fillvalue : number, optional

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: signal.convolve2d(x, np.ones((2, 2)), "same", "symm"))(np.eye(2))
    array([[4., 2.],
           [2., 2.]])
    """
    x, y = array(in1), array(in2)
    if mode == "valid" and x.ndim == y.ndim == 2 and not _larger_first(x, y, (0, 1)):
        x, y = y, x
    return _on_a_plane(x, y, mode, boundary, fillvalue, backwards=True)


@answers("scipy.signal:correlate2d")
def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """Correlate two matrices; the parameters are those of `convolve2d`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(signal.correlate2d)(np.ones((1, 2)), np.array([[1.0, 10.0]]))
    array([[10., 11.,  1.]])
    """
    x, y = array(in1), array(in2)
    if mode == "valid" and x.ndim == y.ndim == 2 and not _larger_first(x, y, (0, 1)):
        # the conjugate of the result for a larger first operand, as in SciPy
        return unlinked(flip(correlate2d(y, x, mode, boundary, fillvalue)))
    return _on_a_plane(x, np.conjugate(y), mode, boundary, fillvalue, backwards=False)

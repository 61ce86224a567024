"""Polyphase filtering: upsampling, an FIR filter and downsampling in one contraction."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import astype, axis_of, common_dtype
from functrans.numpy.creation import array
from functrans.numpy.define import refuse
from functrans.ops.convolution.convolution import convolve
from functrans.ops.convolution.windows import Window
from functrans.scipy.define import answers
from functrans.scipy.entries import of_scipys
from functrans.scipy.signal.fits import LINALG
from functrans.scipy.signal.roots import UNTRIMMED, unique_roots
from functrans.trace.tracer import Tracer

__all__ = ["upfirdn"]


def _firwin(*args: Any, **kwargs: Any) -> Any:
    """A filter that `resample_poly` scales in place: part of the program, also if it is plain."""
    return array(of_scipys("signal", "firwin")(*args, **kwargs))


NAMES = {"firwin": _firwin, "linalg": LINALG, "np": UNTRIMMED, "unique_roots": unique_roots}
"""The replacements for names in SciPy's module of filters and resampling."""


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
    x, taps = array(x), array(h)
    if taps.ndim != 1 or taps.size == 0:
        raise ValueError("h must be 1-D with non-zero length")
    dtype = np.result_type(common_dtype(x, taps), np.float32)
    x, taps = astype(x, dtype), astype(taps, dtype)
    axis = axis_of(axis, x.ndim)
    length = (x.shape[axis] - 1) * up + taps.size
    window = Window(-(-length // down), taps.size, stride=down, dilation=-1, base=up)
    labels = tuple(range(x.ndim))
    return convolve(x, taps, (labels, (axis,), labels), ((axis, window),))

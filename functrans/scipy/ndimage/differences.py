"""Differential filters of images: Sobel, Prewitt, Laplacians, magnitudes of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axis_of
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import axes_in_order, delivered, per_axis, result_dtype
from functrans.scipy.ndimage.filters import correlate1d

__all__ = ["generic_gradient_magnitude", "generic_laplace", "prewitt", "sobel"]

Axes = tuple[int, ...]


def _difference(
    input: Any, axis: int, output: Any, mode: Any, cval: Any, across: Sequence[float]
) -> Any:
    """Central differences along an axis, smoothed by weights along the others."""
    x = array(input)
    axis = axis_of(axis, x.ndim)
    modes = per_axis(mode, x.ndim, "mode")
    result = correlate1d(x, [-1, 0, 1], axis, output, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            result = correlate1d(result, across, other, None, modes[other], cval, 0)
    return result


@answers("scipy.ndimage:sobel")
def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel filter: central differences along an axis, weighted by 1, 2, 1 along the others.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.sobel)(np.arange(9.0).reshape(3, 3))[1]
    array([4., 8., 4.])
    """
    return _difference(input, axis, output, mode, cval, [1, 2, 1])


@answers("scipy.ndimage:prewitt")
def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt filter: central differences along an axis, summed along the others.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.prewitt)(np.arange(9.0).reshape(3, 3))[1]
    array([3., 6., 3.])
    """
    return _difference(input, axis, output, mode, cval, [1, 1, 1])


@answers("scipy.ndimage:generic_laplace")
def generic_laplace(
    input: Any, derivative2: Callable[..., Any], output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The Laplacian by a given second-derivative function.

    ``derivative2(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` returns the
    second derivative along an axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> def second(x, axis, output, mode, cval):
    ...     return ndimage.correlate1d(x, [1, -2, 1], axis, output, mode, cval)
    >>> jit(lambda x: ndimage.generic_laplace(x, second))(np.array([1.0, 4.0, 9.0]))
    array([ 3.,  2., -5.])
    """
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    modes = per_axis(mode, len(chosen), "mode")
    dtype = result_dtype(output, x)
    total = None
    for axis, one in zip(chosen, modes, strict=True):
        part = derivative2(x, axis, dtype, one, cval, *extra_arguments, **(extra_keywords or {}))
        total = part if total is None else total + part
    return delivered(x, dtype) if total is None else total


@answers("scipy.ndimage:generic_gradient_magnitude")
def generic_gradient_magnitude(
    input: Any, derivative: Callable[..., Any], output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The magnitude of the gradient by a given derivative function.

    ``derivative(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` returns the
    derivative along an axis. Where the magnitude is 0, its derivative is 0, too.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> x = np.arange(9.0).reshape(3, 3)
    >>> jit(lambda x: ndimage.generic_gradient_magnitude(x, ndimage.prewitt))(x)[1, 1].round(6)
    np.float64(18.973666)
    """
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    modes = per_axis(mode, len(chosen), "mode")
    dtype = result_dtype(output, x)
    parts = [
        derivative(x, axis, dtype, one, cval, *extra_arguments, **(extra_keywords or {}))
        for axis, one in zip(chosen, modes, strict=True)
    ]
    if not parts:
        return delivered(x, dtype)
    squares = np.stack(parts)
    if squares.dtype.kind == "f":
        return np.linalg.norm(squares, axis=0)
    return delivered(np.sqrt(np.sum(squares * squares, axis=0)), dtype)

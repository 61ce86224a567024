"""Reductions over sliding windows: pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.lax.sliding import limit, numbers, windows_over
from functrans.ops.arrays.shape import asarray, holds_tracer
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import astype, full_p, reduce_sum, reshape
from functrans.ops.compiled.places import whole
from functrans.ops.convolution.windows import Window, windows_of
from functrans.ops.reductions.reduce import reduce_max, reduce_min, reduce_prod
from functrans.trace.source import here

Padding = str | Sequence[tuple[int, int]]

_REDUCTIONS: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    np.add: (reduce_sum, lambda dtype: 0),
    np.multiply: (reduce_prod, lambda dtype: 1),
    np.maximum: (reduce_max, lambda dtype: limit(dtype, -1)),
    np.minimum: (reduce_min, lambda dtype: limit(dtype, 1)),
}
"""How whole axes are combined, and the identity."""


def reduce_window(
    operand: Any, init_value: Any, computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int], window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID", base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Reduce the elements of each window with an associative function.

    Parameters
    ----------
    operand : array
    init_value : number
        What the elements of each window are combined with: usually the identity of the
        computation, such as 0 for a sum or ``-np.inf`` for a maximum. If the computation is a
        function of your own, it must be its identity.
    computation : callable
        ``np.add``, ``np.multiply``, ``np.maximum``, ``np.minimum``, or another associative function
        of two arrays that combines them element by element.
    window_dimensions : sequence of int
        The extent of the window along each axis; 1 for axes that are not reduced.
    window_strides : sequence of int, optional
        By how much it moves.
    padding : {"SAME", "VALID", "SAME_LOWER"} or sequence of pairs
        As for `conv_general_dilated`, for all axes.
    base_dilation, window_dilation : sequence of int, optional
        The spacing of the elements of the array, or of the window.

    Returns
    -------
    array
        In the operand's dtype.

    Raises
    ------
    ShapeError
        If the parameters do not fit.

    Notes
    -----
    Equal maxima (or minima) of a window share the derivative equally, as in ``np.max``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.reduce_window(np.array([1.0, 5.0, 2.0, 4.0]), -np.inf, np.maximum, (2,), (1,), "SAME")
    array([5., 5., 4., 4.])
    """
    what = "reduce_window"
    x = asarray(operand)
    init = _number(init_value, x.dtype)
    taps = numbers(window_dimensions, x.ndim, "window_dimensions", what, least=0)
    strides = numbers(window_strides, x.ndim, "window_strides", what)
    bases = numbers(base_dilation, x.ndim, "base_dilation", what)
    dilations = numbers(window_dilation, x.ndim, "window_dilation", what)
    windows = [*windows_over(x.shape, taps, strides, padding, bases, dilations, what)]
    moving = [axis for axis, one in enumerate(windows) if one != Window(x.shape[axis], 1)]
    if prod(taps) == 0:
        return np.broadcast_to(init, [one.places for one in windows]).copy()
    _, identity = _REDUCTIONS.get(computation, (None, lambda dtype: init_value))
    neutral = identity(x.dtype)
    if not _is_zero(neutral):
        for axis in moving:
            x, windows[axis] = _filled(x, axis, windows[axis], neutral)
    seen = windows_of(x, axes=tuple(moving), windows=tuple(windows[axis] for axis in moving))
    found = _combined(seen, computation, x.ndim)
    is_neutral = neutral is init_value or (not holds_tracer(init) and init == neutral)
    return found if is_neutral else computation(found, init)


def _is_zero(value: Any) -> bool:
    is_number = isinstance(value, (int, float, np.generic))
    return is_number and not any(np.asarray(value).tobytes())  # (-0.0 is another number)


def _number(init_value: Any, dtype: np.dtype[Any]) -> Any:
    """The initial value in the dtype of the array."""
    init = asarray(init_value)
    if init.ndim != 0:
        raise ShapeError(
            "init_value of reduce_window must be one number, and has the shape "
            f"{init.shape}{here()}"
        )
    if init.dtype.kind in "fc" and dtype.kind in "biu":
        raise DtypeError(
            f"init_value of reduce_window is {init_value}, and the elements are {dtype}{here()}: "
            "give a number of that dtype"
        )
    return astype(init, dtype)


def _filled(x: Any, axis: int, one: Window, value: Any) -> tuple[Any, Window]:
    """An array with a value in padding and gaps that windows see, and the window on it."""
    if one.inside(x.shape[axis]) or not one.places:
        return x, one
    low, high = one.reach()
    first, last = one.seen(x.shape[axis])
    shape = (*x.shape[:axis], high - low + 1, *x.shape[axis + 1 :])
    rest = [whole(n) for n in shape]
    taken = (*rest[:axis], (first, last - first, 1), *rest[axis + 1 :])
    there = (first * one.base - low, last - first, one.base)
    filled = update_slice(
        full_p(shape=shape, value=value, dtype=x.dtype), read_slice(x, index=taken),
        index=(*rest[:axis], there, *rest[axis + 1 :]),
    )  # fmt: skip
    return filled, one._replace(offset=one.offset - low, base=1)


def _combined(x: Any, computation: Callable[[Any, Any], Any], first: int) -> Any:
    """The elements along all axes from ``first`` on, combined."""
    axes = tuple(range(first, x.ndim))
    reduce, _ = _REDUCTIONS.get(computation, (None, None))
    if reduce is not None and not (reduce is reduce_sum and x.dtype.kind == "b"):
        return reduce(x, axes=axes)
    x = reshape(x, shape=(*x.shape[:first], prod(x.shape[first:])))
    parts = [x[..., k] for k in range(x.shape[-1])]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [computation(a, b) for a, b in pairs] + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


# -- of images -------------------------------------------------------------------------------------


def max_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Any:  # fmt: skip
    """The largest element of each window of images.

    Parameters
    ----------
    inputs : array
        A batch of images, of shape ``(batch, ..., features)``.
    window_shape : sequence of int
        The extents of the window along the spatial axes.
    strides : sequence of int, optional
        The strides along the spatial axes; 1 by default.
    padding : {"SAME", "VALID", "SAME_LOWER"} or sequence of pairs
        For the spatial axes; padded elements are smaller than all others.

    Returns
    -------
    array
        In the dtype of ``inputs``. Equal maxima of a window share the derivative equally.

    Raises
    ------
    ShapeError
        If the parameters do not fit.

    See Also
    --------
    reduce_window : for other orders of axes.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> lax.max_pool(image, (2, 2), (2, 2))[0, :, :, 0]
    array([[ 5.,  7.],
           [13., 15.]])
    """
    x = asarray(inputs)
    return _pooled(x, limit(x.dtype, -1), np.maximum, window_shape, strides, padding)


def min_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Any:  # fmt: skip
    """The smallest element of each window of images; as `max_pool`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.min_pool(np.array([[[3.0], [1.0], [2.0]]]), (2,)).ravel()
    array([1., 1.])
    """
    x = asarray(inputs)
    return _pooled(x, limit(x.dtype, 1), np.minimum, window_shape, strides, padding)


def avg_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None,
    padding: Padding = "VALID", count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window of images.

    Parameters
    ----------
    inputs, window_shape, strides, padding
        As for `max_pool`; padded elements are zero.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.

    Returns
    -------
    array
        In the dtype of ``inputs``, or float64 if that is an integer.

    Raises
    ------
    ShapeError
        If the parameters do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> x = np.array([[[1.0], [2.0], [6.0]]])
    >>> lax.avg_pool(x, (2,)).ravel()
    array([1.5, 4. ])
    >>> lax.avg_pool(x, (2,), padding="SAME", count_include_pad=False).ravel()
    array([1.5, 4. , 6. ])
    """
    x = asarray(inputs)
    total = _pooled(x, 0, np.add, window_shape, strides, padding)
    if count_include_pad:
        return total / prod(window_shape)
    ones = np.ones((1, *x.shape[1:-1], 1), total.dtype)
    return total / _pooled(ones, 0, np.add, window_shape, strides, padding)


def _pooled(
    x: Any, init: Any, computation: Any, window_shape: Any, strides: Any, padding: Padding
) -> Any:
    count = x.ndim - 2
    if count < 0 or len(window_shape) != count:
        raise ShapeError(
            f"window_shape must hold {max(count, 0)} integers for images of shape {x.shape} "
            f"(batch, ..., features), and is {tuple(window_shape)}{here()}"
        )
    if not isinstance(padding, str):
        padding = [(0, 0), *padding, (0, 0)]
    steps = None if strides is None else (1, *strides, 1)
    return reduce_window(x, init, computation, (1, *window_shape, 1), steps, padding)

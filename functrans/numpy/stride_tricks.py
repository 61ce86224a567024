"""Sliding windows and strides: views of an array in which elements occur repeatedly."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import array, flat
from functrans.numpy.define import answers, refuse
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import broadcast_to, reshape
from functrans.ops.convolution.windows import Window, windows_of
from functrans.ops.indexing.views import unlinked
from functrans.trace import protocols
from functrans.trace.delegation import own
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import make_view

__all__ = ["as_strided", "sliding_window_view"]


def _read_only(x: Any, read: Callable[[Any], Any], operation: str) -> Any:
    """A view that cannot be written to."""
    if not isinstance(x, Tracer):
        return read(x)
    result = read(x)
    return make_view(unlinked(result) if result is x else result, x, read, None, operation)


@answers(np.lib.stride_tricks.sliding_window_view, views=True)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, writeable: bool = False
) -> Any:
    """The windows of an array as a view that cannot be written to: the windows' axes come last."""
    if writeable:
        refuse(
            "np.lib.stride_tricks.sliding_window_view(..., writeable=True)",
            "an element stands in several windows: assign to the array itself",
        )
    x = array(x)
    sizes = _integers(window_shape)
    if axis is None:
        axes = tuple(range(x.ndim))
        if len(sizes) != x.ndim:
            raise ValueError(
                "Since axis is None, must provide window_shape for all dimensions of `x`; got "
                f"{len(sizes)} window_shape elements and `x.ndim` is {x.ndim}."
            )
    else:
        axes = tuple(operator.index(i) % x.ndim if -x.ndim <= i < x.ndim else _no_axis(i, x.ndim)
                     for i in _integers(axis))  # fmt: skip
        if len(axes) != len(sizes):
            raise ValueError(
                "Must provide matching length window_shape and axis; got "
                f"{len(sizes)} window_shape elements and {len(axes)} axes elements."
            )
    if any(size < 0 for size in sizes):
        raise ValueError("`window_shape` cannot contain negative values")
    return _read_only(x, lambda base: _slid(base, sizes, axes), "sliding_window_view")


def _integers(given: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, given)) if np.ndim(given) else (operator.index(given),)


def _no_axis(axis: int, ndim: int) -> int:
    raise np.exceptions.AxisError(axis, ndim)


def _slid(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    # an axis that is given twice has windows of windows
    for size, axis in zip(sizes, axes, strict=True):
        places = x.shape[axis] - size + 1
        if places < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        x = windows_of(x, axes=(axis,), windows=(Window(places, size),))
    return x


def as_strided(
    x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True
) -> Any:
    """An array with other strides, as a view that cannot be written to.

    `numpy.lib.stride_tricks.as_strided` delegates traced values to this function. They count as
    C-contiguous (``x.strides``).

    Parameters
    ----------
    x : array
    shape : sequence of int, optional
    strides : sequence of int, optional
        In bytes; nonnegative multiples of the item size.
    subok : bool, optional
        Ignored for traced values.
    writeable : bool, optional
        Ignored for traced values, whose result is read-only.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        If the result would reach outside of the array, or between its elements.

    Examples
    --------
    >>> import numpy as np
    >>> from numpy.lib.stride_tricks import as_strided
    >>> from functrans import grad
    >>> def second_differences(x):
    ...     rows = as_strided(x, (x.size - 2, 3), 2 * x.strides)
    ...     return np.sum((rows @ np.array([1.0, -2.0, 1.0])) ** 2)
    >>> grad(second_differences)(np.array([0.0, 1.0, 4.0, 8.0]))
    array([ 4., -6.,  0.,  2.])
    """
    if not holds_tracer(x):
        return own(np.lib.stride_tricks.as_strided)(x, shape, strides, subok, writeable)
    x = array(x)
    sizes = x.shape if shape is None else _integers(shape)
    given = c_strides(x) if strides is None else _integers(strides)
    steps = tuple(step // x.dtype.itemsize for step in given)
    reach = sum(step * (n - 1) for step, n in zip(steps, sizes, strict=True)) if sizes else 0
    if 0 not in sizes and (
        any(step < 0 or step % x.dtype.itemsize for step in given) or reach >= x.size
    ):
        raise ShapeError(
            f"as_strided with shape {sizes} and strides {given} (in bytes) leaves the elements of "
            f"an array of {x.dtype} and shape {x.shape}{here()}"
        )
    return _read_only(x, lambda base: _strided(flat(base), sizes, steps), "as_strided")


def c_strides(x: Any) -> tuple[int, ...]:
    """The strides, in bytes, of a C-contiguous array."""
    step, found = x.dtype.itemsize, []
    for extent in reversed(x.shape):
        found.append(step)
        step *= extent
    return tuple(reversed(found))


protocols.attributes["strides"] = c_strides


def _strided(x: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """The strided view as nested windows: each axis but the last one is a window along the next."""
    if 0 in shape:
        return reshape(read_slice(x, index=((0, 0, 1),)), shape=shape)
    moving = [(n, step) for n, step in zip(shape, steps, strict=True) if step and n > 1]
    rest = 1 + sum(step * (n - 1) for n, step in moving)
    x = read_slice(x, index=((0, rest, 1),))
    for axis, (n, step) in enumerate(moving):
        rest = x.shape[-1] - step * (n - 1)
        x = windows_of(x, axes=(axis,), windows=(Window(n, rest, stride=step),))
    kept = tuple(n if step and n > 1 else 1 for n, step in zip(shape, steps, strict=True))
    return broadcast_to(reshape(x, shape=kept), shape=shape)

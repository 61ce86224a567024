"""`numpy.pad`: arrays with a margin of numbers, or of what they hold themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.numpy.arrays import array as as_array
from functrans.numpy.arrays import astype
from functrans.numpy.define import answers, refuse
from functrans.numpy.joining import take_along_one
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.slicing import embed
from functrans.ops.arrays.structural import broadcast_to
from functrans.trace.tracer import Tracer

__all__ = ["pad"]

Pairs = list[tuple[int, int]]

_ALLOWED = {
    "constant": {"constant_values"},
    "edge": set(),
    "wrap": set(),
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "empty": set(),
}


@answers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """An array with a margin, by ``mode``: constant, edge, reflect, symmetric or wrap."""
    x = as_array(array)
    if mode not in _ALLOWED:
        refuse(f"np.pad with mode={mode!r}", f"use one of {', '.join(_ALLOWED)}")
    unknown = set(kwargs) - _ALLOWED[mode]
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    if kwargs.get("reflect_type", "even") != "even":
        refuse("np.pad with reflect_type='odd'", "use 'even'")
    widths = _widths(pad_width, x.ndim)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0))
    for axis, (before, after) in enumerate(widths):
        if before or after:
            positions = _POSITIONS[mode](x.shape[axis], before, after)
            x = take_along_one(x, positions, axis)
    return x


def _widths(pad_width: Any, ndim: int) -> Pairs:
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            pairs[axis] = (width, width) if np.ndim(width) == 0 else tuple(width)
        return pairs
    whole = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    if whole.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    return [(int(before), int(after)) for before, after in whole]


def _constant(x: Any, widths: Pairs, values: Any) -> Any:
    if np.ndim(values) == 0 and not isinstance(values, Tracer) and values == 0:
        index = tuple((before, n, 1) if n else (0, 0, 1)
                      for n, (before, _) in zip(x.shape, widths, strict=True))  # fmt: skip
        shape = tuple(n + sum(pair) for n, pair in zip(x.shape, widths, strict=True))
        return embed(x, index=index, shape=shape)
    numbers = broadcast_to(astype(as_array(values), x.dtype), shape=(x.ndim, 2))
    for axis, pair in enumerate(widths):
        ends = [
            broadcast_to(numbers[axis, side], shape=(*x.shape[:axis], width, *x.shape[axis + 1 :]))
            for side, width in enumerate(pair)
        ]
        x = concatenate([ends[0], x, ends[1]], axis=axis)
    return x


def _edge(size: int, before: int, after: int) -> Any:
    return np.clip(np.arange(-before, size + after), 0, _some(size) - 1)


def _wrap(size: int, before: int, after: int) -> Any:
    return np.arange(-before, size + after) % _some(size)


def _reflect(size: int, before: int, after: int) -> Any:
    period = max(2 * _some(size) - 2, 1)
    place = np.arange(-before, size + after) % period
    return np.minimum(place, period - place) if size > 1 else np.zeros_like(place)


def _symmetric(size: int, before: int, after: int) -> Any:
    period = 2 * _some(size)
    place = np.arange(-before, size + after) % period
    return np.minimum(place, period - 1 - place)


def _some(size: int) -> int:
    if size == 0:
        raise ValueError("can't extend empty axis using modes other than 'constant' or 'empty'")
    return size


_POSITIONS: dict[str, Callable[[int, int, int], Any]] = {
    "edge": _edge,
    "wrap": _wrap,
    "reflect": _reflect,
    "symmetric": _symmetric,
}

"""`numpy.pad`: padding with constants, or with elements of the array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from functrans.ir.types import is_float
from functrans.numpy import reductions
from functrans.numpy.arrays import array as as_array
from functrans.numpy.arrays import astype, in_dtype
from functrans.numpy.creation import linspace
from functrans.numpy.define import answers, refuse
from functrans.numpy.joining import take_along_one
from functrans.numpy.quantiles import median
from functrans.ops.arrays.shape import concatenate, flip, read_along
from functrans.ops.arrays.slicing import padded
from functrans.ops.arrays.structural import broadcast_to
from functrans.ops.elementwise.rounding import rint
from functrans.trace.tracer import Tracer

__all__ = ["pad"]

Widths = tuple[int, int]
Pairs = list[Widths]

_ALLOWED = {
    "constant": {"constant_values"},
    "edge": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
    "empty": set(),
}


@answers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Pad an array; ``mode`` determines the padding."""
    x = as_array(array)
    if mode not in _ALLOWED:
        refuse(f"np.pad with mode={mode!r}", f"use one of {', '.join(_ALLOWED)}")
    unknown = set(kwargs) - _ALLOWED[mode]
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    widths = _widths(pad_width, x.ndim)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0))
    ends = _pairs(kwargs.get("end_values", 0), x)
    lengths = np.broadcast_to(np.asarray(kwargs.get("stat_length"), object), (x.ndim, 2))
    if any(n is not None and n < 0 for n in lengths.flat):
        raise ValueError("index can't contain negative values")
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        size = _some(x.shape[axis])
        if mode in _STATISTICS:
            x = _with_statistics(x, axis, (before, after), _STATISTICS[mode], lengths[axis])
        elif mode == "linear_ramp":
            x = _with_ramps(x, axis, (before, after), ends[axis])
        elif kwargs.get("reflect_type", "even") == "odd" and size > 1:
            with_edge = mode == "symmetric"
            x = _extended(x, axis, before, size, with_edge)
            x = flip(_extended(flip(x, axes=(axis,)), axis, after, size, with_edge), axes=(axis,))
        else:
            x = _taken(x, _POSITIONS[mode](size, before, after), axis)
    return x


MOST_RUNS = 8
"""Up to this many runs of consecutive elements are joined; more are gathered."""


def _taken(x: Any, positions: Any, axis: int) -> Any:
    """Gather elements at known indices, by slices where these are consecutive or equal."""
    runs = list(islice(_runs(positions), MOST_RUNS + 1))
    if len(runs) > MOST_RUNS:
        return take_along_one(x, positions, axis)
    parts = []
    for start, step, count in runs:
        first = start + min(step, 0) * (count - 1)
        part = read_along(x, axis, first, count if step else 1)
        if step == 0:
            part = broadcast_to(part, shape=(*x.shape[:axis], count, *x.shape[axis + 1 :]))
        parts.append(flip(part, axes=(axis,)) if step < 0 else part)
    return concatenate(parts, axis=axis)


def _runs(positions: Any) -> Iterator[tuple[int, int, int]]:
    """Start, step and length of runs of indices with constant step 1, -1 or 0."""
    steps = np.diff(positions)
    turns = [*np.flatnonzero(np.diff(steps)) + 1, len(steps)]
    start = 0
    while start < len(positions):
        step = int(steps[start]) if start < len(steps) else 1
        stop = next((int(turn) for turn in turns if turn > start), start)
        if abs(step) > 1:
            step, stop = 1, start
        yield int(positions[start]), step, stop - start + 1
        start = stop + 1


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
    is_number = np.ndim(values) == 0 and not isinstance(values, Tracer)
    if is_number and not any(np.asarray(values).tobytes()):  # (-0.0 is another number)
        index = tuple((before, n, 1) if n else (0, 0, 1)
                      for n, (before, _) in zip(x.shape, widths, strict=True))  # fmt: skip
        shape = tuple(n + sum(pair) for n, pair in zip(x.shape, widths, strict=True))
        return padded(x, index=index, shape=shape)
    numbers = _pairs(values, x)
    for axis, pair in enumerate(widths):
        ends = [
            broadcast_to(numbers[axis, side], shape=(*x.shape[:axis], width, *x.shape[axis + 1 :]))
            for side, width in enumerate(pair)
        ]
        x = concatenate([ends[0], x, ends[1]], axis=axis)
    return x


def _pairs(values: Any, x: Any) -> Any:
    """Expand an argument to a pair (before, after) for each axis."""
    if isinstance(values, int) and x.dtype.kind == "u":  # which may wrap
        values = np.asarray(values)
    elif isinstance(values, float) and x.dtype.kind == "i":  # which NaN is not, nor infinity
        values = np.int64(int(values))
    return broadcast_to(in_dtype(values, x.dtype), shape=(x.ndim, 2))


def _with_statistics(x: Any, axis: int, widths: Widths, statistic: Any, lengths: Any) -> Any:
    """Padding by a statistic of the adjacent elements of each row."""
    size = x.shape[axis]
    margins = []
    for width, given, at_end in zip(widths, lengths, (False, True), strict=True):
        length = size if given is None else min(int(given), size)
        if length == 0 and statistic in (reductions.max, reductions.min):
            raise ValueError("stat_length of 0 yields no value for padding")
        found = statistic(
            read_along(x, axis, (size - length) * at_end, length), axis, keepdims=True
        )
        if x.dtype.kind in "iu" and is_float(found.dtype):
            found = rint(found)
        shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        margins.append(broadcast_to(astype(found, x.dtype), shape=shape))
    return concatenate([margins[0], x, margins[1]], axis=axis)


def _with_ramps(x: Any, axis: int, widths: Widths, ends: Any) -> Any:
    """Padding by linear ramps from the edges to given values."""
    size = x.shape[axis]
    edges = (read_along(x, axis, place, 1) for place in (0, size - 1))
    before, after = (
        linspace(end, edge.squeeze(axis), width, endpoint=False, dtype=x.dtype, axis=axis)
        for end, edge, width in zip(ends, edges, widths, strict=True)
    )
    return concatenate([before, x, flip(after, axes=(axis,))], axis=axis)


def _extended(x: Any, axis: int, width: int, size: int, with_edge: bool) -> Any:
    """Extend an array at the front by repeated point reflection at its first element.

    ``size`` is the number of elements before it was extended at the other end.
    """
    period = size - (not with_edge)
    while width:
        count = min(width, period)
        beside = flip(read_along(x, axis, int(not with_edge), count), axes=(axis,))
        mirrored = astype(2 * read_along(x, axis, 0, 1) - beside, x.dtype)  # (truths are numbers)
        x = concatenate([mirrored, x], axis=axis)
        width -= count
    return x


def _mirrored(size: int, before: int, after: int, with_edge: bool) -> Any:
    period = 2 * (size - (not with_edge)) or 1
    place = np.arange(-before, size + after) % period
    return np.minimum(place, period - with_edge - place)


def _some(size: int) -> int:
    if size == 0:
        raise ValueError("can't extend empty axis using modes other than 'constant' or 'empty'")
    return size


_STATISTICS = {
    "maximum": reductions.max,
    "mean": reductions.mean,
    "median": median,
    "minimum": reductions.min,
}

_POSITIONS: dict[str, Callable[[int, int, int], Any]] = {
    "edge": lambda size, before, after: np.clip(np.arange(-before, size + after), 0, size - 1),
    "wrap": lambda size, before, after: np.arange(-before, size + after) % size,
    "reflect": partial(_mirrored, with_edge=False),
    "symmetric": partial(_mirrored, with_edge=True),
}

"""Common parameters of sliding windows: strides, dilations and padding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.types import is_float
from functrans.ops.convolution.windows import Window
from functrans.trace.source import here

Pairs = tuple[tuple[int, int], ...]


def integers(given: Any) -> tuple[int, ...] | None:
    """A sequence of integers as a tuple; None if it is not one."""
    try:
        return tuple(operator.index(n) for n in given)
    except TypeError:
        return None


def numbers(given: Any, count: int, name: str, what: str, least: int = 1) -> tuple[int, ...]:
    """One integer for each of ``count`` axes; ones by default."""
    if given is None:
        return (1,) * count
    found = integers(given)
    if found is None or len(found) != count or any(n < least for n in found):
        raise ShapeError(
            f"{name} of {what} must hold {count} integers of at least {least}, one for each axis, "
            f"and is {given if found is None else found!r}{here()}"
        )
    return found


def limit(dtype: Any, sign: int) -> Any:
    """A value that no number of a dtype is less than (for -1), or larger than (for 1)."""
    if is_float(dtype) or dtype.kind == "c":
        return sign * np.inf
    if dtype.kind == "b":
        return sign > 0
    limits = np.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


def dilated(extent: int, dilation: int) -> int:
    """The extent of an axis after dilation."""
    return (extent - 1) * dilation + 1 if extent else 0


def paddings(
    padding: Any, extents: Sequence[int], taps: Sequence[int], strides: Sequence[int], what: str
) -> Pairs:
    """The numbers of elements added before and after each axis.

    ``extents`` and ``taps`` include dilation.
    """
    if not isinstance(padding, str):
        pairs = tuple(map(integers, padding)) if np.iterable(padding) else ()
        if len(pairs) != len(extents) or any(pair is None or len(pair) != 2 for pair in pairs):
            raise ShapeError(
                f"padding of {what} must be 'SAME', 'VALID', 'SAME_LOWER' or {len(extents)} pairs "
                f"(before, behind), and is {padding}{here()}"
            )
        return pairs  # type: ignore[return-value]
    name = padding.upper()
    if name == "VALID":
        return ((0, 0),) * len(extents)
    if name not in ("SAME", "SAME_LOWER"):
        raise ShapeError(
            f"padding of {what} must be 'SAME', 'VALID', 'SAME_LOWER' or pairs (before, behind), "
            f"and is {padding!r}{here()}"
        )
    found = []
    for extent, width, stride in zip(extents, taps, strides, strict=True):
        total = max((-(-extent // stride) - 1) * stride + width - extent, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if name == "SAME" else (more, less))
    return tuple(found)


def windows_over(
    extents: Sequence[int], taps: Sequence[int], strides: Sequence[int], padding: Any,
    bases: Sequence[int], dilations: Sequence[int], what: str,
) -> tuple[Window, ...]:  # fmt: skip
    """The window on each axis, whose elements are ``bases`` apart, with a padding around them."""
    same = isinstance(padding, str) and padding.upper() != "VALID"
    if same and any(base != 1 for base in bases):
        raise ShapeError(
            f"padding={padding!r} of {what} says nothing where the array's elements are {bases} "
            f"apart{here()}: give pairs (before, behind)"
        )
    wide, reach = map(dilated, extents, bases), map(dilated, taps, dilations)
    pairs = paddings(padding, list(wide), list(reach), strides, what)
    return tuple(map(_window, extents, taps, strides, pairs, bases, dilations))


def _window(
    extent: int, taps: int, stride: int, pair: tuple[int, int], base: int, dilation: int
) -> Window:
    room = dilated(extent, base) + sum(pair) - dilated(taps, dilation)
    count = room // stride + 1 if room >= 0 else 0
    return Window(count, taps, stride, dilation, -pair[0], base)

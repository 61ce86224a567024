"""Sliding windows along the axes of an array (im2col), and the transpose, overlap-add (col2im).

Along an axis, a window relates positions and taps to elements of an array: at the position ``p``
the tap ``k`` of the window sees the element ``i`` for which

    base * i == stride * p + dilation * k + offset,

and zero if there is none. The relation is symmetric in its three variables, so exchanging the roles
of elements, positions and taps gives windows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import gcd
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.primitive import LINEAR
from functrans.ir.serial import record
from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.loop.nodes import fold, guard
from functrans.ops.arrays.shape import Joins
from functrans.ops.arrays.structural import beside_mapped, move_axis, reshape, transpose
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.samples import cases, integers
from functrans.records import NamedTuple

if TYPE_CHECKING:
    from functrans.loop.target import Target

Axes = tuple[int, ...]


@record
class Window(NamedTuple):
    """A window along an axis."""

    places: int  # the number of its positions
    taps: int  # the number of elements that it sees at once
    # The coefficients of ``base * i == stride * p + dilation * k + offset``. Only the offset may be
    # zero, and the base is positive.
    stride: int = 1
    dilation: int = 1
    offset: int = 0
    base: int = 1

    def reach(self) -> tuple[int, int]:
        """The least and the largest ``base * i`` in a window, if it contains any."""
        across = self.stride * (self.places - 1), self.dilation * (self.taps - 1)
        low, high = sum(min(n, 0) for n in across), sum(max(n, 0) for n in across)
        return self.offset + low, self.offset + high

    def inside(self, extent: int) -> bool:
        """Whether a window lies within an axis of this extent."""
        if not self.places or not self.taps:
            return True
        low, high = self.reach()
        return self.base == 1 and low >= 0 and high < extent

    def seen(self, extent: int) -> tuple[int, int]:
        """The first element of an axis that may be in a window, and the one after the last."""
        low, high = self.reach()
        first = max(-(-low // self.base), 0)
        return first, max(min(high // self.base + 1, extent), first)


Labels = tuple[int, ...]

Windows = tuple[tuple[int, Window], ...]
"""Windows by the label of their axis."""


def sees_margins(windows: Sequence[Window], extents: Sequence[int]) -> bool:
    """Whether any window contains padding."""
    return not all(map(Window.inside, windows, extents))


def from_taps(window: Window) -> Window:
    """The same relation, with taps and positions exchanged."""
    return window._replace(
        places=window.taps, taps=window.places, stride=window.dilation, dilation=window.stride
    )


def from_elements(window: Window, extent: int) -> Window:
    """The same relation, with elements and positions exchanged."""
    sign = 1 if window.stride > 0 else -1
    return window._replace(
        places=extent,
        stride=sign * window.base,
        dilation=-sign * window.dilation,
        offset=-sign * window.offset,
        base=sign * window.stride,
    )


def in_phase(window: Window, phase: int) -> tuple[tuple[int, int, int], Window]:
    """The relation restricted to the positions ``base * p + phase``, which has base 1.

    Returns the taps that see elements from these positions (the first, their number, their step),
    and the relation. Each phase has the same number of positions, the last of which may exceed
    the window's own.
    """
    base, dilation = window.base, window.dilation
    start = window.stride * phase + window.offset
    step = base // gcd(base, dilation)
    of_phase = [k for k in range(window.taps) if (start + dilation * k) % base == 0]
    first = of_phase[0] if of_phase else 0
    seen = Window(
        -(-window.places // base),
        len(of_phase),
        window.stride,
        dilation * step // base,
        (start + dilation * first) // base,
    )
    return (first, len(of_phase), step), seen


# -- windows ---------------------------------------------------------------------------------------


def windowed_shape(shape: Shape, axes: Axes, windows: Sequence[Window]) -> Shape:
    """The shape of the windows of an array: positions in place of the axes, then the taps."""
    sizes = list(shape)
    for axis, window in zip(axes, windows, strict=True):
        sizes[axis] = window.places
    return (*sizes, *(window.taps for window in windows))


def numpy_windows(x: Any, *, axes: Axes, windows: tuple[Window, ...]) -> Any:
    """The windows of an array, as a view of it if they contain no padding."""
    shape = windowed_shape(x.shape, axes, windows)
    if 0 in shape:
        return np.zeros(shape, x.dtype)
    strides = list(x.strides)
    for axis, window in zip(axes, windows, strict=True):
        x = _seen_along(x, axis, window)
        strides = list(x.strides)
    steps = [strides[axis] for axis in axes]
    for axis, window in zip(axes, windows, strict=True):
        start = window.offset - window.reach()[0]
        x = x[(slice(None),) * axis + (slice(start, None),)]
        strides[axis] *= window.stride
    taps = [step * window.dilation for step, window in zip(steps, windows, strict=True)]
    return as_strided(x, shape, (*strides, *taps), writeable=False)


def _seen_along(x: Any, axis: int, window: Window) -> Any:
    """The segment of an axis that a window covers, padded with zeros."""
    low, high = window.reach()
    first, last = window.seen(x.shape[axis])
    before = (slice(None),) * axis
    found = x[(*before, slice(first, last))]
    if window.inside(x.shape[axis]):
        return found
    sizes = list(x.shape)
    sizes[axis] = high - low + 1
    out = np.zeros(sizes, x.dtype)
    start = first * window.base - low
    stop = start + (last - first - 1) * window.base + 1
    if last > first:
        out[(*before, slice(start, stop, window.base))] = found
    return out


def _infer_windows(x: Aval, *, axes: Axes, windows: tuple[Window, ...]) -> Aval:
    if len(axes) != len(windows) or len({*axes}) != len(axes):
        raise ShapeError(f"{len(windows)} windows along the axes {axes}")
    return x.update(shape=windowed_shape(x.shape, axes, windows))


def _batch_windows(operands: Any, mapped: Any, *, axes: Axes, windows: Any) -> tuple[Any, int]:
    (x,), (axis,) = operands, mapped
    moved = beside_mapped(axes, axis)
    return windows_of(x, axes=moved, windows=windows), axis


def element_seen(window: Window, extent: int, p: Any, k: Any) -> tuple[list[Any], Any]:
    """The element that a tap reads at a position, and the conditions for it, as scalars."""
    place = _affine((window.stride, p), (window.dilation, k), window.offset)
    return _quotient(place, window.base, extent, window.inside(extent))


def _affine(first: tuple[int, Any], second: tuple[int, Any], offset: int) -> Any:
    total: Any = None
    for factor, i in (first, second):
        term = i if factor == 1 else i * factor
        total = term if total is None else total + term
    return total + offset if offset else total


def _quotient(place: Any, base: int, extent: int, inside: bool) -> tuple[list[Any], Any]:
    """The quotient of a number by a base, and the conditions that it is exact and in range."""
    if inside:
        return [], place
    holds = [place >= 0, place < base * extent]
    if base == 1:
        return holds, place
    return [*holds, scalar.eq(scalar.irem(place, base), 0)], scalar.idiv(place, base)


def where_all(conditions: Sequence[Any], value: Any) -> Any:
    """A value if all conditions are true, else zero; it is only read in the first case."""
    return guard(reduce(and_, conditions), value, scalar.zero(value.dtype)) if conditions else value


def _pull_windows(read: Any, index: Any, x: Aval, *, axes: Axes, windows: Any) -> Any:
    at, taps = list(index[: x.ndim]), index[x.ndim :]
    conditions: list[Any] = []
    for axis, window, k in zip(axes, windows, taps, strict=True):
        holds, at[axis] = element_seen(window, x.shape[axis], at[axis], k)
        conditions += holds
    return where_all(conditions, read(0, tuple(at)))


def _along(*windows: Window, axes: Axes = (0,)) -> dict[str, Any]:
    return {"axes": axes, "windows": windows}


windows_p = primitive(
    "windows",
    infer=_infer_windows,
    numpy=numpy_windows,
    linear=LINEAR,
    transpose=[
        lambda ct, x, *, axes, windows: overlap_add(ct, axes=axes, windows=windows, shape=x.shape)
    ],
    batch=_batch_windows,
    pull=_pull_windows,
    stores=True,
    samples=cases(
        ((5,), _along(Window(3, 3))), ((5,), _along(Window(5, 3, offset=-1))),
        ((7, 2), _along(Window(3, 2, 2, 3, -2))), ((4,), _along(Window(6, 3, -1, 2, 5))),
        ((3,), _along(Window(7, 2, 1, 1, -1, 2))), ((3,), _along(Window(0, 2))),
        ((2, 4, 5), _along(Window(2, 2, 2), Window(5, 3, 1, 1, -1), axes=(1, 2))),
        ((0, 3), _along(Window(2, 2, offset=-1))), ((2, 0), _along(Window(2, 1), axes=(1,))),
        ((integers(-5, 5), (5,)), _along(Window(4, 2, 1, -1, 1))),
    ),
)  # fmt: skip
"""The windows of an array along some axes: their positions there, and their taps as last axes."""


def windows_of(x: Any, *, axes: Axes, windows: tuple[Window, ...]) -> Any:
    """The windows of an array along some axes: positions in their place, taps as last axes."""
    tiles = tuple(
        axis
        for axis, window in zip(axes, windows, strict=True)
        if window == Window(window.places, window.taps, stride=window.taps)
        and window.places * window.taps == x.shape[axis]
    )
    if tiles and len(tiles) == len(axes):
        return _tiled(x, axes, windows)
    return windows_p(x, axes=axes, windows=windows) if axes else x


def _tiled(x: Any, axes: Axes, windows: tuple[Window, ...]) -> Any:
    """Adjacent windows that contain each element once: a reshape."""
    shape: list[int] = []
    places: list[int] = []
    taps = [0] * len(axes)
    for axis, extent in enumerate(x.shape):
        places.append(len(shape))
        if axis in axes:
            number = axes.index(axis)
            taps[number] = len(shape) + 1
            shape += [windows[number].places, windows[number].taps]
        else:
            shape.append(extent)
    return transpose(reshape(x, shape=tuple(shape)), permutation=(*places, *taps))


# -- overlap_add -----------------------------------------------------------------------------------


def _infer_overlap(x: Aval, *, axes: Axes, windows: tuple[Window, ...], shape: Shape) -> Aval:
    if x.shape != windowed_shape(shape, axes, windows):
        raise ShapeError(f"windows of shape {x.shape} are none of an array of shape {shape}")
    return x.update(shape=shape)


def _overlap_add(x: Any, *, axes: Axes, windows: tuple[Window, ...], shape: Shape) -> Any:
    if 0 in x.shape:
        return np.zeros(shape, x.dtype)
    sizes = list(shape)
    for axis, window in zip(axes, windows, strict=True):
        low, high = window.reach()
        sizes[axis] = high - low + 1
    total = np.zeros(sizes, x.dtype)
    for taps in product(*(range(window.taps) for window in windows)):
        place: list[Any] = [slice(None)] * len(sizes)
        for axis, window, k in zip(axes, windows, taps, strict=True):
            start = window.dilation * k + window.offset - window.reach()[0]
            stop = start + window.stride * window.places
            place[axis] = slice(start, stop if stop >= 0 else None, window.stride)
        total[tuple(place)] += x[(..., *taps)]
    out = np.zeros(shape, x.dtype)
    there: list[Any] = [slice(None)] * len(sizes)
    here: list[Any] = [slice(None)] * len(sizes)
    for axis, window in zip(axes, windows, strict=True):
        first, last = window.seen(shape[axis])
        start = first * window.base - window.reach()[0]
        there[axis] = slice(first, last)
        here[axis] = slice(start, start + (last - first - 1) * window.base + 1, window.base)
        if first == last:
            return out
    out[tuple(there)] = total[tuple(here)]
    return out


def _batch_overlap(
    operands: Any, mapped: Any, *, axes: Axes, windows: Any, shape: Shape
) -> tuple[Any, int]:
    (x,), (axis,) = operands, mapped
    if axis > len(shape):
        # the mapped axis is one of the axes of taps
        x, axis = move_axis(x, axis, 0), 0
    moved = beside_mapped(axes, axis)
    whole = (*shape[:axis], x.shape[axis], *shape[axis:])
    return overlap_add(x, axes=moved, windows=windows, shape=whole), axis


class _Pairs(NamedTuple):
    """The positions and taps that read an element: their greatest number, and a function.

    ``pair(i, n)`` gives the conditions, the position and the tap of pair ``n`` for element ``i``.
    """

    number: int
    pair: Any


def _pairs(window: Window, extent: int) -> _Pairs:
    if window.dilation == 1 and window.stride > 1:
        # only every `stride`-th tap can see the element
        def close(i: Any, n: Any) -> tuple[list[Any], Any, Any]:
            place = i * window.base - window.offset
            # an offset that keeps the quotient, which is rounded down, nonnegative
            ahead = max(-(-window.offset // window.stride), 0)
            last = scalar.idiv(place + ahead * window.stride, window.stride) - ahead
            p = last - n
            k = place - p * window.stride
            return [k < window.taps, p >= 0, p < window.places], p, k

        return _Pairs(-(-window.taps // window.stride), close)
    if window.places < window.taps:
        taps = from_elements(from_taps(window), extent)

        def by_position(i: Any, n: Any) -> tuple[list[Any], Any, Any]:
            holds, k = element_seen(taps, window.taps, i, n)
            return holds, n, k

        return _Pairs(window.places, by_position)
    positions = from_elements(window, extent)

    def by_tap(i: Any, n: Any) -> tuple[list[Any], Any, Any]:
        holds, p = element_seen(positions, window.places, i, n)
        return holds, p, n

    return _Pairs(window.taps, by_tap)


def pull_overlap(read: Any, index: Any, x: Aval, *, axes: Axes, windows: Any, shape: Shape) -> Any:
    pairs = [_pairs(w, shape[axis]) for axis, w in zip(axes, windows, strict=True)]

    def term(*numbers: Any) -> Any:
        at, taps, conditions = list(index), [], []
        for axis, of, n in zip(axes, pairs, numbers, strict=True):
            holds, at[axis], k = of.pair(index[axis], n)
            conditions += holds
            taps.append(k)
        return where_all(conditions, read(0, (*at, *taps)))

    return fold("add", [of.number for of in pairs], term)


def _is_many(eqn: Eqn, target: Target) -> bool:
    """Whether there are more elements than are unrolled."""
    return eqn.outputs[0].aval.size > target[Joins].small


def _into(shape: Shape, *windows: Window, axes: Axes = (0,)) -> dict[str, Any]:
    return {"axes": axes, "windows": windows, "shape": shape}


overlap_add_p = primitive(
    "overlap_add",
    infer=_infer_overlap,
    numpy=_overlap_add,
    linear=LINEAR,
    transpose=[
        lambda ct, x, *, axes, windows, shape: windows_of(ct, axes=axes, windows=windows)
    ],
    batch=_batch_overlap,
    pull=pull_overlap,
    emit=Emit(lazy("functrans.ops.convolution.compiled.overlap:emit"), applies=_is_many),
    samples=cases(
        ((3, 3), _into((5,), Window(3, 3))), ((5, 3), _into((5,), Window(5, 3, offset=-1))),
        ((3, 2, 2), _into((7, 2), Window(3, 2, 2, 3, -2))),
        ((6, 3), _into((4,), Window(6, 3, -1, 2, 5))), ((3, 5), _into((9,), Window(3, 5, 2))),
        ((3, 2), _into((9,), Window(3, 2, 3, 1, 1))), ((4, 5), _into((6,), Window(4, 5, 3, 1, -4))),
        ((7, 2), _into((3,), Window(7, 2, 1, 1, -1, 2))), ((0, 2), _into((3,), Window(0, 2))),
        ((2, 2, 5, 2, 3),
         _into((2, 4, 5), Window(2, 2, 2), Window(5, 3, 1, 1, -1), axes=(1, 2))),
        ((integers(-5, 5), (4, 2)), _into((5,), Window(4, 2, 1, -1, 1))),
    ),
)  # fmt: skip
"""The sum of all windows at the elements that they see: the transpose of `windows`."""


def overlap_add(x: Any, *, axes: Axes, windows: tuple[Window, ...], shape: Shape) -> Any:
    """The sum of windows at the elements that they see, in an array of the given shape."""
    return overlap_add_p(x, axes=axes, windows=windows, shape=shape) if axes else x

"""Convolution: a contraction of the windows of one array with another array, with labelled axes.

A label names an axis of the operands ``x`` and ``y`` and of the result, as in `einsum`. Along the
labels of ``windows`` a window slides over ``x``: there the axis of ``x`` has elements, that of
``y`` taps, and that of the result positions. Channels, groups, batches and mapped axes are ordinary
labels, and the derivatives are convolutions again, with the three arrays in other roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.primitive import BILINEAR
from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy
from functrans.loop.nodes import fold, widened
from functrans.loop.scalar import convert
from functrans.ops.arrays.promotion import common, promote
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import reshape
from functrans.ops.compiled.emission import Emit
from functrans.ops.convolution.products import are_apart, are_spread, gathered, spread
from functrans.ops.convolution.windows import (
    Labels,
    Window,
    Windows,
    element_seen,
    from_elements,
    from_taps,
    in_phase,
    numpy_windows,
    overlap_add,
    sees_margins,
    where_all,
)
from functrans.ops.define import primitive
from functrans.ops.linalg.contraction import numpy_labelled
from functrans.ops.samples import cases, integers
from functrans.records import NamedTuple

MOST_PHASES = 9
"""The most phases of positions that are computed separately, if elements lie apart."""

LARGEST_VIEW = 1 << 21
"""The most elements of windows that NumPy copies at once."""


class Roles(NamedTuple):
    """The labels without a window, by the arrays that have them."""

    groups: Labels  # in all three arrays: a separate convolution for each index
    rows: Labels  # in ``x`` and the result: images
    columns: Labels  # in ``y`` and the result: features
    summed: Labels  # in ``x`` and ``y``: channels


def roles(x: Labels, y: Labels, out: Labels, windows: Windows) -> Roles:
    """The labels without a window, by role, each in the order of the first array."""
    sliding = {label for label, _ in windows}
    plain = [label for label in x if label not in sliding]
    return Roles(
        tuple(a for a in plain if a in y and a in out),
        tuple(a for a in plain if a not in y),
        tuple(a for a in y if a not in x),
        tuple(a for a in plain if a in y and a not in out),
    )


def extents(x: Shape, y: Shape, params: Mapping[str, Any]) -> dict[int, int]:
    """The extent along each label, in the result or else in the operands."""
    found = dict(zip(params["y_labels"], y, strict=True)) | dict(
        zip(params["x_labels"], x, strict=True)
    )
    return found | {label: window.places for label, window in params["windows"]}


def _infer(x: Aval, y: Aval, **params: Any) -> Aval:
    if x.dtype != y.dtype:
        raise DtypeError(f"a convolution of {x.dtype} with {y.dtype}: convert one of them")
    windows: Windows = params["windows"]
    taps = {label: window.taps for label, window in windows}
    ours, theirs = (dict(zip(params[k], of.shape, strict=True))
                    for k, of in (("x_labels", x), ("y_labels", y)))  # fmt: skip
    for label, size in theirs.items():
        expected = taps.get(label, ours.get(label, size))
        if size != expected:
            raise ShapeError(f"an axis of a convolution has the sizes {expected} and {size}")
    sizes = extents(x.shape, y.shape, params)
    return x.update(shape=tuple(sizes[label] for label in params["out"]))


# -- evaluation ------------------------------------------------------------------------------------


def _convolution(x: Any, y: Any, **params: Any) -> Any:
    labels, windows = params["x_labels"], params["windows"]
    extents_of_x = [x.shape[labels.index(label)] for label, _ in windows]
    around = sees_margins([window for _, window in windows], extents_of_x)
    if around and not np.isfinite(y).all():
        return _tap_by_tap(x, y, **params)
    axes = tuple(labels.index(label) for label, _ in windows)
    seen = numpy_windows(x, axes=axes, windows=tuple(window for _, window in windows))
    first_tap = 1 + max((*labels, *params["y_labels"]), default=0)
    taps = {label: first_tap + n for n, (label, _) in enumerate(windows)}
    named = (*labels, *taps.values())
    theirs = tuple(taps.get(label, label) for label in params["y_labels"])
    lone = [a for a in labels if a in params["out"] and (a in taps or a not in theirs)]
    if not lone or seen.size <= LARGEST_VIEW:
        return numpy_labelled(seen, named, y, theirs, params["out"])
    # BLAS multiplies copies of the windows, for a part of the positions at a time
    longest = max(lone, key=lambda label: seen.shape[labels.index(label)])
    axis = labels.index(longest)
    step = max(LARGEST_VIEW * seen.shape[axis] // seen.size, 1)
    parts = [
        numpy_labelled(_part(seen, axis, start, step), named, y, theirs, params["out"])
        for start in range(0, seen.shape[axis], step)
    ]
    return np.concatenate(parts, params["out"].index(longest))


def _tap_by_tap(
    x: Any, y: Any, *, x_labels: Labels, y_labels: Labels, out: Labels, windows: Windows
) -> Any:
    """The convolution by taps, without products with padding, which might not be 0."""
    sizes = extents(x.shape, y.shape, {"x_labels": x_labels, "y_labels": y_labels,
                                       "windows": windows})  # fmt: skip
    total = np.zeros([sizes[label] for label in out], x.dtype)
    sliding = dict(windows)
    rest = tuple(label for label in y_labels if label not in sliding)
    for taps in np.ndindex(*(window.taps for window in sliding.values())):
        seen, tap, places = x, y, [slice(None)] * len(out)
        for (label, window), k in zip(sliding.items(), taps, strict=True):
            axis = x_labels.index(label)
            elements = window.stride * np.arange(window.places) + window.dilation * k
            elements += window.offset
            (there,) = np.nonzero((elements >= 0) & (elements < x.shape[axis]))
            seen = seen.take(elements[there], axis)
            places[out.index(label)] = slice(*(there[[0, -1]] + (0, 1) if there.size else (0, 0)))
        for n, label in reversed([*enumerate(y_labels)]):
            if label in sliding:
                tap = tap.take(taps[[*sliding].index(label)], n)
        total[tuple(places)] += numpy_labelled(seen, x_labels, tap, rest, out)
    return total


def _part(x: Any, axis: int, start: int, step: int) -> Any:
    return x[(*(slice(None),) * axis, slice(start, start + step))]


# -- derivatives -----------------------------------------------------------------------------------


def convolve(x: Any, y: Any, labels: tuple[Labels, Labels, Labels], windows: Windows) -> Any:
    """A convolution whose windows may have any base.

    ``labels`` are those of ``x``, of ``y`` and of the result. If elements of ``x`` lie apart (a
    base other than 1), there are no products with the zeros between them: the positions are
    computed in phases (sub-pixel convolution), each with its own taps. If that would need many
    phases, each element is multiplied by all taps, and the products are added at the positions
    that see it.
    """
    own, other, out = labels
    if are_apart(x, own, windows):
        return gathered(x, y, labels, windows)
    if are_spread(windows):
        return spread(x, y, labels, windows)
    apart = {label: window for label, window in windows if window.base != 1}
    if not apart:
        return convolution(x, y, **params_of(labels, windows))
    if prod(window.base for window in apart.values()) <= MOST_PHASES:
        return _in_phases(x, y, labels, dict(windows), next(iter(apart)))
    first = 1 + max(*own, *other)
    taps = {label: first + n for n, label in enumerate(apart)}
    theirs = tuple(taps.get(label, label) for label in other)
    rest = tuple(one for one in windows if one[0] not in apart)
    products = convolve(x, y, (own, theirs, (*out, *taps.values())), rest)
    # elements and positions exchange roles
    seen_by = {
        label: from_elements(window, x.shape[own.index(label)]) for label, window in apart.items()
    }
    shape = [
        apart[label].places if label in apart else size
        for label, size in zip(out, products.shape, strict=False)
    ]
    axes = tuple(out.index(label) for label in apart)
    return overlap_add(products, axes=axes, windows=tuple(seen_by.values()), shape=tuple(shape))


def params_of(labels: tuple[Labels, Labels, Labels], windows: Windows) -> dict[str, Any]:
    """The parameters of a convolution, whose windows have base 1."""
    own, other, out = labels
    return {"x_labels": own, "y_labels": other, "out": out, "windows": windows}


def _in_phases(
    x: Any, y: Any, labels: tuple[Labels, Labels, Labels], windows: Mapping[int, Window], label: int
) -> Any:
    """The positions along a label in phases, each of which reads neighbouring elements."""
    _, other, out = labels
    window, axis = windows[label], out.index(label)
    phases = []
    for phase in range(window.base):
        taps, seen = in_phase(window, phase)
        chosen = [(0, size, 1) for size in y.shape]
        chosen[other.index(label)] = taps
        part = read_slice(y, index=tuple(chosen))
        phases.append(convolve(x, part, labels, tuple({**windows, label: seen}.items())))
    whole = stack(phases, axis=axis + 1)
    shape = [*phases[0].shape]
    shape[axis] *= window.base
    index = tuple((0, size, 1) for size in (*shape[:axis], window.places, *shape[axis + 1 :]))
    return read_slice(reshape(whole, shape=tuple(shape)), index=index)


def _transpose_x(
    ct: Any, x: Aval, y: Any, *, x_labels: Labels, y_labels: Labels, out: Labels, windows: Windows
) -> Any:
    back = tuple(
        (label, from_elements(window, x.shape[x_labels.index(label)])) for label, window in windows
    )
    return convolve(ct, y, (out, y_labels, x_labels), back)


def _transpose_y(
    ct: Any, x: Any, y: Aval, *, x_labels: Labels, y_labels: Labels, out: Labels, windows: Windows
) -> Any:
    back = tuple((label, from_taps(window)) for label, window in windows)
    return convolve(x, ct, (x_labels, out, y_labels), back)


# -- batching --------------------------------------------------------------------------------------


def _batch(
    operands: Any, axes: Any, *, x_labels: Labels, y_labels: Labels, out: Labels, windows: Windows
) -> tuple[Any, int]:
    (x, y), (x_axis, y_axis) = operands, axes
    mapped = 1 + max((*x_labels, *y_labels), default=0)
    place = 0
    if x_axis is None:
        # next to the other features, so that they can be rows or columns of one matrix
        columns = roles(x_labels, y_labels, out, windows).columns
        place = min((out.index(label) for label in columns), default=0)
    result = convolution(
        x,
        y,
        x_labels=_with(x_labels, mapped, x_axis),
        y_labels=_with(y_labels, mapped, y_axis),
        out=_with(out, mapped, place),
        windows=windows,
    )
    return result, place


def _with(labels: Labels, label: int, axis: int | None) -> Labels:
    return labels if axis is None else (*labels[:axis], label, *labels[axis:])


# -- the compiled form -----------------------------------------------------------------------------


def _pull(read: Any, index: Any, x: Aval, y: Aval, **params: Any) -> Any:
    sizes, term = terms(read, index, x, y, **params)
    return convert(fold("or" if x.dtype.kind == "b" else "add", sizes, term), x.dtype)


def terms(
    read: Any, index: Any, x: Aval, y: Aval, *, x_labels: Labels, y_labels: Labels, out: Labels,
    windows: Windows,
) -> tuple[list[int], Callable[..., Any]]:  # fmt: skip
    """The terms of an element of the result: their number, and a function that gives each."""
    at = dict(zip(out, index, strict=True))
    summed = roles(x_labels, y_labels, out, windows).summed
    truths = x.dtype.kind == "b"

    def term(*inner: Any) -> Any:
        ours = at | dict(zip(summed, inner, strict=False))
        taps = dict(zip([label for label, _ in windows], inner[len(summed) :], strict=True))
        theirs, conditions = ours | taps, []
        for label, window in windows:
            extent = x.shape[x_labels.index(label)]
            holds, seen = element_seen(window, extent, at[label], taps[label])
            ours = ours | {label: seen}
            conditions += holds
        left = widened(read(0, tuple(ours[label] for label in x_labels)))
        right = widened(read(1, tuple(theirs[label] for label in y_labels)))
        return where_all(conditions, left & right if truths else left * right)

    channels = [x.shape[x_labels.index(label)] for label in summed]
    return [*channels, *(window.taps for _, window in windows)], term


def _params(x: str, y: str, out: str, **windows: Window) -> dict[str, Any]:
    """The parameters of a convolution, with letters for labels."""
    letters = sorted({*x, *y})
    numbers = [tuple(map(letters.index, labels)) for labels in (x, y, out)]
    sliding = tuple((letters.index(label), window) for label, window in windows.items())
    return dict(zip(("x_labels", "y_labels", "out"), numbers, strict=True)) | {"windows": sliding}


_same = Window(5, 3, offset=-1)

convolution = primitive(
    "convolution",
    infer=_infer,
    numpy=_convolution,
    linear=BILINEAR,
    transpose=[_transpose_x, _transpose_y],
    batch=_batch,
    pull=_pull,
    emit=Emit(
        lazy("functrans.ops.convolution.compiled.selection:emit"),
        applies=lazy("functrans.ops.convolution.compiled.selection:is_large"),
    ),
    emit_on_grid=None,
    prepare=lambda x, y, **params: (promote(common, (x, y)), params),
    samples=cases(
        ((5,), (3,), _params("w", "w", "w", w=_same)),
        ((7,), (2,), _params("w", "w", "w", w=Window(3, 2, 2, 3, -2))),
        ((2, 5), (3, 3), _params("nw", "ow", "now", w=_same)),
        ((2, 3, 5), (4, 3, 3), _params("ncw", "ocw", "now", w=_same)),
        ((2, 5, 3), (3, 3, 2), _params("nwc", "wco", "nwo", w=Window(2, 3, 2))),
        ((2, 5, 6), (3, 2, 2), _params("nhw", "hwo", "nhwo", h=_same, w=Window(3, 2, 2, 1, 0))),
        ((3, 2, 4), (3, 2, 2), _params("gcw", "gcw", "gw", w=Window(4, 2, 1, -1, 1))),
        ((0, 3), (2, 3), _params("nw", "ow", "now", w=Window(3, 3, offset=-1))),
        ((2, 0), (0, 2), _params("nc", "co", "no")),
        ((2, 9), (2, 4), _params("cw", "cw", "w", w=Window(6, 4))),
        ((integers(-9, 9), (5,)), (integers(-9, 9), (3,)), _params("w", "w", "w", w=_same)),
    ),
)  # fmt: skip

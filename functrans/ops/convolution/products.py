"""Convolutions whose windows do not overlap, as products of matrices.

With kernels of one element, kernels that are as large as their stride (patches), or windows that
have a single position, no element is seen twice. So nothing slides: axes are split into positions
and taps, and the rest is a contraction, whose derivatives are contractions, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from functrans.ops.arrays.slicing import embed, read_slice
from functrans.ops.arrays.structural import reshape, transpose
from functrans.ops.convolution.windows import Labels, Window, Windows
from functrans.ops.linalg.contraction import contract_labelled

LARGEST_COPY = 1 << 23
"""The most bytes of an array that is copied so that the elements of each patch are contiguous. Of a
larger one, the compiled form of a convolution copies a part at a time.

Measured: values and derivatives with respect to kernels, arrays of 1 kB to 50 MB."""


def are_apart(x: Any, labels: Labels, windows: Windows) -> bool:
    """Whether no two windows share an element, none contains padding, and copies are small."""
    are_patches = any(min(window.places, window.taps) > 1 for _, window in windows)
    if are_patches and x.size * x.dtype.itemsize > LARGEST_COPY:
        return False
    return all(_is_apart(window, x.shape[labels.index(label)]) for label, window in windows)


def _is_apart(window: Window, extent: int) -> bool:
    is_adjacent = window.stride == window.taps and window.dilation == 1
    if not window.places or not window.taps:
        return False
    return window.inside(extent) and (1 in (window.places, window.taps) or is_adjacent)


def are_spread(windows: Windows) -> bool:
    """Whether each window has one element: the elements are as far apart as there are taps."""
    return all(
        window.base == window.taps and window.stride == abs(window.dilation) == 1
        for _, window in windows
    )


def gathered(x: Any, y: Any, labels: tuple[Labels, Labels, Labels], windows: Windows) -> Any:
    """A convolution of which `are_apart` holds.

    The axes of ``x`` are put into the order of the result, with its terms where the features are.
    """
    own, other, out = labels
    taps, sizes = _taps(labels, windows), _sizes(y, other) | _sizes(x, own)
    index = {label: (0, sizes[label], 1) for label in own}
    for label, window in windows:
        step = window.dilation if window.places == 1 else window.stride // window.taps
        index[label] = window.offset, window.places * window.taps, step
        sizes |= {label: window.places, taps[label]: window.taps}
    # axes of one element are left out
    ours = [label for label in _split(own, taps) if sizes[label] != 1]
    theirs = [taps.get(label, label) for label in other]
    before, behind = _around(out, ours)
    terms = [label for label in theirs if label in ours and label not in out]
    order = [*before, *terms, *behind]
    x = read_slice(x, index=tuple(index[label] for label in own))
    x = reshape(x, shape=tuple(sizes[label] for label in ours))
    x = transpose(x, permutation=tuple(map(ours.index, order)))
    return _product(x, y, (order, theirs, out), sizes)


def spread(x: Any, y: Any, labels: tuple[Labels, Labels, Labels], windows: Windows) -> Any:
    """A convolution of which `are_spread` holds: the products of each element lie side by side."""
    own, other, out = labels
    taps, sizes = _taps(labels, windows), _sizes(y, other) | _sizes(x, own)
    sizes |= {taps[label]: window.taps for label, window in windows}
    forwards = {label: window.dilation < 0 for label, window in windows}
    y = read_slice(y, index=tuple(
        (0, n, 1) if forwards.get(label, True) else (n - 1, n, -1)
        for label, n in zip(other, y.shape, strict=True)
    ))  # fmt: skip
    theirs = [taps.get(label, label) for label in other]
    before, behind = _around(out, own)
    order = [*before, *(label for label in theirs if label not in own), *behind]
    result = _product(x, y, (own, theirs, order), sizes)
    result = transpose(result, permutation=tuple(map(order.index, _split(out, taps))))
    found = dict(windows)
    result = reshape(result, shape=tuple(
        sizes[label] * (found[label].taps if label in found else 1) for label in out
    ))  # fmt: skip
    cut, placed, shape = [], [], []
    for label, extent in zip(out, result.shape, strict=True):
        first, places = 0, extent
        if label in found:
            window = found[label]
            first = -window.offset - (0 if forwards[label] else window.taps - 1)
            places = window.places
        start, stop = max(-first, 0), min(places - first, extent)
        count = max(stop - start, 0)
        cut.append((start if count else 0, count, 1))
        placed.append((first + start if count else 0, count, 1))
        shape.append(places)
    return embed(read_slice(result, index=tuple(cut)), index=tuple(placed), shape=tuple(shape))


def _sizes(x: Any, labels: Labels) -> dict[int, int]:
    return dict(zip(labels, x.shape, strict=True))


def _taps(labels: tuple[Labels, Labels, Labels], windows: Windows) -> dict[int, int]:
    """A new label for the taps of each window."""
    first = 1 + max((label for named in labels for label in named), default=0)
    return {label: n for n, (label, _) in enumerate(windows, first)}


def _split(labels: Labels, taps: Mapping[int, int]) -> list[int]:
    """The labels, each of a window followed by that of its taps."""
    return [each for one in labels for each in ((one, taps[one]) if one in taps else (one,))]


def _around(out: Labels, own: Sequence[int]) -> tuple[list[int], list[int]]:
    """The labels of the result that are in ``own``, before the first that is not, and after it."""
    first = next((n for n, label in enumerate(out) if label not in own), len(out))
    return [*out[:first]], [label for label in out[first:] if label in own]


def _product(
    x: Any, y: Any, labels: tuple[Sequence[int], Sequence[int], Sequence[int]],
    sizes: Mapping[int, int],
) -> Any:  # fmt: skip
    """A contraction, in which labels that stay together are one axis."""
    size = {group[0]: prod(sizes[label] for label in group) for group in _together(labels, sizes)}
    own, other, out = (tuple(k for k in named if k in size) for named in labels)
    x, y = (reshape(operand, shape=tuple(size[label] for label in named))
            for operand, named in ((x, own), (y, other)))  # fmt: skip
    product = contract_labelled(y, other, x, own, out)
    return reshape(product, shape=tuple(sizes[label] for label in labels[2]))


def _together(arrays: Sequence[Sequence[int]], sizes: Mapping[int, int]) -> list[list[int]]:
    """The labels in groups that are one axis of each array, without axes of one element."""
    long = [[label for label in named if sizes[label] != 1] for named in arrays]
    groups: list[list[int]] = []
    for label in dict.fromkeys(label for named in long for label in named):
        last = groups[-1][-1] if groups else None
        if last is not None and all(_follows(label, last, named) for named in long):
            groups[-1].append(label)
        else:
            groups.append([label])
    return groups


def _follows(label: int, last: int, named: Sequence[int]) -> bool:
    """Whether a label comes right after another one, or both are absent."""
    if label not in named or last not in named:
        return (label in named) == (last in named)
    return named.index(label) == named.index(last) + 1

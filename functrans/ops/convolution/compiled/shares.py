"""Work sharing: loops over numbered blocks that are divided among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.scalar import Scalar, const, idiv, irem
from functrans.loop.statements import For
from functrans.loop.walk import Body
from functrans.ops.convolution.compiled.limits import Axis

At = dict[int, Scalar]
"""Indices by labels."""


def numbers(number: Scalar, axes: Sequence[Axis]) -> At:
    """The indices along axes of a row-major number."""
    found: At = {}
    for axis in reversed(axes):
        found[axis.label] = irem(number, axis.extent)
        number = idiv(number, axis.extent)
    return found


def for_each(number: int, body: Callable[[Scalar], Body]) -> Body:
    """A loop over blocks."""
    if number == 1:
        return body(ZERO)
    block = index("block", number)
    return (For(block, ZERO, const(number, INDEX), body(block)),)


def share(part: Scalar, number: int, body: Callable[[Scalar], Body]) -> Body:
    """A loop over a part of the blocks."""
    length = -(-number // part.attribute[2])
    if length == 1:
        return body(part)
    block = index("block", number)
    start, stop = block_range(part, length, const(number, INDEX))
    return (For(block, start, stop, body(block)),)


def loop_lanes(lanes: int, extent: int) -> int:
    """The lanes of a loop, whose last vector may be partial."""
    while lanes // 2 >= max(extent, 1):
        lanes //= 2
    return max(lanes, 1)


def of_images(axes: Sequence[Axis], images: int) -> tuple[Axis, ...]:
    """The axes of blocks, with the last axis divided into blocks of ``images``."""
    if images == 1:
        return tuple(axes)
    *others, last = axes
    return *others, last._replace(extent=last.extent // images)


def first_image(outer: At, axes: Sequence[Axis], images: int) -> At:
    """The position of a block along the axes."""
    if images == 1:
        return outer
    return outer | {axes[-1].label: outer[axes[-1].label] * images}


def each_image(
    outer: At, axes: Sequence[Axis], images: int, body: Callable[[At, Scalar], Body]
) -> Body:
    """A loop over the images of a block, with the position and number of each."""
    if images == 1:
        return body(outer, ZERO)
    image, label = index("image", images), axes[-1].label
    here = {**outer, label: outer[label] + image}
    return (For(image, ZERO, const(images, INDEX), body(here, image)),)

"""Work sharing: loops over numbered blocks that are divided among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.simplify import Simplifier
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


def piece_at(
    number: Scalar,
    of: Any,  # the blocking: outer axes, the images of a block, and the length of its pieces
    extent: int,  # that of the axis which is cut into pieces
    simplify: Simplifier,
) -> tuple[At, Scalar, Scalar]:
    """The position of a block along the outer axes, and the start and length of its piece."""
    axes = list(of.outer)
    if of.images > 1:
        axes[-1] = axes[-1]._replace(extent=axes[-1].extent // of.images)
    outer = first_image(numbers(idiv(number, of.pieces), axes), of.outer, of.images)
    start, size = simplify(irem(number, of.pieces) * of.length), const(of.length, INDEX)
    if of.pieces * of.length != extent:
        size = simplify(minimum(const(extent, INDEX) - start, size))
    return outer, start, size


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

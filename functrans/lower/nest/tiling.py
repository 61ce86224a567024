"""Loop tiling: loops over tiles, where an array is read across the order that it lies in.

A vector loop that takes every thousandth element fetches a cache line for each of them. If a cache
holds all these lines until their next elements are asked for, all is well, and long rows are
written without a break. If not (lines a power of two apart have few places in a cache), the loop
along which the elements are neighbours is cut into blocks, and each block is done inside. Expects a
nest of loops without carried dependences; leaves one that does the same in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For, Let, Store
from functrans.loop.target import Target
from functrans.loop.walk import scalars


class Tiling(NamedTuple):
    """Loops over tiles, where an array is read across the order that it lies in.

    Measured: all together (2048x2048 float32 across its order).
    """

    block: int = 16
    """Iterations whose neighbours share cache lines, where threads need many blocks to share."""
    long_block: int = 32
    """The same for a loop of `long` iterations."""
    long: int = 512
    """A loop of this many iterations has blocks enough."""
    tile: int = 16
    """Iterations of the vector loop: lines a power of two apart have few places in the cache."""
    near: int = 8
    """Elements so few apart share cache lines anyway."""


def tiled(loop: For, target: Target) -> For:
    """A nest of loops, in tiles if it reads across the order in memory; else as it is."""
    nest = _perfect_nest(loop)
    vector = nest[-1]
    plain = all(isinstance(each, (Store, Let)) for each in vector.body)
    if len(nest) < 2 or vector.lanes == 1 or not plain:
        return loop
    along = _contiguous_loop(nest[:-1], vector, target)
    if along is None or _extent(along) < 2 * target[Tiling].block:
        return loop
    return _tile(nest, along, target[Tiling])


def _perfect_nest(loop: For) -> list[For]:
    """The loops that have nothing but each other inside, and the innermost one."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(nest[-1].body[0], For):
        nest.append(nest[-1].body[0])
    return nest


def _contiguous_loop(outer: Sequence[For], vector: For, target: Target) -> For | None:
    """The loop with stride one in what the vector loop reads with a larger stride."""
    loads = [x for x in scalars(vector.body) if x.op == "load"]
    inner = Coefficients(vector.index)
    count = _extent(vector)
    distant = [
        x for x in loads if not _is_cached(x, inner.of_element(x.attribute, x.args), count, target)
    ]
    votes: Counter[For] = Counter()
    for each in outer:
        own = Coefficients(each.index)
        votes[each] = sum(own.of_element(x.attribute, x.args) in (1, -1) for x in distant)
    best, most = votes.most_common(1)[0]
    return best if most else None


def _is_cached(element: Scalar, step: int | None, count: int, target: Target) -> bool:
    """Whether the cache lines of elements some steps apart are all in the cache."""
    if not step or abs(step) <= target[Tiling].near:
        return True
    apart = gcd(step * element.dtype.itemsize, target.cache // target.cache_ways)
    return 2 * count * max(apart, target.cache_line) <= target.cache


def _tile(nest: Sequence[For], along: For, lengths: Tiling) -> For:
    """Blocks of one loop where it was, and the block's iterations around a tile of the vectors."""
    vector = nest[-1]
    is_long = _extent(along) >= lengths.long
    block, start, stop = _block(along, lengths.long_block if is_long else lengths.block)
    if _extent(vector) > lengths.tile:
        tile, first, last = _block(vector, lengths.tile)
        whole = _extent(vector) % vector.lanes == 0 and lengths.tile % vector.lanes == 0
        inner = replace(vector, start=first, stop=last, repeatable=False, whole=whole)
        body: For = replace(along, start=start, stop=stop, body=(inner,))
        body = For(tile, ZERO, const(_extent(tile), INDEX), (body,))
    else:
        body = replace(along, start=start, stop=stop, body=(vector,))
    for each in reversed(nest[:-1]):
        if each is along:
            body = For(block, ZERO, const(_extent(block), INDEX), (body,))
        else:
            body = replace(each, body=(body,))
    return body


def _extent(loop: For | Scalar) -> int:
    extent: int = loop.attribute[2] if isinstance(loop, Scalar) else loop.stop.attribute
    return extent


def _block(loop: For, length: int) -> tuple[Scalar, Scalar, Scalar]:
    """The index of a loop's blocks, and where one starts and stops."""
    block = index("block", -(-_extent(loop) // length))
    return block, *block_range(block, length, loop.stop)

"""Loop tiling: loops over tiles, if an array is read across its memory order.

A vector loop that takes every thousandth element fetches each of them by itself. So several
iterations of the loop along which the elements are neighbours are done in one (unroll-and-jam):
vectors are loaded along memory, and transposed in registers. It also takes a cache line for each
element. If a cache holds all these lines until their next elements are asked for, all is well, and
long rows are written without a break. If not (lines a power of two apart have few places in a
cache), that loop is cut into blocks, and each block is done inside. Expects a nest of loops without
carried dependences; leaves one that does the same in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, ZERO, as_index, block_range, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Let, Statement, Store, local
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import scalars


class Tiling(NamedTuple):
    """Loops over tiles, where an array is read across the order that it lies in.

    Measured: all together (2048x2048 float32 across its order); `most_jammed` (transposes).
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
    most_jammed: int = 256
    """Lanes of vectors at most, of all the rows together that are done in one iteration."""
    largest_jammed: int = 800
    """Operations at most of all of them together."""


FEWEST_JAMMED = 4
"""Rows of fewer neighbours are not loaded as vectors."""

Body = tuple[Statement, ...]


def tiled(loop: For, target: Target) -> For:
    """A nest of loops, in tiles if it reads across the order in memory; else as it is."""
    nest = _perfect_nest(loop)
    vector = nest[-1]
    plain = all(isinstance(each, (Store, Let)) for each in vector.body)
    if len(nest) < 2 or vector.lanes == 1 or not plain:
        return loop
    limits = target[Tiling]
    distant, far = _distant_loads(vector, target)
    along = _contiguous_loop(nest[:-1], distant)
    if along is None:
        return loop
    jammed = _jammed_rows(vector, limits)
    if len(nest) == 2 and _extent(along) <= 2 * jammed:
        # all of it is written out; the vectors' loop is the outermost one then
        return replace(vector, body=_copies(vector.body, along, ZERO, _extent(along)), whole=False)
    if _extent(along) < 2 * limits.block or not (far or jammed):
        return loop
    return _tile(nest, along, limits, far, jammed)


def _perfect_nest(loop: For) -> list[For]:
    """The loops that have nothing but each other inside, and the innermost one."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(nest[-1].body[0], For):
        nest.append(nest[-1].body[0])
    return nest


def _distant_loads(vector: For, target: Target) -> tuple[list[Scalar], bool]:
    """What the vector loop loads with a stride, and whether that is more than a cache holds."""
    inner, count = Coefficients(vector.index), _extent(vector)
    loads = (x for x in scalars(vector.body) if x.op == "load")
    steps = {x: inner.of_element(x.attribute, x.args) or 0 for x in loads}
    distant = [x for x, step in steps.items() if abs(step) > 1]
    return distant, not all(_is_cached(x, steps[x], count, target) for x in distant)


def _contiguous_loop(outer: Sequence[For], distant: Sequence[Scalar]) -> For | None:
    """The loop with stride one in what the vector loop reads with a larger stride."""
    votes: Counter[For] = Counter()
    for each in outer:
        own = Coefficients(each.index)
        votes[each] = sum(own.of_element(x.attribute, x.args) in (1, -1) for x in distant)
    best, most = votes.most_common(1)[0]
    return best if most else None


def _is_cached(element: Scalar, step: int, count: int, target: Target) -> bool:
    """Whether the cache lines of elements some steps apart are all in the cache."""
    if abs(step) <= target[Tiling].near:
        return True
    apart = gcd(step * element.dtype.itemsize, target.cache // target.cache_ways)
    return 2 * count * max(apart, target.cache_line) <= target.cache


def _tile(nest: Sequence[For], along: For, lengths: Tiling, far: bool, jammed: int) -> For:
    """Blocks of one loop where it was, and the block's iterations around a tile of the vectors.

    With ``jammed`` of them in one, and a tile only where the vectors read ``far`` away.
    """
    vector = nest[-1]
    is_long = _extent(along) >= lengths.long
    block, start, stop = _block(along, lengths.long_block if is_long else lengths.block)
    tile = None
    if far and _extent(vector) > lengths.tile:
        tile, first, last = _block(vector, lengths.tile)
        whole = _extent(vector) % vector.lanes == 0 and lengths.tile % vector.lanes == 0
        vector = replace(vector, start=first, stop=last, repeatable=False, whole=whole)
    body = _jammed(vector, along, start, stop, jammed)
    if tile is not None:
        body = (For(tile, ZERO, const(_extent(tile), INDEX), body),)
    for each in reversed(nest[:-1]):
        if each is along:
            body = (For(block, ZERO, const(_extent(block), INDEX), body),)
        else:
            body = (replace(each, body=body),)
    (outermost,) = body
    assert isinstance(outermost, For)
    return outermost


def _jammed_rows(vector: For, limits: Tiling) -> int:
    """How many iterations of a loop around a vector loop are done in one; 0 if none are."""
    count = min(vector.lanes, limits.most_jammed // vector.lanes)
    operations = len(scalars(vector.body)) * count
    return count if count >= FEWEST_JAMMED and operations <= limits.largest_jammed else 0


def _jammed(vector: For, along: For, start: Scalar, stop: Scalar, count: int) -> Body:
    """Unroll-and-jam: a vector loop inside of another, several iterations of which are done in one.

    What neighbouring iterations read lies next to each other, and is loaded as vectors.
    """
    if not count:
        return (replace(along, start=start, stop=stop, body=(vector,)),)
    rounds = Scalar("idiv", (stop - start, as_index(count)), INDEX)
    turn = index("turn", -(-_extent(along) // count))
    copies = _copies(vector.body, along, start + turn * count, count)
    together = For(turn, ZERO, rounds, (replace(vector, body=copies),))
    rest = replace(along, start=start + rounds * count, stop=stop, body=(vector,))
    return (together, rest)


def _copies(body: Body, along: For, first: Scalar, count: int) -> Body:
    """Statements for some iterations of a loop around, one after the other."""
    simplify = Simplifier()
    copies: list[Statement] = []
    for number in range(count):
        values = {along.index: simplify(first + number)}
        for each in body:
            (copy,) = substituted((each,), values, simplify)
            if isinstance(copy, Let):
                names = tuple(local(x.dtype, x.attribute[0]) for x in copy.targets)
                values |= dict(zip(copy.targets, names, strict=True))
                copy = replace(copy, targets=names)
            copies.append(copy)
    return tuple(copies)


def _extent(loop: For | Scalar) -> int:
    extent: int = loop.attribute[2] if isinstance(loop, Scalar) else loop.stop.attribute
    return extent


def _block(loop: For, length: int) -> tuple[Scalar, Scalar, Scalar]:
    """The index of a loop's blocks, and where one starts and stops."""
    block = index("block", -(-_extent(loop) // length))
    return block, *block_range(block, length, loop.stop)

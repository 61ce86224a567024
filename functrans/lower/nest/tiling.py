"""Loop tiling: loops over tiles, if an array is read across its memory order.

A vector loop over elements with a large stride loads each of them separately. So several iterations
of the loop along which elements are contiguous are combined (unroll-and-jam): vectors are loaded
along memory, and transposed in registers. A strided loop also touches one cache line for each
element. If the cache keeps all these lines until their next elements are read, no tiling is needed,
and long rows are written without interruption. If not (lines a power of two apart share few cache
sets), the contiguous loop is cut into blocks, and each block is executed inside. Expects a nest of
loops without carried dependences; leaves an equivalent one in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd

from functrans.loop.affine import Coefficients
from functrans.loop.linear_places import divides, linear_place
from functrans.loop.nodes import INDEX, ZERO, as_index, block_range, index, linear
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Statement, Store, local
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import Body, scalars
from functrans.records import NamedTuple


class Tiling(NamedTuple):
    """Thresholds of tiling, for arrays that are read across their memory order.

    Measured: all together (2048x2048 float32 across its order); `most_jammed` (transposes).
    """

    block: int = 16  # the block length of the contiguous loop, if threads need many blocks
    long_block: int = 64  # the block length of a loop of at least `long` iterations
    long: int = 512  # the fewest iterations of a loop that has enough blocks
    near: int = 8  # elements up to this distance share cache lines anyway
    most_jammed: int = 256  # the most vector lanes of all combined rows together
    largest_jammed: int = 800  # the most operations of all combined rows together


FEWEST_JAMMED = 4
"""The fewest contiguous elements that are loaded as a vector."""
FEWEST_APART = 8
"""The fewest statements that have a loop of their own, rather than being written for each row."""


def tiled(loop: For, target: Target) -> For:
    """Tile a nest of loops if it reads across the memory order."""
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
        # the inner loop is unrolled; the vector loop becomes the outermost one
        return replace(vector, body=_copies(vector.body, along, ZERO, _extent(along)), whole=False)
    if not ((jammed and _extent(along) >= jammed) or (far and _extent(along) >= 2 * limits.block)):
        return loop
    tile = max(vector.lanes, target.cache_line // _itemsize(vector)) if far else 0
    return _tile(nest, along, limits, tile, jammed)


def _perfect_nest(loop: For) -> list[For]:
    """The perfectly nested loops, the innermost one last."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(nest[-1].body[0], For):
        nest.append(nest[-1].body[0])
    return nest


def _distant_loads(vector: For, target: Target) -> tuple[list[Scalar], bool]:
    """The strided loads of the vector loop, and whether they exceed a cache."""
    inner, count = Coefficients(vector.index), _extent(vector)
    loads = (x for x in scalars(vector.body) if x.op == "load")
    steps = {x: _stride(inner, x) or 0 for x in loads}
    distant = [x for x, step in steps.items() if abs(step) > 1]
    return distant, not all(_is_cached(x, steps[x], count, target) for x in distant)


def _contiguous_loop(outer: Sequence[For], distant: Sequence[Scalar]) -> For | None:
    """The loop with stride one in the strided loads of the vector loop."""
    votes: Counter[For] = Counter()
    for each in outer:
        own = Coefficients(each.index)
        votes[each] = sum(_stride(own, x) in (1, -1) for x in distant)
    best, most = votes.most_common(1)[0]
    return best if most else None


def _stride(own: Coefficients, element: Scalar) -> int | None:
    """The stride of a load in memory, also through a reshape; None if it is not constant."""
    one, position = element.attribute, element.args
    if divides(position) and all(extent.op == "const" for extent in one.shape):
        return own.of(linear_place(one, position, Simplifier()))
    return own.of_element(one, position)


def _is_cached(element: Scalar, step: int, count: int, target: Target) -> bool:
    """Whether the cache holds the lines of all elements at a given stride."""
    if abs(step) <= target[Tiling].near:
        return True
    apart = gcd(step * element.dtype.itemsize, target.cache // target.cache_ways)
    return 2 * count * max(apart, target.cache_line) <= target.cache


def _tile(nest: Sequence[For], along: For, lengths: Tiling, length: int, jammed: int) -> For:
    """Replace a loop by its blocks, with a block's iterations around a tile of the vector loop.

    ``jammed`` iterations are combined. The vector loop is cut into tiles of a ``length``, if it is
    not 0: of the cache lines that are written, since lines a power of two apart share few sets.
    """
    vector, straight = _fissioned(nest[-1], along) if jammed else (nest[-1], ())
    is_long = _extent(along) >= lengths.long
    block, start, stop = _block(along, lengths.long_block if is_long else lengths.block)
    tile = None
    if length and _extent(vector) > length:
        tile, first, last = _block(vector, length)
        whole = _extent(vector) % vector.lanes == 0
        vector = replace(vector, start=first, stop=last, repeatable=False, whole=whole)
    body = _jammed(vector, along, start, stop, jammed)
    if tile is not None:
        body = (For(tile, ZERO, const(_extent(tile), INDEX), body),)
    if straight:
        copied = replace(nest[-1], body=straight)
        body = (*body, replace(along, start=start, stop=stop, body=(copied,)))
    # inside the other loops, if threads can share these: blocks of a row follow each other
    others = [each for each in nest[:-1] if each is not along]
    is_inside = others and _extent(others[0]) >= lengths.block
    for each in reversed([*others, along] if is_inside else nest[:-1]):
        if each is along:
            body = (For(block, ZERO, const(_extent(block), INDEX), body),)
        else:
            body = (replace(each, body=body),)
    (outermost,) = body
    assert isinstance(outermost, For)
    return outermost


def _jammed_rows(vector: For, limits: Tiling) -> int:
    """The number of iterations that unroll-and-jam combines; 0 for none."""
    count = min(vector.lanes, limits.most_jammed // vector.lanes)
    operations = len(scalars(vector.body)) * count
    return count if count >= FEWEST_JAMMED and operations <= limits.largest_jammed else 0


def _jammed(vector: For, along: For, start: Scalar, stop: Scalar, count: int) -> Body:
    """Unroll-and-jam: combine several iterations of the loop around a vector loop.

    Neighbouring iterations read contiguous elements, which are loaded as vectors.
    """
    if not count:
        return (replace(along, start=start, stop=stop, body=(vector,)),)
    rounds = Scalar("idiv", (stop - start, as_index(count)), INDEX)
    turn = index("turn", -(-_extent(along) // count))
    copies = _copies(vector.body, along, start + turn * count, count)
    together = For(turn, ZERO, rounds, (replace(vector, body=copies),))
    rest = replace(along, start=start + rounds * count, stop=stop, body=(vector,))
    return (together, rest)


def _fissioned(vector: For, along: For) -> tuple[For, Body]:
    """Loop fission: a loop of what reads across the memory order, and the other statements.

    Only the former are worth combining: a concatenation copies many arrays, and may transpose one.
    """
    inner, outer = Coefficients(vector.index), Coefficients(along.index)
    across: dict[Statement, set[Scalar]] = {}
    straight: dict[Statement, set[Scalar]] = {}
    for each in vector.body:
        loads = {x for x in scalars((each,)) if x.op == "load"}
        turns = (abs(_stride(inner, x) or 0) > 1 and _stride(outer, x) in (1, -1) for x in loads)
        (across if any(turns) else straight)[each] = loads
    shared = set().union(*across.values()) & set().union(*straight.values())
    if shared or len(straight) < FEWEST_APART or not _in_any_order(vector.body):
        return vector, ()
    return replace(vector, body=tuple(across)), tuple(straight)


def _in_any_order(body: Body) -> bool:
    """Whether statements store to places that differ by constants, and read none of them."""
    read = {x.attribute for x in scalars(body) if x.op == "load"}
    simplify, places = Simplifier(), set()
    varying: dict[Buffer, Mapping[Scalar, int]] = {}
    for each in body:
        if not isinstance(each, Store) or each.op is not None or each.target in read:
            return False
        if any(extent.op != "const" for extent in each.target.shape):
            return False
        extents = [int(extent.attribute) for extent in each.target.shape]
        terms, constant = simplify.terms(linear(each.indices, extents))
        if varying.setdefault(each.target, terms) != terms or (each.target, constant) in places:
            return False
        places.add((each.target, constant))
    return True


def _copies(body: Body, along: For, first: Scalar, count: int) -> Body:
    """Unroll statements for several iterations of an enclosing loop."""
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
    return loop.attribute[2] if isinstance(loop, Scalar) else loop.stop.attribute


def _itemsize(vector: For) -> int:
    return max(each.target.dtype.itemsize for each in vector.body if isinstance(each, Store))


def _block(loop: For, length: int) -> tuple[Scalar, Scalar, Scalar]:
    """The index of a loop's blocks, and the start and stop of a block."""
    block = index("block", -(-_extent(loop) // length))
    return block, *block_range(block, length, loop.stop)

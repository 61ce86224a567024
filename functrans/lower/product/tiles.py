"""Register blocking of matrix products: the rows and columns of a tile of sums in registers.

With AVX-512, the time of all tiles is estimated for each width from one to several vectors, of
which the last may be a half or a quarter: AMD's cores execute instructions on half a vector in half
the time. Of a quarter, several terms are added at once (`functrans.emit.llvm.parts`), if the terms
of a row are contiguous. A tile of 20 or 52 columns so takes little more than its part of the lanes.

Without AVX-512, masks take registers and several instructions. The columns of two, three or five
vectors are one tile, whose last vector overlaps the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.product.limits import Blocking, extents_of
from functrans.lower.product.packing import gaps
from functrans.lower.select.root import Contraction
from functrans.records import NamedTuple


class Tile(NamedTuple):
    """The columns of a tile, the vectors in each of its rows, and the most rows."""

    width: int
    vectors: int
    most: int


def tile_of(root: Contraction, target: Target, in_vectors: bool, is_alone: bool) -> Tile:
    """The tile of a product, which is ``alone`` if no operations are fused with it."""
    size, limits = extents_of(root), target[Blocking]
    itemsize = root.target.dtype.itemsize
    lanes = target.lanes(itemsize)
    has_many = target.registers > limits.few_registers and lanes >= 8
    if has_many and size.columns > lanes and not root.shared_rows:
        _, found = min(_candidates(root, target, in_vectors))
        return found
    vectors = -(-size.columns // lanes)
    is_free = is_alone and not (root.symmetric or root.shared_rows)
    has_few = target.registers <= limits.few_registers
    if is_free and has_few and vectors in limits.vectors_of_one_tile:
        most = _most_rows(target, vectors)
        # of five rows, tiles of a single row would have too few sums (measured: 1.06 to 1.28)
        if size.rows <= limits.fewest_rows or height_of(size.rows, most, vectors, limits) > 1:
            return Tile(size.columns, vectors, most)
    found = tile_of_vectors(size.rows, size.columns, target, itemsize)
    if found.vectors < 3 and not root.shared_rows and lanes > 1 and _are_three_better(root, target):
        return Tile(3 * lanes, 3, _most_rows(target, 3))
    return found


def tile_of_vectors(rows: int, columns: int, target: Target, itemsize: int) -> Tile:
    """A tile of one, two or four vectors."""
    limits, lanes = target[Blocking], target.lanes(itemsize)
    while lanes > 1 and lanes // 2 >= columns:
        lanes //= 2
    one = -(-columns // lanes) * _single_vector(target)
    two = -(-columns // (2 * lanes)) * 2
    vectors = 4 if rows <= limits.fewest_rows and columns >= 4 * lanes else 2
    if columns <= lanes or (one < two and rows > limits.few_rows):
        vectors = 1
    return Tile(vectors * lanes, vectors, _most_rows(target, vectors))


def _candidates(
    root: Contraction, target: Target, in_vectors: bool
) -> Iterator[tuple[float, Tile]]:
    """Tiles of whole vectors and perhaps a part of one, and the estimated time of a product."""
    size, limits = extents_of(root), target[Blocking]
    itemsize = root.target.dtype.itemsize
    lanes, counter = target.lanes(itemsize), root.counter
    assert counter is not None
    left, right = map(_sources, root.factors)
    together = gaps(root.factors[0], counter) == 0
    is_short = size.terms < limits.shortest_unaligned  # storing takes much of the time
    is_aligned = is_short and size.columns % (lanes // 2) == 0
    half = 0.5 if is_short else limits.half_part
    quarter = limits.quarter_vector if together else half
    fewest = min(size.rows, limits.rows_of_copies if in_vectors else limits.fewest_rows)
    for whole in range(1, limits.widest + 1):
        for part, time in (0, 0.0), (lanes // 4, quarter), (lanes // 2, half):
            width, vectors = whole * lanes + part, whole + (part > 0)
            most = _most_rows(target, vectors)
            if together and part == lanes // 4:
                most = limits.sums_together // vectors
            rows = height_of(size.rows, most, vectors, limits, in_vectors)
            if rows < fewest or (is_aligned and part and width < size.columns):
                continue
            if together and part == lanes // 4 and left == right:
                continue  # `x @ x.T` is symmetric, bit by bit: all its sums have the same order
            time = (
                (whole + time) * -(-size.columns // width) * _time(size.rows, rows, vectors, limits)
            )
            time *= 1 + limits.other_vectors * abs(vectors - 2)
            yield time * (limits.single_vector if whole == 1 else 1), Tile(width, vectors, most)


def _sources(factor: Scalar) -> set[Buffer]:
    """The buffers that an operand is read from."""
    return {node.attribute for node in postorder([factor]) if node.op == "load"}


def _single_vector(target: Target) -> float:
    """The cost of a column in tiles of one vector, relative to other tiles."""
    limits = target[Blocking]
    return limits.single_vector if target.registers > limits.few_registers else limits.lone_vector


def _are_three_better(root: Contraction, target: Target) -> bool:
    """Whether tiles of three vectors have fewer unused lanes beyond the last column.

    Not if columns are transposed while they are packed, because that works by halves of vectors.
    """
    size, limits = extents_of(root), target[Blocking]
    right, counter = root.factors[1], root.counter
    assert counter is not None
    if target.registers > limits.few_registers:
        return False
    if gaps(right, counter) <= gaps(right, root.sides[2][-1]):
        return False
    itemsize = root.target.dtype.itemsize
    lanes = target.lanes(itemsize)
    three, one = -(-size.columns // (3 * lanes)) * 3, -(-size.columns // lanes)
    vectors = tile_of_vectors(size.rows, size.columns, target, itemsize).vectors
    return three < (one * _single_vector(target) if vectors == 1 else one + one % 2)


def _most_rows(target: Target, vectors: int) -> int:
    """The most rows of a tile of so many vectors: sums take three quarters of the registers."""
    limits, most = target[Blocking], max(3 * target.registers // (4 * vectors), 1)
    return min(most, limits.most_rows) if target.registers <= limits.few_registers else most


def _time(rows: int, height: int, vectors: int, limits: Blocking) -> float:
    """The estimated time of tiles below each other: few sums wait for each other's additions."""
    missing = max(limits.enough_sums - height * vectors, 0)
    return -(-rows // height) * height * (1 + limits.missing_sum * missing)


def height_of(
    rows: int,
    most: int,
    vectors: int,
    limits: Blocking,
    in_vectors: bool = False,
    divides: bool = False,
) -> int:
    """The rows of a tile: few rows are left over, and enough independent sums are in flight.

    With ``divides``, no rows are left over, if such tiles take about as long.
    """
    power = 1 << most.bit_length() - 1
    if in_vectors and rows > power and power * vectors >= limits.enough_sums:
        return power
    fewest = min(max(most // 2, 1), rows)
    heights = range(fewest, most + 1)
    if in_vectors and most > 1:
        heights = range(fewest + fewest % 2, most + 1, 2)
    times = {height: _time(rows, height, vectors, limits) for height in heights}
    slowest = limits.time_of_whole_tiles * min(times.values())
    whole = [n for n in heights if divides and rows % n == 0 and times[n] <= slowest]
    return min(whole or heights, key=lambda n: (times[n], -n))

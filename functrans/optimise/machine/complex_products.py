"""Products of complex matrices by few real ones, which read what is in memory as it lies.

*With a vector*: a row of ``n`` complex numbers is one of ``2 n`` real ones, so the matrix is
multiplied by a real matrix with two columns, or with two rows, that is made of the vector's parts.

*Of two matrices*: both parts of the left operand are rows of one real matrix, and both parts of the
right one columns of another. The product of these has all four products of parts as its blocks. The
sums are those of four products, but it is one kernel instead of four, and packs operands once.
"""

from __future__ import annotations

from math import prod
from typing import Any

from functrans.ir.types import Shape
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import move_axis, reshape
from functrans.ops.compiled.pairs import Pair
from functrans.ops.compiled.places import whole
from functrans.ops.linalg.contraction import dot_general
from functrans.records import NamedTuple

FEWEST, SMALLEST = 4, 512
"""The fewest rows, or columns, and elements for which the vector's parts are worth a copy."""

LEAST_WORK = 1000
"""The fewest complex multiplications of matrices that are one product of parts. Measured."""

FEWEST_TERMS = 8
"""The fewest terms of its sums: with fewer, adding up the blocks takes most of the time."""

FEWEST_READS, LARGEST_COPY = 64, 1 << 19
"""A copy that places the parts of an operand beside each other is made if it is read so often, or
has at most so many bytes. Otherwise each part is multiplied alone."""


def is_small(shape: Shape) -> bool:
    """Whether the parts of a matrix are as well multiplied one by one."""
    return min(shape) < FEWEST or prod(shape) < SMALLEST


def with_vector(matrix: Any, vector: Pair, axis: int) -> Pair:
    """The sums over an axis of the products of a matrix, with interleaved parts, and a vector."""
    rows, columns, _ = matrix.shape
    flat = reshape(matrix, shape=(rows, 2 * columns))
    if axis == 1:
        pairs = [stack(each, axis=1) for each in ([vector.re, -vector.im], [vector.im, vector.re])]
        factors = reshape(stack(pairs, axis=0), shape=(2, 2 * columns))
        sums = dot_general(flat, factors, contract=((1,), (1,)), batch=((), ()))
        return Pair(at(sums, 1, 0), at(sums, 1, 1))
    real, imaginary = (
        reshape(dot_general(part, flat, contract=((0,), (0,)), batch=((), ())), shape=(columns, 2))
        for part in vector
    )
    return Pair(at(real, 1, 0) - at(imaginary, 1, 1), at(real, 1, 1) + at(imaginary, 1, 0))


class Operand(NamedTuple):
    """A complex operand of a product of matrices, as real arrays."""

    arrays: tuple[Any, ...]  # one with both parts along an axis, or one for each part
    extent: int  # the extent of that axis for one part
    interleaved: bool  # whether the parts of an element are adjacent, rather than the elements
    conjugated: bool  # whether the imaginary part has the other sign


def operand(
    stored: Any,  # the operand with interleaved parts, or None
    pair: Pair,  # its parts
    axis: int,  # the axis along which both parts may be in one array
    conjugated: bool,
    reads: int,  # how often a product reads each element
) -> Operand:
    """The arrays for an operand; its parts are copied only if that is worthwhile."""
    shape = pair.re.shape
    before, extent, after = shape[:axis], shape[axis], shape[axis + 1 :]
    both = (*before, 2 * extent, *after)
    if stored is not None and not after:
        return Operand((reshape(stored, shape=both),), extent, True, conjugated)
    if reads < FEWEST_READS and 2 * prod(shape) * pair.dtype.itemsize > LARGEST_COPY:
        return Operand(tuple(pair), extent, False, conjugated)
    # of rows, the parts follow each other, so that threads share a copy
    place = axis + 1 if after else axis
    if stored is None:
        apart = stack(list(pair), axis=place)
    else:
        apart = move_axis(stored, len(shape), place)
    return Operand((reshape(apart, shape=both),), extent, bool(after), conjugated)


def of_matrices(x: Operand, y: Operand, **axes: Any) -> Pair:
    """The product of two complex operands, contracted along ``axes``."""
    products = [[dot_general(a, b, **axes) for b in y.arrays] for a in x.arrays]
    free = y.arrays[0].ndim - len(axes["contract"][1]) - len(axes["batch"][1])
    places = products[0][0].ndim - 1 - free, products[0][0].ndim - 1

    def block(i: int, j: int) -> Any:
        """The product of a part of each operand."""
        found = products[min(i, len(x.arrays) - 1)][min(j, len(y.arrays) - 1)]
        index = [whole(n) for n in found.shape]
        for place, own, part in zip(places, (x, y), (i, j), strict=True):
            if len(own.arrays) == 1:
                start, step = (part, 2) if own.interleaved else (part * own.extent, 1)
                index[place] = (start, own.extent, step)
        return read_slice(found, index=tuple(index))

    re, im = block(0, 0), -block(0, 1) if y.conjugated else block(0, 1)
    return Pair(
        re + block(1, 1) if x.conjugated != y.conjugated else re - block(1, 1),
        im - block(1, 0) if x.conjugated else im + block(1, 0),
    )


def at(x: Any, axis: int, place: int) -> Any:
    """The elements at a position along an axis."""
    index = [whole(n) for n in x.shape]
    index[axis] = (place, 1, 1)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return reshape(read_slice(x, index=tuple(index)), shape=shape)

"""Products of a complex matrix in memory with a vector: real products, which copy no parts.

A row of ``n`` complex numbers is one of ``2 n`` real ones, so the matrix is multiplied by a real
matrix with two columns, or with two rows, that is made of the vector's parts.
"""

from __future__ import annotations

from math import prod
from typing import Any

from functrans.ir.types import Shape
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import reshape
from functrans.ops.compiled.pairs import Pair
from functrans.ops.compiled.places import whole
from functrans.ops.linalg.contraction import dot_general

FEWEST, SMALLEST = 4, 512
"""The fewest rows, or columns, and elements for which the vector's parts are worth a copy."""


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
        return Pair(_at(sums, 1, 0), _at(sums, 1, 1))
    real, imaginary = (
        reshape(dot_general(part, flat, contract=((0,), (0,)), batch=((), ())), shape=(columns, 2))
        for part in vector
    )
    return Pair(_at(real, 1, 0) - _at(imaginary, 1, 1), _at(real, 1, 1) + _at(imaginary, 1, 0))


def _at(x: Any, axis: int, place: int) -> Any:
    """The elements at a position along an axis."""
    index = [whole(n) for n in x.shape]
    index[axis] = (place, 1, 1)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return reshape(read_slice(x, index=tuple(index)), shape=shape)

"""Block diagonal matrices with blocks of size one and two, whose pattern depends on the values.

A nonzero element next to the diagonal marks a block of size two: complex eigenvalues of a real
Schur form, or pivots of indefinite matrices.
"""

from __future__ import annotations

from typing import Any

from functrans.ops.arrays.structural import broadcast_to, cast, iota, reduce_sum, reshape
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal, greater, not_equal
from functrans.ops.linalg.matrices import INDEX, on_columns, on_rows


def diagonal(x: Any, offset: int = 0) -> Any:
    """The elements ``x[i, i + offset]`` of square matrices, by rows; 0 where there is none."""
    return reduce_sum(masked(_is_on_diagonal(x, offset), x), axes=(x.ndim - 1,))


def on_diagonal(x: Any, like: Any, offset: int = 0) -> Any:
    """The square matrices with ``x[i]`` in row i of the diagonal at ``offset``, zeros elsewhere."""
    return masked(_is_on_diagonal(like, offset), broadcast_to(on_rows(x), shape=like.shape))


def _is_on_diagonal(x: Any, offset: int) -> Any:
    counter = iota(size=x.shape[-1], dtype=INDEX)
    there = equal(reshape(counter + offset, shape=(x.shape[-1], 1)), counter)
    return broadcast_to(there, shape=x.shape)


def blocks(x: Any) -> Any:
    """The block of each row, as the number of the block's first row."""
    is_second = not_equal(diagonal(x, -1), 0)
    return iota(size=x.shape[-1], dtype=INDEX) - cast(is_second, dtype=INDEX)


def within(x: Any, block: Any) -> Any:
    """The elements on the blocks, and zeros elsewhere."""
    return masked(equal(on_rows(block), on_columns(block)), x)


def below(x: Any, block: Any) -> Any:
    """The elements below the blocks, and zeros elsewhere."""
    return masked(greater(on_rows(block), on_columns(block)), x)

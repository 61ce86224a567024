"""Fragments: the part of a matrix product that a warp computes with one instruction.

A fragment of accumulators has 16 rows and 8 columns; each thread of the warp holds four of its
elements in registers: two adjacent ones in the row whose number is the thread's index divided by
four, and the two in the row 8 below. (PTX ISA, "Matrix fragments for mma".) The terms of a fragment
of an operand take 32 bytes: 16 of a 16-bit float, 8 of float32, 4 of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functrans.loop.scalar import Scalar, bitcast, const, ne, where

WARP = 32
"""The threads that hold a fragment together."""

ROWS, COLUMNS = 16, 8
"""The shape of a fragment of accumulators."""

SUMS = ROWS * COLUMNS // WARP
"""The elements of a fragment that each thread holds."""

TF32_UNUSED = 13
"""The low bits of a float32 that tensor cores ignore; the remaining format is called tf32."""


def terms(dtype: np.dtype[Any]) -> int:
    """The number of terms that an instruction adds to each element."""
    return 32 // dtype.itemsize


def own_rows(quotient: Any, rows: int) -> list[Any]:
    """The rows of a fragment that a thread holds, given its index in the warp // 4."""
    return [quotient + first for first in range(0, rows, ROWS // 2)]


def own_columns(rest: Any, columns: int) -> list[Any]:
    """The columns of a fragment that a thread holds, given its index modulo 4."""
    return [rest * 2 + (first + each) for first in range(0, columns, COLUMNS) for each in range(2)]


def own_sums(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """For each accumulator of a thread, its row and column among those that the thread holds.

    Ordered by fragment, as an instruction takes them: four registers for each.
    """
    for row in range(0, rows // ROWS * 2, 2):
        for column in range(0, columns // COLUMNS * 2, 2):
            for number in range(SUMS):
                yield row + number // 2, column + number % 2


def as_tf32(x: Scalar) -> Scalar:
    """A float32, rounded to the nearest tf32; ties away from zero."""
    bits = bitcast(x, np.uint32)
    least = 1 << TF32_UNUSED
    rounded = (bits + least // 2) & (2**32 - least)
    # (the carry could change the sign of a NaN)
    return where(ne(x, x), const(np.nan, np.float32), bitcast(rounded, np.float32))

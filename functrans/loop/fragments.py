"""Fragments: the part of a matrix product that a warp computes with one instruction.

A fragment of sums has 16 rows and 8 columns, four numbers of which each thread of the warp has in
registers: two neighbours in the row that its number, divided by four, says, and the two in the row
8 below. (PTX ISA, "Matrix fragments for mma".) Of what is multiplied, 32 bytes are terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functrans.loop.scalar import Scalar, bitcast, const, ne, where

WARP = 32
"""Threads that hold a fragment together."""

ROWS, COLUMNS = 16, 8
"""Of a fragment of sums."""

SUMS = ROWS * COLUMNS // WARP
"""Numbers of a fragment that a thread has."""

TF32_UNUSED = 13
"""Bits of a float32 that tensor cores do not look at: what is left is called tf32."""


def terms(dtype: np.dtype[Any]) -> int:
    """How many terms of each sum an instruction adds."""
    return 32 // dtype.itemsize


def own_rows(quotient: Any, rows: int) -> list[Any]:
    """The rows of a fragment of which a thread has sums; its number in the warp // 4 is given."""
    return [quotient + first for first in range(0, rows, ROWS // 2)]


def own_columns(rest: Any, columns: int) -> list[Any]:
    """The columns of a fragment of which a thread has sums; its number modulo 4 is given."""
    return [rest * 2 + (first + each) for first in range(0, columns, COLUMNS) for each in range(2)]


def own_sums(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """For each sum of a thread, of a fragment of rows and columns: which of its own it is of.

    Fragment after fragment, as an instruction takes them: the sums of four registers.
    """
    for row in range(0, rows // ROWS * 2, 2):
        for column in range(0, columns // COLUMNS * 2, 2):
            for number in range(SUMS):
                yield row + number // 2, column + number % 2


def as_tf32(x: Scalar) -> Scalar:
    """A float32, rounded to the nearest tf32, and of two to that further from zero."""
    bits = bitcast(x, np.uint32)
    least = 1 << TF32_UNUSED
    rounded = (bits + least // 2) & (2**32 - least)
    # (the bits of a NaN might be carried into its sign)
    return where(ne(x, x), const(np.nan, np.float32), bitcast(rounded, np.float32))

"""Matrix products by warps: fragments of the operands in shared memory, and `mma` of these.

16-bit elements are read by `matrices`: each thread of the warp provides the address of one row of 8
elements, threads 0 to 7 those of the first matrix, threads 8 to 15 those of the second, and so on.
Four of these matrices are a fragment of the left operand; two are one of the right operand. 32-bit
and 64-bit elements are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import product

from functrans.loop.fragments import COLUMNS, ROWS, SUMS, WARP, terms
from functrans.loop.statements import MatrixMultiply, Panel

Fragments = list[list[str]]
"""The names of a thread's registers of each fragment of an operand."""

_SIDE = 8
"""The rows and the columns of a matrix that `matrices` reads."""


def multiplied(
    statement: MatrixMultiply,
    function: str,  # the device function that multiplies fragments
    tiles: Sequence[str],  # the names of the operands' tiles
    corners: Sequence[str],  # the positions of the fragments in these
    sums: Sequence[str],  # the thread's accumulators
    lane: str,  # the thread's index in the warp
    unique: Callable[[str], str],  # returns a name that is not in use
) -> Iterator[str]:
    """The lines of a product."""
    read = _in_words if statement.dtype.itemsize == 2 else _one_by_one
    operands: list[Fragments] = []
    for panel, tile, corner, height in zip(
        (statement.left, statement.right), tiles, corners, (ROWS, COLUMNS), strict=True
    ):
        found = yield from read(panel, height, tile, corner, lane, unique, statement.rounded)
        operands.append(found)
    for number, (a, b) in enumerate(product(*operands)):
        own = ", ".join(sums[number * SUMS : (number + 1) * SUMS])
        yield f"{own} = {function}({own}, {', '.join((*a, *b))})"


def _in_words(
    panel: Panel,
    height: int,
    tile: str,
    corner: str,
    lane: str,
    unique: Callable[[str], str],
    rounded: bool,
) -> Generator[str, None, Fragments]:
    """Fragments of 16-bit elements, two in a register."""
    # the half of the 16 rows, and of the 16 terms, to which the row of this thread belongs
    halves = [f"irem(idiv({lane}, {_SIDE}), 2)", f"irem(idiv({lane}, {2 * _SIDE}), 2)"]
    row, term = halves if height == ROWS else halves[::-1]
    line = max(panel.apart, panel.terms_apart)
    place = unique("place")
    yield (
        f"{place} = {corner} + irem({lane}, {_SIDE}) * {line}"
        f" + {row} * {_SIDE * panel.apart} + {term} * {_SIDE * panel.terms_apart}"
    )
    name = "matrices" if panel.terms_apart == 1 else "matrices_transposed"
    found: Fragments = []
    for first in range(0, panel.rows, ROWS):
        words = [unique("a" if height == ROWS else "b") for _ in range(4)]
        yield f"{', '.join(words)} = {name}({tile}, {_behind(place, first * panel.apart)})"
        each = 4 * height // ROWS
        found += [words[i : i + each] for i in range(0, 4, each)]
    return found


def _one_by_one(
    panel: Panel,
    height: int,
    tile: str,
    corner: str,
    lane: str,
    unique: Callable[[str], str],
    rounded: bool,
) -> Generator[str, None, Fragments]:
    """Fragments of wider elements, one in a register.

    A thread has the rows that begin at its index in the warp // 4, 8 apart, and the terms that
    begin at its index modulo 4, 4 apart. (PTX ISA, "Matrix fragments for mma.m16n8k8", of ``.tf32``
    and of ``.f64``, "mma.m16n8k4" and "mma.m8n8k4", of ``.f64``.)
    """
    place = unique("place")
    yield (
        f"{place} = {corner} + irem(idiv({lane}, 4), {WARP // 4}) * {panel.apart}"
        f" + irem({lane}, 4) * {panel.terms_apart}"
    )
    found: Fragments = []
    for first in range(0, panel.rows, height):
        words: list[str] = []
        for term in range(0, terms(panel.corner.target.dtype), 4):
            for row in range(first, first + height, _SIDE):
                words.append(unique("a" if height == ROWS else "b"))
                offset = row * panel.apart + term * panel.terms_apart
                word = f"{tile}[{_behind(place, offset)}]"
                yield f"{words[-1]} = {f'as_tf32({word})' if rounded else word}"
        found.append(words)
    return found


def _behind(place: str, offset: int) -> str:
    return f"{place} + {offset}" if offset else place

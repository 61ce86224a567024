"""Products by warps as text: fragments of the operands from shared memory, and `mma` of these.

Numbers of 16 bits come by `matrices`, for which each thread of the warp names one row of 8 numbers:
those with numbers 0 to 7 the rows of the first matrix, the next 8 those of the second, and so on.
Four of them are a fragment of the left operand, or two of the right one. Numbers of 32 bits are
read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from functrans.loop.fragments import COLUMNS, ROWS, SUMS, WARP
from functrans.loop.statements import MatrixMultiply, Panel

_SIDE = 8
"""Rows, and columns, of a matrix that is read at once."""


def multiplied(
    statement: MatrixMultiply,
    tiles: Sequence[str],
    corners: Sequence[str],
    sums: Sequence[str],
    lane: str,
    unique: Callable[[str], str],
) -> Iterator[str]:
    """The lines of a product.

    Parameters
    ----------
    statement : MatrixMultiply
    tiles, corners : sequence of str
        The names of what the operands are in, and where each begins there.
    sums : sequence of str
        The thread's variables.
    lane : str
        The number of the thread.
    unique : callable
        Makes a name that nothing else has.
    """
    read = _in_words if statement.dtype.itemsize == 2 else _one_by_one
    operands: list[list[list[str]]] = []
    for panel, tile, corner, height in zip(
        (statement.left, statement.right), tiles, corners, (ROWS, COLUMNS), strict=True
    ):
        found: list[list[str]] = []
        yield from read(panel, height, tile, corner, lane, unique, statement.rounded, found)
        operands.append(found)
    left, right = operands
    places = iter(range(0, len(sums), SUMS))
    for a in left:
        for b in right:
            first = next(places)
            own = ", ".join(sums[first : first + SUMS])
            yield f"{own} = mma_{statement.dtype}({own}, {', '.join((*a, *b))})"


def _in_words(
    panel: Panel,
    height: int,
    tile: str,
    corner: str,
    lane: str,
    unique: Callable[[str], str],
    rounded: bool,
    found: list[list[str]],
) -> Iterator[str]:
    """Fragments of numbers of 16 bits, two of which are a word."""
    # which half of 16 rows, and of 16 terms, the matrix is of whose row this thread names
    halves = [f"irem(idiv({lane}, {_SIDE}), 2)", f"irem(idiv({lane}, {2 * _SIDE}), 2)"]
    row, term = halves if height == ROWS else halves[::-1]
    line = max(panel.apart, panel.terms_apart)
    place = unique("place")
    yield (
        f"{place} = {corner} + irem({lane}, {_SIDE}) * {line}"
        f" + {row} * {_SIDE * panel.apart} + {term} * {_SIDE * panel.terms_apart}"
    )
    name = "matrices" if panel.terms_apart == 1 else "matrices_transposed"
    for first in range(0, panel.rows, ROWS):
        words = [unique("a" if height == ROWS else "b") for _ in range(4)]
        yield f"{', '.join(words)} = {name}({tile}, {_behind(place, first * panel.apart)})"
        each = 4 * height // ROWS
        found += [words[i : i + each] for i in range(0, 4, each)]


def _one_by_one(
    panel: Panel,
    height: int,
    tile: str,
    corner: str,
    lane: str,
    unique: Callable[[str], str],
    rounded: bool,
    found: list[list[str]],
) -> Iterator[str]:
    """Fragments of numbers of 32 bits, each in a register."""
    place = unique("place")
    yield (
        f"{place} = {corner} + irem(idiv({lane}, 4), {WARP // 4}) * {panel.apart}"
        f" + irem({lane}, 4) * {panel.terms_apart}"
    )
    for first in range(0, panel.rows, height):
        words: list[str] = []
        for term in (0, 4):
            for row in range(first, first + height, _SIDE):
                words.append(unique("a" if height == ROWS else "b"))
                offset = row * panel.apart + term * panel.terms_apart
                word = f"{tile}[{_behind(place, offset)}]"
                yield f"{words[-1]} = {f'as_tf32({word})' if rounded else word}"
        found.append(words)


def _behind(place: str, offset: int) -> str:
    return f"{place} + {offset}" if offset else place

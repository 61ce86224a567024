"""Guards of the inline cache: what must be unchanged besides the arguments.

They are a program of a small machine, which `guards.ll` is. Each of its instructions is three
words: what it does, and two operands. It may have an object, and a dictionary or a list, in hand:

    LIST, DICT       take a list or a dictionary in hand; a list must have so many elements
    OBJECT           take an object in hand, which must be of a type
    ATTRIBUTES       take the dictionary of that object in hand, too
    SIZE             the dictionary in hand must have so many entries
    SET              a set must have so many members
    ASK              a Python function must return True

All others read something, which must be at an address: the content of a cell, what the dictionary
in hand has under a key, its next entry (with its key), the next element of the list, what the
object has at an offset, a function's code and defaults, an object itself. In place of the address
may be `ANY`, or `INPUT`: then what was found is one of the program's inputs.

None of it keeps anything alive. Addresses may be followed as long as those objects live: whoever
makes the guards begins them with a test of that (an empty ``LIST`` of what has gone).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functrans.run.call import layouts

(
    END, ASK, CELL, DICT, ATTRIBUTES, SIZE, NAMED, ENTRY, LIST, ELEMENT, SLOT, DEFAULTS,
    KEYWORD_DEFAULTS, ARRAY, OBJECT, ITSELF, SET, CODE,
) = range(18)  # fmt: skip

ANY, INPUT = 1, 2

LARGEST_COMPARED = 1 << 20
"""Bytes of an array that are still compared by an instruction, which signals wait for."""

TEXT = Path(__file__).with_name("guards.ll")

Instruction = tuple[int, int, int]


class Guards(NamedTuple):
    """Instructions, how many inputs they find, and what must live as long as they do."""

    program: np.ndarray[Any, Any]
    inputs: int
    kept: tuple[Any, ...]


def assembled(instructions: Iterable[Instruction], kept: Sequence[Any]) -> Guards:
    """The program of some instructions."""
    every = [*instructions, (END, 0, 0)]
    inputs = sum(last == INPUT and op in _READING for op, _, last in every)
    return Guards(np.array(every, np.int64), inputs, tuple(kept))


_READING = frozenset({
    CELL, NAMED, ENTRY, ELEMENT, SLOT, DEFAULTS, KEYWORD_DEFAULTS, ITSELF, CODE
})  # fmt: skip


def slot(kind: type, name: str, expected: int) -> Instruction | None:
    """The content of a slot of the object in hand; None if it is not known where that is."""
    offset = layouts.slot(kind, name)
    return None if offset is None else (SLOT, offset, expected)


def bases(kind: type, expected: int) -> Instruction | None:
    """The bases of the class in hand; None if it is not known where those are."""
    offset = layouts.bases(kind)
    return None if offset is None else (SLOT, offset, expected)


def constant(
    array: np.ndarray[Any, Any], copy: np.ndarray[Any, Any]
) -> tuple[Instruction, Any] | None:
    """An array must have the dtype, the shape and the bytes that it has now.

    Parameters
    ----------
    array : ndarray
    copy : ndarray
        Its bytes.

    Returns
    -------
    instruction, kept
        And what must live as long as it. None if the array is not laid out as it would have to be.
    """
    flags, dtype = array.flags, array.dtype
    as_known = type(array) is np.ndarray and flags.c_contiguous and flags.aligned
    if not as_known or dtype.hasobject or array.nbytes > LARGEST_COMPARED:
        return None
    words, odd = divmod(array.nbytes, 8)
    record = [id(dtype), 0, 0, array.ndim, *array.shape]
    table = np.array([copy.ctypes.data, words, odd, *record], np.int64)
    return (ARRAY, id(array), table.ctypes.data), (table, copy, dtype)

"""Guards of the inline cache: checks that the closed-over state is unchanged.

Guards are a program for a small virtual machine, which `guards.ll` implements. An instruction has
three words: an operation and two operands. The machine has a current object, and a current
dictionary or list:

    LIST, DICT       take a list or a dictionary in hand; a list must have so many elements
    OBJECT           take an object in hand, which must be of a type
    ATTRIBUTES       take the dictionary of that object in hand, too
    SIZE             the dictionary in hand must have so many entries
    SET              a set must have so many members
    ASK              a Python function must return True

All other instructions read an object, whose address must be the expected one: the content of a
cell, the value of the current dictionary under a key, its next entry (with its key), the next
element of the current list, the value at an offset in the current object, a function's code and
defaults, an object itself. The expected address may be `ANY`, or `INPUT`: then the object is an
input of the program.

Guards keep no objects alive. Addresses are valid as long as the objects live: so guards must begin
with a check that none was deleted (an empty ``LIST`` of deleted objects).
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
"""The largest array, in bytes, that one instruction compares, since it delays signals."""

TEXT = Path(__file__).with_name("guards.ll")

Instruction = tuple[int, int, int]


class Guards(NamedTuple):
    """Instructions, the number of inputs that they find, and objects that must be kept alive."""

    program: np.ndarray[Any, Any]
    inputs: int
    kept: tuple[Any, ...]


def assembled(instructions: Iterable[Instruction], kept: Sequence[Any]) -> Guards:
    """Assemble instructions to a program."""
    every = [*instructions, (END, 0, 0)]
    inputs = sum(last == INPUT and op in _READING for op, _, last in every)
    return Guards(np.array(every, np.int64), inputs, tuple(kept))


_READING = frozenset({
    CELL, NAMED, ENTRY, ELEMENT, SLOT, DEFAULTS, KEYWORD_DEFAULTS, ITSELF, CODE
})  # fmt: skip


def slot(kind: type, name: str, expected: int) -> Instruction | None:
    """The instruction that checks a slot of the current object; None if its offset is unknown."""
    offset = layouts.slot(kind, name)
    return None if offset is None else (SLOT, offset, expected)


def bases(kind: type, expected: int) -> Instruction | None:
    """The instruction that checks the bases of the current class; None if the offset is unknown."""
    offset = layouts.bases(kind)
    return None if offset is None else (SLOT, offset, expected)


def constant(
    array: np.ndarray[Any, Any], copy: np.ndarray[Any, Any]
) -> tuple[Instruction, Any] | None:
    """The instruction that checks an array's dtype, shape and contents.

    Parameters
    ----------
    array : ndarray
    copy : ndarray
        A copy of the contents.

    Returns
    -------
    instruction, kept
        The instruction and the objects that it needs. None if the array has another layout.
    """
    flags, dtype = array.flags, array.dtype
    as_known = type(array) is np.ndarray and flags.c_contiguous and flags.aligned
    if not as_known or dtype.hasobject or array.nbytes > LARGEST_COMPARED:
        return None
    words, odd = divmod(array.nbytes, 8)
    record = [id(dtype), 0, 0, array.ndim, *array.shape]
    table = np.array([copy.ctypes.data, words, odd, *record], np.int64)
    return (ARRAY, id(array), table.ctypes.data), (table, copy, dtype)

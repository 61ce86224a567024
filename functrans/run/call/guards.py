"""Guards of the inline cache: checks that the closed-over state is unchanged.

Guards are a program for a small virtual machine, which `guards.ll` implements. An instruction has
three words: an operation and two operands. The machine has a current object, and a current
container, which is a dictionary or a list. Some instructions select these, or check a property:

    LIST              makes a list the container; it must have the given number of elements
    DICT              makes a dictionary the container
    OBJECT            makes an object the current one; it must have the given type
    ATTRIBUTES        makes the dictionary of the current object's attributes the container
    VERSION           if the current object, a class, has the given version, skips instructions
    SIZE              the current dictionary must have the given number of entries
    SET               a set must have the given number of members
    ARRAY             an array must have the given dtype, shape and contents
    ASK               a Python function must return True
    REFERENTS         the objects that an object refers to, as the garbage collector visits them,
                      must be those of the given number of instructions REFERENT that follow
    END               all guards hold

The others read an object, whose address must be the expected one:

    CELL              the content of a cell
    NAMED             the value of a key in the current dictionary
    ENTRY             the next value in the current dictionary, with the given key
    ELEMENT           the next element of the current list
    SLOT              the object at an offset in the current object
    DEFAULTS, KEYWORD_DEFAULTS, CODE
                      the default arguments, or the code, of a function
    ITSELF            the given object itself

The expected address may be `ANY`, which accepts every object, or `INPUT`: then the object is an
input of the program.

Guards keep no objects alive. Addresses are valid as long as the objects live: so guards must begin
with a check that none was deleted (an empty ``LIST`` of deleted objects).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functrans.records import NamedTuple
from functrans.run.call import layouts

(
    END, ASK, CELL, DICT, ATTRIBUTES, SIZE, NAMED, ENTRY, LIST, ELEMENT, SLOT, DEFAULTS,
    KEYWORD_DEFAULTS, ARRAY, OBJECT, ITSELF, SET, CODE, VERSION, REFERENTS, REFERENT,
) = range(21)  # fmt: skip

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


def version(known: int, skipped: int) -> Instruction:
    """The instruction that skips others if the current class has a known version."""
    return VERSION, layouts.VERSION, known | skipped << 32


def bases(kind: type, expected: int) -> Instruction | None:
    """The instruction that checks the bases of the current class; None if the offset is unknown."""
    offset = layouts.bases(kind)
    return None if offset is None else (SLOT, offset, expected)


def referents(owner: Any, expected: Sequence[Any]) -> list[Instruction] | None:
    """The instructions that check the referents of an object; None if its layout is unknown."""
    if not layouts.are_visited(owner, expected):
        return None
    return [(REFERENTS, id(owner), len(expected)), *((REFERENT, id(x), 0) for x in expected)]


def constant(
    array: np.ndarray[Any, Any], copy: np.ndarray[Any, Any]
) -> tuple[Instruction, Any] | None:
    """The instruction that checks that an array is like its copy, and the objects that it needs.

    None if the array has another layout than arrays usually have.
    """
    flags, dtype = array.flags, array.dtype
    as_known = type(array) is np.ndarray and flags.c_contiguous and flags.aligned
    if not as_known or dtype.hasobject or array.nbytes > LARGEST_COMPARED:
        return None
    words, odd = divmod(array.nbytes, 8)
    record = [id(dtype), 0, 0, array.ndim, *array.shape]
    table = np.array([copy.ctypes.data, words, odd, *record], np.int64)
    return (ARRAY, id(array), table.ctypes.data), (table, copy, dtype)

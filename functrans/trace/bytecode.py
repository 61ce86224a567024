"""Bytecode of CPython: all dependences on opcodes and the layout of instructions are here.

The tables at the top name the instructions that analyses search for. A Python version with other
instructions needs their names here (docs/recipes/a-new-python.md).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, pairwise
from opcode import opmap, opname
from types import CodeType, FrameType, FunctionType
from typing import Any

from functrans.caches import once

READS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
READS_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
STORES_ITEM = frozenset({"STORE_SUBSCR", "STORE_SLICE"})
STORES_CELL = "STORE_DEREF"
CONSTANT = "LOAD_CONST"
CALL = "CALL"
"""Prefixes of the names of call instructions."""

ESCAPES = frozenset(
    (
        "DELETE_GLOBAL", "IMPORT_NAME", "LOAD_BUILD_CLASS", "STORE_ATTR", "DELETE_ATTR",
        "STORE_GLOBAL",
    )
)  # fmt: skip
"""Instructions by which a function accesses objects that its names do not show, or changes them."""

_EXTENDED, _GLOBAL, _IMPORT = (
    opmap[name] for name in ("EXTENDED_ARG", "LOAD_GLOBAL", "IMPORT_NAME")
)
_NAMES = frozenset(
    opmap[name] for name in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS") if name in opmap
)
"""In the bodies of classes, and since Python 3.12 in annotations: also of globals."""

_BETWEEN = ("CACHE", "EXTENDED_ARG", "PUSH_NULL")
"""Instructions that may stand between a name and what is read from it."""

_FLAGGED = sys.version_info >= (3, 12)
"""Whether the last bit of LOAD_ATTR tells whether a method is called, as LOAD_METHOD did before."""

_NULL_LAST = sys.version_info >= (3, 13)
"""Whether the NULL that a call takes is pushed after the function, and not before."""

UFUNC_METHODS = frozenset(("accumulate", "outer", "reduce", "reduceat"))
"""Methods of ufuncs that take sequences."""

instructions = dis.get_instructions


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of inner functions, classes and comprehensions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values of a function's closure."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # unassigned
            yield name, cell.cell_contents


def called_without_arguments(code: CodeType, name: str) -> Iterator[int]:
    """The lines on which code calls a function of this name without arguments."""
    looked_up = False
    for instruction in instructions(code):
        if instruction.opname == "CALL" and looked_up and instruction.arg == 0:
            if instruction.positions is not None and instruction.positions.lineno:
                yield instruction.positions.lineno
        if instruction.opname not in ("PRECALL", "PUSH_NULL", "CACHE"):
            looked_up = instruction.argval == name


def global_names(code: CodeType) -> Iterator[str]:
    """The names that code looks up among the globals and builtins."""
    for part, operation, number in _operations(code):
        if operation == _GLOBAL:  # the last bit tells whether it is called
            yield part.co_names[number >> 1]
        elif operation in _NAMES:
            yield part.co_names[number]


def identifies_bools(code: CodeType) -> bool:
    """Whether code asks if something *is* True or False, as ``case (True, False)`` does."""
    return any(
        each.opname == "IS_OP" and isinstance(before.argval, bool)
        for before, each in pairwise(instructions(code))
    )


def initialising(code: CodeType) -> frozenset[int]:
    """The offsets of instructions by which an ``__init__`` assigns attributes of its instance."""
    if code.co_name != "__init__" or not code.co_argcount:
        return frozenset()
    every, own = [*instructions(code)], code.co_varnames[0]
    if any(own in _locals_of(each, "STORE_FAST") for each in every):
        return frozenset()
    return frozenset(
        each.offset for before, each in pairwise(every)
        if each.opname == "STORE_ATTR" and own in _locals_of(before, "LOAD_FAST")[-1:]
    )  # fmt: skip


def _locals_of(instruction: dis.Instruction, operation: str) -> tuple[str, ...]:
    """The local variables of an instruction of this kind, which has one or two of them."""
    if operation not in instruction.opname:
        return ()
    names = instruction.argval
    return names if isinstance(names, tuple) else (names,)


def imported_names(code: CodeType) -> Iterator[str]:
    """The modules that code imports, without the dots of relative imports."""
    for part, operation, number in _operations(code):
        if operation == _IMPORT:
            yield part.co_names[number]


def _operations(code: CodeType) -> Iterator[tuple[CodeType, int, int]]:
    """The instructions of `codes`, each with its complete argument."""
    for part in codes(code):
        for operation, number in _complete(part):
            yield part, operation, number


def _complete(code: CodeType) -> Iterator[tuple[int, int]]:
    before = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = before << 8 | argument
        before = number if operation == _EXTENDED else 0
        yield operation, number


def dotted_globals(code: CodeType) -> tuple[tuple[str, ...], ...] | None:
    """The globals that code reads, each with the attributes that are read directly from it.

    None if the code imports, or assigns to a global or attribute.
    """
    names: list[list[str]] = []
    for part in codes(code):
        is_global = False
        for step in instructions(part):
            if step.opcode == _EXTENDED:
                continue
            if step.opname in READS_GLOBAL:
                names.append([])
                is_global = True
            elif step.opname not in READS_ATTRIBUTE:
                if step.opcode in dis.hasname or step.opname == "LOAD_BUILD_CLASS":
                    return None
                is_global = False
            if is_global:
                names[-1].append(step.argval)
    return tuple(map(tuple, names))


Reads = dict[int, bool]
"""The attribute reads of code, and whether each is called at once."""

Place = tuple[int, int]
"""Line and column."""


def attribute_reads(code: CodeType) -> Reads:
    """The attribute reads of code.

    In ``a.b(...)``, the call starts where the called expression starts, which is the longest
    attribute expression there that ends before the call does. Without columns (``python -X
    no_debug_ranges``), its instructions tell what is called. In ``map(a.b, ...)``, what is read is
    called too: such a read follows the names of `map` and of its owner. So is ``a.b`` in
    ``a.b.reduce(...)``.
    """
    reads: Reads = {}
    ends: dict[Place, list[tuple[Place, int]]] = {}
    calls: list[tuple[Place, Place]] = []
    loaded: list[str] = []
    reduced: list[int] = []
    owner: int | None = None  # an attribute read, until an instruction that does not read from it
    called = False  # whether what the current names lead to is called
    for i, ((operation, number), place) in enumerate(
        zip(_complete(code), code.co_positions(), strict=False)
    ):
        first, last, column, end = (-1 if n is None else n for n in place)
        name = opname[operation]
        if name in READS_ATTRIBUTE:
            is_method = bool(number & 1) if _FLAGGED else name == "LOAD_METHOD"
            if owner is not None:
                reads[owner] &= not called
                if is_method and code.co_names[number >> _FLAGGED] in UFUNC_METHODS:
                    reduced.append(owner)
            owner = 2 * i
            reads[owner] = loaded[:-1] == ["map"] or (column == -1 and (called or is_method))
            ends.setdefault((first, column), []).append(((last, end), owner))
        elif name in _BETWEEN:
            if _NULL_LAST and name == "PUSH_NULL" and column == -1 and owner is not None:
                reads[owner] = True
        else:
            owner = None
            called = operation == _GLOBAL and bool(number & 1)
            if operation == _GLOBAL:
                found = code.co_names[number >> 1]
                loaded = [found] if found == "map" else [*loaded, found]
            elif name.startswith("LOAD"):
                loaded.append(name)
            else:
                loaded.clear()
                if name.startswith(CALL):
                    calls.append(((first, column), (last, end)))
    for start, call_end in calls if calls and calls[0][0][1] != -1 else ():
        inside = [found for found in ends.get(start, ()) if found[0] < call_end]
        reads.update((offset, True) for end, offset in inside if end == max(inside)[0])
    reads.update(dict.fromkeys(reduced, True))
    return reads


def operation_at(frame: FrameType) -> str:
    """The name of the current instruction of a frame."""
    return opname[frame.f_code.co_code[frame.f_lasti]]


def positions_at(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, start and end column of the current instruction of a frame."""
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)


def positions_from_there(frame: FrameType) -> list[Any]:
    """The positions of all instructions that begin where the current one does, the shortest first.

    As those of `positions_at`; unknown ones are left out.
    """
    first, _, start, _ = positions_at(frame)
    known: set[Any] = {each for each in frame.f_code.co_positions() if None not in each}
    return sorted(
        (each for each in known if each[::2] == (first, start)), key=lambda each: each[1::2]
    )


def calls_method(frame: FrameType, name: str) -> bool:
    """Whether a frame executes the call of a method of this name without arguments."""
    until = islice(_complete(frame.f_code), frame.f_lasti // 2 + 1)
    # of a function in Python, the place is the last cache of the call
    last = [step for step in until if opname[step[0]] not in ("CACHE", "PRECALL")][-2:]
    (operation, number), (call, _) = last
    is_read = opname[operation] in READS_ATTRIBUTE and opname[call] == CALL
    return is_read and frame.f_code.co_names[number >> _FLAGGED] == name


def is_formatting(frame: FrameType) -> bool:
    """Whether a frame executes ``%``, which formats a string if C code requests a float."""
    at = frame.f_lasti
    return frame.f_code.co_code[at : at + 2] in _remainders()


@once
def _remainders() -> list[bytes]:
    """The instructions of ``%`` and ``%=``, found by comparing code with ``+`` and ``+=``."""
    found = []
    for other, text in (("a + b", "a % b"), ("a += b", "a %= b")):
        plus, code = (compile(source, "", "exec").co_code for source in (other, text))
        (at,) = [i for i, pair in enumerate(zip(plus, code, strict=True)) if pair[0] != pair[1]]
        found.append(code[at - 1 : at + 1])
    return found

"""What Python's functions are made of: code inside of code, and what closures hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from opcode import opmap
from types import CodeType, FunctionType
from typing import Any


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of functions, classes and comprehensions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


_EXTENDED, _GLOBAL, _NAME = (opmap[name] for name in ("EXTENDED_ARG", "LOAD_GLOBAL", "LOAD_NAME"))


def global_names(code: CodeType) -> Iterator[str]:
    """The variables that code looks for among the globals, and then among Python's own names."""
    for part in codes(code):
        before = 0
        for operation, argument in zip(part.co_code[::2], part.co_code[1::2], strict=True):
            number = before << 8 | argument
            before = number if operation == _EXTENDED else 0
            if operation == _GLOBAL:  # whose last bit says whether it is called
                yield part.co_names[number >> 1]
            elif operation == _NAME:
                yield part.co_names[number]


def closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values that a function has from the functions around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents

"""What Python's functions are made of: code inside of code, and what closures hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of functions, classes and comprehensions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values that a function has from the functions around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents

"""Textual LLVM IR: types, constants and the lines of a function."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import DtypeError
from functrans.records import NamedTuple

_GLOBAL = re.compile(r"@\.c\d+")

BOOL, BYTE = np.dtype(np.bool_), np.dtype(np.int8)


class Value(NamedTuple):
    """A computed value: its name or literal, and its number of lanes."""

    ref: str
    lanes: int


@cached(256)
def register_type(dtype: np.dtype[Any], lanes: int = 1) -> str:
    """The type of an element in a register: a bool is one bit."""
    name = {"f": {2: "half", 4: "float", 8: "double"}.get(dtype.itemsize), "b": "i1"}.get(
        dtype.kind, f"i{8 * dtype.itemsize}"
    )
    if name is None:
        raise DtypeError(
            f"there is no machine code for {dtype}: use .astype(np.float64), or no jit"
        )
    return name if lanes == 1 else f"<{lanes} x {name}>"


def in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of an element in memory as a dtype: a bool is one byte."""
    return BYTE if dtype == BOOL else dtype


def memory_type(dtype: np.dtype[Any], lanes: int = 1) -> str:
    """The type of an element in memory."""
    return register_type(in_memory(dtype), lanes)


def suffix(dtype: np.dtype[Any], lanes: int = 1) -> str:
    """The suffix of the name of an overloaded intrinsic for a type."""
    letter = "f" if dtype.kind == "f" else "i"
    bits = 1 if dtype == BOOL else 8 * dtype.itemsize
    return f"{'' if lanes == 1 else f'v{lanes}'}{letter}{bits}"


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A number in LLVM's notation: floats are given by their bits."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.kind == "f":
        if dtype.itemsize == 2:
            return "0xH" + np.asarray(value, np.float16).tobytes()[::-1].hex().upper()
        rounded = float(np.asarray(value, dtype))
        return "0x" + struct.pack(">d", rounded).hex().upper()
    return str(int(value))


def splat_literal(text: str, type_name: str, lanes: int) -> str:
    """A vector constant with the same element in every lane."""
    if lanes == 1:
        return text
    return "<" + ", ".join([f"{type_name} {text}"] * lanes) + ">"


def steps(lanes: int, stride: int = 1, kind: str = "i64") -> str:
    """The vector constant 0, stride, 2 stride, ..."""
    return "<" + ", ".join(f"{kind} {stride * lane}" for lane in range(lanes)) + ">"


def everywhere(lanes: int) -> str:
    """The mask with all lanes active."""
    return splat_literal("true", "i1", lanes)


class Part(NamedTuple):
    """The lines of a function, with the constants and the declarations that it refers to."""

    lines: str
    globals: dict[str, str]
    declarations: dict[str, str]


class Writer:
    """The lines of one function, its stack slots, and its module's declarations and constants.

    The ``instructions`` of the machine replace functions.
    """

    def __init__(self, instructions: frozenset[str] = frozenset()) -> None:
        self.instructions = instructions
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.globals: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.functions: dict[Any, str] = {}
        self.texts: list[str] = []
        self.selections: set[str] = set()
        self.block = "entry"
        self._count = 0

    def for_function(self) -> Writer:
        """A writer for another function of the same module."""
        other = Writer(self.instructions)
        other.globals, other.declarations = self.globals, self.declarations
        other.functions, other.texts = self.functions, self.texts
        return other

    def name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def define(self, right_hand_side: str) -> str:
        """Add an instruction with a result; returns the result's name."""
        ref = "%" + self.name()
        self.lines.append(f"  {ref} = {right_hand_side}")
        return ref

    def is_slow_if_masked(self, value: str) -> bool:
        """Whether LLVM may make a masked store of one of this vector, which takes far longer.

        It does if the vector is a selection of which one side was loaded from the same address.
        Masks are vectors without AVX-512, and AMD's CPUs store by them in microcode.
        """
        return "pieces" in self.instructions and value in self.selections

    def reserve(self) -> int:
        """Reserve the position of a line that can only be written later (a phi)."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, text: str) -> None:
        self.lines[place] = "  " + text

    def start(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def alloca(self, type_name: str) -> str:
        ref = "%" + self.name("slot")
        self.allocas.append(f"  {ref} = alloca {type_name}")
        return ref

    def call(self, symbol: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a declared function; returns the result's name, or nothing for ``void``."""
        types = ", ".join(type_name for type_name, _ in arguments)
        self.declarations[symbol] = f"declare {result} @{symbol}({types})"
        text = ", ".join(f"{type_name} {ref}" for type_name, ref in arguments)
        if result == "void":
            self.line(f"call void @{symbol}({text})")
            return ""
        return self.define(f"call {result} @{symbol}({text})")

    def chosen(self, pair: tuple[str, str], kind: str, lanes: Sequence[int]) -> str:
        """A shuffle: lanes of two vectors."""
        numbers = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.define(
            f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{len(lanes)} x i32> <{numbers}>"
        )

    def constant(self, type_name: str, text: str) -> str:
        """A private global constant; equal ones are shared."""
        return self._constant(f"{type_name} {text}")

    def _constant(self, content: str) -> str:
        return self.globals.setdefault(content, f"@.c{len(self.globals)}")

    def take(self, part: Part) -> str:
        """The lines of a function that was written for another module, for this one."""
        self.declarations.update(part.declarations)
        names = {ref: self._constant(content) for content, ref in part.globals.items()}
        if all(ref == name for ref, name in names.items()):
            return part.lines
        return _GLOBAL.sub(lambda found: names[found[0]], part.lines)

    def global_lines(self) -> list[str]:
        return [
            f"{ref} = private unnamed_addr constant {content}, align 64"
            for content, ref in self.globals.items()
        ]

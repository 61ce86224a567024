"""Call sites of named functions in a kernel: LLVM's builder, and the operands.

Types have names here, as in the signatures of kernels: a NumPy dtype ("float32"), a pointer to
numbers of it ("float32*"), several numbers ("float32 x 4"), or nothing ("none").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

WARP = 32
"""Threads of a warp."""

GLOBAL, SHARED = 1, 3
"""LLVM's numbers for the address spaces of an NVIDIA GPU. (0 is generic: any of them.)"""


def numba_type(name: str) -> Any:
    """The Numba type with a name."""
    types = _types()
    if name.endswith("*"):
        return types.CPointer(numba_type(name[:-1]))
    if " x " in name:
        element, count = name.split(" x ")
        return types.UniTuple(numba_type(element), int(count))
    return getattr(types, "boolean" if name == "bool" else name)


def _types() -> Any:
    from numba.cuda import types

    return types


@dataclass(frozen=True)
class Site:
    """A call: what LLVM instructions are built with, and the types of its operands."""

    context: Any
    """Numba's, where Numba compiles the kernel."""
    builder: Any
    operands: tuple[Any, ...]
    """Their types' names; of operands that must be literals, the values."""
    result: str
    entry: Any = None
    """The block that a thread's own memory is declared in; that of the function by default."""

    def of(self, *operands: str, result: str | None = None) -> Site:
        """The same place, for an operation on other operands."""
        return replace(self, operands=operands, result=self.result if result is None else result)

    def dtype(self, position: int = 0) -> np.dtype[Any]:
        """The dtype of an operand, or of what it points to."""
        return np.dtype(str(self.operands[position]).removesuffix("*"))

    def type(self, name: str) -> Any:
        """LLVM's type of a value."""
        if name.endswith("*"):
            return self.pointer(self.type(name[:-1]))
        if name in ("float32", "float64"):
            return self.ir.FloatType() if name == "float32" else self.ir.DoubleType()
        return self.integer(1 if name == "bool" else 8 * np.dtype(name).itemsize)

    @property
    def ir(self) -> Any:
        """The module that LLVM's types and constants are made with."""
        from llvmlite import ir

        return ir

    def integer(self, bits: int) -> Any:
        """LLVM's type of integers."""
        return self.ir.IntType(bits)

    def constant(self, kind: Any, value: Any) -> Any:
        """A number of an LLVM type."""
        return self.ir.Constant(kind, value)

    def undefined(self, kind: Any) -> Any:
        """A value of an LLVM type that nobody looks at."""
        return self.ir.Constant(kind, self.ir.Undefined)

    def pointer(self, kind: Any, space: int = 0) -> Any:
        """LLVM's type of an address."""
        return self.ir.PointerType(kind, space)

    def call(self, function: str, result: Any, *values: Any) -> Any:
        """Call a function of LLVM's, NVVM's or libdevice's."""
        shape = self.ir.FunctionType(result, [value.type for value in values])
        module = self.builder.module
        declared = module.globals.get(function) or self.ir.Function(module, shape, function)
        return self.builder.call(declared, values)

    def row(self, kind: Any) -> Any:
        """Memory of a thread, as long as the function runs."""
        with self.builder.goto_block(self.entry or self.builder.function.entry_basic_block):
            return self.builder.alloca(kind)

    def nothing(self) -> Any:
        """The result of what has none."""
        return self.context.get_dummy_value() if self.context is not None else None

    def several(self, values: Sequence[Any]) -> Any:
        """Several values as one result."""
        if self.context is None:
            return tuple(values)
        return self.context.make_tuple(self.builder, numba_type(self.result), values)

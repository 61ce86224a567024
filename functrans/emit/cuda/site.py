"""Call sites of device functions in a kernel: LLVM's builder, and the operands.

Types are named as in the signatures of kernels: a NumPy dtype ("float32"), a pointer to elements of
it ("float32*"), several elements ("float32 x 4"), or no result ("none").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrans.records import dataclass

WARP = 32
"""The threads of a warp."""

GLOBAL, SHARED = 1, 3
"""The address spaces of an NVIDIA GPU, as LLVM numbers them. (0 is generic: any of them.)"""


def numba_type(name: str) -> Any:
    """The Numba type of this name."""
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
    """A call: the means to build LLVM instructions, and the types of the operands."""

    context: Any
    """Numba's context, if Numba compiles the kernel."""
    builder: Any
    operands: tuple[Any, ...]
    """The names of the operands' types; the values of operands that must be literals."""
    result: str
    entry: Any = None
    """The block in which local memory is declared; by default the function's entry block."""

    def of(self, *operands: str, result: str | None = None) -> Site:
        """The same call site, for an operation on other operands."""
        return replace(self, operands=operands, result=self.result if result is None else result)

    def dtype(self, position: int = 0) -> np.dtype[Any]:
        """The dtype of an operand, or of the elements that it points to."""
        return np.dtype(str(self.operands[position]).removesuffix("*"))

    def type(self, name: str) -> Any:
        """The LLVM type of a value."""
        if name.endswith("*"):
            return self.pointer(self.type(name[:-1]))
        if name in ("float32", "float64"):
            return self.ir.FloatType() if name == "float32" else self.ir.DoubleType()
        return self.integer(1 if name == "bool" else 8 * np.dtype(name).itemsize)

    @property
    def ir(self) -> Any:
        """The module that provides LLVM's types and constants."""
        from llvmlite import ir

        return ir

    def integer(self, bits: int) -> Any:
        """The LLVM type of integers with so many bits."""
        return self.ir.IntType(bits)

    def constant(self, kind: Any, value: Any) -> Any:
        """A constant of an LLVM type."""
        return self.ir.Constant(kind, value)

    def undefined(self, kind: Any) -> Any:
        """An undefined value of an LLVM type, which is never read."""
        return self.ir.Constant(kind, self.ir.Undefined)

    def pointer(self, kind: Any, space: int = 0) -> Any:
        """The LLVM type of a pointer."""
        return self.ir.PointerType(kind, space)

    def call(self, function: str, result: Any, *values: Any) -> Any:
        """Call a function of LLVM, NVVM or libdevice."""
        shape = self.ir.FunctionType(result, [value.type for value in values])
        module = self.builder.module
        declared = module.globals.get(function) or self.ir.Function(module, shape, function)
        return self.builder.call(declared, values)

    def row(self, kind: Any) -> Any:
        """Local memory of a thread, which lasts until the function returns."""
        with self.builder.goto_block(self.entry or self.builder.function.entry_basic_block):
            return self.builder.alloca(kind)

    def nothing(self) -> Any:
        """The result of an operation without one."""
        return self.context.get_dummy_value() if self.context is not None else None

    def several(self, values: Sequence[Any]) -> Any:
        """Several values as one result."""
        if self.context is None:
            return tuple(values)
        return self.context.make_tuple(self.builder, numba_type(self.result), values)

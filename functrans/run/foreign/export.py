"""A compiled graph as a C function, for compiled callers.

The function takes numbers by value and arrays as pointers to C-contiguous memory, followed by
pointers for the results. It returns 0, or a failure code of `functrans.loop.failures`: 1 if an
index was out of bounds, 2 if a matrix was singular, 3 if one was not positive definite, 4 if
singular values were not found, 5 if there was no memory for temporaries, 6 if eigenvalues were not
found. A graph whose only result is a number has a second form that returns the number (NaN, or the
smallest integer, on failure). Both forms need neither Python nor the GIL, and may run in several
threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.emit.llvm.text import memory_type
from functrans.errors import DtypeError, UnsupportedNumPyError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval, is_complex, is_float
from functrans.loop.failures import OUT_OF_MEMORY
from functrans.run.call import steps
from functrans.run.call.compiled import Compiled
from functrans.run.call.entry import LARGEST_ON_STACK
from functrans.run.call.jitted import program
from functrans.run.call.program import NativeProgram
from functrans.run.code import cache

_SYMBOL = "functrans_exported"


def without_python(graph: Graph, backend: str) -> Compiled:
    """The compiled form of a graph; raises if it needs Python, or has complex inputs or outputs."""
    for aval in (*graph.in_avals, *graph.out_avals):
        if is_complex(aval.dtype):
            raise DtypeError(
                f"a compiled function for C and Numba has no argument or result of {aval.dtype}: "
                "pass the real and the imaginary part, and return x.real and x.imag"
            )
        if aval.shape == () and is_float(aval.dtype) and aval.dtype.itemsize == 2:
            raise DtypeError(
                f"a compiled function for C and Numba has no number of {aval.dtype.name}, which C "
                "has no type for: make it an array, or convert it to float32"
            )
    whole = program(graph, backend=backend)
    for segment in whole.segments:
        if segment.call is not None:
            raise UnsupportedNumPyError(
                f"a compiled function cannot call Python, and {segment.call.primitive.name} "
                f"has no compiled form (at {segment.call.source})"
            )
    (part,) = [part for part in whole.parts if part is not None]
    return part


class Exported:
    """The addresses of a graph's C functions, valid as long as this object lives.

    Raises `UnsupportedNumPyError` if a primitive of the graph has no compiled form.
    """

    def __init__(self, graph: Graph) -> None:
        self.compiled = without_python(graph, "native")
        self.in_avals = graph.in_avals
        self.out_avals = graph.out_avals
        assert isinstance(self.compiled.program, NativeProgram)
        self._table = self.compiled.program.table(plain=True)
        steps.free_with(self, self._table)
        self._code = cache.load(
            _with_status(self.in_avals, len(self.out_avals), int(self._table[steps.FRAME])),
            _SYMBOL,
            {"run": steps.code().address, "table": self._table.ctypes.data},
        )
        self.address = self._code.address
        self.value_address: int | None = None
        if len(self.out_avals) == 1 and self.out_avals[0].shape == ():
            self._value_code = cache.load(
                _with_value(self.in_avals, self.out_avals[0]),
                _SYMBOL,
                {"with_status": self.address},
            )
            self.value_address = self._value_code.address

    def ctypes_function(self) -> Any:
        """The form with pointers for the results, as a ctypes function."""
        kinds = [_ctype(aval) for aval in self.in_avals] + [ctypes.c_void_p] * len(self.out_avals)
        return self._typed(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds), self.address)

    def ctypes_value_function(self) -> Any:
        """The form that returns a number, as a ctypes function."""
        assert self.value_address is not None
        kinds = [_ctype(aval) for aval in self.in_avals]
        return self._typed(ctypes.CFUNCTYPE(_ctype(self.out_avals[0]), *kinds), self.value_address)

    def _typed(self, kind: Any, address: int) -> Any:
        function = kind(address)
        # keeps the machine code alive
        function.owner = self
        return function


def _ctype(aval: Aval) -> Any:
    return np.ctypeslib.as_ctypes_type(aval.dtype) if aval.shape == () else ctypes.c_void_p


def _parameter(aval: Aval, i: int) -> str:
    return f"{memory_type(aval.dtype)} %in{i}" if aval.shape == () else f"ptr %in{i}"


def _with_status(in_avals: Sequence[Aval], outputs: int, frame: int) -> str:
    """LLVM text of a function that stores its arguments' addresses in a frame, and runs the table.

    The frame is followed by a word for each number that is passed by value.
    """
    parameters = [_parameter(aval, i) for i, aval in enumerate(in_avals)]
    parameters += [f"ptr %out{i}" for i in range(outputs)]
    words = frame + len(in_avals)
    lines = [
        "declare ptr @PyMem_RawMalloc(i64)",
        "declare void @PyMem_RawFree(ptr)",
        "declare i64 @run(ptr, ptr)",
        "@table = external global i64",
        f"define i64 @{_SYMBOL}({', '.join(parameters)}) {{",
    ]
    small = words <= LARGEST_ON_STACK
    if small:
        lines.append(f"  %slots = alloca i64, i64 {words}, align 16")
    else:
        lines += [
            f"  %slots = call ptr @PyMem_RawMalloc(i64 {8 * words})",
            "  %got = icmp ne ptr %slots, null",
            "  br i1 %got, label %collect, label %refuse",
            "refuse:",
            f"  ret i64 {OUT_OF_MEMORY}",
            "collect:",
        ]
    for i, aval in enumerate(in_avals):
        if aval.shape == ():
            lines.append(f"  %in{i}.at = getelementptr i64, ptr %slots, i64 {frame + i}")
            lines.append(f"  store {memory_type(aval.dtype)} %in{i}, ptr %in{i}.at")
    given = [f"%in{i}.at" if aval.shape == () else f"%in{i}" for i, aval in enumerate(in_avals)]
    given += [f"%out{i}" for i in range(outputs)]
    for slot, name in enumerate(given):
        lines.append(f"  %slot{slot} = getelementptr ptr, ptr %slots, i64 {slot}")
        lines.append(f"  store ptr {name}, ptr %slot{slot}")
    lines.append("  %status = call i64 @run(ptr @table, ptr %slots)")
    if not small:
        lines.append("  call void @PyMem_RawFree(ptr %slots)")
    return "\n".join([*lines, "  ret i64 %status", "}"]) + "\n"


def _with_value(in_avals: Sequence[Aval], out: Aval) -> str:
    kind = memory_type(out.dtype)
    parameters = [_parameter(aval, i) for i, aval in enumerate(in_avals)]
    kinds = [parameter.split(" ")[0] for parameter in parameters]
    wrong = "0x7FF8000000000000" if out.dtype.kind == "f" else _smallest(out.dtype)
    return "\n".join(
        [
            f"declare i64 @with_status({', '.join([*kinds, 'ptr'])})",
            f"define {kind} @{_SYMBOL}({', '.join(parameters)}) {{",
            f"  %out = alloca {kind}",
            f"  %status = call i64 @with_status({', '.join([*parameters, 'ptr %out'])})",
            "  %bad = icmp ne i64 %status, 0",
            f"  %value = load {kind}, ptr %out",
            f"  %result = select i1 %bad, {kind} {wrong}, {kind} %value",
            f"  ret {kind} %result",
            "}",
        ]
    )


def _smallest(dtype: np.dtype[Any]) -> str:
    return "0" if dtype.kind in "bu" else str(np.iinfo(dtype).min)

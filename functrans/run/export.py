"""A compiled graph as a plain C function, for callers that are compiled themselves.

The function takes numbers by value and arrays as pointers to C-contiguous memory, and the results
as pointers behind them; it returns 0, or what has failed: 1 if an index was out of bounds, 2 if a
matrix was singular, 3 if one was not positive definite, 4 if singular values were not found (all in
`functrans.loop.failures`). A graph with one number as its result has a second form that returns the
number (NaN, or the smallest integer, if it failed). Both need neither Python nor its lock, and may
run in several threads at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval
from functrans.lower.llvm_text import memory_type
from functrans.lower.schedule import Plan
from functrans.run import cache
from functrans.run.call import program

_ALIGNMENT = 64

_SYMBOL = "functrans_exported"


class Exported:
    """The addresses of a graph's C functions, valid as long as this object lives.

    Parameters
    ----------
    graph : Graph

    Raises
    ------
    UnsupportedNumPyError
        If a primitive of the graph has no compiled form.
    """

    def __init__(self, graph: Graph) -> None:
        whole = program(graph)
        for segment in whole.segments:
            if segment.call is not None:
                raise UnsupportedNumPyError(
                    f"a compiled function cannot call Python, and {segment.call.primitive.name} "
                    f"has no compiled form (at {segment.call.source})"
                )
        (self.compiled,) = [part for part in whole.parts if part is not None]
        self.in_avals = graph.in_avals
        self.out_avals = graph.out_avals
        codes = self.compiled.native.codes
        self._code = cache.load(
            _with_status(self.compiled.plan, self.in_avals, self.out_avals),
            _SYMBOL,
            {f"kernel{i}": code.address for i, code in enumerate(codes)},
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
        """The form with pointers for the results, as ctypes knows it."""
        kinds = [_ctype(aval) for aval in self.in_avals] + [ctypes.c_void_p] * len(self.out_avals)
        return self._typed(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds), self.address)

    def ctypes_value_function(self) -> Any:
        """The form that returns a number, as ctypes knows it."""
        assert self.value_address is not None
        kinds = [_ctype(aval) for aval in self.in_avals]
        return self._typed(ctypes.CFUNCTYPE(_ctype(self.out_avals[0]), *kinds), self.value_address)

    def _typed(self, kind: Any, address: int) -> Any:
        function = kind(address)
        # the machine code lives as long as its owner
        function.owner = self
        return function


def _ctype(aval: Aval) -> Any:
    return np.ctypeslib.as_ctypes_type(aval.dtype) if aval.shape == () else ctypes.c_void_p


def _parameter(aval: Aval, i: int) -> str:
    return f"{memory_type(aval.dtype)} %in{i}" if aval.shape == () else f"ptr %in{i}"


def _with_status(plan: Plan, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> str:
    parameters = [_parameter(aval, i) for i, aval in enumerate(in_avals)]
    parameters += [f"ptr %out{i}" for i in range(len(out_avals))]
    lines = [f"declare void @kernel{i}(i64, i64, ptr)" for i in range(len(plan.steps))]
    lines += ["declare ptr @PyMem_RawMalloc(i64)", "declare void @PyMem_RawFree(ptr)"]
    lines += [f"define i64 @{_SYMBOL}({', '.join(parameters)}) {{"]
    lines += ["  %flag = alloca i64", "  store i64 0, ptr %flag"]
    names: dict[Any, str] = {}
    for i, (one, aval) in enumerate(zip(plan.inputs, in_avals, strict=True)):
        names[one] = f"%in{i}"
        if aval.shape == ():
            names[one] = f"%slot{i}"
            kind = memory_type(aval.dtype)
            lines += [f"  %slot{i} = alloca {kind}", f"  store {kind} %in{i}, ptr %slot{i}"]
    names |= {one: f"%out{i}" for i, one in enumerate(plan.outputs)}
    lines += [
        f"  %arena = call ptr @PyMem_RawMalloc(i64 {plan.arena + _ALIGNMENT})",
        "  %arena.word = ptrtoint ptr %arena to i64",
        f"  %arena.up = add i64 %arena.word, {_ALIGNMENT - 1}",
        f"  %arena.line = and i64 %arena.up, -{_ALIGNMENT}",
        "  %aligned = inttoptr i64 %arena.line to ptr",
    ]
    for i, (one, offset) in enumerate(plan.offsets.items()):
        names[one] = f"%t{i}"
        lines.append(f"  %t{i} = getelementptr i8, ptr %aligned, i64 {offset}")
    for i, step in enumerate(plan.steps):
        words = ["ptr %flag", *(f"ptr {names[one]}" for one in step.buffers)]
        words += [f"i64 {size}" for size in step.sizes]
        lines.append(f"  %words{i} = alloca i64, i64 {len(words)}")
        for j, word in enumerate(words):
            lines.append(f"  %w{i}.{j} = getelementptr i64, ptr %words{i}, i64 {j}")
            lines.append(f"  store {word}, ptr %w{i}.{j}")
        lines.append(f"  call void @kernel{i}(i64 0, i64 {step.extent}, ptr %words{i})")
    lines += ["  call void @PyMem_RawFree(ptr %arena)"]
    lines += ["  %status = load i64, ptr %flag", "  ret i64 %status", "}"]
    return "\n".join(lines) + "\n"


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

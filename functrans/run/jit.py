"""Compiled programs: a graph as a Python function of arrays, run by machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans import config
from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.lower import emit_llvm, emit_text, outline
from functrans.lower.loops import Call, walk
from functrans.lower.schedule import Step, schedule
from functrans.lower.split import Segment, split
from functrans.run import blas, cache, entry, native, threads
from functrans.run.ownership import own

GIL_THRESHOLD = 20_000
"""Scalar operations of a program that are worth letting other Python threads run meanwhile."""


Runner = Callable[[Eqn, Sequence[Any]], Sequence[Any] | None]
"""Runs an equation; gives None if it cannot."""


def compile_graph(graph: Graph) -> Program:
    """Compile a graph."""
    return Program(graph)


class Program:
    """A compiled graph: call it with its inputs as arrays or numbers, in order.

    The results are a tuple of new arrays (NumPy scalars where they have no axes). What has no
    compiled form is run by ``runners``, by the primitive's name, and else by NumPy.
    """

    def __init__(self, graph: Graph, runners: Mapping[str, Runner] | None = None) -> None:
        self.graph = graph
        self.runners = runners or {}
        self.segments = split(graph)
        self.parts = [
            None if segment.call is not None else NativeProgram(segment.graph)
            for segment in self.segments
        ]
        only = len(self.segments) == 1 and self.parts[0]
        self._run = only if only else self._run_segments

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self._run(*arrays)

    def _run_segments(self, *arrays: Any) -> tuple[Any, ...]:
        values: dict[Atom, Any] = dict(zip(self.graph.inputs, arrays, strict=True))
        for segment, part in zip(self.segments, self.parts, strict=True):
            operands = [values[var] for var in segment.inputs]
            results = part(*operands) if part else _call(segment, operands, self.runners)
            values.update(zip(segment.outputs, results, strict=True))
            for var in segment.dead:
                del values[var]
        outputs = [
            atom.aval.dtype.type(atom.value) if isinstance(atom, Literal) else values[atom]
            for atom in self.graph.outputs
        ]
        return tuple(own(outputs, arrays))

    def schedule(self) -> str:
        """Which loops there are, and which values live in memory."""
        parts = []
        for segment, part in zip(self.segments, self.parts, strict=True):
            if part is not None:
                parts.append(outline.outline(part.plan))
            elif segment.call is not None:
                parts.append(f"call NumPy: {segment.call.primitive.name}")
        return "\n".join(parts)

    def source(self) -> str:
        """The kernels as Numba source."""
        return "\n\n".join(
            emit_text.emit(step.kernel, f"nest{i}") for i, step in enumerate(self._steps())
        )

    def cost(self) -> outline.Cost:
        """Operations and memory traffic of each nest, and the peak of the temporary memory."""
        return outline.cost([part.plan for part in self.parts if part is not None])

    def llvm(self) -> str:
        """The LLVM IR of the kernels."""
        return "\n".join(emit_llvm.emit(step.kernel) for step in self._steps())

    def asm(self) -> str:
        """The machine code of the kernels, in assembler."""
        return "\n".join(native.assembly(emit_llvm.emit(step.kernel)) for step in self._steps())

    def _steps(self) -> list[Step]:
        return [step for part in self.parts if part is not None for step in part.plan.steps]


def _call(
    segment: Segment, operands: Sequence[Any], runners: Mapping[str, Runner]
) -> tuple[Any, ...]:
    """Apply a primitive without a compiled form, by NumPy."""
    eqn = segment.call
    assert eqn is not None
    # an operand may stand in the equation more than once
    given: dict[Atom, Any] = dict(zip(segment.inputs, operands, strict=True))
    values = [
        x.aval.dtype.type(x.value) if isinstance(x, Literal) else given[x] for x in eqn.inputs
    ]
    runner = runners.get(eqn.primitive.name)
    results = runner(eqn, values) if runner is not None else None
    if results is not None:
        return tuple(results)
    result = eqn.primitive.numpy(*values, **eqn.params)
    return tuple(result) if eqn.primitive.several else (result,)


class NativeProgram:
    """A graph of which everything is compiled."""

    def __init__(self, graph: Graph) -> None:
        self.plan = schedule(graph, native.vector_bytes())
        self.codes = [
            cache.load(
                emit_llvm.emit(step.kernel),
                emit_llvm.ENTRY,
                {symbol: blas.address(symbol) for symbol in _library_calls(step)},
            )
            for step in self.plan.steps
        ]
        self._table = self._make_table(graph)
        self._entry = entry.function(self._table)
        self._in_avals = graph.in_avals
        self._outputs = [(aval.shape, aval.dtype) for aval in graph.out_avals]
        self._scalars = any(not shape for shape, _ in self._outputs)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        results = [np.empty(shape, dtype) for shape, dtype in self._outputs]
        status = self._entry(*arrays, *results)
        if status:
            if status < 0:
                status = self._entry(*self._converted(arrays), *results)
            if status:
                raise IndexError("an index is out of bounds for the axis that it indexes")
        if self._scalars:
            return tuple([x if x.ndim else x[()] for x in results])
        return tuple(results)

    def _converted(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The inputs as C-contiguous arrays of exactly the types of the graph."""
        if len(arrays) != len(self._in_avals):
            raise TypeError(f"{len(arrays)} inputs: this program takes {len(self._in_avals)}")
        converted = []
        for number, (value, aval) in enumerate(zip(arrays, self._in_avals, strict=True)):
            # the one object that arrays of a built-in dtype refer to, without metadata
            dtype = np.dtype(aval.dtype.type)
            given = np.asarray(value, dtype if isinstance(value, int) else None)
            if given.shape != aval.shape or not np.can_cast(given.dtype, dtype, "same_kind"):
                raise TypeError(
                    f"input {number} is {given.dtype} of shape {given.shape}: this program is "
                    f"compiled for {dtype} of shape {aval.shape}"
                )
            array = np.asarray(given, dtype, order="C").view(dtype)
            converted.append(array if array.flags.aligned else array.copy())
        return converted

    def _make_table(self, graph: Graph) -> np.ndarray[Any, Any]:
        plan = self.plan
        arrays = [*plan.inputs, *plan.outputs]
        temporaries = list(plan.offsets)
        slots = {one: slot for slot, one in enumerate([*arrays, *temporaries])}
        grains = [_grain(step) for step in plan.steps]
        words = [
            id(np.ndarray),
            len(plan.inputs),
            len(arrays),
            plan.arena,
            0,
            len(temporaries),
            len(plan.steps),
            int(sum(step.work for step in plan.steps) > GIL_THRESHOLD),
            threads.record() if any(grains) else 0,
            blas.limiter() if any(map(_library_calls, plan.steps)) else 0,
        ]
        for aval in graph.in_avals:
            words += entry.input_record(aval.shape, aval.dtype)
        words += [plan.offsets[one] for one in temporaries]
        for step, code, grain in zip(plan.steps, self.codes, grains, strict=True):
            words += [code.address, step.extent, grain]
            words += [len(step.buffers), *(slots[one] for one in step.buffers)]
            words += [len(step.sizes), *step.sizes]
        return np.array(words, np.int64)


def _library_calls(step: Step) -> set[str]:
    """The library functions that a step calls."""
    return {each.symbol for each in walk(step.kernel.body) if isinstance(each, Call)}


def _grain(step: Step) -> int:
    """Of how many iterations the parts of a loop are made that threads get: 0 if it is not shared.

    Each part must have whole vectors.
    """
    loop = step.kernel.parallel
    if loop is None or step.work < config.parallel_threshold or step.extent < 2 * loop.lanes:
        return 0
    return loop.lanes

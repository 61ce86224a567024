"""The portable back end: Numba compiles the printed source of a program.

It has the interface of `functrans.run.call.program.NativeProgram`. It runs on one thread, with the
same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.caches import cached_property
from functrans.emit.printer import in_memory
from functrans.ir.types import Aval, interleaved
from functrans.loop.failures import OUT_OF_MEMORY
from functrans.loop.statements import Kernel
from functrans.loop.walk import routines
from functrans.lower.plan import Plan, called
from functrans.run import blas
from functrans.run.call.program import ArrayProgram, Overwriting
from functrans.run.code import numba_code

MOST_ARRAYS = 64
"""With more arrays, Python calls the steps one by one, since Numba's compile time is superlinear in
the number of arguments."""


class NumbaProgram(ArrayProgram):
    """A plan whose kernels Numba compiles at the first call."""

    def __init__(self, plan: Plan, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> None:
        super().__init__(in_avals, out_avals, plan.arena)
        self.is_large = False  # the recycling allocator is native code
        self.dispatcher = numba_code.program(plan)
        """For Numba-compiled callers: takes the inputs and the outputs, returns the status."""
        self._plan = plan
        self._run_arrays = self.dispatcher
        if len(in_avals) + len(out_avals) > MOST_ARRAYS:
            self._run_arrays = self._step_by_step
        self.overwritten = tuple(plan.overwritten.items())
        self._kinds = [(aval.shape, aval.dtype) for aval in (*in_avals, *out_avals)]
        self._seen_otherwise = any(
            in_memory(dtype) != dtype or dtype.kind == "c" for _, dtype in self._kinds
        )
        self._calls_library = any(routines(kernel.body) for kernel in plan.kernels)
        self._entry = self._called

    def _called(self, *arrays: Any) -> int:
        if len(arrays) != len(self._kinds) or not all(map(_is_like, arrays, self._kinds)):
            return -1
        if self._seen_otherwise:
            arrays = tuple(map(_as_in_kernels, arrays))
        try:
            if not self._calls_library:
                return int(self._run_arrays(*arrays))
            with blas.held():
                return int(self._run_arrays(*arrays))
        except MemoryError:
            return OUT_OF_MEMORY

    @cached_property
    def _kernels(self) -> dict[Kernel, Any]:
        names = numba_code.names_of(self._plan.kernels)
        found = numba_code.dispatchers(names)
        return {kernel: found[name] for kernel, name in names.items()}

    def _step_by_step(self, *arrays: Any) -> int:
        plan, flag = self._plan, np.zeros(1, np.int64)
        # an output that overwrites an input is the same array; one may be stored before a reshape
        places = {
            one: x.reshape([int(n.attribute) for n in one.shape])
            for one, x in zip((*plan.inputs, *plan.outputs), arrays, strict=True)
        }
        for one in plan.offsets:
            places[one] = np.empty([int(n.attribute) for n in one.shape], in_memory(one.dtype))
        for one, (base, start) in plan.views.items():
            part = places[base].reshape(-1)[start : start + one.count]
            places[one] = part.reshape(one.extents)
        for step, turns in called(plan.schedule, lambda one: bool(places[one][()])):
            given = [places[one] for one in step.buffers]
            self._kernels[step.kernel](flag, *given, *step.sizes, *turns, 0, step.extent)
        return int(flag[0])


class OverwritingNumbaProgram(Overwriting, NumbaProgram):
    """A Numba program that writes results into donated inputs."""


def _as_in_kernels(x: Any) -> Any:
    """An array in the form of kernels: float16 as its bits, complex numbers as pairs."""
    return interleaved(x, x.dtype) if x.dtype.kind == "c" else x.view(in_memory(x.dtype))


def _is_like(x: Any, kind: tuple[tuple[int, ...], np.dtype[Any]]) -> bool:
    """Whether an array can be passed to a kernel without conversion."""
    return (
        type(x) is np.ndarray
        and (x.shape, x.dtype) == kind
        and x.flags.c_contiguous
        and x.flags.aligned
    )


def numba_program(plan: Plan, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> NumbaProgram:
    """The program of a plan, of the class for donated inputs if there are any."""
    kind = OverwritingNumbaProgram if plan.overwritten else NumbaProgram
    return kind(plan, in_avals, out_avals)

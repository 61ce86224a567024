"""The loop IR as Python source that Numba compiles: for reading, and as the portable back end.

It is also the second implementation with which the LLVM printer is compared in tests. Reductions
have the partial results that their statements demand, since these determine the bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functrans.emit import names as emit_names
from functrans.emit.printer import Printer, computed, in_memory, written_tuple
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Address, Call, Kernel, Reduce


def emit(kernel: Kernel, name: str = "kernel") -> str:
    """The source of a kernel as a Python function.

    Its arguments are the error flag (an array of one int64), the buffers (as arrays of their
    shapes; half floats as uint16), the sizes, and the range ``start <= index < stop`` of a parallel
    loop to execute.
    """
    return _Printer(kernel).function(name)


class _Printer(Printer):
    root = "math.sqrt({})"

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, ("start", "stop", *emit_names.NAMES))
        self.rows: list[str] = []

    def function(self, name: str) -> str:
        buffers = [self.names[buffer] for buffer in self.kernel.buffers]
        sizes = [f"n{slot}" for slot in range(self.kernel.sizes)]
        head = f"def {name}({', '.join(['flag', *buffers, *sizes, 'start', 'stop'])}):"
        for row in self.kernel.scratch:
            self._row(
                self.names[row], written_tuple(map(self.leaf, row.shape)), in_memory(row.dtype)
            )
        split = self.kernel.parallel
        if split is not None:
            self.loop(split, "start", "stop")
        else:
            self.statements(self.kernel.body)
        return "\n".join([head, *self.rows, *(self.lines or ["    pass"])]) + "\n"

    def _row(self, name: str, shape: str, dtype: np.dtype[Any]) -> None:
        """Declare a private array at the function's top: in a loop, it would be allocated anew."""
        self.rows.append(f"    {name} = np.empty({shape}, np.{dtype})")

    def reduction(self, statement: Reduce) -> None:
        """A reduction; one with lanes has a row of partial results, which are combined by halves.

        The targets are the accumulators: the locals, or the element of the row.
        """
        targets = [self.named(target) for target in statement.targets]
        rows = [self.unique(f"{name}_parts") for name in targets if statement.lanes > 1]
        for name, target in zip(rows, statement.targets, strict=bool(rows)):
            self._row(name, str(statement.lanes), computed(target.dtype))
        self.start_of_sums(statement, [f"{row}[:]" for row in rows] or targets)
        self._reduce_nest(statement, rows or targets, statement.loops)
        if rows:
            lane, half = self.unique("lane"), self.unique("width")
            halves = [str(statement.lanes >> n) for n in range(1, statement.lanes.bit_length())]
            with (
                self.block(f"for {half} in {written_tuple(halves)}:"),
                self.block(f"for {lane} in range({half}):"),
            ):
                for row, op, target in zip(rows, statement.ops, statement.targets, strict=True):
                    first, second = f"{row}[{lane}]", f"{row}[{half} + {lane}]"
                    self.line(f"{first} = {self.combined(op, target.dtype, first, second)}")
            for name, row in zip(targets, rows, strict=True):
                self.line(f"{name} = {row}[0]")
        self.forget()

    def _reduce_nest(
        self,
        statement: Reduce,
        targets: Sequence[str],
        loops: Sequence[tuple[Scalar, Scalar, Scalar]],
    ) -> None:
        if not loops:
            self.terms(statement, targets)
            return
        (index, *bounds), *inner = loops
        start, stop = self.texts(bounds)
        name, lanes = self.named(index), statement.lanes
        if inner or lanes == 1:
            with self.counting(name, start, stop):
                self._reduce_nest(statement, targets, inner)
            return
        first = self.unique(f"{name}_first")
        with (
            self.counting(first, start, stop, str(lanes)),
            self.block(f"for {name} in range({first}, min({first} + {lanes}, {stop})):"),
        ):
            self._reduce_nest(statement, [f"{x}[{name} - {first}]" for x in targets], inner)

    def call(self, statement: Call) -> None:
        arguments = []
        for argument in statement.arguments:
            if isinstance(argument, Address):
                indices = written_tuple(self.texts(argument.indices))
                arguments.append(f"address({self.names[argument.target]}, {indices})")
            elif isinstance(argument, bytes):
                arguments.append(repr(argument.decode("ascii")))
            else:
                arguments += self.texts((argument,))
        self.line(f"{statement.symbol}({', '.join(arguments)})")
        self.forget()


def namespace(routines: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The names that the source uses, for compiling it with Numba on the CPU.

    ``routines`` are the addresses of the library routines that are called.
    """
    called = {name: emit_names.routine(name, at) for name, at in (routines or {}).items()}
    return {"np": np, "math": math, **emit_names.names(), **called}

"""A compiled graph as a Numba function from arrays to new arrays, without Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import once
from functrans.errors import DtypeError
from functrans.ir.graph import Graph
from functrans.ir.types import is_bfloat16
from functrans.loop.failures import FAILURES
from functrans.run.call.numba_program import NumbaProgram
from functrans.run.foreign.export import Exported, without_python


def numba_function(
    graph: Graph,
    name: str,  # the name of the function in messages
    several: bool,  # whether it returns a tuple
    # The graph's C function, which is called by address and kept alive. Without one, Numba compiles
    # the program, too.
    exported: Exported | None,
) -> Any:
    """A function that Numba-compiled code can call."""
    import numba

    for aval in (*graph.in_avals, *graph.out_avals):
        if aval.dtype == np.float16 or is_bfloat16(aval.dtype):
            raise DtypeError(
                f"{name} has arguments or results of {aval.dtype.name}, which Numba's code has no "
                "numbers of: convert them to float32"
            )
    arguments = [f"a{i}" for i in range(len(graph.inputs))]
    scope: dict[str, Any] = {"np": np, "as_given": _as_given()}
    if exported is not None:
        scope["run"] = exported.ctypes_function()
    else:
        program = without_python(graph, "numba").program
        assert isinstance(program, NumbaProgram)
        scope["run"] = program.dispatcher
    lines = [f"def compiled({', '.join(arguments)}):"]
    passed = []

    def passed_array(array: str) -> str:
        return array if exported is None else f"{array}.ctypes.data"

    for i, aval in enumerate(graph.in_avals):
        scope[f"in{i}"] = aval.dtype.type
        if aval.shape == () and exported is not None:
            passed.append(f"in{i}(a{i})")
            continue
        if aval.shape == ():
            lines += [f"    c{i} = np.empty((), in{i})", f"    c{i}[()] = in{i}(a{i})"]
        else:
            lines += [
                f"    if a{i}.shape != {aval.shape}:",
                f"        raise ValueError('argument {i} of {name} was compiled for '",
                f"            'shape {aval.shape}')",
                f"    c{i} = as_given(a{i}, in{i})",
            ]
        passed.append(passed_array(f"c{i}"))
    for i, aval in enumerate(graph.out_avals):
        scope[f"out{i}"] = aval.dtype.type
        lines.append(f"    r{i} = np.empty({aval.shape}, out{i})")
        passed.append(passed_array(f"r{i}"))
    lines.append(f"    status = run({', '.join(passed)})")
    for status, failure in FAILURES.items():
        scope[f"failure{status}"] = failure.exception
        lines += [
            f"    if status == {status}:",
            f"        raise failure{status}({failure.message!r})",
        ]
    results = [f"r{i}[()]" if a.shape == () else f"r{i}" for i, a in enumerate(graph.out_avals)]
    lines.append(f"    return {'(' + ', '.join(results) + ',)' if several else results[0]}")
    exec("\n".join(lines), scope)
    return numba.njit(scope["compiled"])


@once
def _as_given() -> Any:
    """A Numba function that converts an array to C-contiguous memory of a dtype."""
    import numba
    from numba.core import types
    from numba.extending import overload

    def as_given(array: Any, dtype: Any) -> Any:
        raise NotImplementedError

    @overload(as_given)
    def _(array, dtype):  # type: ignore[no-untyped-def]  # Numba compares the signatures
        wanted = dtype.dtype if isinstance(dtype, types.NumberClass) else types.boolean
        if not isinstance(array, types.Array) or array.dtype != wanted:
            raise numba.core.errors.TypingError(
                f"the function was compiled for an array of {wanted}, not for {array}"
            )
        if array.layout == "C":
            return lambda array, dtype: array
        return lambda array, dtype: array.copy()

    return as_given

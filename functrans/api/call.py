"""The primitive of a jitted function in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans import config
from functrans.ir.graph import Graph
from functrans.ir.observe import observer
from functrans.ir.on_device import device_of
from functrans.ops.calls.call import call_primitive
from functrans.run.call.failures import COMPILED_CODES, by_numpy, explained
from functrans.run.call.jitted import runnable


def compiled_call(
    *operands: Any, graph: Graph, name: str = "", backend: str | None = None
) -> Sequence[Any]:
    """Compile a graph, and apply it to arrays."""
    if config.check_floats or observer.get() is not None:
        return by_numpy(graph, operands)
    try:
        return runnable(graph, backend=device_of(operands) or backend)(*operands)
    except COMPILED_CODES as error:
        found = explained(error, graph, operands)
        if found is error:
            raise
        raise found from None


jit_call = call_primitive("jit", numpy=compiled_call)
"""Applies the compiled ``graph`` of the user's function ``name``. The optimiser inlines it."""

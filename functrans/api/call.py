"""A compiled call as a primitive: how a jitted function appears in a graph."""

from __future__ import annotations

from functrans.ops.calls.call import call_primitive
from functrans.run.call.jitted import runnable

jit_call = call_primitive(
    "jit",
    numpy=lambda *values, graph, name, backend=None: runnable(graph, backend=backend)(*values),
)
"""Applies ``graph`` compiled; ``name`` is the user's function's. The optimiser inlines it."""

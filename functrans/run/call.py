"""A compiled call as a primitive: how a jitted function appears in a graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from functrans.ir.graph import Graph
from functrans.ops.call import call_primitive
from functrans.ops.define import lazy
from functrans.optimise import optimise
from functrans.run import kept

if TYPE_CHECKING:
    from functrans.run.jit import Program

# a third of what importing the library takes would be the compiler: it comes with its first use
compile_program = lazy("functrans.run.growing:compile_program")

_compiling = threading.RLock()


@lru_cache(maxsize=1024)
def _program(graph: Graph) -> Program:
    compiled: Program = compile_program(optimise(graph))
    if compiled.whole is not None:
        kept.keep(graph, compiled.whole)
    return compiled


@lru_cache(maxsize=1024)
def _runnable(graph: Graph) -> Callable[..., Sequence[Any]]:
    return kept.find(graph) or _program(graph)


def program(graph: Graph) -> Program:
    """The compiled form of a graph; it is compiled once, whichever threads ask."""
    with _compiling:
        return _program(graph)


def runnable(graph: Graph) -> Callable[..., Sequence[Any]]:
    """The compiled form of a graph, to be called only: it may come from the disk."""
    with _compiling:
        return _runnable(graph)


jit_call = call_primitive(
    "jit",
    numpy=lambda *values, graph, name: runnable(graph)(*values),
)
"""Applies ``graph`` compiled; ``name`` is the user's function's. The optimiser inlines it."""

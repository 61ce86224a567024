"""Just-in-time compilation of graphs, which are compiled once or loaded from disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrans import config
from functrans.caches import cached, clear_caches
from functrans.ir.graph import Graph
from functrans.lazily import lazy
from functrans.locks import fewer_collections, lock
from functrans.run.call import entry
from functrans.run.call import on_disk as kept
from functrans.run.call.announcing import announced
from functrans.run.call.program import NativeProgram
from functrans.run.code.aside import ahead
from functrans.spans import span

if TYPE_CHECKING:
    from functrans.run.call.compiled import Program

# the compiler is imported on first use: programs on disk are loaded without it
load_llvm = lazy("functrans.run.code.native:llvm")
optimise = lazy("functrans.optimise:optimise")
compile_graph = lazy("functrans.run.call.compiled:compile_graph")

on_device = lazy("functrans.run.cuda.program:runnable")

_compiling = lock()

# programs depend on these, and their keys do not
for switch in ("cpu", "parallel_threshold", "skip_passes"):
    config.on_change(switch, lambda value: clear_caches())


@cached(1024)
def _program(graph: Graph, donated: tuple[int, ...], backend: str) -> Program:
    kept.note(graph)
    if backend == "native":
        with span("import"):
            load_llvm()
        ahead(entry.prepare)  # LLVM compiles this in another thread while the planner is imported
    with announced(), fewer_collections():
        with span("optimise"):
            optimised = optimise(graph)
        compiled: Program = compile_graph(optimised, donated, backend)
    if isinstance(compiled.whole, NativeProgram):
        kept.keep(graph, compiled.whole, donated)
    return compiled


@cached(1024)
def _runnable(graph: Graph, donated: tuple[int, ...], backend: str) -> Callable[..., Sequence[Any]]:
    with span("look up"):
        found = kept.find(graph, donated) if backend == "native" else None
    return found or _program(graph, donated, backend).run


def program(graph: Graph, donated: tuple[int, ...] = (), backend: str | None = None) -> Program:
    """The compiled form of a graph, which is compiled once for all threads.

    Results may overwrite the inputs at the positions ``donated``. The default ``backend`` is that
    of `functrans.config`.
    """
    with _compiling:
        return _program(graph, donated, backend or config.backend)


def runnable(
    graph: Graph, donated: tuple[int, ...] = (), backend: str | None = None
) -> Callable[..., Sequence[Any]]:
    """The callable of a graph, compiled now or loaded from disk.

    The ``backend`` may be a device: ``"cuda:0"``.
    """
    if backend is not None and backend.startswith("cuda"):
        return on_device(graph, backend, donated)
    with _compiling:
        return _runnable(graph, donated, backend or config.backend)

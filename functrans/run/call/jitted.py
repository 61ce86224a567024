"""Just-in-time compilation: graphs as functions of arrays, compiled once or found on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrans import config
from functrans.caches import cached, clear_caches
from functrans.ir.graph import Graph
from functrans.lazily import lazy
from functrans.locks import lock
from functrans.run.call import entry
from functrans.run.call import on_disk as kept
from functrans.run.call.announcing import announced
from functrans.run.call.program import NativeProgram
from functrans.run.code.aside import ahead
from functrans.spans import span

if TYPE_CHECKING:
    from functrans.run.call.compiled import Program

# what makes programs comes with its first use: those on disk are found without it
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
        ahead(entry.prepare)  # LLVM is at work on that while what plans programs is imported
    with announced():
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
    """The compiled form of a graph; it is compiled once, whichever threads ask.

    ``donated`` are the numbers of the inputs that results may overwrite. No ``backend`` is that of
    `functrans.config`.
    """
    with _compiling:
        return _program(graph, donated, backend or config.backend)


def runnable(
    graph: Graph, donated: tuple[int, ...] = (), backend: str | None = None
) -> Callable[..., Sequence[Any]]:
    """The compiled form of a graph, to be called only: made here, or found on disk.

    The ``backend`` may be a device: ``"cuda:0"``.
    """
    if backend is not None and backend.startswith("cuda"):
        found: Callable[..., Sequence[Any]] = on_device(graph, backend, donated)
        return found
    with _compiling:
        return _runnable(graph, donated, backend or config.backend)

"""Looking inside: the stages of a compilation, and the graph and types of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrans.api.arguments import as_array, aval_of_leaf, check_callable
from functrans.api.flat import called
from functrans.api.transformed import P, Transformed
from functrans.caches import cached_property
from functrans.errors import DeviceError
from functrans.ir.graph import Graph, prune
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.trace.axes import declaring, scope
from functrans.trace.stage import Staged, stage
from functrans.tracebacks import boundary
from functrans.tree import core as tree

if TYPE_CHECKING:
    from functrans.run.call.compiled import Program
    from functrans.run.cuda.lowering import Lowering, ProgramReport

_variance = lazy("functrans.transform.variance:variance")
_lowering = lazy("functrans.run.cuda.lowering:lowering")
optimise = lazy("functrans.optimise:optimise")
program = lazy("functrans.run.call.jitted:program")


class Lowered:
    """The stages that a function goes through on its way to machine code.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> lowered = jit(lambda x: x * 2.0 * 1.0).lower(np.ones(3))
    >>> print(lowered.graph())
    { a:f64[3] ->
      b:f64[3] = multiply a 2.0
      return b }
    """

    def __init__(
        self,
        graph: Graph,
        donated: tuple[int, ...] = (),
        backend: str | None = None,
        architecture: str | None = None,
    ) -> None:
        self._graph = graph
        self._donated = donated
        self._backend = backend
        self._architecture = architecture

    def graph(self, optimised: bool = True) -> Graph:
        """The graph, as it was traced or after the optimiser's passes."""
        return optimise(self._graph) if optimised else self._graph

    def _program(self) -> Program | Lowering:
        return self._lowering or program(self._graph, self._donated, self._backend)

    @cached_property
    def _lowering(self) -> Lowering | None:
        """The program, if it is one for a GPU."""
        if self._backend is None or not self._backend.startswith("cuda"):
            return None
        found: Lowering = _lowering(self._graph, self._backend, self._architecture, self._donated)
        return found

    def _of_a_gpu(self, method: str) -> Lowering:
        if self._lowering is None:
            raise DeviceError(
                f'{method}() is of programs for a GPU: jit(f).lower(..., device="cuda"), with or '
                "without a GPU here"
            )
        return self._lowering

    def stages(self) -> str:
        """What each stage of the compiler leaves, one after another (docs/compiler.md)."""
        return self._program().stages()

    def schedule(self) -> str:
        """Which loops there are, and which values live in memory."""
        return self._program().schedule()

    def source(self) -> str:
        """The loops as readable Numba source; for a GPU, as that of Numba-CUDA."""
        return self._program().source()

    def ptx(self) -> str:
        """The kernels of a program for a GPU as PTX, NVIDIA's portable assembly language."""
        return self._of_a_gpu("ptx").ptx()

    def resources(self) -> ProgramReport:
        """What the kernels of a program for a GPU take; prints as a table.

        For each kernel: how often it is launched, blocks and threads, the registers of a thread,
        spilled and local bytes, shared memory of a block, occupancy and what limits it, and the
        bytes that it reads and writes. No GPU is needed.
        """
        return self._of_a_gpu("resources").resources()

    def dispatchers(self) -> dict[str, Any]:
        """The loops as functions of Numba's, by their names in the source.

        They may be called in ``@njit`` functions. Their arguments are those of the source: an array
        of one int64 that says whether something has failed (0: nothing), the arrays, which must lie
        in C order, the sizes, and for a loop that threads may share, which part of it to do.
        """
        return self._program().dispatchers()

    def llvm(self) -> str:
        """The loops as LLVM IR."""
        return self._program().llvm()

    def asm(self) -> str:
        """The machine code, in assembler; for a GPU, if NVIDIA's disassembler is installed."""
        return self._program().asm()

    def cost(self) -> Any:
        """Operations, bytes moved and temporary memory, for each loop nest (a GPU: each launch)."""
        return self._program().cost()


def _staged(function: Callable[..., Any], args: Any, kwargs: Any, kind: str) -> tuple[Staged, Any]:
    leaves, structure = tree.flatten((args, kwargs))
    flat = called(function, structure)
    avals = [
        x if isinstance(x, Aval) else aval_of_leaf(as_array(x, lambda: f"an argument of {kind}"))
        for x in leaves
    ]
    taking = flat if scope() is None else declaring(flat, [_variance(x) for x in leaves])
    return stage(taking, avals, kind=kind), flat.result


@boundary
def trace(function: Callable[P, Any]) -> Transformed[P, Graph]:
    """The graph of a function.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        With the arguments of ``function`` (only types matter; `eval_shape`'s results will do). It
        returns the `Graph`: it prints as a program, in a notebook too, and
        ``functrans.ir.text.graph_text(graph, sources=True)`` adds the lines of the code. Arrays
        that the function used from outside are the graph's last inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> print(functrans.trace(functrans.grad(np.sin))(1.0))
    { a:f64*[] ->
      b:f64*[] = cos a
      c:f64[] = multiply 1.0 b
      return c }
    """
    check_callable(function, "trace")

    def graph_of(*args: Any, **kwargs: Any) -> Graph:
        return prune(_staged(function, args, kwargs, "trace")[0].graph)

    return Transformed(trace, function, {}, graph_of)


@boundary
def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of a function's results, without computing them.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Arrays, numbers, or results of `eval_shape`: only types matter.

    Returns
    -------
    pytree
        With an `Aval` (``shape``, ``dtype``) for each array of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import eval_shape
    >>> eval_shape(np.outer, np.ones(2), np.ones(3))
    f64[2,3]
    """
    check_callable(function, "eval_shape")
    staged, structure = _staged(function, args, kwargs, "eval_shape")
    return structure.unflatten(staged.graph.out_avals)

"""Inspection: the stages of a compilation, and the graph and types of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrans.api.arguments import as_array, aval_of_leaf, check_callable, check_point
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
    """The stages of a function's compilation.

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
        """The lowered program for a GPU; None for the CPU."""
        if self._backend is None or not self._backend.startswith("cuda"):
            return None
        return _lowering(self._graph, self._backend, self._architecture, self._donated)

    def _of_a_gpu(self, method: str) -> Lowering:
        if self._lowering is None:
            raise DeviceError(
                f'{method}() is of programs for a GPU: jit(f).lower(..., device="cuda"), with or '
                "without a GPU here"
            )
        return self._lowering

    def stages(self) -> str:
        """The output of each stage of the compiler (docs/compiler.md)."""
        return self._program().stages()

    def schedule(self) -> str:
        """The loops of the program, and the values in memory."""
        return self._program().schedule()

    def source(self) -> str:
        """The loops as readable Numba source; for a GPU, Numba-CUDA source."""
        return self._program().source()

    def ptx(self) -> str:
        """The kernels of a program for a GPU as PTX, NVIDIA's portable assembly language."""
        return self._of_a_gpu("ptx").ptx()

    def resources(self) -> ProgramReport:
        """The resources that the kernels of a GPU program use; prints as a table.

        For each kernel: the number of launches, blocks and threads, the registers of a thread,
        spilled and local bytes, shared memory of a block, occupancy and what limits it, and the
        bytes that it reads and writes. No GPU is needed.
        """
        return self._of_a_gpu("resources").resources()

    def dispatchers(self) -> dict[str, Any]:
        """The loops as Numba functions, by their names in the source.

        ``@njit`` functions may call them. Their arguments are those in the source: an array of one
        int64 for the failure code (0: success), the arrays, which must be C-contiguous, the sizes,
        and, for a loop that threads may share, the part to execute.
        """
        return self._program().dispatchers()

    def llvm(self) -> str:
        """The loops as LLVM IR."""
        return self._program().llvm()

    def asm(self) -> str:
        """The machine code as assembly text; for a GPU this needs NVIDIA's disassembler."""
        return self._program().asm()

    def cost(self) -> Any:
        """Operations, bytes moved and temporary memory of each loop nest (on a GPU: launch)."""
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
    """The traced graph of a function.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        Takes the arguments of ``function``, or results of `eval_shape`, since only types matter. It
        returns the `Graph`, which prints as a program, also in notebooks;
        ``functrans.ir.text.graph_text(graph, sources=True)`` adds the lines of the code. Arrays
        that the function captures are the graph's last inputs.

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
        The structure of the result, with an `Aval` (``shape``, ``dtype``) for each array.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import eval_shape
    >>> eval_shape(np.outer, np.ones(2), np.ones(3))
    f64[2,3]
    """
    check_point(function, "eval_shape", (*args, *kwargs))
    staged, structure = _staged(function, args, kwargs, "eval_shape")
    return structure.unflatten(staged.graph.out_avals)

"""Compiled programs: a graph as a Python function of arrays, run by machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from functrans import config
from functrans.caches import cached
from functrans.emit.llvm import kernel as llvm
from functrans.ir.evaluate import place_of
from functrans.ir.graph import Atom, Graph, Literal
from functrans.ir.types import Aval, interleaved, is_complex, joined
from functrans.lazily import lazy
from functrans.loop.equivalence import representatives
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Kernel
from functrans.loop.walk import routines
from functrans.lower import pipeline
from functrans.lower.plan import Plan, Step
from functrans.lower.select.partition import Segment, compiled, partition
from functrans.optimise import legalised, optimise
from functrans.records import NamedTuple
from functrans.run.call.ownership import own
from functrans.run.call.program import Listing, NativeProgram, StepListing, native_program
from functrans.run.code import cache, host, native
from functrans.spans import span

if TYPE_CHECKING:
    from functrans.lower.report import Cost
    from functrans.run.call.numba_program import NumbaProgram

# what a first call does without
_cost = lazy("functrans.lower.report:cost")
_dispatchers = lazy("functrans.run.code.numba_code:dispatchers")
_names_of = lazy("functrans.run.code.numba_code:names_of")
_numba_program = lazy("functrans.run.call.numba_program:numba_program")
_schedule = lazy("functrans.lower.overview:schedule")
_source = lazy("functrans.emit.source:emit")
_stages = lazy("functrans.lower.overview:stages")
_verify = lazy("functrans.lower.verify:verify")


def compile_graph(graph: Graph, donated: Sequence[int] = (), backend: str = "native") -> Program:
    """Compile a graph; inputs at the positions ``donated`` may be overwritten."""
    return Program(graph, donated, backend=backend)


class Program:
    """A compiled graph, called with its inputs as arrays or numbers, in order.

    The results are a tuple of new arrays (NumPy scalars if they are 0-d). Equations without a
    compiled form are evaluated by their primitive's ``host`` slot, or by NumPy. If everything is
    compiled, the inputs at the positions ``donated`` may be overwritten with results. Of the
    outputs ``in_part`` only the first rows may be written, since the others are never read. The
    ``backend``, one of `functrans.config.BACKENDS`, compiles the plan.
    """

    def __init__(
        self,
        graph: Graph,
        donated: Sequence[int] = (),
        in_part: Sequence[int] = (),
        backend: str = "native",
    ) -> None:
        self.graph = graph
        self.backend = backend
        apart = legalised(graph, host.target())
        self._ends = apart.inputs, apart.outputs
        self.segments = partition(apart, host.of_program())
        is_whole = [segment.graph for segment in self.segments] == [apart]
        if not is_whole:
            donated = ()
        self.parts = [
            None
            if segment.call is not None
            else compile_whole(
                segment.graph, donated, in_part, backend, ends=graph if is_whole else None
            )
            for segment in self.segments
        ]
        only = self.parts[0] if is_whole else None
        self.whole = only.program if only is not None else None
        """The program, if all of the graph is compiled."""

    @property
    def run(self) -> Callable[..., tuple[Any, ...]]:
        """The callable for calls: the machine code itself if all of the graph is compiled."""
        return self.whole or self._run_segments

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self.run(*arrays)

    def timed(self, *arrays: Any) -> list[float]:
        """The seconds of each segment in a call."""
        seconds: list[float] = []
        if self.whole is None:
            self._run_segments(*arrays, seconds=seconds)
        else:
            start = perf_counter()
            self.whole(*arrays)
            seconds.append(perf_counter() - start)
        return seconds

    def _run_segments(self, *arrays: Any, seconds: list[float] | None = None) -> tuple[Any, ...]:
        inputs, outputs = self._ends
        values: dict[Atom, Any] = {
            var: interleaved(x, given.dtype) if is_complex(given.dtype) else _native_order(x)
            for var, given, x in zip(inputs, self.graph.in_avals, arrays, strict=True)
        }
        for segment, part in zip(self.segments, self.parts, strict=True):
            operands = [values[var] for var in segment.inputs]
            start = perf_counter() if seconds is not None else 0.0
            made = part.program(*operands) if part else on_host(segment, operands, self.backend)
            if seconds is not None:
                seconds.append(perf_counter() - start)
            values.update(zip(segment.outputs, made, strict=True))
            for var in segment.dead:
                del values[var]
        results = [
            atom.aval.dtype.type(atom.value) if isinstance(atom, Literal) else values[atom]
            for atom in outputs
        ]
        wanted = [aval.dtype for aval in self.graph.out_avals]
        results = [
            joined(x, dtype) if is_complex(dtype) else x
            for x, dtype in zip(results, wanted, strict=True)
        ]
        return tuple(own(results, arrays))

    def stages(self) -> str:
        """The plan after each stage of the compiler, and the seconds that the stage took."""
        return _stages(self.segments, host.target(), "call NumPy")

    def schedule(self) -> str:
        """The loops of the program, and the values in memory."""
        plans = [None if part is None else part.plan for part in self.parts]
        return _schedule(self.segments, plans, "call NumPy")

    def source(self) -> str:
        """The kernels as Numba source."""
        return "\n\n".join(_source(kernel, name) for kernel, name in self._names().items())

    def dispatchers(self) -> dict[str, Any]:
        """The kernels as Numba functions, by their names in the source."""
        return _dispatchers(self._names())

    def cost(self) -> Cost:
        """Operations and memory traffic of each nest, and the peak of the temporary memory."""
        return _cost([part.plan for part in self.parts if part is not None])

    def llvm(self) -> str:
        """The LLVM IR of the kernels."""
        return "\n".join(map(_printed, self._kernels()))

    def asm(self) -> str:
        """The assembly text of the kernels."""
        return "\n".join(native.assembly(_printed(kernel)) for kernel in self._kernels())

    def _kernels(self) -> list[Kernel]:
        """The kernels in the order in which they are first called."""
        plans = [part.plan for part in self.parts if part is not None]
        return list(dict.fromkeys(kernel for plan in plans for kernel in plan.kernels))

    def _names(self) -> dict[Kernel, str]:
        return _names_of(self._kernels())


def _native_order(x: Any) -> Any:
    """An input in this machine's byte order."""
    is_native = not isinstance(x, np.ndarray) or x.dtype.isnative
    return x if is_native else x.astype(x.dtype.newbyteorder("="))


def on_host(segment: Segment, operands: Sequence[Any], backend: str) -> tuple[Any, ...]:
    """Apply a primitive without a compiled form, by its ``host`` slot or by NumPy."""
    eqn = segment.call
    assert eqn is not None
    # an operand may occur in the equation more than once
    given: dict[Atom, Any] = dict(zip(segment.inputs, operands, strict=True))
    values = [
        x.aval.dtype.type(x.value) if isinstance(x, Literal) else given[x] for x in eqn.inputs
    ]
    with span("NumPy", eqn.primitive, eqn.source):
        try:
            if eqn.primitive.host is not None:
                inner = partial(compiled_part, backend=backend)
                results = eqn.primitive.host(eqn, values, inner)
                if results is not None:
                    return tuple(results)
            result = eqn.primitive.numpy(*values, **eqn.params)
        except Exception as error:
            error.add_note(place_of(eqn))
            raise
    return tuple(result) if eqn.primitive.several else (result,)


@cached(256)
def compiled_part(
    graph: Graph, *, whole: bool = False, in_part: tuple[int, ...] = (), backend: str
) -> Program | None:
    """Compile an inner graph of an equation on the host (`functrans.ir.primitive.Compile`)."""
    graph, machine = optimise(graph), host.target()
    if whole and not all(compiled(eqn, machine) for eqn in graph.eqns):
        return None
    return Program(graph, in_part=in_part, backend=backend)


class Compiled(NamedTuple):
    """A graph that is compiled as a whole: the planned graph, its plan and its program."""

    plan: Plan
    program: NativeProgram | NumbaProgram


def compile_whole(
    graph: Graph,
    donated: Sequence[int] = (),
    in_part: Sequence[int] = (),
    backend: str = "native",
    ends: Graph | None = None,
) -> Compiled:
    """Compile a graph all of whose equations have compiled forms.

    ``ends`` is a graph with the inputs and outputs as callers see them, if these differ: complex
    arrays, which are stored as pairs of real numbers.
    """
    ends = ends or graph
    with span("plan"):
        plan = pipeline.plan(graph, host.target(), donated)
    if config.check_plans:
        with span("verify"):
            _verify(plan, in_part)
    return Compiled(plan, _BACKENDS[backend](plan, graph, ends.in_avals, ends.out_avals))


def lowered(graph: Graph) -> Graph:
    """The graph that is planned for a traced graph, if all of it is compiled."""
    return legalised(optimise(graph), host.target())


def _printed(kernel: Kernel) -> str:
    return llvm.emit(kernel, native.instructions())


def _native(
    plan: Plan, graph: Graph, in_avals: Sequence[Aval], out_avals: Sequence[Aval]
) -> NativeProgram:
    """Compile a plan by LLVM."""
    with span("print"):
        same = representatives(plan.kernels)
        printed = {kernel: _printed(kernel) for kernel in dict.fromkeys(same.values())}
    texts = [printed[same[step.kernel]] for step in plan.steps]
    keys = {text: cache.key_of(text) for text in printed.values()}
    listing = listing_of(plan, [keys[text] for text in texts])
    codes = cache.load_all(
        [
            cache.Wanted(text, each.symbol, each.addresses())
            for each, text in zip(listing.steps, texts, strict=True)
        ]
    )
    return native_program(listing, codes, in_avals, out_avals, lambda: graph)


_BACKENDS: dict[str, Callable[..., NativeProgram | NumbaProgram]] = {
    "native": _native,
    "numba": lambda plan, _, *avals: _numba_program(plan, *avals),
}


def listing_of(plan: Plan, keys: Sequence[str]) -> Listing:
    """The program of a plan, given the key of each step's code."""
    # an overwritten input shares the output's slot: the call passes one array for both
    buffers = (*plan.inputs, *plan.outputs, *plan.offsets, *plan.views)
    slots = {one: slot for slot, one in enumerate(buffers)}
    listed = tuple(
        _listing(step, key, slots, plan.loops) for step, key in zip(plan.steps, keys, strict=True)
    )
    views = tuple((slots[base], start * base.dtype.itemsize) for base, start in plan.views.values())
    overwritten = tuple(plan.overwritten.items())
    return Listing(listed, tuple(plan.offsets.values()), plan.arena, overwritten, views)


def _listing(
    step: Step, key: str, slots: Mapping[Buffer, int], loops: Mapping[Scalar, tuple[int, int]]
) -> StepListing:
    loop = step.kernel.parallel
    return StepListing(
        key,
        llvm.ENTRY,
        routines(step.kernel.body),
        step.extent,
        loop.lanes if loop is not None else 0,
        step.work,
        tuple(slots[one] for one in step.buffers),
        step.sizes,
        tuple(loops[turn] for turn in step.turns),
        -1 if step.exit is None else slots[step.exit.going],
    )

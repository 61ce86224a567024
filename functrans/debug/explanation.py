"""Explanations of programs: the cost of each line, and the parts that are compiled together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from functrans.api.arguments import name_of
from functrans.api.compile import Jitted, jit
from functrans.debug import drawing, page
from functrans.debug.lines import Line, Work, kept_of, key_of, lines_of, peaks_of
from functrans.debug.profiles import Profile, Rows
from functrans.debug.words import count, size, time, where
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.loop.statements import Call
from functrans.loop.walk import walk
from functrans.lower.report import nest_cost, outline
from functrans.records import NamedTuple
from functrans.run.call.jitted import program
from functrans.trace.source import Source
from functrans.tracebacks import boundary

MOST_LINES = 40
MOST_KERNELS = 12


class Part(NamedTuple):
    """A part of a compiled program: loops that are compiled together, or a call of NumPy.

    Parameters
    ----------
    call : str
        The operation that NumPy computes; empty for a compiled part.
    lines : tuple of Source
        The user's lines that it computes, forward or backward.
    nests : int
        The number of loop nests and library calls, each of which reads and writes memory.
    libraries : tuple of str
        The routines of BLAS and LAPACK that are called.
    operations, nbytes : int
        The operations on data of the nests (without library calls), and the bytes that they read
        and write.
    seconds : float
        The time that it takes in a call.
    loops : str
        The loops, in words.
    """

    call: str
    lines: tuple[Source, ...]
    nests: int
    libraries: tuple[str, ...]
    operations: int
    nbytes: int
    seconds: float
    loops: str


class Explanation:
    """The work and cost of a program; prints as a report.

    Attributes
    ----------
    lines : list of Line
        The user's lines, with their work forward and backward, the longest time first. Times are
        those of NumPy, operation by operation.
    peaks : dict
        For each file and line, the bytes of intermediate values that are alive there.
    kept : list of Kept
        The residuals that the forward pass stores for the backward pass.
    parts : list of Part
        The compiled program, in the order of a call.
    kernels : Rows
        Its kernels, with the time of each in a call, the longest first.
    seconds, seconds_by_numpy : float
        A call of the compiled program, and of NumPy, operation by operation.
    temporary_bytes : int
        The memory that the compiled program needs besides its arguments and results.
    graph : Graph
        The program as it was traced.
    source : str
        The kernels that were generated, written as functions for Numba.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        lines: Sequence[Line],
        parts: Sequence[Part],
        kernels: Rows,
        seconds: float,
        temporary_bytes: int,
        source: str,
    ) -> None:
        self.name = name
        self.graph = graph
        self.lines = sorted(lines, key=lambda line: -line.seconds)
        self.peaks = peaks_of(graph)
        self.kept = kept_of(graph)
        self.parts = list(parts)
        self.kernels = kernels
        self.seconds = seconds
        self.seconds_by_numpy = sum(line.seconds for line in lines)
        self.temporary_bytes = temporary_bytes
        self.source = source

    def __repr__(self) -> str:
        return "\n".join([*self.head(), "", *self._lines(), *self._kept(), "", *self._parts()])

    def _repr_html_(self) -> str:
        return page.fragment(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as a page: the source next to the program, linked by hovering.

        Parameters
        ----------
        path : path
            The file, which is self-contained.
        """
        Path(path).write_text(page.page(self), encoding="utf-8")

    def to_dot(self) -> str:
        """The program, as it was traced, in the language of Graphviz."""
        return drawing.dot(self.graph)

    def to_mermaid(self) -> str:
        """The program, as it was traced, in the language of Mermaid."""
        return drawing.mermaid(self.graph)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the program, as it was traced; this needs Graphviz, and ``pip install graphviz``.

        Parameters
        ----------
        path : path
            The file, whose suffix determines the format: ``"loss.svg"``.
        """
        drawing.draw(self.graph, os.fspath(path))

    def head(self) -> Iterator[str]:
        count = sum(line.forward.operations + line.backward.operations for line in self.lines)
        faster = self.seconds_by_numpy / self.seconds if self.seconds else 1.0
        yield f"{self.name}: {count} operations of NumPy"
        yield (
            f"compiled {time(self.seconds)} a call; by NumPy, one after the other, "
            f"{time(self.seconds_by_numpy)} ({faster:.1f} times)"
        )
        yield f"temporary memory: {size(self.temporary_bytes)} compiled"

    def _lines(self) -> Iterator[str]:
        has_backward = any(line.backward.operations for line in self.lines)
        columns = f"{'time':>8} {'flops':>8} {'bytes':>8}"
        yield f"{'forward':>8}" + (f"{'':>20}{'backward':>8}" if has_backward else "")
        yield f"{columns}{f'  {columns}' if has_backward else ''}  {'alive':>8}  line"
        for line in self.lines[:MOST_LINES]:
            backward = f"  {_columns(line.backward)}" if has_backward else ""
            yield f"{_columns(line.forward)}{backward}  {self.alive(line):>8}  {where(line.source)}"
        if len(self.lines) > MOST_LINES:
            yield f"... and {len(self.lines) - MOST_LINES} more lines"

    def _kept(self) -> Iterator[str]:
        if self.kept:
            yield ""
            total = sum(one.nbytes for one in self.kept)
            yield f"kept for the backward pass: {size(total)} in {len(self.kept)} values"
            for one in self.kept[:8]:
                yield f"{size(one.nbytes):>8}  {one.type}  {where(one.source)}"

    def _parts(self) -> Iterator[str]:
        yield "the compiled program:"
        for seconds, text in self.described():
            yield f"{seconds:>8}  {text}"
        if self.kernels:
            yield ""
            yield "its kernels:"
            for row in self.kernels[:MOST_KERNELS]:
                yield f"{time(row.seconds):>8}  {row.what}{_times(row.calls)}"
            if len(self.kernels) > MOST_KERNELS:
                yield f"... and {len(self.kernels) - MOST_KERNELS} more"

    # -- texts of numbers ----------------------------------------------------------------------

    def alive(self, line: Line) -> str:
        """The bytes that are alive while a line is computed; empty inside of loops."""
        peak = self.peaks.get(key_of(line.source))
        return "" if peak is None else size(peak)

    def described(self) -> Iterator[tuple[str, str]]:
        """The time and description of each part of the compiled program."""
        for part in self.parts:
            yield time(part.seconds), _described(part)


def _times(calls: int) -> str:
    return f" ({calls} times)" if calls > 1 else ""


def _columns(work: Work) -> str:
    if not work.operations and not work.seconds:
        return f"{'':>26}"
    return " ".join(f"{word:>8}" for word in work.words)


def _described(part: Part) -> str:
    lines = sorted({source.line for source in part.lines})
    written = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    if part.call:
        return f"NumPy: {part.call}, {written or 'no line'}: it has no compiled form"
    nests = f"{part.nests} nest{'s' if part.nests != 1 else ''} of loops"
    work = f"{count(part.operations)} operations, {size(part.nbytes)} read and written"
    libraries = f", calls {', '.join(part.libraries)}" if part.libraries else ""
    return f"compiled: {written or 'no line'} in {nests}, {work}{libraries}"


def explain(function: Callable[..., Any], /, repeats: int = 5) -> Callable[..., Explanation]:
    """Explain a program: which line takes the time and the memory, and what is compiled together.

    Parameters
    ----------
    function : callable
        Any function of arrays, transformed or not, which is then compiled. To compare the costs of
        a function and its derivative, pass ``grad(f)`` or ``value_and_grad(f)``.
    repeats : int, optional
        The number of measured calls; the report has the median.

    Returns
    -------
    callable
        Takes the arguments of ``function``, and returns an `Explanation`.

    Notes
    -----
    Times of lines are those of NumPy, operation by operation: a compiled program computes many
    lines in one loop, and has no time for each. They show which lines are expensive; the list of
    the compiled program's parts shows how they were compiled. Work inside a loop counts for every
    step. ``flops`` are estimated: those of special functions and decompositions are not known.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, value_and_grad
    >>> def loss(w, x):
    ...     h = np.tanh(x @ w)
    ...     return np.sum(h**2)
    >>> found = debug.explain(value_and_grad(loss))(np.ones((8, 4)), np.ones((100, 8)))
    >>> most = max(found.lines, key=lambda line: line.forward.flops)
    >>> most.source.text, most.forward.flops
    ('h = np.tanh(x @ w)', 6800)
    >>> [one.type for one in found.kept]
    ['f64[100,4]', 'f64[100,4]']
    """

    @boundary
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled = function if isinstance(function, Jitted) else jit(function)
        path, inputs = compiled.path_of(args, kwargs)
        made = program(path.graph, (), path.backend)
        arrays = [
            x if hasattr(x, "dtype") else aval.dtype.type(x)
            for x, aval in zip(inputs, path.graph.in_avals, strict=True)
        ]
        lines = lines_of(path.graph, arrays)
        made(*arrays)
        calls = [_timed(made, arrays) for _ in range(repeats)]
        seconds = [median(column) for column in zip(*(each for _, each in calls), strict=True)]
        parts = [
            _part(segment.graph, segment.call, compiled_part, own)
            for segment, compiled_part, own in zip(made.segments, made.parts, seconds, strict=True)
        ]
        with Profile() as seen:
            for _ in range(repeats):
                made(*arrays)
        kernels = seen.by_kernel().divided(repeats)
        total = median(whole for whole, _ in calls)
        temporary = made.cost().temporary_bytes
        return Explanation(
            name_of(function), path.graph, lines, parts, kernels, total, temporary, made.source()
        )

    return explained


def _timed(made: Any, arrays: Sequence[Any]) -> tuple[float, list[float]]:
    start = perf_counter()
    made(*arrays)
    return perf_counter() - start, made.timed(*arrays)


def _part(graph: Graph, call: Eqn | None, compiled: Any, seconds: float) -> Part:
    if call is not None:
        lines = tuple(_sources(Graph((), [call], call.outputs)).values())
        return Part(call.primitive.name, lines, 0, (), 0, 0, seconds, "")
    steps = compiled.plan.steps
    costs = [nest_cost(step) for step in steps]
    symbols = [
        one.symbol for step in steps for one in walk(step.kernel.body) if isinstance(one, Call)
    ]
    return Part(
        "",
        tuple(_sources(graph).values()),
        len(steps),
        tuple(dict.fromkeys(symbols)),
        sum(one.operations for one in costs),
        sum(one.bytes_read + one.bytes_written for one in costs),
        seconds,
        outline(compiled.plan),
    )


def _sources(graph: Graph) -> dict[Any, Source]:
    """The lines of a graph's equations, with those inside of loops."""
    found = {key_of(eqn.source): eqn.source for eqn in graph.eqns if eqn.source is not None}
    for eqn in graph.eqns:
        for inner in inner_graphs(eqn):
            found |= _sources(inner)
    return found

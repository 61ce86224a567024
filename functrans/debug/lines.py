"""Line profiling: the cost of each line of a user's function, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from time import perf_counter
from typing import Any

import numpy as np

from functrans.debug.words import count, size, time
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ir.observe import Observer, observed
from functrans.ops.calls.budget import nbytes_of
from functrans.ops.control.residuals import flops_of
from functrans.records import NamedTuple, dataclass
from functrans.run.call.failures import by_numpy
from functrans.trace.source import Source


class Work(NamedTuple):
    """The cost of some operations.

    Parameters
    ----------
    operations : int
        The number of NumPy operations.
    seconds : float
        The time that they take, measured one by one.
    flops : int
        Floating-point operations: one for each element of an elementwise operation, two for each
        term of a contraction.
    nbytes : int
        The bytes of operands and results.
    """

    operations: int = 0
    seconds: float = 0.0
    flops: int = 0
    nbytes: int = 0

    @property
    def words(self) -> tuple[str, str, str]:
        """Time, arithmetic and bytes."""
        return time(self.seconds), count(self.flops), size(self.nbytes)

    def plus(self, other: Work) -> Work:
        """The sum of both costs."""
        return Work(
            self.operations + other.operations,
            self.seconds + other.seconds,
            self.flops + other.flops,
            self.nbytes + other.nbytes,
        )


@dataclass
class Line:
    """A line of the user's code.

    Attributes
    ----------
    source : Source or None
        A place on the line; None for operations whose line is unknown.
    forward, backward : Work
        The cost of the line itself, and of its derivatives (including tangents).
    results : list of str
        The types of its results, in the order in which they first occur.
    """

    source: Source | None
    forward: Work = field(default_factory=Work)
    backward: Work = field(default_factory=Work)
    results: list[str] = field(default_factory=list)

    def add(self, work: Work, results: Sequence[str], is_derivative: bool) -> None:
        """Count an operation."""
        if is_derivative:
            self.backward = self.backward.plus(work)
        else:
            self.forward = self.forward.plus(work)
            self.results += [each for each in results if each not in self.results]

    @property
    def seconds(self) -> float:
        """The time of the line, forward and backward."""
        return self.forward.seconds + self.backward.seconds


def key_of(source: Source | None) -> tuple[Any, ...]:
    """A key that is the same for all locations on a line."""
    return () if source is None else (source.code.co_filename, source.line)


def lines_of(graph: Graph, inputs: Sequence[Any], repeats: int = 3) -> list[Line]:
    """The lines of a graph, measured operation by operation: the fastest of some runs.

    Parameters
    ----------
    graph : Graph
        The graph as it was traced.
    inputs : sequence of arrays
    repeats : int, optional
    """
    best: dict[Any, Line] = {}
    for _ in range(repeats):
        seen = _Measured()
        with np.errstate(all="ignore"), observed(seen):
            by_numpy(graph, inputs)
        for key, line in seen.lines.items():
            if key not in best or line.seconds < best[key].seconds:
                best[key] = line
    return list(best.values())


class _Measured(Observer):
    """Measures operations, without the operations of inner graphs."""

    def __init__(self) -> None:
        self.lines: dict[Any, Line] = {}
        self._started: list[float] = []
        self._inside: list[float] = [0.0]

    def before(self, eqn: Eqn, operands: Sequence[Any]) -> None:
        self._inside.append(0.0)
        self._started.append(perf_counter())

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        elapsed = perf_counter() - self._started.pop()
        own = elapsed - self._inside.pop()
        self._inside[-1] += elapsed
        is_inner = eqn.primitive.higher_order
        nbytes = 0 if is_inner else sum(np.asarray(x).nbytes for x in (*operands, *results))
        work = Work(0 if is_inner else 1, own, 0 if is_inner else flops_of(eqn), nbytes)
        line = self.lines.setdefault(key_of(eqn.source), Line(eqn.source))
        is_derivative = eqn.source is not None and bool(eqn.source.derivative)
        line.add(work, [str(var.aval) for var in eqn.outputs], is_derivative)


class Kept(NamedTuple):
    """A value that the forward pass computes and the backward pass reads.

    Parameters
    ----------
    source : Source or None
        Where it is computed.
    type : str
        Its dtype and shape.
    nbytes : int
    """

    source: Source | None
    type: str
    nbytes: int


def kept_of(graph: Graph) -> list[Kept]:
    """The values that are stored for the backward pass, the largest first."""
    makers = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    kept: dict[Var, Kept] = {}
    for eqn in graph.eqns:
        if eqn.source is None or eqn.source.derivative != "cotangent":
            continue
        for atom in eqn.inputs:
            maker = makers.get(atom) if isinstance(atom, Var) else None
            if maker is not None and not _is_backward(maker) and isinstance(atom, Var):
                kept[atom] = Kept(maker.source, str(atom.aval), nbytes_of(atom))
    return sorted((one for one in kept.values() if one.nbytes), key=lambda one: -one.nbytes)


def _is_backward(eqn: Eqn) -> bool:
    return eqn.source is not None and eqn.source.derivative == "cotangent"


def peaks_of(graph: Graph) -> dict[Any, int]:
    """For each line, the most bytes of intermediate values that are alive while it is computed.

    This is for evaluation by NumPy: a value lives until it is read for the last time.
    """
    last = {atom: i for i, eqn in enumerate(graph.eqns) for atom in eqn.inputs}
    last |= dict.fromkeys(graph.outputs, len(graph.eqns))
    peaks: dict[Any, int] = {}
    alive = 0
    for i, eqn in enumerate(graph.eqns):
        alive += sum(map(nbytes_of, eqn.outputs))
        key = key_of(eqn.source)
        peaks[key] = max(peaks.get(key, 0), alive)
        read = {x for x in eqn.inputs if isinstance(x, Var) and x not in graph.inputs}
        alive -= sum(nbytes_of(x) for x in read if last[x] == i)
        alive -= sum(nbytes_of(x) for x in eqn.outputs if x not in last)
    return peaks

"""From functions to graphs, and back: staging a function, replaying a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from functrans.errors import TracerConversionError
from functrans.ir.check import typechecked
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.ir.primitive import bind, current
from functrans.ir.types import Aval
from functrans.trace import patch
from functrans.trace.absent import UNKNOWN
from functrans.trace.trace import Decision, Trace, holds
from functrans.trace.tracer import Tracer


class Staged(NamedTuple):
    """A traced function.

    ``graph`` takes the function's arguments and then the ``captures``: arrays and outer tracers
    that the function used. ``value_of`` gives what a variable of the graph was computed to be, if
    values were at hand. ``decisions`` says where the function went on with a value of the call at
    hand, if it did: the graph then holds for calls that come to the same.
    """

    graph: Graph
    captures: tuple[Any, ...]
    value_of: Callable[[Atom], Any]
    decisions: Sequence[Decision]


def _recorded(trace: Trace, make: Callable[[], Graph]) -> Graph:
    """The graph that ``make`` gives, which records into ``trace``."""
    before = current.get()
    # Not a context manager: a signal (Ctrl-C) may break off any function of Python's, and so one
    # whose task is to set this back. Between these lines it cannot come.
    try:
        if before is None and not trace.rewriting:
            patch.enter(trace)
        current.set(trace)
        return make()
    except ValueError as error:
        # NumPy's own words for any error while an ndarray's element is set; ours say what to do
        if isinstance(error.__cause__, TracerConversionError):
            raise error.__cause__ from None
        raise
    except TypeError as error:
        # the same where an integer is wanted: np.zeros(n), "%d" % n
        told = str(error)
        if trace.refusal is not None and ("got 'Tracer(" in told or told.endswith("not Tracer")):
            raise trace.refusal from None
        raise
    finally:
        current.set(before)
        trace.close()
        if before is None:
            patch.leave(trace)


@typechecked
def stage(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[Aval],
    *,
    kind: str,
    values: Sequence[Any] | None = None,
    operands: Sequence[Any] | None = None,
    outcomes: tuple[bool, ...] | None = None,
    name: Callable[[int], str] = "argument {}".format,
) -> Staged:
    """Run ``function`` on tracers and give its graph.

    Parameters
    ----------
    function : callable
        Takes one tracer for each aval; returns a flat sequence of arrays and tracers.
    avals : sequence of Aval
    kind : str
        The transform that asks, for error messages.
    values : sequence, optional
        Concrete arguments; `UNKNOWN` where there is none. If all are known, equations are
        computed while they are recorded.
    operands : sequence, optional
        What the arguments stand for in the enclosing trace. See `Trace`.
    outcomes : tuple, optional
        If given, the values hold for the call at hand only: nothing is computed but what Python
        asks for, and its first questions are answered so. See `Trace`.
    name : callable, optional
        What messages call an argument, by its number.
    """
    if values is None:
        values = [UNKNOWN] * len(avals)
    concrete = outcomes is None and not holds(values, UNKNOWN)
    trace = Trace(kind, operands=operands, outcomes=outcomes, concrete=concrete)

    def make() -> Graph:
        tracers = []
        for i, (aval, value) in enumerate(zip(avals, values, strict=True)):
            tracers.append(trace.input(aval, value, partial(name, i)))
            if outcomes is not None:
                tracers[-1]._value = UNKNOWN
        return trace.graph(function(*tracers))

    graph = _recorded(trace, make)
    captures = tuple(outer for _, outer in trace.captures)
    return Staged(graph, captures, trace.value_of, trace.decisions)


def rewrite(function: Callable[..., Sequence[Any]], avals: Sequence[Aval]) -> Graph:
    """The graph of a function of the library that applies rules to tracers of the given types."""
    trace = Trace("rewriting", rewriting=True)
    inputs = [trace.input(aval) for aval in avals]
    return prune(_recorded(trace, lambda: trace.graph(function(*inputs))))


def apply(eqn: Eqn, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Apply an equation's primitive; what is recorded belongs to the equation's line.

    Inside of a trace, what is made of numbers alone is recorded too: an array of ones costs a
    compiled program nothing, and computed now it would be a constant that it must read.
    """
    trace = current.get()
    if isinstance(trace, Trace) and not any(isinstance(x, np.ndarray) for x in operands):
        with at_source_of(eqn):
            return trace.record(eqn.primitive, operands, eqn.params)  # type: ignore[arg-type]
    with at_source_of(eqn):
        outs = bind(eqn.primitive, tuple(operands), eqn.params)  # type: ignore[arg-type]
    return tuple(outs) if eqn.primitive.several else (outs,)


@contextmanager
def at_source_of(eqn: Eqn, derivative: str = "") -> Iterator[None]:
    """What is recorded inside of the with statement belongs to the equation's line.

    It may be a ``"tangent"`` or a ``"cotangent"`` of the line.
    """
    trace = current.get()
    if not isinstance(trace, Trace):
        yield
        return
    before, source = trace.source, eqn.source
    trace.source = source.of(derivative) if derivative and source is not None else source
    try:
        yield
    finally:
        trace.source = before


class Environment(dict[Var, Any]):
    """What the variables of a graph stand for."""

    def read(self, atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else self[atom]


def replay_values(graph: Graph, inputs: Sequence[Any]) -> Environment:
    """Run a graph, and give what each of its variables stands for."""
    values = Environment(zip(graph.inputs, inputs, strict=True))
    for eqn in graph.eqns:
        outs = apply(eqn, [values.read(atom) for atom in eqn.inputs])
        values.update(zip(eqn.outputs, outs, strict=True))
    return values


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Run a graph: on arrays it computes, on tracers it records its equations again."""
    values = replay_values(graph, inputs)
    return [values.read(atom) for atom in graph.outputs]


def replay_known(
    graph: Graph, inputs: Sequence[Any], value_of: Callable[[Atom], Any]
) -> Environment:
    """Record a graph again whose values are known, and compute nothing again.

    Gives what each variable of the graph stands for in the current trace.
    """
    trace = current.get()
    assert isinstance(trace, Trace)
    values = Environment(zip(graph.inputs, inputs, strict=True))
    for eqn in graph.eqns:
        operands = [values.read(atom) for atom in eqn.inputs]
        known = [] if eqn.primitive.higher_order else [value_of(var) for var in eqn.outputs]
        if (
            known
            and not any(x is UNKNOWN for x in known)
            and any(isinstance(x, Tracer) for x in operands)
        ):
            outs: Sequence[Any] = trace.record_again(eqn, operands, known)
        else:
            outs = apply(eqn, operands)
        values.update(zip(eqn.outputs, outs, strict=True))
    return values

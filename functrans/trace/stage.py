"""Staging: tracing a function to a graph, and replaying a graph on values or tracers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from functrans import config
from functrans.errors import SwallowedErrorWarning, TracerConversionError
from functrans.ir.check import typechecked
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.ir.primitive import bind, current
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.records import NamedTuple
from functrans.trace import patch
from functrans.trace.absent import UNKNOWN, holds
from functrans.trace.source import adoptions, located, warn_user
from functrans.trace.trace import Decision, Trace
from functrans.trace.tracer import Tracer

_adopted_for = lazy("functrans.trace.adoption:adopted_for")
_advise = lazy("functrans.trace.advice:advise")


class Staged(NamedTuple):
    """A traced function.

    ``graph`` takes the function's arguments, followed by the ``captures``: arrays and outer tracers
    that the function used. ``value_of`` gives the value of a variable of the graph, if values were
    known. ``decisions`` lists the branches that depended on values of the current call: the graph
    is valid for calls with the same outcomes.
    """

    graph: Graph
    captures: tuple[Any, ...]
    value_of: Callable[[Atom], Any]
    decisions: Sequence[Decision]


def _recorded(trace: Trace, make: Callable[[], Graph]) -> Graph:
    """The graph that ``make`` returns, with ``trace`` as the active trace."""
    before = current.get()
    # Not a context manager: a signal (Ctrl-C) may interrupt any Python function, also one that
    # restores state. Between these lines it cannot arrive.
    try:
        if before is None and not trace.rewriting:
            patch.enter(trace)
        current.set(trace)
        graph = make()
        _check_refusals(trace)
        return graph
    except ValueError as error:
        # NumPy's message for any error while an element is set; the cause's message is more helpful
        if isinstance(error.__cause__, TracerConversionError):
            raise error.__cause__ from None
        raise
    except TypeError as error:
        # the same where an integer is required: np.zeros(n), "%d" % n
        told = str(error)
        if trace.refusal is not None and ("got 'Tracer(" in told or told.endswith("not Tracer")):
            raise trace.refusal from None
        _advise(error)
        raise
    finally:
        current.set(before)
        trace.close()
        if before is None:
            patch.leave(trace)


def _check_refusals(trace: Trace) -> None:
    """Warn if the function has returned although a conversion was refused."""
    if trace.refused_at is not None:
        warn_user(
            f"an except clause caught the error that a value traced by {trace.kind} cannot become "
            f"a plain one{located(trace.refused_at)}. What the clause gives is the result for all "
            "values: catch other errors only, or compute with NumPy's functions.",
            SwallowedErrorWarning,
            trace.refused_at,
        )


@typechecked
def stage(
    # takes one tracer for each aval; returns a flat sequence of arrays and tracers
    function: Callable[..., Sequence[Any]],
    avals: Sequence[Aval],
    *,
    kind: str,  # the name of the transform, for error messages
    # Concrete arguments; `UNKNOWN` for those without a value. If all are known, equations are
    # evaluated while they are recorded.
    values: Sequence[Any] | None = None,
    # The values in the enclosing trace that the arguments represent. See `Trace`.
    operands: Sequence[Any] | None = None,
    # If given, the values are those of the current call only: a value is computed only if Python
    # branches on it, and the first branches have these outcomes. See `Trace`.
    outcomes: tuple[bool, ...] | None = None,
    # the name of an argument in messages, by its number
    name: Callable[[int], str] = "argument {}".format,
) -> Staged:
    """Run ``function`` on tracers, and return its graph."""
    if values is None:
        values = [UNKNOWN] * len(avals)
    concrete = outcomes is None and not holds(values, UNKNOWN)

    def attempt() -> Staged:
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

    before = adoptions[0]
    try:
        return attempt()
    except Exception as error:
        if current.get() is not None or not config.patch_numpy:
            raise
        adopted = _adopted_for(error, before)
        if adopted is None:
            raise
    staged: Staged = adopted.traced(attempt)
    return staged


def rewrite(function: Callable[..., Sequence[Any]], avals: Sequence[Aval]) -> Graph:
    """Stage a function of the library, which applies rules to tracers of the given types."""
    trace = Trace("rewriting", rewriting=True)
    inputs = [trace.input(aval) for aval in avals]
    return prune(_recorded(trace, lambda: trace.graph(function(*inputs))))


def apply(eqn: Eqn, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Apply an equation's primitive; recorded equations get the equation's source line.

    Within a trace, operations on numbers only are recorded too: a compiled program computes an
    array of ones at no cost, but would have to read a constant array.
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
    """Give equations that are recorded within a with statement the source line of an equation.

    They may be the ``"tangent"`` or ``"cotangent"`` of the line.
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
    """The values of the variables of a graph."""

    def read(self, atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else self[atom]


def _lifted(x: Any, var: Var) -> Any:
    """An operand as an operation takes it; only the graph knows the type of a ragged stack."""
    trace = current.get()
    if isinstance(trace, Trace) and isinstance(x, np.ndarray) and x.dtype == object:
        return trace.capture(x, var.aval, x)
    return x


def replay_values(graph: Graph, inputs: Sequence[Any]) -> Environment:
    """Run a graph, and return the value of each variable."""
    values = Environment(zip(graph.inputs, map(_lifted, inputs, graph.inputs), strict=True))
    for eqn in graph.eqns:
        outs = apply(eqn, [values.read(atom) for atom in eqn.inputs])
        values.update(zip(eqn.outputs, outs, strict=True))
    return values


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Run a graph: compute on arrays, or record its equations again on tracers."""
    values = replay_values(graph, inputs)
    return [values.read(atom) for atom in graph.outputs]


def replay_known(
    graph: Graph, inputs: Sequence[Any], value_of: Callable[[Atom], Any]
) -> Environment:
    """Record a graph with known values again, without computing them again.

    Returns the tracer of each variable in the current trace.
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

"""Evaluation of graphs: NumPy computes one equation after the other.

A graph that is evaluated a second time is first translated to a straight-line Python function, so
that an equation costs no more than its NumPy call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.observe import Observer, observer
from functrans.ir.on_device import evaluators, is_any_on_device

Program = Callable[..., tuple[Any, ...]]


def evaluate(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a graph applied to arrays.

    A note with the primitive and the user's line is added to exceptions.
    """
    if evaluators and is_any_on_device(inputs):
        return evaluators[-1](graph, inputs)
    if (by := observer.get()) is not None:
        return _observed(graph, inputs, by)
    return _evaluator(graph)(graph, inputs)


def _observed(graph: Graph, inputs: Sequence[Any], by: Observer) -> Sequence[Any]:
    by.enter(graph, inputs)
    outputs = _interpret(graph, inputs, by)
    by.leave(graph, outputs)
    return outputs


@cached(1024)
def _evaluator(graph: Graph) -> _Evaluator:
    return _Evaluator()


class _Evaluator:
    """Evaluates graphs of one structure, which may come from different source lines."""

    def __init__(self) -> None:
        self.seen = False
        self.program: Program | None = None

    def __call__(self, graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
        if self.program is None:
            if not self.seen:
                self.seen = True
                return _interpret(graph, inputs)
            self.program = _compile(graph)
        try:
            return self.program(*inputs)
        except Exception as error:
            trace = error.__traceback__
            assert trace is not None
            if trace.tb_next is not None:
                eqn = _equation_at(trace.tb_next.tb_frame, trace.tb_next.tb_lineno, graph)
                if eqn is not None:
                    error.add_note(place_of(eqn))
            raise


def equation_of(frame: FrameType) -> Eqn | None:
    """The equation that a frame is evaluating, if it is a frame of this module."""
    if frame.f_code is _interpret.__code__:
        return frame.f_locals.get("eqn")
    before = frame.f_back
    if before is None or before.f_code is not _Evaluator.__call__.__code__:
        return None
    return _equation_at(frame, frame.f_lineno, before.f_locals["graph"])


def _equation_at(frame: FrameType, line: int, graph: Graph) -> Eqn | None:
    """The equation on a line of the Python function of a graph."""
    return graph.eqns[line - 2] if frame.f_code.co_filename == FILE else None


def place_of(eqn: Eqn) -> str:
    """A note about the failed operation, and the user's line of it, if there is one."""
    written = "" if eqn.source is None else f", written at {eqn.source}"
    return f"  in {eqn.primitive.name}{written}"


def _interpret(graph: Graph, inputs: Sequence[Any], by: Observer | None = None) -> list[Any]:
    values: dict[Var, Any] = dict(zip(graph.inputs, inputs, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else values[atom]

    last_use = {a: i for i, eqn in enumerate(graph.eqns) for a in eqn.inputs}
    kept = set(graph.outputs)
    for i, eqn in enumerate(graph.eqns):
        operands = [read(atom) for atom in eqn.inputs]
        if by is not None:
            by.before(eqn, operands)
        try:
            results = eqn.primitive.numpy(*operands, **eqn.params)
        except Exception as error:
            error.add_note(place_of(eqn))
            raise
        if not eqn.primitive.several:
            results = (results,)
        if by is not None:
            by.after(eqn, operands, results)
        values.update(zip(eqn.outputs, results, strict=True))
        for atom in eqn.inputs:
            if isinstance(atom, Var) and last_use[atom] == i and atom not in kept:
                values.pop(atom, None)
    return list(map(read, graph.outputs))


FILE = "<functrans graph, evaluated by NumPy>"
"""The file name of the Python functions of graphs."""


def _compile(graph: Graph) -> Program:
    names: dict[Var, str] = {var: f"x{i}" for i, var in enumerate(graph.inputs)}
    scope: dict[str, Any] = {}

    def name(atom: Atom) -> str:
        if isinstance(atom, Literal):
            constant = f"c{len(scope)}"
            scope[constant] = atom.value
            return constant
        return names[atom]

    last_use = {a: i for i, eqn in enumerate(graph.eqns) for a in eqn.inputs}
    kept = set(graph.outputs)
    lines = [f"def program({', '.join(names.values())}):"]
    for i, eqn in enumerate(graph.eqns):
        for var in eqn.outputs:
            names[var] = f"v{len(names)}"
        function = f"f{len(scope)}"
        scope[function] = (
            partial(eqn.primitive.numpy, **eqn.params) if eqn.params else eqn.primitive.numpy
        )
        left = ", ".join(names[var] for var in eqn.outputs)
        comma = "," if eqn.primitive.several and len(eqn.outputs) == 1 else ""
        call = f"{function}({', '.join(map(name, eqn.inputs))})"
        line = f" {left}{comma} = {call}" if left else f" {call}"
        dead = [
            names[a]
            for a in dict.fromkeys(eqn.inputs)
            if isinstance(a, Var) and last_use[a] == i and a not in kept
        ]
        lines.append(line + (f"; del {', '.join(dead)}" if dead else ""))
    lines.append(f" return ({''.join(name(atom) + ', ' for atom in graph.outputs)})")
    source = "\n".join(lines)
    exec(compile(source, FILE, "exec"), scope)
    return scope["program"]

"""What a graph means: its equations computed by NumPy, one after the other.

A graph that is evaluated again is first printed as a straight-line Python function: the cost of an
equation is then the cost of its NumPy call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var

Program = Callable[..., tuple[Any, ...]]


def evaluate(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a graph for arrays.

    An exception gets a note that names the primitive and the user's line.
    """
    return _evaluator(graph)(inputs)


@cached(1024)
def _evaluator(graph: Graph) -> _Evaluator:
    return _Evaluator(graph)


class _Evaluator:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seen = False
        self.program: Program | None = None

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        if self.program is None:
            if not self.seen:
                self.seen = True
                return _interpret(self.graph, inputs)
            self.program = _compile(self.graph)
        try:
            return self.program(*inputs)
        except Exception as error:
            trace = error.__traceback__
            assert trace is not None
            if trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename == _FILE:
                eqn = self.graph.eqns[trace.tb_next.tb_lineno - 2]
                error.add_note(place_of(eqn))
            raise


def place_of(eqn: Eqn) -> str:
    """Which operation failed, and where the user wrote it (unless the library did)."""
    written = "" if eqn.source is None else f", written at {eqn.source}"
    return f"  in {eqn.primitive.name}{written}"


def _interpret(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    values: dict[Var, Any] = dict(zip(graph.inputs, inputs, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else values[atom]

    last_use = {a: i for i, eqn in enumerate(graph.eqns) for a in eqn.inputs}
    kept = set(graph.outputs)
    for i, eqn in enumerate(graph.eqns):
        try:
            results = eqn.primitive.numpy(*map(read, eqn.inputs), **eqn.params)
        except Exception as error:
            error.add_note(place_of(eqn))
            raise
        if eqn.primitive.several:
            values.update(zip(eqn.outputs, results, strict=True))
        else:
            values[eqn.outputs[0]] = results
        for atom in eqn.inputs:
            if isinstance(atom, Var) and last_use[atom] == i and atom not in kept:
                values.pop(atom, None)
    return list(map(read, graph.outputs))


_FILE = "<a graph, evaluated by NumPy>"


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
    exec(compile(source, _FILE, "exec"), scope)
    program: Program = scope["program"]
    return program

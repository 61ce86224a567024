"""Drawings of graphs in DOT and Mermaid: operations, and the values between them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from functrans.ir.graph import Graph, Literal, Var
from functrans.lazily import lazy

_source_of = lazy("graphviz:Source")

Node = tuple[str, str, str]
"""The name of a box, its text, and its kind: "input", "operation" or "output"."""


def dot(graph: Graph) -> str:
    """A graph in the language of Graphviz."""
    lines = ["digraph {", '  node [fontname="sans-serif", fontsize=10, shape=box];']
    styles = {"input": "style=rounded", "operation": "style=solid", "output": "style=dashed"}
    for name, text, kind in _nodes(graph):
        label = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  {name} [label="{label}", {styles[kind]}];')
    for start, end, text in _edges(graph):
        lines.append(f'  {start} -> {end} [label="{text}", fontsize=8];')
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(graph: Graph) -> str:
    """A graph in the language of Mermaid, which GitHub and notebooks draw."""
    brackets = {"input": ('(["', '"])'), "operation": ('["', '"]'), "output": ('[["', '"]]')}
    lines = ["flowchart TD"]
    for name, text, kind in _nodes(graph):
        left, right = brackets[kind]
        label = escape(text, quote=True).replace("\n", "<br>")
        lines.append(f"  {name}{left}{label}{right}")
    for start, end, text in _edges(graph):
        lines.append(f'  {start} -->|"{text}"| {end}')
    return "\n".join(lines) + "\n"


def draw(graph: Graph, path: str) -> None:
    """Draw a graph by Graphviz; the suffix of the file determines the format."""
    stem, _, kind = path.rpartition(".")
    try:
        drawn = _source_of(dot(graph))
    except ImportError as error:
        error.add_note("A picture is drawn by Graphviz and its package: pip install graphviz")
        raise
    drawn.render(stem, format=kind, cleanup=True)


def _nodes(graph: Graph) -> Iterator[Node]:
    for i, var in enumerate(graph.inputs):
        yield f"in{i}", f"input {i}\n{var.aval}", "input"
    for i, eqn in enumerate(graph.eqns):
        types = ", ".join(str(var.aval) for var in eqn.outputs)
        line = f"\n{eqn.source}" if eqn.source is not None else ""
        numbers = [str(x.value) for x in eqn.inputs if isinstance(x, Literal)]
        constants = f" ({', '.join(numbers)})" if numbers else ""
        yield f"op{i}", f"{eqn.primitive.name}{constants}\n{types}{line}", "operation"
    for i, atom in enumerate(graph.outputs):
        value = f"\n{atom.value}" if isinstance(atom, Literal) else ""
        yield f"out{i}", f"output {i}{value}", "output"


def _edges(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Each edge: its two nodes, and the type of the value."""
    makers = {var: f"in{i}" for i, var in enumerate(graph.inputs)}
    makers |= {var: f"op{i}" for i, eqn in enumerate(graph.eqns) for var in eqn.outputs}
    readers = [(f"op{i}", eqn.inputs) for i, eqn in enumerate(graph.eqns)]
    readers += [(f"out{i}", (atom,)) for i, atom in enumerate(graph.outputs)]
    for name, atoms in readers:
        for atom in atoms:
            if isinstance(atom, Var):
                yield makers[atom], name, str(atom.aval)

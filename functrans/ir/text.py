"""Graphs as text: one equation on each line, inner graphs indented."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrans.ir.graph import Atom, Graph, Literal, Var

# not html.escape, whose module imports a large table of all entities
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def graph_text(graph: Graph, *, sources: bool = False) -> str:
    """A graph as a readable program.

    Parameters
    ----------
    graph : Graph
    sources : bool
        Whether each line ends with the user's source line.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> print(functrans.trace(lambda x, y: x * y + 1.0)(2.0, np.ones(3)))
    { a:f64*[], b:f64[3] ->
      c:f64[3] = multiply a b
      d:f64[3] = add c 1.0
      return d }
    """
    return "\n".join(_lines(graph, _names(), sources, 0))


def _names() -> Iterator[str]:
    for length in count(1):
        yield from ("".join(letters) for letters in product(ascii_lowercase, repeat=length))


def variable_names(graph: Graph) -> dict[Atom, str]:
    """The names of a graph's variables in its text."""
    names: dict[Atom, str] = {}
    list(_lines(graph, _names(), False, 0, names))
    return names


def _lines(
    graph: Graph,
    fresh: Iterator[str],
    sources: bool,
    depth: int,
    names: dict[Atom, str] | None = None,
) -> Iterator[str]:
    names = {} if names is None else names
    indent = "  " * depth

    def typed(var: Var) -> str:
        names[var] = next(fresh)
        return f"{names[var]}:{var.aval}"

    def name(atom: Atom) -> str:
        return names[atom] if atom in names else _number(atom)  # type: ignore[arg-type]

    yield f"{indent}{{ {', '.join(map(typed, graph.inputs))} ->"
    for eqn in graph.eqns:
        operands = "".join(f" {name(atom)}" for atom in eqn.inputs)
        plain = {k: v for k, v in eqn.params.items() if not _holds_graph(v)}
        inner = {k: v for k, v in eqn.params.items() if _holds_graph(v)}
        params = f"[{', '.join(f'{k}={_param(v)}' for k, v in plain.items())}]" if plain else ""
        line = f"{', '.join(map(typed, eqn.outputs))} = {eqn.primitive.name}{params}{operands}"
        comment = f"    # {eqn.source}" if sources and eqn.source is not None else ""
        yield f"{indent}  {line}{comment}"
        for key, value in inner.items():
            for graph_ in value if isinstance(value, tuple) else (value,):
                yield f"{indent}    {key} ="
                yield from _lines(graph_, fresh, sources, depth + 3)
    yield f"{indent}  return {', '.join(map(name, graph.outputs))} }}"


def _number(literal: Literal) -> str:
    value = literal.value
    return repr(value.item() if hasattr(value, "item") else value)


def _param(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return str(value)


def _holds_graph(value: Any) -> bool:
    graphs = value if isinstance(value, tuple) else (value,)
    return bool(graphs) and all(hasattr(x, "eqns") for x in graphs)


def graph_html(graph: Graph) -> str:
    """A graph for a notebook: the text, with the user's lines in grey."""
    rows = []
    for line in graph_text(graph, sources=True).split("\n"):
        code, mark, comment = line.partition("    # ")
        rows.append(
            code.translate(_HTML)
            + (f'<span style="color: gray">    # {comment.translate(_HTML)}</span>' if mark else "")
        )
    return '<pre style="line-height: 1.3">' + "\n".join(rows) + "</pre>"

"""Graphs as text: printing and parsing is a round trip."""

import numpy as np
import pytest

from functrans import grad, lax, trace
from functrans.ir.text import graph_html, graph_text
from tests.ir.written import graph

INNER = graph("""{ x:f64[3] ->
    y = sin x
    return y }""")


def test_a_line_for_each_equation():
    text = """{ a:f64[3], b:f32[3], c:bool[3] ->
  d:f64[3] = cast[dtype=float64] b
  e:f64[3] = select c a d
  f:f64[] = reduce_sum[axes=(0,)] e
  return f, 2.5 }"""
    assert str(graph(text)) == text


def test_graphs_inside_are_indented():
    outer = graph("{ a:f64[3] ->\n b = jit[graph=inner, name='f'] a\n return b }", inner=INNER)
    assert str(outer).splitlines() == [
        "{ a:f64[3] ->",
        "  b:f64[3] = jit[name=f] a",
        "    graph =",
        "      { c:f64[3] ->",
        "        d:f64[3] = sin c",
        "        return d }",
        "  return b }",
    ]


def test_there_are_names_enough():
    lines = [f" x{i + 1} = sin x{i}" for i in range(30)]
    text = str(graph("\n".join(["{ x0:f64[] ->", *lines, "return x30 }"])))
    assert "ae:f64[] = sin ad" in text


@pytest.mark.parametrize(
    "function", [lambda x: np.sum(np.sin(x) * 2), grad(lambda x: np.sum(x * np.cos(x) ** 2))]
)
def test_what_is_printed_can_be_read_again(function):
    made = trace(function)(np.ones(3))
    assert str(graph(str(made))) == str(made)


def test_the_users_lines():
    made = trace(lambda x: lax.stop_gradient(np.sin(x)) if x is None else np.sin(x))(1.0)
    assert "# test_text.py:" in graph_text(made, sources=True)
    assert "# test_text.py:" not in str(made)
    assert "&lt;lambda&gt;" in graph_html(made)

"""The graph verifier: each violation is found, and the message names the pass and the equation."""

import numpy as np
import pytest

from functrans import config, grad, jit
from functrans.errors import GraphTypeError
from functrans.ir.check import check_graph, checked, typechecked
from functrans.ir.graph import Eqn, Graph, Literal, Var
from functrans.ir.primitive import registry
from functrans.ir.types import Aval
from functrans.loop.target import CPU
from functrans.optimise import passes
from functrans.optimise.conditions import is_any
from functrans.transform import forward

F8, I8, WEAK = Aval((3,), float), Aval((3,), int), Aval((), float, weak=True)


def sin(x, out, **params):
    return Eqn(registry["sin"], (x,), (out,), params)


def add(x, y, out):
    return Eqn(registry["add"], (x, y), (out,), {})


def calls(graph, inputs, outputs):
    return Eqn(registry["jit"], inputs, outputs, {"graph": graph, "name": "f"})


X, Y, Z = Var(F8), Var(F8), Var(F8)
ONE = Literal(np.float64(1.0), Aval((), float))

WRONG = {
    "an input twice": (Graph([X, X], (), [X]), "is assigned twice"),
    "a result twice": (Graph([X], [sin(X, Y), sin(X, Y)], [Y]), "is assigned twice"),
    "an input again": (Graph([X], [sin(X, X)], [X]), "is assigned twice"),
    "two results of one name": (
        Graph([X], [calls(Graph([Z], (), [Z, Z]), (X,), (Y, Y))], [Y]), "is assigned twice",
    ),
    "used before": (Graph([X], [sin(Y, Z), sin(X, Y)], [Z]), "used before it is assigned"),
    "an output of nothing": (Graph([X], (), [Y]), "used before it is assigned"),
    "a shape": (Graph([X], [sin(X, v := Var(Aval((2,), float)))], [v]), r"of type f64\[3\]"),
    "a dtype": (Graph([X], [sin(X, v := Var(I8))], [v]), r"of type f64\[3\]"),
    "dtypes that do not meet": (
        Graph([X, v := Var(I8)], [Eqn(registry["dot_general"], (X, v), (Y,),
              {"contract": ((), ()), "batch": ((), ())})], [Y]), "convert one of them",
    ),
    "weak, and is not": (Graph([X], [sin(X, v := Var(Aval((3,), float, True)))], [v]), "of type"),
    "not weak, and is": (Graph([w := Var(WEAK)], [sin(w, v := Var(Aval((), float)))], [v]), "type"),
    "a parameter": (Graph([X], [sin(X, Y, n=2)], [Y]), "does not take this"),
    "a parameter without a hash": (Graph([X], [sin(X, Y, n=[2])], [Y]), "no hash"),
    "an operand too many": (
        Graph([X], [Eqn(registry["sin"], (X, X), (Y,), {})], [Y]), "does not take this",
    ),
    "a result too many": (
        Graph([X], [Eqn(registry["sin"], (X,), (Y, Z), {})], [Y]), "1 results, but 2 names",
    ),
    "an array as a literal": (
        Graph([X], [add(X, Literal(np.ones(3), F8), Y)], [Y]), "the literal",
    ),
    "a literal of another dtype": (
        Graph([X], [add(X, Literal(np.float32(1), ONE.aval), Y)], [Y]), "the literal",
    ),
    "a Python number": (Graph([X], [add(X, Literal(1.0, ONE.aval), Y)], [Y]), "the literal"),
    "an inner graph": (
        Graph([X], [calls(Graph([Z], [sin(Z, v := Var(I8))], [v]), (X,), (w := Var(I8),))], [w]),
        r"of type f64\[3\].* = sin ",
    ),
    "an inner graph that is not closed": (
        Graph([X], [calls(Graph([Z], [sin(X, Y)], [Y]), (X,), (v := Var(F8),))], [v]),
        "used before it is assigned",
    ),
    "an inner graph of other inputs": (
        Graph([X], [calls(Graph([v := Var(I8)], (), [v]), (X,), (w := Var(I8),))], [w]),
        "where the inner graph takes",
    ),
    "a gemm that is not symmetric": (
        Graph([v := Var(Aval((2, 3), float))],
              [Eqn(registry["gemm"], (v, v), (w := Var(Aval((2, 3, 2, 3), float)),),
                   {"contract": ((), ()), "batch": ((), ()), "parts": None, "symmetric": True,
                    "panels": False})],
              [w]),
        "gemm gives no symmetric matrices, but an array of shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_found(graph, words, monkeypatch):
    with pytest.raises(GraphTypeError, match=f"(?s){words}"):
        check_graph(graph)
    monkeypatch.setattr(config, "check_plans", False)
    assert checked(graph, "nobody") is graph


def test_results_may_be_there_twice():
    check_graph(Graph([X], [sin(X, Y)], [Y, Y, X, ONE]))


def test_which_types_yield_no_longer_counts_in_the_compiler():
    graph = Graph([w := Var(WEAK)], [sin(w, v := Var(Aval((), float)))], [v])
    assert checked(graph, "simplify") is graph


def test_the_pass_and_the_equation_are_named():
    graph = Graph([X], [sin(X, v := Var(I8))], [v])
    words = (
        r"^forget gives a graph that is wrong: v\w+:i64\[3\] stands for a value of type f64\[3\]"
    )
    with pytest.raises(GraphTypeError, match=words + r", in .* = sin "):
        checked(graph, "forget")

    @typechecked
    def forgets():
        return 1, (graph,)

    with pytest.raises(GraphTypeError, match=r"^forgets gives"):
        forgets()


def broken(each):
    """A pass with the name of another one, which leaves out the first equation."""

    def run(graph, target=None):
        return Graph(graph.inputs, graph.eqns[1:], graph.outputs)

    run.__name__ = each.name
    return each._replace(run=run, when=is_any)


@pytest.mark.parametrize("number", range(len(passes.SIMPLIFICATION)))
def test_every_pass_is_checked(number, monkeypatch):
    changed = list(passes.SIMPLIFICATION)
    changed[number] = broken(changed[number])
    monkeypatch.setattr(passes, "SIMPLIFICATION", tuple(changed))
    graph = Graph([X], [sin(X, Y), sin(Y, Z)], [Z])
    with pytest.raises(GraphTypeError, match=f"^{changed[number].name} gives a graph that is"):
        passes.optimise.__wrapped__(graph)


@pytest.mark.parametrize("number", range(len(passes.FOR_CORES.machine)))
def test_every_pass_of_a_machine_is_checked(number, monkeypatch):
    changed = list(passes.FOR_CORES.machine)
    changed[number] = broken(changed[number])
    monkeypatch.setattr(passes, "FOR_CORES", passes.FOR_CORES._replace(machine=tuple(changed)))
    with pytest.raises(GraphTypeError, match=f"^{changed[number].name} gives a graph that is"):
        passes.rewritten(Graph([X], [sin(X, Y), sin(Y, Z)], [Z]), CPU, outlined=True)


def test_a_wrong_rule_is_found_when_it_is_applied(monkeypatch):
    def no_prefix(function, avals):
        graph = whole(function, avals)
        return Graph(graph.inputs, graph.eqns[1:], graph.outputs)

    whole = forward.rewrite
    monkeypatch.setattr(forward, "rewrite", no_prefix)
    with pytest.raises(GraphTypeError, match=r"^(tangent|jvp)_graph gives a graph that is wrong"):
        jit(grad(lambda x: np.sin(x * 1.25) * 3.75))(1.0)

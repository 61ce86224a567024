"""Graphs: structural equality, dead code, inlining, uses of variables."""

import pickle

import numpy as np
import pytest

from functrans.ir.graph import Graph, Literal, Var, any_eqn, inlined, prune, used_inputs
from functrans.ir.types import Aval
from tests.ir.written import graph, is_graph

F8 = Aval((), float)


def returns(value, aval=F8):
    return Graph((), (), [Literal(np.asarray(value, aval.dtype)[()], aval)])


def test_names_do_not_matter_and_everything_else_does():
    one = graph("{ a:f64[2], b:f64[2] ->\n c = multiply a b\n d = sin c\n return d }")
    same = graph("{ x:f64[2], y:f64[2] ->\n p = multiply x y\n q = sin p\n return q }")
    assert one == same and hash(one) == hash(same)
    for other in (
        "{ a:f64[2], b:f64[2] ->\n c = multiply b a\n d = sin c\n return d }",
        "{ a:f64[2], b:f64[2] ->\n c = multiply a b\n d = cos c\n return d }",
        "{ a:f64[2], b:f64[2] ->\n c = multiply a b\n d = sin c\n return c }",
        "{ a:f64[3], b:f64[3] ->\n c = multiply a b\n d = sin c\n return d }",
        "{ a:f64[2], b:f64[2], e:f64[2] ->\n c = multiply a b\n d = sin c\n return d }",
    ):
        assert one != graph(other)


def test_parameters_matter():
    first = graph("{ a:f64[2,2] ->\n b = reduce_sum[axes=(0,)] a\n return b }")
    assert first != graph("{ a:f64[2,2] ->\n b = reduce_sum[axes=(1,)] a\n return b }")


def test_numbers_are_compared_by_their_bits_and_their_types():
    assert returns(np.nan) == returns(np.nan)
    assert returns(0.0) != returns(-0.0)
    assert returns(1.0) != returns(1.0, Aval((), "float32"))
    assert returns(1.0) != returns(1.0, Aval((), float, weak=True))


def test_what_the_outputs_do_not_need_goes():
    whole = graph("""{ a:f64[2], b:f64[2] ->
        c = sin a
        d = multiply c b
        e = cos c
        return e }""")
    is_graph(prune(whole), """{ a:f64[2], b:f64[2] ->
        c = sin a
        e = cos c
        return e }""")  # fmt: skip
    slim = prune(whole)
    assert prune(slim) is slim


def test_results_of_calls_that_nobody_needs_go():
    inner = graph("""{ x:f64[], y:f64[] ->
        z = sin x
        w = multiply z y
        return z, w }""")
    whole = graph(
        "{ a:f64[], b:f64[] ->\n c, d = jit[graph=inner, name='f'] a b\n return c }", inner=inner
    )
    is_graph(
        prune(whole),
        "{ a:f64[], b:f64[] ->\n c = jit[graph=slim, name='f'] a\n return c }",
        slim=graph("{ x:f64[] ->\n z = sin x\n return z }"),
    )


def test_a_graph_in_the_place_of_a_call():
    inner = graph("{ x:f64[], y:f64[] ->\n z = multiply x 2.0\n return z, y, 3.0 }")
    given = Var(F8), Var(F8)
    eqns, outputs = inlined(inner, given, source="here")
    assert [(eqn.primitive.name, eqn.inputs[0], eqn.source) for eqn in eqns] == [
        ("multiply", given[0], "here")
    ]
    assert outputs[:2] == [eqns[0].outputs[0], given[1]]
    assert eqns[0].outputs[0] is not inner.eqns[0].outputs[0]
    assert outputs[2].value == 3.0


def test_which_inputs_are_used():
    made = graph("{ a:f64[], b:f64[], c:f64[] ->\n d = sin b\n return d, c }")
    assert used_inputs(made) == (False, True, True)


@pytest.mark.parametrize(("name", "found"), [("sin", True), ("jit", True), ("cos", False)])
def test_equations_inside_are_found(name, found):
    inner = graph("{ x:f64[] ->\n y = sin x\n return y }")
    outer = graph("{ a:f64[] ->\n b = jit[graph=inner, name='f'] a\n return b }", inner=inner)
    assert any_eqn(outer, lambda eqn: eqn.primitive.name == name) is found


def test_a_pickled_graph_does_not_keep_what_is_valid_in_this_process_only():
    once = graph("{ a:f64[2] ->\n b = sin a\n return b }")
    plain = pickle.dumps(once)
    assert hash(once) == hash(graph(str(once)))  # remembers the hash, and the key that it is of
    assert once.places == (None,)
    assert pickle.dumps(once) == plain
    assert pickle.loads(plain) == once

"""Partial evaluation of graphs written by hand: the known part, the rest, and the residuals."""

import numpy as np

from functrans.ir.evaluate import evaluate
from functrans.transform.split import split
from tests.ir.written import graph, is_graph

X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.4, -0.7])


def whole(parts, known, unknown):
    """The outputs of a graph by its two parts."""
    count = len(parts.unknown_out) - sum(parts.unknown_out)
    first = evaluate(parts.known, known)
    rest = evaluate(parts.unknown, [*first[count:], *unknown])
    from_known, from_unknown = iter(first[:count]), iter(rest)
    return [next(from_unknown if flag else from_known) for flag in parts.unknown_out]


def test_each_equation_goes_where_its_operands_are_known():
    made = graph("""{ x:f64[3], y:f64[3] ->
        a = sin x
        b = multiply a y
        c = cos a
        d = multiply b c
        return d, c }""")
    parts = split(made, (False, True))
    is_graph(parts.known, """{ x:f64[3] ->
        a = sin x
        c = cos a
        return c, a, c }""")  # fmt: skip
    is_graph(parts.unknown, """{ a:f64[3], c:f64[3], y:f64[3] ->
        b = multiply a y
        d = multiply b c
        return d }""")  # fmt: skip
    assert parts.unknown_out == (True, False)
    for found, wanted in zip(whole(parts, [X], [Y]), evaluate(made, [X, Y]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_nobody_needs_goes_over_to_nobody():
    made = graph("""{ x:f64[3], y:f64[3] ->
        a = sin x
        b = multiply a y
        return y }""")
    parts = split(made, (False, True))
    is_graph(parts.known, "{ x:f64[3] ->\n return }")
    is_graph(parts.unknown, "{ y:f64[3] ->\n return y }")


def test_nothing_and_everything_unknown():
    made = graph("{ x:f64[3] ->\n a = sin x\n return a, 1.0 }")
    assert split(made, (False,)).unknown_out == (False, False)
    assert not split(made, (False,)).unknown.eqns
    assert split(made, (True,)).unknown_out == (True, False)
    assert not split(made, (True,)).known.eqns


def test_a_call_is_split_itself():
    inner = graph("""{ x:f64[3], y:f64[3] ->
        a = exp x
        b = multiply a y
        return b, a }""")
    made = graph(
        """{ x:f64[3], y:f64[3] ->
        b, a = jit[graph=inner, name='f'] x y
        c = add b a
        return c, a }""",
        inner=inner,
    )
    parts = split(made, (False, True))
    assert parts.unknown_out == (True, False)
    names = [eqn.primitive.name for eqn in parts.unknown.eqns]
    assert names == ["jit", "add"]
    assert [eqn.primitive.name for eqn in parts.known.eqns] == ["jit"]
    for found, wanted in zip(whole(parts, [X], [Y]), evaluate(made, [X, Y]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_known_operand_is_a_residual_itself():
    made = graph("{ x:f64[3], y:f64[3] ->\n a = multiply x y\n return a }")
    parts = split(made, (False, True))
    is_graph(parts.known, "{ x:f64[3] ->\n return x }")
    is_graph(parts.unknown, "{ x:f64[3], y:f64[3] ->\n a = multiply x y\n return a }")

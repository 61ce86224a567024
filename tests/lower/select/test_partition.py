"""Partition of programs at calls of NumPy, on graphs written by hand."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.ir.types import Aval
from functrans.lower.select.partition import compiled, partition
from functrans.ops.calls.external import Elements
from tests.ir.written import graph
from tests.lower.by_hand import done_by

OUTSIDE = {
    "turned": Elements(lambda x: x[::-1].copy(), several=False, vectorised=False),
    "one": Aval((3,), float),
}
CALL = "external[elements=turned, results=(one,), lanes=()]"


def written(text):
    return graph(text, **OUTSIDE)


def parts(made):
    """What each segment does: the equations to compile, or the call."""
    return [
        [eqn.primitive.name for eqn in segment.graph.eqns] if segment.call is None else "call"
        for segment in done_by(partition, made)
    ]


def run(made, inputs):
    """The results of a graph, segment by segment; what is dead is forgotten."""
    known = dict(zip(made.inputs, inputs, strict=True))
    for segment in done_by(partition, made):
        found = evaluate(segment.graph, [known[var] for var in segment.inputs])
        known.update(zip(segment.outputs, found, strict=True))
        for var in segment.dead:
            del known[var]
    return [known[var] for var in made.outputs]


def test_what_can_be_compiled_is_one_segment():
    made = written("{ x:f64[3] ->\n a = sin x\n b = exp a\n return b }")
    (segment,) = done_by(partition, made)
    assert segment.graph is made
    assert (segment.inputs, segment.call) == (made.inputs, None)


CASES = {
    "a call between": (
        f"""{{ x:f64[3] ->
        a = sin x
        b = {CALL} a
        c = multiply a b
        return c, x }}""",
        [["sin"], "call", ["multiply"]],
    ),
    "what does not need the call goes before it": (
        f"""{{ x:f64[3] ->
        a = {CALL} x
        b = sin x
        c = multiply a b
        d = exp b
        return c, d }}""",
        [["sin", "exp"], "call", ["multiply"]],
    ),
    "two calls that do not need each other": (
        f"""{{ x:f64[3] ->
        a = {CALL} x
        b = sin a
        c = {CALL} x
        d = multiply b c
        return d }}""",
        ["call", "call", ["sin", "multiply"]],
    ),
    "one that needs the other": (
        f"""{{ x:f64[3] ->
        a = {CALL} x
        b = {CALL} a
        return b, a }}""",
        ["call", "call"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_segments(name):
    text, wanted = CASES[name]
    made = written(text)
    assert parts(made) == wanted
    x = np.array([0.5, -1.0, 2.0])
    for found, right in zip(run(made, [x]), evaluate(made, [x]), strict=True):
        np.testing.assert_array_equal(found, right)


def test_values_are_given_up_after_their_last_use():
    text, _ = CASES["a call between"]
    made = written(text)
    before, called, after = done_by(partition, made)
    a, b, c = (eqn.outputs[0] for eqn in made.eqns)
    (x,) = made.inputs
    assert (before.inputs, before.outputs, before.dead) == ((x,), (a,), ())
    assert (called.inputs, called.outputs, called.dead) == ((a,), (b,), ())
    assert (set(after.inputs), after.outputs, set(after.dead)) == ({a, b}, (c,), {a, b})


@pytest.mark.parametrize(
    ("equation", "answer"),
    [
        ("y = sin x", True),
        ("y = reduce_sum[axes=(0,)] x", True),
        ("y = slice[index=((1, 2, 1),)] x", True),
        (f"y = {CALL} x", False),
    ],
)
def test_what_has_a_compiled_form(equation, answer):
    (eqn,) = written(f"{{ x:f64[3] ->\n {equation}\n return y }}").eqns
    assert done_by(compiled, eqn) is answer


@pytest.mark.parametrize(("inside", "answer"), [("d = sin c", True), (f"d = {CALL} c", False)])
def test_a_loop_is_compiled_if_all_inside_is(inside, answer):
    body = written(f"{{ c:f64[3] ->\n {inside}\n return d }}")
    params = "body=body, length=4, reverse=False, n_consts=0, n_carry=1"
    (eqn,) = graph(f"{{ x:f64[3] ->\n y = scan[{params}] x\n return y }}", body=body).eqns
    assert done_by(compiled, eqn) is answer

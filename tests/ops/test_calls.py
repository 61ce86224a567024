"""Primitives that apply an inner graph once, and host calls: each of their rules."""

import numpy as np
import pytest

from functrans.errors import DtypeError, ShapeError
from functrans.ir.evaluate import evaluate
from functrans.ir.primitive import registry
from functrans.ir.types import Aval
from functrans.ops.calls.call import checkpoint_p
from functrans.ops.calls.constant import Constant
from functrans.ops.calls.external import Elements
from functrans.ops.control.layout import applied_once, compact, spread
from functrans.transform.batch import batch_graph
from functrans.transform.forward import jvp_graph
from functrans.transform.split import split
from functrans.transform.transpose import transpose_graph
from tests.ir.written import graph, is_graph

X, Y, DX = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.4, -0.7]), np.array([1.0, 0.5, -2.0])
INNER = graph("""{ x:f64[3], y:f64[3] ->
    a = exp x
    b = multiply a y
    return b, a }""")
CALLS = {
    "jit": "jit[graph=inner, name='f']",
    "checkpoint": "checkpoint[graph=inner, keep=keep]",
    "step": "step[graph=inner]",
}


def call(name, inner=INNER, keep=lambda eqn: False):
    """A graph that calls another one by one of the primitives."""
    inputs = ", ".join(f"x{i}:{aval}" for i, aval in enumerate(inner.in_avals))
    operands = " ".join(f"x{i}" for i in range(len(inner.inputs)))
    outputs = ", ".join(f"y{i}" for i in range(len(inner.outputs)))
    text = f"{{ {inputs} ->\n {outputs} = {CALLS[name]} {operands}\n return {outputs} }}"
    return graph(text, inner=inner, keep=keep)


def equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


EACH = pytest.mark.parametrize("name", CALLS)


@EACH
def test_a_call_means_its_graph(name):
    equal(evaluate(call(name), [X, Y]), evaluate(INNER, [X, Y]))


@EACH
def test_the_derivative_of_a_call_is_the_call_of_the_derivative(name):
    pushed = jvp_graph(call(name), (True, False))
    assert [eqn.primitive.name for eqn in pushed.graph.eqns] == [name]
    assert pushed.nonzero == (True, True)
    equal(
        evaluate(pushed.graph, [X, Y, DX]),
        evaluate(jvp_graph(INNER, (True, False)).graph, [X, Y, DX]),
    )


@EACH
def test_the_transpose_of_a_call_is_the_call_of_the_transpose(name):
    linear = graph("{ w:f64[3], x:f64[3] ->\n y = multiply w x\n return y }")
    transposed, nonzero = transpose_graph(call(name, linear), (False, True))
    assert name in [eqn.primitive.name for eqn in transposed.eqns]
    assert nonzero == (True,)
    equal(evaluate(transposed, [X, Y]), [X * Y])


@EACH
def test_a_batch_of_a_call_is_the_call_of_the_batch(name):
    batched, axes = batch_graph(call(name), (0, None), 4)
    assert [eqn.primitive.name for eqn in batched.eqns] == [name]
    xs = np.stack([X, X + 1, X + 2, X + 3])
    assert axes == (0, 0)
    equal(evaluate(batched, [xs, Y]), [np.exp(xs) * Y, np.exp(xs)])


@EACH
def test_operands_of_another_type_are_refused(name):
    primitive = registry[name]
    params = dict(call(name).eqns[0].params)
    assert primitive.infer_all([Aval((3,), float)] * 2, params) == INNER.out_avals
    with pytest.raises((TypeError, ValueError)):
        primitive.infer_all([Aval((2,), float)] * 2, params)


def test_only_what_is_needed_stays_of_a_call():
    (eqn,) = call("jit").eqns
    smaller = eqn.primitive.trim(eqn, [False, True])
    is_graph(smaller.params["graph"], "{ x:f64[3] ->\n a = exp x\n return a }")
    assert smaller.inputs == eqn.inputs[:1] and smaller.outputs == eqn.outputs[1:]


def test_a_checkpoint_keeps_its_operands_and_what_it_is_told():
    parts = split(call("checkpoint"), (False, True))
    # `b = exp(x) y` is unknown: of the known part, x alone goes over
    assert [var.aval for var in parts.unknown.inputs] == [Aval((3,), float)] * 2
    inner = parts.unknown.eqns[0].params["graph"]
    assert [eqn.primitive.name for eqn in inner.eqns][:2] == ["barrier", "exp"]
    known = evaluate(parts.known, [X])
    equal(evaluate(parts.unknown, [*known[1:], Y]), [np.exp(X) * Y])

    def keeps_exp(eqn):
        return eqn.primitive.name == "exp"

    parts = split(call("checkpoint", keep=keeps_exp), (False, True))
    inner = parts.unknown.eqns[0].params["graph"]
    assert "exp" not in [eqn.primitive.name for eqn in inner.eqns]


def test_the_graph_of_one_equation():
    params = {"graph": INNER, "keep": None}
    once = applied_once(checkpoint_p, INNER.in_avals, params)
    assert [eqn.primitive for eqn in once.eqns] == [checkpoint_p]
    equal(evaluate(once, [X, Y]), evaluate(INNER, [X, Y]))


def test_absent_values():
    assert compact([None, 1, None, 2]) == [1, 2]
    assert spread([1, 2], (False, True, False, True)) == [None, 1, None, 2]


def test_constants_are_compared_by_their_bits():
    zeros = np.zeros(2)
    one = Constant(zeros)
    zeros[0] = 5  # it is a copy
    assert one == Constant(np.zeros(2)) and hash(one) == hash(Constant(np.zeros(2)))
    assert one != Constant(-np.zeros(2)) and one != Constant(np.zeros(2, "f4"))
    assert not one.array.flags.writeable


# -- functions that are not traced -----------------------------------------------------------------


def outside(function, *values, results=((),), lanes=(), several=False, vectorised=False):
    return registry["external"](
        *values,
        elements=Elements(function, several, vectorised),
        results=tuple(Aval(shape, float) for shape in results),
        lanes=lanes,
    )


def test_a_function_is_called_once_for_each_lane():
    seen = []

    def function(x):
        seen.append(x.shape)
        return x.sum()

    (found,) = outside(function, np.arange(6.0).reshape(2, 3), lanes=(2,))
    np.testing.assert_array_equal(found, [3.0, 12.0])
    assert seen == [(3,), (3,)]
    seen.clear()
    (found,) = outside(
        lambda x: function(x) + np.zeros(2), np.ones((2, 3)), lanes=(2,), vectorised=True
    )
    assert seen == [(2, 3)]


@pytest.mark.parametrize(
    ("function", "several", "error"),
    [
        (lambda x: x, False, ShapeError),
        (lambda x: (x.sum(), x.sum()), True, ShapeError),
        (lambda x: 1j, False, DtypeError),
    ],
)
def test_what_it_returns_is_checked(function, several, error):
    with pytest.raises(error):
        outside(function, X, several=several)

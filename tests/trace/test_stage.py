"""Staging: from a function to its graph, and replaying a graph."""

import numpy as np
import pytest

from functrans import grad, vjp
from functrans.errors import LeakedTracerError
from functrans.ir.graph import Literal
from functrans.ir.primitive import bind, current, registry
from functrans.ir.types import Aval
from functrans.trace.absent import UNKNOWN
from functrans.trace.stage import replay, replay_known, rewrite, stage
from functrans.trace.tracer import Tracer
from tests.ir.written import graph, is_graph

F8 = Aval((3,), float)
X = np.array([1.0, 2.0, 3.0])


def staged(function, *avals, **options):
    return stage(function, avals, kind="a test", **options)


def test_what_is_done_is_written_down():
    made = staged(lambda x, y: [np.sin(x) * y, y], F8, Aval((), float))
    is_graph(made.graph, """{ x:f64[3], y:f64[] ->
        a = sin x
        b = multiply a y
        return b, y }""")  # fmt: skip
    assert made.captures == ()


def test_numbers_stand_in_the_graph_and_arrays_are_inputs():
    array = np.array([4.0, 5.0, 6.0])
    made = staged(lambda x: [x * array * 2.0 + array], F8)
    is_graph(made.graph, """{ x:f64[3], array:f64[3] ->
        a = multiply x array
        b = multiply a 2.0
        c = add b array
        return c }""")  # fmt: skip
    (kept,) = made.captures
    array[:] = 0  # the graph means the array as it was
    np.testing.assert_array_equal(kept, [4.0, 5.0, 6.0])


def test_with_values_floats_are_inputs_and_results_are_known():
    made = staged(lambda x: [x * 2.5 if x[1] > 1 else x], F8, values=[X])
    assert 2.5 in made.captures
    assert not any(
        isinstance(atom, Literal) and atom.aval.dtype.kind == "f"
        for eqn in made.graph.eqns
        for atom in eqn.inputs
    )
    np.testing.assert_array_equal(made.value_of(made.graph.outputs[0]), X * 2.5)


def test_without_values_there_are_none():
    made = staged(lambda x: [np.sin(x)], F8)
    assert made.value_of(made.graph.outputs[0]) is UNKNOWN
    assert made.decisions == []


def test_decisions_are_noted():
    def function(x):
        return [x if x[0] > 0 else -x, np.sin(x)]

    taken = staged(function, F8, values=[X], outcomes=())
    assert [each.outcome for each in taken.decisions] == [True]
    assert taken.graph.outputs[0] is taken.graph.inputs[0]
    other = staged(function, F8, values=[X], outcomes=(False,))
    assert [each.outcome for each in other.decisions] == [False]
    assert other.graph.outputs[0] is not other.graph.inputs[0]


def test_values_of_an_enclosing_trace_are_captured_once():
    inner = []

    def outer(x):
        inner.append(staged(lambda y: [x * y + x], F8))
        return [x]

    staged(outer, F8)
    is_graph(inner[0].graph, """{ y:f64[3], x:f64[3] ->
        a = multiply x y
        b = add a x
        return b }""")  # fmt: skip
    (captured,) = inner[0].captures
    assert isinstance(captured, Tracer)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind(error):
    def function(x):
        raise error

    assert current.get() is None
    with pytest.raises(error):
        staged(function, F8)
    assert current.get() is None


def test_a_tracer_that_outlives_its_trace():
    kept = []
    staged(lambda x: kept.append(np.sin(x)) or [x], F8)
    with pytest.raises(LeakedTracerError, match=r"np\.sin"):
        staged(lambda x: [x + kept[0]], F8)


def test_rules_record_equal_equations_once_and_what_is_needed():
    def rule(x):
        registry["cos"](x)
        return [registry["sin"](x) * registry["sin"](x)]

    is_graph(rewrite(rule, [F8]), """{ x:f64[3] ->
        a = sin x
        b = multiply a a
        return b }""")  # fmt: skip


MADE = graph("{ x:f64[3] ->\n a = sin x\n b = multiply a 2.0:f64\n return b, x }")


def test_replayed_on_arrays_a_graph_computes():
    b, x = replay(MADE, [X])
    np.testing.assert_array_equal(b, np.sin(X) * 2)
    assert x is X


def test_replayed_on_tracers_a_graph_is_recorded_again():
    assert rewrite(lambda x: replay(MADE, [x]), [F8]) == MADE


def test_what_is_known_is_not_computed_again():
    values = {MADE.eqns[0].outputs[0]: X + 10, MADE.eqns[1].outputs[0]: X + 20}

    def again(x):
        env = replay_known(MADE, [x], lambda atom: values.get(atom, UNKNOWN))
        return [env[MADE.outputs[0]]]

    made = staged(again, F8, values=[X])
    np.testing.assert_array_equal(made.value_of(made.graph.outputs[0]), X + 20)


def test_without_a_trace_primitives_compute():
    np.testing.assert_array_equal(bind(registry["sin"], (X,), {}), np.sin(X))


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base.view(),
        lambda base: base[::1],
        lambda base: base.reshape(3, 1)[:, 0],
        lambda base: np.broadcast_to(base, (2, 3))[0],
        lambda base: np.frombuffer(memoryview(base).toreadonly()),
    ],
)
@pytest.mark.parametrize("transform", [grad, lambda f: lambda w: vjp(f, w)[1](1.0)[0]])
def test_a_read_only_view_of_what_is_written_to_later_is_taken_as_it_was(view, transform):
    base = np.ones(3)
    seen = view(base)
    seen.flags.writeable = False

    def function(w):
        base[:] = 1.0
        result = np.sum(seen * w**2)
        base[:] = 5.0
        return result

    np.testing.assert_array_equal(transform(function)(np.ones(3)), [2.0, 2.0, 2.0])

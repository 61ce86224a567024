"""Residuals that a loop stores for the backward pass."""

import tracemalloc

import numpy as np
import pytest

from functrans import grad, jit, lax, trace, value_and_grad
from functrans.ir.graph import inner_graphs
from functrans.ir.types import Aval
from functrans.ops.control.residuals import choose
from functrans.trace.stage import stage


def loops(graph):
    """The equations of loops in a graph, inner ones too."""
    for eqn in graph.eqns:
        if eqn.primitive.name in ("scan", "counted_scan", "while_loop"):
            yield eqn
        for inner in inner_graphs(eqn):
            yield from loops(inner)


def test_cheap_steps_keep_their_carry_and_nothing_else():
    def f(x):
        return lax.scan(lambda c, _: (np.sin(np.exp(c) * np.cos(c)) + c * c, None), x, length=5)[0]

    forward, backward = loops(trace(grad(f))(1.0))
    assert [v.aval.shape for v in forward.outputs] == [(), (5,)]
    assert backward.params["reverse"]


def test_products_of_matrices_are_kept_and_not_done_again():
    w = np.eye(3) * 0.5

    def f(x):
        return np.sum(lax.scan(lambda c, _: (np.tanh(w @ c), None), x, length=5)[0])

    forward, backward = loops(trace(grad(f))(np.ones(3)))
    names = [eqn.primitive.name for eqn in backward.params["body"].eqns]
    # one product for the cotangent, none for tanh's argument
    assert sum("dot" in name or "contract" in name for name in names) == 1
    # of what tanh gives and what it takes, one is kept
    assert [v.aval.shape for v in forward.outputs] == [(3,), (5, 3)]


def test_what_the_steps_share_is_done_once():
    def f(x, a):
        return lax.scan(lambda c, _: (c * np.exp(a) + a, None), x, length=5)[0]

    graph = trace(grad(f, (0, 1)))(1.0, 2.0)
    for eqn in loops(graph):
        assert all(e.primitive.name != "exp" for e in eqn.params["body"].eqns)
    assert any(e.primitive.name == "exp" for e in graph.eqns)


def test_elements_are_read_again_and_not_copied():
    def f(x, xs):
        return lax.scan(lambda c, v: (c * v, None), x, xs)[0]

    forward, backward = loops(trace(value_and_grad(f))(1.0, np.ones(5)))
    # the gradient with respect to the carry needs the elements, which are an operand
    assert [v.aval.shape for v in forward.outputs] == [()]
    assert forward.inputs[-1] in backward.inputs


def test_the_cut_is_minimal_and_closest_to_what_is_needed():
    def f(x):
        a = np.exp(x)
        b = np.sum(a)
        c = np.sin(b)
        return [c, np.stack([c, c, c])]

    graph = stage(f, [Aval((4,), float)], kind="test").graph
    by_name = {eqn.primitive.name: eqn for eqn in graph.eqns}
    (kept, again) = choose(graph.eqns, [graph.outputs[1]], [])
    # one number instead of four before the sum or three behind the stack
    assert kept == list(by_name["sin"].outputs)
    assert by_name["sin"] not in again and by_name["exp"] not in again


def peak(function, *args):
    function(*args)  # what is traced, cached and compiled is not counted
    tracemalloc.start()
    function(*args)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.dear
def test_checkpointing_takes_the_root_of_the_memory():
    steps, width = 2500, 50

    def gradient(every):
        def f(x):
            def body(c, _):
                return np.sin(c) * 1.01, None

            return np.sum(lax.scan(body, x, length=steps, checkpoint_every=every)[0])

        return grad(f)

    x = np.ones(width)
    plain = peak(gradient(None), x)
    segmented = peak(gradient(50), x)
    assert plain > steps * width * 8
    # 50 carries between the segments and 50 inside of one, of 2500
    assert segmented < plain / 8
    np.testing.assert_allclose(gradient(50)(x), gradient(None)(x), rtol=1e-12)


@pytest.mark.dear
def test_a_hundred_thousand_steps_compiled():
    def memory(every):
        def f(x):
            def body(c, _):
                return np.sin(c) * 1.01, None

            return np.sum(lax.scan(body, x, length=100_000, checkpoint_every=every)[0])

        return jit(grad(f)).lower(np.ones(16)).cost().temporary_bytes

    assert memory(None) >= 100_000 * 16 * 8
    assert memory(316) < memory(None) / 50

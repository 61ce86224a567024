"""Optimisation of loops: common subexpressions and dead code."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, lax, tree
from functrans.ir.evaluate import evaluate
from functrans.ir.types import aval_of
from functrans.optimise import optimise
from functrans.optimise.loops import merge_in_loops, prune_in_loops
from functrans.trace.stage import stage
from tests.amount import examples
from tests.lax.bodies import WIDTH, arrays, close, programs
from tests.ops.control.test_residuals import loops


def staged(f, *args):
    """The graph of a function, and all that it takes."""
    avals = [aval_of(x) for x in args]
    found = stage(lambda *xs: tree.leaves(f(*xs)), avals, kind="test")
    return found.graph, [*args, *found.captures]


def slim(f, *args):
    return optimise(staged(f, *args)[0])


def test_results_that_nobody_reads():
    def f(x):
        (c, _, _), ys = lax.scan(
            lambda s, _: ((s[0] * x, s[1] + s[2], np.sin(s[2])), (s[0], s[1])),
            (x, x, x),
            length=4,
        )
        return c + np.sum(ys[0])

    (loop,) = loops(slim(f, 2.0))
    assert len(loop.outputs) == 2  # one carry, one stack
    assert all(eqn.primitive.name != "sin" for eqn in loop.params["body"].eqns)


def test_what_is_carried_unchanged_is_not_carried():
    def f(w, x):
        return lax.fori_loop(0, 3, lambda i, s: (s[0], s[0] * s[1]), (w, x))

    graph, inputs = staged(f, 2.0, 3.0)
    graph = optimise(graph)
    (loop,) = loops(graph)
    assert (loop.params["n_consts"], loop.params["n_carry"]) == (1, 1)
    close(list(evaluate(graph, inputs)), [2.0, 24.0])


def test_a_residual_that_is_a_result_is_stacked_once():
    def f(x):
        _, ys = lax.scan(lambda c, _: (np.sin(c) * c, c), x, length=4)
        return np.sum(ys**2)

    forward, _ = loops(slim(grad(f), 1.0))
    assert [v.aval.shape for v in forward.outputs] == [(), (4,)]  # the carry, and one stack


def test_a_while_loop_keeps_what_decides():
    def f(x):
        def body(s):
            return s[0] + 1, s[1] * x, s[2] * 2

        return lax.while_loop(lambda s: s[0] < 5, body, (0, x, x))[1]

    graph = slim(f, 2.0)
    (loop,) = loops(graph)
    assert loop.params["n_carry"] == 2
    close(evaluate(graph, [2.0])[0], 64.0)


def test_branches():
    def f(p, x, y):
        return lax.cond(p, lambda: (x, np.sin(y)), lambda: (x * 2, y))[0]

    graph = slim(f, True, 2.0, 3.0)
    (eqn,) = [e for e in graph.eqns if e.primitive.name == "cond"]
    assert len(eqn.outputs) == 1
    assert graph.inputs[2] not in eqn.inputs
    close(evaluate(graph, [np.False_, 2.0, 3.0])[0], 4.0)


@settings(max_examples=examples(20), deadline=None)
@given(programs(results=4), st.sets(st.integers(0, 3)), st.integers(0, 1000))
def test_the_passes_change_no_result(program, wanted, seed):
    def f(const, init, xs):
        def body(carry, x):
            a, b, y, z = program(*carry, x, const, const)
            return (a, b, carry[2]), (y, z, y)

        (a, b, c), (y, z, again) = lax.scan(body, (init, init, init * 2), xs)
        every = [a + b, y + again, z, c]
        return [every[i] for i in sorted(wanted)]

    args = arrays(seed, WIDTH, WIDTH, (3, WIDTH))
    gradient = grad(lambda *args: sum(np.sum(r * r) for r in f(*args)) + args[0][0])
    for function in (f, gradient):
        graph, inputs = staged(function, *args)
        expected = list(evaluate(graph, inputs))
        for rewrite in (merge_in_loops, prune_in_loops, optimise):
            close(list(evaluate(rewrite(graph), inputs)), expected, 1e-12)

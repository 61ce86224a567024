"""All passes of the optimiser and rewrites for the machine, and the invariants that they keep."""

from functools import partial, wraps

import numpy as np

from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.loop.target import CPU
from functrans.optimise.passes import FOR_CORES, SIMPLIFICATION

MACHINE = tuple(
    each._replace(run=wraps(each.run)(partial(each.run, target=CPU)))
    for each in FOR_CORES.machine
    if each.name != "outline"
)
"""Outlining is for graphs that can be compiled, which not all are that are looked at here."""


def values(graph, inputs):
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in evaluate(graph, inputs)]


def stages(graph):
    """The graph after each stage that changed it, with the stage's name."""
    for passes in (SIMPLIFICATION, MACHINE):
        for each in passes:
            after = checked(each.run(graph), each.name)
            assert after == graph or each.when(graph), each.name
            if passes is MACHINE:
                after = checked(with_inner(after, each.run), f"{each.name} inside")
            if after != graph:
                yield each.name, after
            graph = after


def with_inner(graph, rewrite):
    """The graph with the graphs inside of it rewritten, as they are when loops are made of them."""
    if not any(eqn.primitive.higher_order for eqn in graph.eqns):
        return graph

    def inside(value):
        if isinstance(value, Graph):
            return with_inner(rewrite(value), rewrite)
        return tuple(map(inside, value)) if isinstance(value, tuple) else value

    eqns = [
        Eqn(eqn.primitive, eqn.inputs, eqn.outputs, {k: inside(v) for k, v in eqn.params.items()})
        if any(True for _ in inner_graphs(eqn))
        else eqn
        for eqn in graph.eqns
    ]
    return Graph(graph.inputs, eqns, graph.outputs)


def check_all(graph, inputs, tolerance=1e-11):
    """Evaluate the graph after every stage; gives the names of those that changed it."""
    expected = values(graph, inputs)
    changed = []
    for name, after in stages(graph):
        found = values(after, inputs)
        for x, y in zip(found, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), name
            scale = np.max(np.abs(y[np.isfinite(y)]), initial=1) if y.dtype.kind == "f" else 0
            bound = tolerance if y.dtype == np.float64 else 1e-4
            np.testing.assert_allclose(x, y, rtol=bound, atol=bound * scale, err_msg=name)
        changed.append(name)
    return changed

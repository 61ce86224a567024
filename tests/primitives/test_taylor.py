"""Every primitive's Taylor coefficients along a curve, against derivatives of derivatives."""

from math import factorial

import numpy as np
import pytest

from functrans.ir.types import is_inexact
from functrans.ops.arrays.structural import zeros_like
from functrans.trace.stage import replay, rewrite
from functrans.transform.forward import jvp_graph
from functrans.transform.taylor import taylor_graph
from tests.primitives.harness import like, one_of_each, run
from tests.primitives.test_derivatives import FLOAT64

ORDER = 5


def on_a_curve(case):
    """The primitive of ``x + t v + t**2 w``, as a graph of t and of all x, v and w that move."""
    graph, moving = case.graph(), case.moving

    def curve(t, *inputs):
        values, rest = inputs[: len(moving)], iter(inputs[len(moving) :])
        given = []
        for x, flag in zip(values, moving, strict=True):
            if flag:
                v, w = next(rest), next(rest)
                x = x + (t * v + t * t * w).astype(x.dtype)
            given.append(x)
        return replay(graph, given)

    moved = [a for a, flag in zip(graph.in_avals, moving, strict=True) if flag]
    time = graph.in_avals[moving.index(True)].update(shape=(), dtype=np.dtype(np.float64))
    return rewrite(curve, [time, *graph.in_avals, *(a for a in moved for _ in range(2))])


def slope(graph):
    """The derivative of the outputs by the first input."""
    flags = (True,) + (False,) * (len(graph.inputs) - 1)
    pushed = jvp_graph(graph, flags)

    def derivative(*inputs):
        outs = replay(pushed.graph, [*inputs, np.float64(1.0)])
        dots = iter(outs[len(graph.outputs) :])
        return [
            next(dots) if flag else zeros_like(atom.aval)
            for flag, atom in zip(pushed.nonzero, graph.outputs, strict=True)
        ]

    return rewrite(derivative, graph.in_avals)


def kind(item):
    """The quick set has a primitive of each module."""
    return item[1].primitive.home


CASES = one_of_each(kind, FLOAT64.items())


@pytest.mark.parametrize("item", CASES, ids=lambda item: item[0])
def test_coefficients_are_derivatives_of_derivatives(item):
    _, case = item
    rng = np.random.default_rng(1)
    curves = [
        [like(rng, x) * 0.1, like(rng, x) * 0.1]
        for x, flag in zip(case.operands, case.moving, strict=True)
        if flag
    ]
    taylor = taylor_graph(case.graph(), case.moving, order=ORDER)
    series = []
    for v, w in curves:
        nothing = np.zeros_like(v)
        series += [v, w, *[nothing] * ORDER][:ORDER]
    found = run(taylor.graph, [*case.operands, *series])
    count = len(taylor.nonzero)
    moved = iter(found[count:])
    coefficients = [
        [next(moved) for _ in range(ORDER)] if flag else None for flag in taylor.nonzero
    ]
    graph = on_a_curve(case)
    inputs = [np.float64(0.0), *case.operands, *(x for curve in curves for x in curve)]
    for k in range(1, ORDER + 1):
        graph = slope(graph)
        for own, expected in zip(coefficients, run(graph, inputs), strict=True):
            if not is_inexact(expected.dtype):
                continue
            value = np.zeros_like(expected) if own is None else own[k - 1] * factorial(k)
            scale = 1 + np.max(np.abs(expected), initial=0)
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7 * scale)

"""Scan unrolling by the option ``unroll``: bitwise equal results."""

import re

import numpy as np
import pytest

from functrans import grad, jit, lax, trace, vmap
from functrans.ir.graph import any_eqn
from functrans.loop.target import CPU
from functrans.ops.control.scan import scan_p
from functrans.optimise.machine.scan_unrolling import unroll_scans
from functrans.trace.stage import replay


def run(x, rows, *, unroll, reverse=False, length=None):
    def step(carry, row):
        carry = np.sin(carry) * 1.1 + (0.5 if row is None else row[..., 0])
        return carry, (carry * 2, None if row is None else row[..., 1] - carry)

    return lax.scan(step, x, rows, length=length, reverse=reverse, unroll=unroll)


def leaves(result):
    carry, ys = result
    return [carry, *(y for y in ys if y is not None)]


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 17, 300])
@pytest.mark.parametrize("unroll", [2, 3, 7, 400, True, 0])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_the_same(steps, unroll, reverse):
    rng = np.random.default_rng(steps)
    x, rows = rng.normal(size=3), rng.normal(size=(steps, 3, 2))
    expected = jit(lambda x, rows: run(x, rows, unroll=1, reverse=reverse))(x, rows)
    found = jit(lambda x, rows: run(x, rows, unroll=unroll, reverse=reverse))(x, rows)
    for own, other in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(own, other)
    eager = run(x, rows, unroll=unroll, reverse=reverse)
    for own, other in zip(leaves(found), leaves(eager), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)


def test_without_rows():
    found = jit(lambda x: run(x, None, unroll=4, length=10))(np.ones(2))
    expected = jit(lambda x: run(x, None, unroll=1, length=10))(np.ones(2))
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("transform", [grad, lambda f: vmap(grad(f), in_axes=(0, None))])
def test_derivatives(transform):
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(4, 3)), rng.normal(size=(11, 3, 2))
    x = x if transform is not grad else x[0]

    def total(x, rows, unroll):
        return sum(np.sum(leaf) for leaf in leaves(run(x, rows, unroll=unroll)))

    one, four = (jit(transform(lambda x, rows, n=n: total(x, rows, n)))(x, rows) for n in (1, 4))
    np.testing.assert_allclose(four, one, rtol=1e-13)


def scans(graph):
    return [eqn for eqn in graph.eqns if eqn.primitive is scan_p]


def unrolled(unroll, steps=11):
    x, rows = np.ones(3), np.ones((steps, 3, 2))
    graph = trace(lambda x, rows: run(x, rows, unroll=unroll))(x, rows)
    made = unroll_scans(graph, CPU)
    for own, other in zip(replay(made, [x, rows]), replay(graph, [x, rows]), strict=True):
        np.testing.assert_array_equal(own, other)
    return made


def sines(graph):
    return len(re.findall(r"\bsin\b", str(graph)))


def test_the_body_is_written_as_often_as_it_is_asked_for():
    assert [eqn.params["length"] for eqn in scans(unrolled(1))] == [11]
    assert [eqn.params["length"] for eqn in scans(unrolled(4))] == [2, 3]
    assert [sines(eqn.params["body"]) for eqn in scans(unrolled(4))] == [4, 1]
    assert not any_eqn(unrolled(True), lambda eqn: eqn.primitive is scan_p)
    assert sines(unrolled(True)) == 11


@pytest.mark.parametrize(
    ("unroll", "error"), [(-1, ValueError), (2.0, TypeError), ("2", TypeError)]
)
def test_what_is_no_number_of_steps(unroll, error):
    expected = re.escape(
        f"unroll={unroll!r}: it is a number of steps to compile as one, or True (or 0) for all of "
        "them"
    )
    with pytest.raises(error, match=f"^{expected}$"):
        run(np.ones(2), None, unroll=unroll, length=3)

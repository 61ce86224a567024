"""Scan unrolling by the option ``unroll``: equal results."""

import re

import numpy as np
import pytest

from functrans import grad, jit, lax, trace, vmap
from functrans.ops.control.scan import scan_p


def run(x, rows, *, unroll, reverse=False, length=None):
    def step(carry, row):
        carry = np.sin(carry) * 1.1 + (0.5 if row is None else row[..., 0])
        return carry, (carry * 2, None if row is None else row[..., 1] - carry)

    return lax.scan(step, x, rows, length=length, reverse=reverse, unroll=unroll)


def leaves(result):
    carry, ys = result
    return [carry, *(y for y in ys if y is not None)]


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 17, pytest.param(300, marks=pytest.mark.dear)])
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


def graph_of(unroll, steps=11):
    x, rows = np.ones(3), np.ones((steps, 3, 2))
    return trace(lambda x, rows: run(x, rows, unroll=unroll))(x, rows)


@pytest.mark.parametrize("unroll", [True, 0, 11, 400])
def test_all_steps_are_written_out(unroll):
    graph = graph_of(unroll)
    assert not scans(graph)
    assert len(re.findall(r"\bsin\b", str(graph))) == 11


@pytest.mark.parametrize("unroll", [False, 1, 4])
def test_fewer_steps_are_a_loop(unroll):
    assert [eqn.params["length"] for eqn in scans(graph_of(unroll))] == [11]


def test_one_step_is_a_loop_unless_all_are_unrolled():
    assert scans(graph_of(1, steps=1))
    assert not scans(graph_of(True, steps=1))


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

"""Sums accumulated by a scan are computed after it."""

import numpy as np
import pytest

from functrans import grad, jit, lax, tree
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph
from functrans.loop.target import CPU
from functrans.lower.grid.target import CUDA
from functrans.ops.indexing.gather import scatter_add
from functrans.optimise import optimise
from functrans.optimise.machine.scan_motion import move_out_of_scans

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((500, 16))
W = RNG.standard_normal((16, 16)) / 4
WORDS = RNG.integers(-500, 500, (30, 8))


def embedding(table, w, words):
    def step(h, row):
        h = np.tanh(h @ w + table[row])
        return h, None

    return np.sum(lax.scan(step, np.zeros((8, 16)), words)[0] ** 2)


def one_word(table, w, words):
    def step(h, word):
        return np.tanh(w @ h + table[word]), None

    return np.sum(lax.scan(step, np.zeros(16), words[:, 0])[0] ** 2)


def two_indices(table, w, words):
    def step(total, row):
        return np.sin(total + np.sum(table[row, np.arange(8)] * table[row, 3])), None

    return lax.scan(step, 0.5, words)[0]


def by_elements(table, w, words):
    """Columns of a row, each of which is a slice of the table."""

    def step(total, word):
        return total * np.sin(table[word, 0]) + table[word, 1] * table[-word, 1], None

    return lax.scan(step, 0.5, words[:, 0])[0]


def fixed_rows(table, w, words):
    """The same rows in each step: nothing is to be stacked."""

    def step(h, row):
        return np.tanh(h @ w + table[np.arange(8)] * row[:, None]), None

    return np.sum(lax.scan(step, np.zeros((8, 16)), words / 500)[0] ** 2)


def scatters_in_scans(graph: Graph) -> int:
    bodies = [eqn.params["body"] for eqn in graph.eqns if eqn.primitive.name == "scan"]
    return sum(eqn.primitive is scatter_add for body in bodies for eqn in body.eqns)


@pytest.mark.parametrize("function", [embedding, one_word, two_indices, by_elements, fixed_rows])
def test_gradients_of_gathered_rows(function):
    gradient = grad(function, argnums=(0, 1))
    results = jit(gradient)(TABLE, W, WORDS)
    for one, other in zip(tree.leaves(results), gradient(TABLE, W, WORDS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("function", "left"),
    [(embedding, 0), (one_word, 0), (two_indices, 0), (by_elements, 0), (fixed_rows, 1)],
)
@pytest.mark.parametrize("rows", [500, 128])
def test_no_step_touches_the_whole_table(function, left, rows):
    graph = optimise(jit(grad(function)).lower(TABLE[:rows], W, WORDS % rows).graph())
    assert scatters_in_scans(graph) >= 1
    assert scatters_in_scans(move_out_of_scans(graph, CPU)) == left


@pytest.mark.parametrize(("rows", "left"), [(400, 0), (16, 0), (15, 1), (2, 1)])
def test_the_gradient_of_a_small_table_of_numbers(rows, left):
    def loss(table, words):
        return lax.scan(lambda c, word: (c * np.sin(table[word]), None), 0.5, words)[0]

    table, words = TABLE[:rows, 0] + 3, WORDS[:, 0] % rows
    graph = optimise(jit(grad(loss)).lower(table, words).graph())
    assert scatters_in_scans(move_out_of_scans(graph, CPU)) == left
    used = np.bincount(words, minlength=rows)
    expected = 0.5 * np.prod(np.sin(table[words])) * used / np.tan(table)
    np.testing.assert_allclose(jit(grad(loss))(table, words), expected, rtol=1e-12, atol=1e-16)


def test_a_table_that_is_read_and_added_to_stays_a_carry():
    def step(table, row):
        return table.at[row].add(np.sin(table[row]) / 10), None

    def loop(table):
        return lax.scan(step, table, WORDS[:10])[0]

    expected = TABLE.copy()
    for row in WORDS[:10]:
        added = np.sin(expected[row]) / 10
        np.add.at(expected, row, added)
    np.testing.assert_allclose(jit(loop)(TABLE), expected, rtol=1e-12)


def shared_parameters(a, q, xs):
    """Of each step of a batch, cotangents of a matrix by way of two products, and of a number."""

    def step(x, y):
        x = np.tanh(x @ a + (y + q * x) @ a.T)
        return x, None

    return np.sum(lax.scan(step, np.zeros(xs.shape[1:]), xs)[0] ** 2)


def test_several_contractions_of_a_carry_go_after_the_loop():
    """On a grid: its samples go through all steps on their own then. A CPU adds them up."""
    operands = RNG.standard_normal((4, 4)), 0.3, RNG.standard_normal((6, 200, 4))
    gradient = grad(shared_parameters, argnums=(0, 1))
    graph, captured, *_ = jit(gradient).program_for(operands, {})
    graph, operands = optimise(graph), [*operands, *captured]
    wanted = evaluate(graph, operands)
    for target, totals in ((CPU, True), (CUDA, False)):
        made = move_out_of_scans(graph, target)
        *_, last = [eqn for eqn in made.eqns if eqn.primitive.name == "scan"]
        carried = last.params["body"].outputs[: last.params["n_carry"]]
        assert any(x.aval.shape == (4, 4) for x in carried) == totals
        for x, y in zip(evaluate(made, operands), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10)

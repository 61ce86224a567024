"""Deterministic scatter-add of floats: updates are sorted by index, for any order of threads."""

from dataclasses import replace

import numpy as np
import pytest

from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.verify import verify
from functrans.ops.indexing.gather import scatter_add, scatter_max, scatter_multiply
from functrans.optimise.grid.ordered_sums import order_sums
from tests.emit.cuda.programs import emulate_plan
from tests.loop.plans import evaluate_plan, shuffled
from tests.ops.on_a_grid import GRIDS, graph_of

ORDERED = {name: replace(grid, deterministic=True) for name, grid in GRIDS.items()}
RNG = np.random.default_rng(0)


def operands(shape, axis, count, dtype=np.float32):
    """What is scattered along an axis, in numbers whose sums are rounded."""
    rest = [n for i, n in enumerate(shape) if i != axis]
    x, updates = (RNG.uniform(0.5, 1.5, s).astype(dtype) for s in (shape, (count, *rest)))
    return x, updates, RNG.integers(-shape[axis], shape[axis], count)


@pytest.mark.parametrize("primitive", [scatter_add, scatter_multiply])
@pytest.mark.parametrize("count", [2, 3, 33, 100])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 1)])
def test_the_values_are_those_of_the_scatter(primitive, count, shape, axis):
    given = operands(shape, axis, count, np.float64)
    graph = graph_of(primitive, *given, axes=(axis,), unique=False)
    after = checked(order_sums(graph, ORDERED["CUDA"]), "order_sums")
    assert primitive not in {eqn.primitive for eqn in after.eqns}
    np.testing.assert_allclose(evaluate(after, given)[0], evaluate(graph, given)[0], rtol=1e-12)


def test_indices_along_several_axes():
    x, updates = RNG.normal(size=(4, 3, 5)), RNG.normal(size=(6, 9, 5))
    given = x, updates, RNG.integers(-3, 3, 9), RNG.integers(-4, 4, (6, 1))
    graph = graph_of(scatter_add, *given, axes=(1, 0), unique=False)
    (found,) = evaluate(order_sums(graph, ORDERED["CUDA"]), given)
    np.testing.assert_allclose(found, evaluate(graph, given)[0], rtol=1e-12)


def test_what_nothing_is_added_to_keeps_its_bits():
    x = np.array([-0.0, 0.0, -0.0, np.nan, np.inf])
    given = x, np.array([-0.0, -0.0]), np.array([2, 2])
    graph = graph_of(scatter_add, *given, axes=(0,), unique=False)
    (found,) = evaluate(order_sums(graph, ORDERED["CUDA"]), given)
    assert found.tobytes() == x.tobytes()


@pytest.mark.full
@pytest.mark.parametrize("grid", ORDERED)
def test_the_bits_are_the_same_in_any_order(grid):
    given = operands((3,), 0, 18)
    graph = graph_of(scatter_add, *given, axes=(0,), unique=False)
    bits = {
        name: {
            evaluate_plan(pipeline.plan(graph, on), given, shuffled(seed))[0][0].tobytes()
            for seed in range(8)  # one order may round as another does
        }
        for name, on in {"as they come": GRIDS[grid], "ordered": ORDERED[grid]}.items()
    }
    assert len(bits["as they come"]) > 1
    assert len(bits["ordered"]) == 1
    verify(pipeline.plan(graph, ORDERED[grid]))


@pytest.mark.parametrize("primitive", [scatter_add, scatter_multiply])
def test_no_two_threads_write_to_one_element(primitive):
    given = operands((7,), 0, 33, np.float64)
    graph = graph_of(primitive, *given, axes=(0,), unique=False)
    found, status = emulate_plan(pipeline.plan(graph, ORDERED["CUDA"]), given)
    assert status == 0
    np.testing.assert_allclose(found[0], evaluate(graph, given)[0], rtol=1e-12)


def test_an_index_out_of_bounds_still_fails():
    given = np.zeros(7), np.zeros(3), np.array([0, 7, 1])
    graph = graph_of(scatter_add, *given, axes=(0,), unique=False)
    _, status = evaluate_plan(pipeline.plan(graph, ORDERED["CUDA"]), given, shuffled(0))
    assert status == 1


@pytest.mark.parametrize(
    ("primitive", "dtype", "unique", "on"),
    [
        (scatter_add, np.int64, False, ORDERED["CUDA"]),
        (scatter_max, np.float64, False, ORDERED["CUDA"]),
        (scatter_add, np.float64, True, ORDERED["CUDA"]),
        (scatter_add, np.float64, False, CUDA),
    ],
)
def test_what_has_the_same_bits_anyway_stays(primitive, dtype, unique, on):
    graph = graph_of(primitive, *operands((7,), 0, 5, dtype), axes=(0,), unique=unique)
    assert order_sums(graph, on) == graph

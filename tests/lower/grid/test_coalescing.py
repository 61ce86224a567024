"""Loop collapsing: loops of a band become one if arrays are contiguous in their order."""

from dataclasses import replace

import numpy as np
import pytest

import functrans
from functrans.loop.linear_places import divides
from functrans.loop.scalar import postorder
from functrans.loop.statements import Reduce
from functrans.loop.walk import walk
from functrans.lower.grid.dealing import terms
from functrans.lower.grid.launch import narrowed
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import MOST_NARROW, iterations
from tests.emit.cuda.programs import in_both_ways, interpreted, plan
from tests.targets import target


def array(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize(
    ("function", "shapes", "loops"),
    [
        (lambda x: x * 2, [(3, 20, 30)], 1),
        (lambda x, y: x * y, [(3, 20, 30), (20, 30)], 2),
        (lambda x, y: x * y, [(3, 20, 30), (30,)], 2),
        (lambda x, y: x * y, [(3, 20, 30), (3, 1, 1)], 2),
        (lambda x: x.T * 2, [(20, 30)], 2),
        (lambda x: x[:, 1:] * 2, [(20, 30)], 2),
        (lambda x: x[5:] * 2, [(20, 30)], 2),
        (lambda x: x[::-1, :] * 2, [(20, 30, 40)], 2),
        (lambda x: x.sum(axis=-1), [(20, 30, 50)], 1),
    ],
)
def test_how_many_loops_are_left(function, shapes, loops):
    operands = [array(*shape) for shape in shapes]
    made = plan(function, *operands)
    (step,) = made.steps
    assert len(step.kernel.band) == loops
    (found,) = interpreted(made, operands)
    np.testing.assert_allclose(found, function(*operands), rtol=1e-12)


def test_buffers_stand_for_arrays_of_other_shapes():
    (step,) = plan(lambda x: x * 2, array(3, 20, 30)).steps
    assert {len(one.shape) for one in step.kernel.buffers} == {1}
    assert {len(one.shape) for one in step.buffers} == {3}


def test_numbers_of_threads_that_do_not_fit_are_not_narrow():
    (step,) = plan(lambda x: x * 2, np.broadcast_to(1.0, (100, 50))).steps
    assert step.kernel.narrow
    loop = step.kernel.band[0]
    slots = [
        MOST_NARROW + 1 if loop.stop.attribute == n else old for n, old in enumerate(step.sizes)
    ]
    wide = replace(step, kernel=replace(step.kernel, narrow=False), sizes=tuple(slots))
    assert iterations(wide.kernel, wide.sizes) > MOST_NARROW
    assert not narrowed(wide).kernel.narrow


SHORT = target(
    CUDA,
    grid={"block": 64, "largest_team": 32, "shortest": 3, "iterations": 2, "busy": 8}
    | {"threads": 4, "shortest_in_strips": 3, "launch": 1, "barrier": 1},
    reductions={"long": 200, "blocks": 4, "few_iterations": 2, "longest_alone": 0},
)
"""A GPU for which short sums are worth teams, and blocks."""


def sums_of(made):
    """The numbers of loops of all sums that teams share, none of which divides for its places."""
    found = [
        each
        for step in made.steps
        for each in walk(step.kernel.body)
        if isinstance(each, Reduce) and each.lanes > 1
    ]
    for each in found:
        assert not divides(postorder(each.values))
    return [len(each.loops) for each in found]


@pytest.mark.parametrize(
    ("function", "shapes", "loops"),
    [
        (lambda x: x.sum(axis=(1, 2)), [(3, 20, 40)], [1]),
        (lambda x: x.sum(axis=(1, 2, 3)), [(3, 4, 5, 30)], [1]),
        (lambda x: x.sum(axis=(0, 2)), [(20, 3, 40)], [2]),
        (lambda x: x.sum(axis=(0, 2, 3)), [(20, 3, 6, 12)], [2]),
        (lambda x: x[:, 3:].sum(axis=(1, 2)), [(3, 20, 40)], [1]),
        (lambda x: x[:, :, 3:].sum(axis=(1, 2)), [(3, 20, 40)], [2]),
        (lambda x: x[:, ::2].sum(axis=(1, 2)), [(3, 40, 36)], [2]),
        (lambda x, y: (x * y).sum(axis=(1, 2)), [(3, 20, 40), (20, 40)], [1]),
        (lambda x, y: (x * y).sum(axis=(1, 2)), [(3, 20, 40), (40,)], [2]),
        (lambda x: x.var(axis=(1, 2)), [(3, 20, 40)], [1, 1]),
        (lambda x: x.sum(), [(40, 36)], [1, 1]),
    ],
)
def test_how_many_loops_of_sums_are_left(function, shapes, loops):
    operands = [array(*shape) for shape in shapes]
    made = plan(function, *operands, machine=SHORT)
    assert sums_of(made) == loops
    for (found,) in in_both_ways(made, operands, SHORT.grid):
        np.testing.assert_allclose(found, function(*operands), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize(
    "shape", [(20, 33), (33, 20), (1, 300), (7, 64), (3, 5, 41), (0, 9), (1, 1)]
)
def test_sums_of_everything(shape, dtype):
    x = (10 * array(*shape)).astype(dtype)
    for function in (np.sum, np.max, np.any) if x.size else (np.sum, np.any):
        made = plan(lambda x, f=function: f(x), x, machine=SHORT)
        rtol = 1e-2 if dtype == np.float16 else 1e-5
        for (found,) in in_both_ways(made, [x], SHORT.grid):
            np.testing.assert_allclose(found, function(x), rtol=rtol, atol=1e-1 * rtol * x.size)


@pytest.mark.dear
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 17, 659])
def test_sums_of_what_is_no_number(place, number):
    x = array(20, 33)
    x.flat[place] = number
    for function in (np.sum, np.max, np.min, np.argmax):
        made = plan(lambda x, f=function: f(x), x, machine=SHORT)
        for (found,) in in_both_ways(made, [x], SHORT.grid):
            np.testing.assert_array_equal(found, function(x))


def test_what_another_loop_reads_too_is_found_alike():
    """A thread has the elements that it needs again in registers."""
    x = array(3, 20, 30)
    made = plan(lambda x: x - x.mean(axis=(1, 2), keepdims=True), x)
    (step,) = made.steps
    assert step.kernel.dealt
    (found,) = interpreted(made, [x])
    np.testing.assert_allclose(found, x - x.mean(axis=(1, 2), keepdims=True), atol=1e-12)


@pytest.mark.dear
def test_sums_that_the_host_repeats_are_shared_by_all_threads():
    def function(x):
        def step(carry, _):
            return carry * np.cos(np.sum(carry * carry)), np.max(carry)

        return functrans.lax.scan(step, x, None, 3)

    x = array(48, 6)
    made = plan(function, x, machine=SHORT)
    repeated = [step for step in made.steps if step.turns]
    for found, _ in in_both_ways(made, [x], SHORT.grid):
        np.testing.assert_allclose(found, function(x)[0], rtol=1e-10)
    for step in repeated:
        for each in walk(step.kernel.body):
            if isinstance(each, Reduce) and each.lanes > 1:
                assert each.loops[-1][0].attribute[2] >= min(each.lanes, terms(each))

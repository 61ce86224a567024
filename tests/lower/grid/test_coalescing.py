"""Loops of a band become one where arrays lie in memory as the loops go."""

from dataclasses import replace

import numpy as np
import pytest

from functrans.lower.grid.launch import narrowed
from functrans.lower.plan import MOST_NARROW, iterations
from tests.emit.cuda.programs import interpreted, plan


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

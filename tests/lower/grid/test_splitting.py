"""Reductions over several axes, all of them short, and over other shapes, keep a GPU busy."""

import numpy as np
import pytest

from functrans.lower.grid.target import CUDA
from functrans.lower.plan import threads
from tests.emit.cuda.programs import in_both_ways, plan
from tests.targets import target


def of_images(x):
    mean = x.mean(axis=(0, 1, 2))
    return np.concatenate([mean, ((x - mean) ** 2).mean(axis=(0, 1, 2))])


LARGE = (60, 33, 121, 128)
REDUCTIONS = {
    "all": lambda x: x.sum(),
    "largest": lambda x: np.abs(x).max(),
    "columns of images": of_images,
    "flat": lambda x: x.reshape(-1).sum(),
    "two flat ones": lambda x: x.ravel() @ (x.ravel() + 1),
    "columns of rows": lambda x: x.reshape(-1, x.shape[-1]).sum(axis=0),
    "rows of images": lambda x: x.reshape(x.shape[0] * x.shape[1], -1).sum(axis=1),
    "rows of rows": lambda x: x.reshape(1, x.shape[0], 1, -1, 1).min(axis=(0, 3)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_teams_share_each_reading_of_a_large_array(name):
    steps = plan(REDUCTIONS[name], np.broadcast_to(np.float32(1), LARGE)).steps
    reading = [
        step.kernel for step in steps if any(x.count == np.prod(LARGE) for x in step.buffers)
    ]
    assert reading
    for step in steps:
        if step.kernel in reading:
            assert threads(step.kernel, step.sizes) >= CUDA.grid.busy // 3
            assert step.kernel.team >= CUDA.grid.warp


EAGER = target(
    CUDA,
    grid={"largest_team": 64, "iterations": 2, "launch": 1, "barrier": 1},
    reductions={"long": 20, "blocks": 16, "few_iterations": 2},
)
"""A GPU for which short sums are worth blocks, of which no short axis has enough."""


@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (1, 1, 1, 1), (2, 1, 30, 2), (7, 9, 11, 4)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_are_numpys(name, shape):
    x = 3 * np.random.default_rng(1).random(shape)
    for machine in (EAGER, CUDA):
        for found in in_both_ways(plan(REDUCTIONS[name], x, machine=machine), [x], machine.grid):
            np.testing.assert_allclose(found[0], REDUCTIONS[name](x), rtol=1e-12)

"""Splitting of reductions for occupancy: several short axes, and other shapes."""

import numpy as np
import pytest

from functrans.lower.grid.target import CUDA
from functrans.lower.plan import iterations, threads
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


@pytest.mark.parametrize("count", [0, 1, 63, 64, 1000, 1023, 1024, 1025, 2049, 4099])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8])
def test_what_is_in_no_block_is_part_of_the_sum(count, dtype):
    x = (7 * np.random.default_rng(count).normal(size=count)).astype(dtype)
    functions = [np.sum, lambda x: np.sum(x * x, dtype=np.float64)]
    functions += [np.max, np.argmin, lambda x: np.any(x > 20)] if count else []
    for function in functions:
        made = plan(function, x, machine=EAGER)
        for (found,) in in_both_ways(made, [x], EAGER.grid):
            rtol = {2: 1e-2, 4: 1e-5}.get(x.dtype.itemsize, 1e-12)
            np.testing.assert_allclose(found, function(x), rtol=rtol, atol=50 * rtol)


@pytest.mark.dear
@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(67, 3), (257, 33), (130, 5), (1030, 7), (4097, 3)])
def test_rows_that_are_in_no_block(shape):
    x = np.random.default_rng(0).normal(size=shape)
    x[-1, -1] = np.nan
    for function in (np.sum, np.max, np.nansum, np.nanmin):
        made = plan(function, x, machine=EAGER)
        for (found,) in in_both_ways(made, [x], EAGER.grid):
            np.testing.assert_allclose(found, function(x), rtol=1e-12)


@pytest.mark.parametrize(("rows", "parts"), [(1, 256), (16, 256), (17, 240), (60, 68)])
def test_few_rows_are_split_into_long_parts(rows, parts):
    x = np.broadcast_to(np.float32(1), (rows, 1 << 22))
    first, *_ = plan(lambda x: x.sum(axis=1), x).steps
    assert first.kernel.team == 1024
    assert iterations(first.kernel, first.sizes) == rows * parts

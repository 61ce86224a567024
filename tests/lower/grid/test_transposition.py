"""Transposed reads go through tiles of shared memory."""

import re
from dataclasses import replace

import numpy as np
import pytest

from functrans.loop.domain import Fault
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, guard, index
from functrans.loop.scalar import const
from functrans.loop.statements import Barrier, For, Kernel, Store, buffer, load
from functrans.loop.walk import walk
from functrans.lower.grid.barrier_insertion import with_barriers
from functrans.lower.grid.target import CUDA
from functrans.lower.grid.transposition import transposed
from functrans.lower.plan import Plan, Step
from functrans.lower.verify import verify
from tests.emit.cuda.programs import in_both_ways, in_registers, interpreted, plan
from tests.emit.cuda.special import needs_compiler
from tests.emit.cuda.transactions import transactions
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid
from tests.targets import target

EAGER = target(CUDA, grid={"smallest_tiled": 1})
"""A GPU for which small arrays are worth tiles."""

TINY = target(CUDA, grid={"smallest_tiled": 1, "block": 32, "tile_side": 8})

DTYPES = (np.bool_, np.int8, np.float16, np.float32, np.float64)


def drawn(shape, dtype=np.float32):
    return (3 * np.random.default_rng(1).random(shape)).astype(dtype)


@pytest.mark.parametrize(
    ("function", "shapes", "tiles"),
    [
        (lambda x: x.T * 2, [(300, 400)], 1),
        (lambda x, y: x + y.T, [(300, 400), (400, 300)], 1),
        (lambda x, y, z: x + y.T * z.T, [(300, 400), (400, 300), (400, 300)], 2),
        (lambda x: x + x.T, [(300, 300)], 1),
        (lambda x, y: x.T + y, [(300, 400), (5, 400, 300)], 1),
        (lambda x: np.swapaxes(x, 1, 2) * 2, [(5, 300, 400)], 1),
        (lambda x: np.moveaxis(x, 0, -1) * 2, [(40, 30, 50)], 1),
        (lambda x: np.transpose(x, (3, 2, 1, 0)) * 2, [(20, 30, 40, 50)], 1),
        (lambda x: x[::-1].T[:, ::2] * 2, [(300, 400)], 1),
        (lambda x: np.pad(x.T, 1), [(300, 400)], 1),
        (lambda x, y: np.concatenate([x.T, y]), [(300, 400), (100, 300)], 1),
        # three numbers of each point are next to each other: they are fetched once, not three times
        (lambda x: x.T * 2, [(10_000, 3)], 1),
        # rows of a few columns are all in a line or two
        (lambda x: x.T * 2, [(20, 4000)], 0),
        # what is broadcast is the same for all neighbours
        (lambda x, y: x + y[:, None], [(300, 400), (300,)], 0),
        (lambda x: x.sum(axis=1), [(300, 400)], 0),
        # so little stays in the nearest cache
        (lambda x: x.T * 2, [(30, 40)], 0),
    ],
)
def test_what_goes_through_tiles(function, shapes, tiles):
    operands = [drawn(shape) for shape in shapes]
    made = plan(function, *operands)
    (step,) = made.steps
    assert [len(one.extents) for one in step.kernel.scratch] == [2] * tiles
    assert (step.kernel.team == CUDA.grid.block) == (tiles > 0) or step.kernel.team > 1
    assert sum(isinstance(each, Barrier) for each in walk(step.kernel.body)) == (tiles > 0)
    verify(made)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3), (1, 33), (33, 31), (32, 16), (40, 3), (130, 2)])
def test_results(shape, dtype):
    x, y = drawn(shape, dtype), drawn(shape[::-1], dtype)

    def function(x, y):
        return (x.T & y) if dtype == np.bool_ else x.T * y

    for found in in_both_ways(plan(function, x, y, machine=TINY), [x, y]):
        np.testing.assert_array_equal(found[0], function(x, y))


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.transpose(x, (2, 1, 0)) * 2,
        lambda x: np.moveaxis(x, 0, -1) * 2,
        lambda x: np.swapaxes(x, 1, 2)[:, ::-1, ::2] * 2,
        lambda x: np.pad(np.swapaxes(x, 1, 2), 1),
        lambda x: np.concatenate([np.swapaxes(x, 1, 2), np.transpose(x, (0, 2, 1)) * 2], axis=2),
        lambda x: x + np.swapaxes(x[:, :20, :20].sum(axis=0), 0, 1)[:1, :1],
    ],
)
def test_results_of_movements(function):
    x = drawn((2, 33, 20))
    for found in in_both_ways(plan(function, x, machine=TINY), [x], seed=1):
        np.testing.assert_allclose(found[0], function(x), rtol=1e-6)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_all_that_is_fetched_is_used(monkeypatch, dtype):
    """Of memory across its order a warp would fetch 32 bytes for each element."""
    x = drawn((64, 64), dtype)
    made = plan(lambda x: x.T * dtype(2), x, machine=EAGER)
    counted, (found,) = transactions(monkeypatch, made, [x])
    np.testing.assert_array_equal(found, x.T * dtype(2))
    sectors, least = counted.sectors()
    assert sectors == least
    if dtype != np.int8:  # (of which several are in a word)
        assert counted.conflicts() == 0
    across = plan(lambda x: x.T * dtype(2), x, machine=target(CUDA, grid={"smallest_tiled": 9999}))
    counted, _ = transactions(monkeypatch, across, [x])
    assert counted.sectors()[0]["in0"] == x.size


def step_of(body, *buffers):
    kernel = Kernel(buffers, 0, body, team=1)
    return Step(kernel, buffers, (), 40, 0)


def loops(*extents):
    return [index(name, extent) for name, extent in zip("ijk", extents, strict=False)]


def nest(indices, *body):
    for each in reversed(indices):
        body = (For(each, ZERO, const(each.attribute[2], INDEX), body, parallel=True),)
    return body


def machine(**changes):
    return Grid()._replace(smallest_tiled=1, tile_side=8, block=32, **changes)


def test_stores_across_become_stores_along():
    i, j = loops(40, 24)
    x, out = buffer("x", np.float32, (40, 24)), buffer("out", np.float32, (24, 40))
    step = step_of(nest((i, j), Store(out, (j, i), load(x, (i, j)))), x, out)
    step = transposed(step, machine(), 16)
    (tile,) = step.kernel.scratch
    assert tile.extents == (8, 9)
    made = Plan((x,), (out,), (replace(step, kernel=with_barriers(step.kernel)),), {}, 0)
    given = drawn((40, 24))
    (found,) = interpreted(made, [given])
    np.testing.assert_array_equal(found, given.T)


@pytest.mark.parametrize("first", [True, False])
def test_what_has_been_stored_before_has_no_tile(first):
    """One half of a buffer is made of the other, which is loaded before or after that."""
    i, j = loops(40, 40)
    x, out = buffer("x", np.float32, (2, 40, 40)), buffer("out", np.float32, (40, 40))
    stores = [
        Store(out, (i, j), load(x, (ZERO, j, i))),
        Store(x, (const(1, INDEX), i, j), const(0, np.float32)),
    ]
    step = step_of(nest((i, j), *(stores if first else stores[::-1])), x, out)
    assert len(transposed(step, machine(), 16).kernel.scratch) == first


@pytest.mark.parametrize("first", [True, False])
def test_what_is_loaded_under_a_condition_on_the_way_has_no_tile(first):
    """The tile would be loaded before what the condition reads has been stored."""
    i, j = loops(40, 40)
    x, y, held, out = (buffer(name, np.float32, (40, 40)) for name in ("x", "y", "held", "out"))
    asked = guard(load(held, (i, j)) > 0.5, load(x, (j, i)), 0)
    stores = [Store(out, (i, j), asked), Store(held, (i, j), load(y, (i, j)))]
    step = step_of(nest((i, j), *(stores if first else stores[::-1])), x, y, held, out)
    assert len(transposed(step, machine(), 16).kernel.scratch) == first


def test_tiles_beyond_shared_memory_are_left_out():
    i, j = loops(40, 40)
    out = buffer("out", np.float32, (40, 40))
    given = [buffer(f"x{number}", np.float32, (40, 40)) for number in range(4)]
    total = load(given[0], (j, i))
    for one in given[1:]:
        total = total + load(one, (j, i))
    step = step_of(nest((i, j), Store(out, (i, j), total)), *given, out)
    made = transposed(step, machine(rows=700), 16)
    assert len(made.kernel.scratch) == 2


def test_a_machine_without_room_for_a_tile_has_none():
    made = plan(lambda x: x.T * 2, drawn((300, 400)), machine=target(CUDA, grid={"rows": 1024}))
    assert not any(step.kernel.scratch for step in made.steps)


def test_a_tile_without_a_barrier_is_a_race():
    x = drawn((40, 24))
    (step,) = plan(lambda x: x.T * 2, x, machine=TINY).steps
    loop = step.kernel.band[-1]
    inside = tuple(each for each in loop.body if not isinstance(each, Barrier))
    assert len(inside) == len(loop.body) - 1
    body = (replace(step.kernel.band[0], body=(replace(loop, body=inside),)),)
    memory = [Memory(x, True), Memory(np.zeros((24, 40), np.float32), False)]
    with pytest.raises(Fault, match="in0_tile"):
        evaluate_grid(replace(step.kernel, body=body), memory, step.sizes)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.float32, np.float64])
def test_machine_code(dtype):
    """Without spills or local memory, with loads and stores of 16 bytes."""
    (step,) = plan(lambda x: x.T.copy(), drawn((256, 512), dtype)).steps
    found = re.findall(r"(?:ld|st)\.global\S+", in_registers(step.kernel).ptx)
    assert len(found) >= 2
    assert all(re.search(r"\.v[24]\.", each) for each in found)

"""Several sequences of a batch share a team, and what is loaded for all of them."""

import numpy as np
import pytest

from functrans import lax, vmap
from functrans.loop.statements import Reduce
from functrans.loop.walk import scalars, walk
from functrans.lower.grid.target import CUDA
from tests.emit.cuda.programs import in_both_ways
from tests.lower.grid.test_slicing import gradient_of_lstm, lstm, planned, shapes_of_lstm
from tests.targets import target

RNG = np.random.default_rng(0)

FEW = target(CUDA, grid={"busy": 1})
"""A GPU that a few blocks keep busy."""


def drawn(*shapes, dtype=np.float64):
    return [(RNG.normal(size=shape) / 3).astype(dtype) for shape in shapes]


def bands(made):
    """The iterations of the band of each kernel that goes through steps."""
    return [
        kernel.band[0].index.attribute[2]
        for kernel in (step.kernel for step in made.steps)
        if kernel.team > 1 and len(kernel.band) == 1
    ]


def step_of(w):
    return lambda h, x: (np.tanh(h @ w + x), h)


def recurrent(w, h, xs):
    return lax.scan(step_of(w), h, xs)


def until_small(w, h):
    """Each sequence goes on for as long as it has to."""

    def one(h):
        return lax.while_loop(lambda h: np.max(np.abs(h)) > 0.1, lambda h: np.tanh(h @ w) * 0.7, h)

    return vmap(one)(h)


def own_weights(ws, h, xs):
    """Nothing is shared: each sequence has a matrix."""
    return vmap(lambda w, h, x: lax.scan(step_of(w), h, x))(ws, h, xs)


def loads_in(statement):
    return [node for node in scalars((statement,)) if node.op == "load"]


@pytest.mark.parametrize(("batch", "teams"), [(8, 2), (6, 3), (7, 7), (2, 1), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_many_sequences_share_a_team_as_go_into_their_number(batch, teams, dtype):
    operands = drawn((33, 33), (batch, 33), (3, batch, 33), dtype=dtype)
    made, given, wanted = planned(recurrent, *operands, machine=FEW)
    assert teams in bands(made) or batch == 1
    assert max(bands(made), default=1) <= teams
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for way in in_both_ways(made, given):
        for x, y in zip(way, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_what_is_shared_is_loaded_once():
    made, *_ = planned(recurrent, *drawn((64, 64), (8, 64), (3, 8, 64)), machine=FEW)
    (kernel,) = [step.kernel for step in made.steps if step.kernel.team > 1]
    sums = [each for each in walk(kernel.body) if isinstance(each, Reduce) and not each.body]
    sources = [[node.attribute for node in loads_in(each)] for each in sums]
    counts = [sorted(map(each.count, set(each))) for each in sources if len(set(each)) == 2]
    assert [1, 4] in counts  # of the weights, and of the states of four sequences


@pytest.mark.parametrize("machine", [CUDA, FEW])
def test_an_infinity_or_a_nan_stays_with_its_sequence(machine):
    w, h, xs = drawn((20, 20), (4, 20), (2, 4, 20))
    h[1, 3], xs[0, 2, 5] = np.nan, np.inf
    made, given, wanted = planned(recurrent, w, h, xs, machine=machine)
    for way in in_both_ways(made, given):
        for x, y in zip(way, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("function", [until_small, own_weights])
def test_sequences_that_go_their_own_way_have_a_team_each(function):
    shapes = [(4, 20, 20), (4, 20), (4, 3, 20)] if function is own_weights else [(20, 20), (4, 20)]
    operands = drawn(*shapes)
    made, given, wanted = planned(function, *operands, machine=FEW)
    assert set(bands(made)) <= {4}
    for way in in_both_ways(made, given):
        for x, y in zip(way, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch", [4, pytest.param(6, marks=pytest.mark.full)])
def test_gradients_of_an_lstm_in_batches(batch):
    operands = drawn(*shapes_of_lstm(2, batch, 17))
    made, given, wanted = planned(gradient_of_lstm, *operands, machine=FEW)
    assert min(bands(made)) < batch
    for way in in_both_ways(made, given):
        for x, y in zip(way, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_rows_that_have_no_room_are_not_doubled():
    operands = drawn((33, 33), (8, 33), (3, 8, 33))
    small = target(FEW, grid={"rows": 300, "busy": 1})
    made, given, wanted = planned(recurrent, *operands, machine=small)
    for row in (row for step in made.steps for row in step.kernel.scratch if row.name != "slices"):
        assert row.nbytes <= 300
    for x, y in zip(in_both_ways(made, given)[0], wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_a_batch_of_the_size_of_the_machine():
    """128 teams of 256 threads have two sequences each."""
    shapes = shapes_of_lstm(4, 256, 128)
    made, *_ = planned(lambda *given: lstm(given[:3], given[3]), *drawn(*shapes, dtype=np.float32))
    assert 128 in bands(made)

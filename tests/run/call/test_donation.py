"""Donation: results in the memory of donated arguments are equal, and allocate no arrays."""

from __future__ import annotations

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functrans import config, grad, jit, lax, tree, value_and_grad, vmap
from functrans.run.call import on_disk as kept
from functrans.run.call.jitted import program
from functrans.run.call.program import OverwritingProgram
from functrans.scipy.linalg import hessenberg
from tests.amount import examples
from tests.targets import take_host_for

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(40, 40))
LONG = RNG.normal(size=1003)
TRIPLES = RNG.normal(size=(70, 3))
INDICES = RNG.integers(-40, 40, 9)


@pytest.fixture(scope="module", params=[0, 200_000])
def threshold(request):
    before = config.threads, config.parallel_threshold
    config.threads, config.parallel_threshold = max(2, before[0]), request.param
    yield request.param
    config.threads, config.parallel_threshold = before


def copies(values):
    return tree.map(lambda x: np.array(x) if isinstance(x, np.ndarray) else x, values)


def assert_same(found, expected, **slack):
    for one, other in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, **(slack or {"rtol": 0}))


def homes(function, *args, donated=0):
    """Which results are which arguments, after a check that the numbers are those of plain jit."""
    expected = jit(function)(*copies(args))
    given_up = copies(args)
    found = jit(function, donate_argnums=donated)(*given_up)
    assert_same(found, expected)
    arguments = tree.leaves(given_up)
    return {
        number: next(i for i, x in enumerate(arguments) if x is result)
        for number, result in enumerate(tree.leaves(found))
        if any(x is result for x in arguments)
    }


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def assigned(x):
    x = x.copy()
    x[2:5] *= 2.0
    return x


IN_PLACE = {
    "elementwise": (lambda x: 2.0 * x + 1.0, LONG),
    "elementwise in 2 axes": (lambda x: np.tanh(x) + x, SQUARE),
    "written out": (lambda x: x[::-1] * 2.0, LONG[:7]),
    "columns that change places": (
        lambda x: np.stack([x[:, 1], x[:, 0] * x[:, 2], x[:, 0]], 1),
        TRIPLES,
    ),
    "rows": (softmax, SQUARE),
    "a slice": (assigned, LONG),
    "one element": (lambda x: x.at[3].add(1.0), LONG),
    "running sums": (lambda x: np.cumsum(x, axis=-1), LONG),
    "a loop with a carry": (lambda x: lax.fori_loop(0, 5, lambda i, y: np.sin(y), x), LONG),
    "a loop over rows": (lambda x: lax.scan(lambda c, row: (c + 1.0, row * c), 0.5, x)[1], SQUARE),
    "what was read before": (lambda x: x / np.max(np.abs(x[::-1]), axis=0), SQUARE),
    "itself": (lambda x: x, LONG),
    "integers": (lambda x: x * 3, np.arange(100)),
    "bool": (lambda x: ~x, LONG > 0),
    "mapped": (vmap(lambda x: np.sin(x) * x), SQUARE),
    "a gradient step": (lambda x: x - 0.1 * grad(lambda x: np.sum(np.sin(x) ** 2))(x), LONG),
}

NOT_IN_PLACE = {
    "reversed": lambda x: x[::-1] + 1.0,
    "transposed": lambda x: x.T * 2.0,
    "moved": lambda x: np.roll(x, 1, axis=0),
    "a product with itself": lambda x: x @ x,
    "the first row everywhere": lambda x: x * x[0],
    "neighbours": lambda x: np.concatenate([x[1:], x[:1]]) - x,
    "another type": lambda x: x.astype(np.float32),
    "numbers": lambda x: x.sum(),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_the_result_is_the_argument(name):
    assert homes(*IN_PLACE[name]) == {0: 0}


@pytest.mark.parametrize("name", NOT_IN_PLACE)
def test_what_reads_other_elements_is_not_in_place(name):
    assert homes(NOT_IN_PLACE[name], SQUARE) == {}


def test_each_result_lives_in_one_argument():
    def leapfrog(x, v):
        return x + 0.1 * v, v - 0.1 * np.sin(x)

    assert homes(leapfrog, LONG, 2.0 * LONG, donated=(0, 1)) == {0: 0, 1: 1}
    assert homes(lambda x, y: (y, x), LONG, 2.0 * LONG, donated=(0, 1)) == {0: 1, 1: 0}
    assert homes(lambda x: (x + 1.0, x + 2.0), LONG) == {0: 0}
    assert homes(lambda x, y: x + y, LONG, LONG, donated=(0, 1)) == {0: 0}
    assert homes(lambda x, y: (x + y, np.sum(y)), LONG, LONG, donated=1) == {0: 1}


def test_a_training_step_allocates_nothing(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=64, registers=32)

    def loss(p, x, y):
        return np.mean((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2)

    def step(p, x, y):
        value, slope = value_and_grad(loss)(p, x, y)
        return value, tree.map(lambda w, dw: w - 0.1 * dw, p, slope)

    p = {"w": RNG.normal(size=(50, 300)), "b": np.zeros(300), "v": RNG.normal(size=300)}
    batch = RNG.normal(size=(64, 50)), RNG.normal(size=64)
    assert homes(step, p, *batch) == {1: 0, 2: 1, 3: 2}
    run = jit(step, donate_argnums=0)
    p = run(copies(p), *batch)[1]
    tracemalloc.start()
    for _ in range(3):
        p = run(p, *batch)[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000  # bytes; the parameters have 126,000


def test_a_scatter_into_a_donated_array_touches_what_it_changes():
    def update(table, places, rows):
        return table.at[places].add(rows)

    args = SQUARE, INDICES, RNG.normal(size=(9, 40))
    assert homes(update, *args) == {0: 0}
    cost = jit(update, donate_argnums=0).lower(*args).cost()
    assert len(cost.nests) == 1
    assert len(jit(update).lower(*args).cost().nests) == 2


@pytest.mark.parametrize(
    "update",
    [
        lambda x, i: x.at[i].multiply(x[i]),
        lambda x, i: x.at[i].set(x[i[::-1]]),
        lambda x, i: x.at[i].add(np.sum(x, axis=0)),
        lambda x, i: (x.at[i].add(1.0), x[0]),
        lambda x, i: (x.at[i].add(1.0), np.cumsum(x, axis=0)),
        lambda x, i: x.at[np.abs(x[0, :9] * 9).astype(int)].add(1.0),
    ],
)
def test_a_scatter_does_not_read_what_it_has_changed(update):
    homes(update, SQUARE, INDICES)


def test_what_may_not_be_overwritten_is_left_as_it_is():
    run = jit(lambda x, y: x + y, donate_argnums=0)
    other = np.arange(100.0)
    whole = np.arange(200.0)
    read_only = np.arange(100.0)
    read_only.flags.writeable = False
    unaligned = np.zeros(801, np.uint8)[1:].view(np.float64)
    for x in (
        whole[:100],
        whole[::2],
        whole[::-2],
        read_only,
        unaligned,
        memoryview(whole).obj[:100],
    ):
        before = x.copy()
        found = run(x, other)
        assert not np.shares_memory(found, x)
        np.testing.assert_array_equal(x, before)
        np.testing.assert_array_equal(found, before + other)


def test_a_memory_map_is_left_as_it_is(tmp_path):
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=100)
    x[:] = 3.0
    found = jit(lambda x: x + 1.0, donate_argnums=0)(x)
    assert type(found) is np.ndarray
    assert (x == 3.0).all()
    assert (found == 4.0).all()


def test_an_array_that_is_passed_twice():
    for donated in (0, 1, (0, 1)):
        run = jit(lambda x, y: (x + 1.0, x * y), donate_argnums=donated)
        x = np.arange(100.0)
        one, other = run(x, x)
        np.testing.assert_array_equal(one, np.arange(100.0) + 1.0)
        np.testing.assert_array_equal(other, np.arange(100.0) ** 2)
        assert not np.shares_memory(one, other)


def test_a_view_of_the_donated_array_is_another_argument():
    run = jit(lambda x, y: x + y.sum(), donate_argnums=0)
    for view in (lambda x: x[3:50], lambda x: np.lib.stride_tricks.as_strided(x, (3,), (8,))):
        x = np.arange(100.0)
        np.testing.assert_array_equal(run(x, view(x)), np.arange(100.0) + view(x).sum())
        np.testing.assert_array_equal(x, np.arange(100.0))


def test_an_array_that_the_function_captures():
    x = np.arange(100.0)
    run = jit(lambda y: y + x[::-1], donate_argnums=0)
    want = x + x[::-1]
    np.testing.assert_array_equal(run(x), want)


def test_numbers_and_other_types():
    run = jit(lambda x, n: (x * n, n + 1), donate_argnums=(0, 1))
    assert_same(run(np.ones(50), 3), (3.0 * np.ones(50), 4))
    assert_same(run(np.ones(50), np.float64(3.0)), (3.0 * np.ones(50), 4.0))
    assert_same(run(2.0, 3), (6.0, 4))
    assert_same(run(np.ones((0, 3)), 3), (np.ones((0, 3)), 4))
    assert_same(run(np.ones(50, ">f8"), 3), (3.0 * np.ones(50), 4))
    assert_same(run(np.ones((30, 50)).T, 3), (3.0 * np.ones((50, 30)), 4))


def test_branches_of_python():
    def branch(x):
        y = 3.0 * x
        return y + 1.0 if y[0] > 0 else y - 1.0

    run = jit(branch, donate_argnums=0)
    for sign in (1.0, -1.0, 1.0, -1.0):
        x = sign * np.ones(100)
        np.testing.assert_array_equal(run(x), sign * 4.0 * np.ones(100))


def test_programs_with_calls_of_numpy_between():
    assert homes(lambda x: hessenberg(2.0 * x) + x, SQUARE) == {}


def test_inside_of_other_transforms():
    step = jit(lambda x: np.sin(x) * x, donate_argnums=0)
    x = LONG.copy()
    grad(lambda x: np.sum(step(x)))(x)
    jit(lambda x: step(x) + x)(x)
    vmap(step)(x)
    np.testing.assert_array_equal(x, LONG)


def test_the_bits_do_not_depend_on_the_number_of_threads(threshold):
    x = RNG.normal(size=(301, 103))
    run = jit(lambda x: softmax(x) * (1.0 + threshold / 2**50), donate_argnums=0)
    results = []
    for config.threads in (1, 2, 3):
        results.append(run(x.copy()).tobytes())
    assert len(set(results)) == 1


def test_an_index_out_of_bounds_is_an_error():
    with pytest.raises(IndexError):
        jit(lambda x, i: x.at[i].add(1.0), donate_argnums=0)(LONG.copy(), np.array([3, 1003]))


def test_donation_is_part_of_the_key_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    x = LONG.copy()
    graph = jit(lambda x: x * 0.7351).lower(x).graph()
    compiled = program(graph, (0,)).whole
    assert compiled.listing.overwritten == ((0, 0),)
    assert kept.find(graph) is None
    program(graph)
    assert type(kept.find(graph)) is not OverwritingProgram
    found = kept.find(graph, (0,))
    assert found.listing == compiled.listing
    assert found(x)[0] is x
    np.testing.assert_array_equal(x, LONG * 0.7351)


# -- programs drawn at random ----------------------------------------------------------------------


def masked(x, y):
    z = x + 0.0
    z[y > 0.5] *= 0.5
    return z


OPERATIONS = {
    "sin": lambda x, y: np.sin(x),
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: 0.5 * x * y,
    "where": lambda x, y: np.where(x < y, x, 0.1 * y),
    "first row": lambda x, y: x + 0.1 * y[:1],
    "first column": lambda x, y: x + 0.1 * y[..., :1],
    "reverse": lambda x, y: x[::-1] + 0.0 * y,
    "reverse last": lambda x, y: x[..., ::-1] - y,
    "roll": lambda x, y: np.concatenate([x[1:], y[:1]]),
    "softmax": lambda x, y: softmax(x) + 0.1 * y,
    "centre": lambda x, y: x - np.mean(y, axis=0),
    "total": lambda x, y: x + 0.01 * np.sum(y),
    "cumsum": lambda x, y: 0.1 * np.cumsum(x, axis=-1) + y,
    "square": lambda x, y: 0.1 * (x @ y) if x.ndim == 2 and x.shape[0] == x.shape[1] else x,
    "transpose": lambda x, y: x.T + y if x.ndim == 2 and x.shape[0] == x.shape[1] else x,
    "scatter": lambda x, y: x.at[np.array([0, 2, 0])].add(y[np.array([1, 0, 1])]),
    "scatter set": lambda x, y: x.at[np.array([2, 0])].set(x[np.array([0, 2])]),
    "assign": lambda x, y: x.at[1:].set(y[:-1]),
    "loop": lambda x, y: lax.fori_loop(0, 3, lambda i, z: 0.5 * z + 0.1 * y, x),
    "scan": lambda x, y: lax.scan(lambda c, row: (0.5 * c + row, c), y[0], x)[1],
    "while": lambda x, y: lax.while_loop(
        lambda z: np.sum(z * z) > 1.0, lambda z: np.sin(0.5 * z), x + 0.1 * y
    ),
    "gather": lambda x, y: x[(9.0 * y).astype(int).reshape(len(y), -1)[:, 0] % len(y)] + x,
    "mask": masked,
    "sort": lambda x, y: np.sort(x, axis=0) + y,
    "gradient": lambda x, y: grad(lambda x: np.sum(np.sin(x) * y[::-1]))(x),
    "mapped": lambda x, y: vmap(lambda a, b: np.sin(a) * b + np.sum(b))(x, y),
    "single": lambda x, y: x.astype(np.float32).astype(float) * y,
    "cond": lambda x, y: lax.cond(np.sum(x) > 0, lambda a, b: a + b, lambda a, b: a - b, x, y),
}

SHAPES = [(5,), (33,), (500,), (70, 3), (37, 20), (20, 20), (6, 5, 17)]


class Drawn(NamedTuple):
    """Steps (an operation, and the numbers of its operands), results, and donated arguments."""

    steps: list[tuple[str, int, int]]
    results: list[int]
    donated: list[int]
    shape: tuple[int, ...]
    order: int

    def __call__(self, *inputs):
        # a constant of its own, so that each threshold has a program of its own
        values = [x * (1.0 + self.order / 2**50) if self.order else x for x in inputs]
        for name, i, j in self.steps:
            values.append(OPERATIONS[name](values[i % len(values)], values[j % len(values)]))
        return tuple(values[-1 - i % len(values)] for i in self.results)


def drawn(order):
    numbers = st.integers(0, 9)
    return st.builds(
        Drawn,
        st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), numbers, numbers), max_size=5),
        st.lists(numbers, min_size=1, max_size=3),
        st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
        st.sampled_from(SHAPES),
        st.just(order),
    )


@pytest.mark.dear
@settings(max_examples=examples(120), suppress_health_check=list(HealthCheck))
@given(case=st.sampled_from([0, 1]).flatmap(drawn))
def test_random_programs(threshold, case):
    case = case._replace(order=case.order + 2 * (threshold == 0))
    rng = np.random.default_rng(len(case.steps))
    inputs = [rng.normal(size=case.shape) for _ in range(3)]
    expected = jit(case)(*inputs)
    for overlapping in (False, True):
        given_up = copies(inputs)
        if overlapping:
            given_up[1] = given_up[0]
            expected = jit(case)(*given_up)
        kept_inputs = {i: given_up[i].copy() for i in range(3) if i not in case.donated}
        found = jit(case, donate_argnums=tuple(case.donated))(*given_up)
        # products and sums may become one operation in one program and not in the other
        assert_same(found, expected, rtol=1e-11, atol=1e-13)
        for i, one in enumerate(found):
            assert not any(np.shares_memory(one, other) for other in found[:i])
        if not overlapping:
            for i, x in kept_inputs.items():
                np.testing.assert_array_equal(given_up[i], x)


@pytest.mark.parametrize("assignments", [2, 8])
def test_slices_that_are_set_back(assignments):
    def function(x):
        y = x.copy()
        for start in range(0, 40 * assignments, 40):
            y[start : start + 40] = 7.0
        for start in range(0, 40 * assignments, 40):
            y[start + 10 : start + 30] = x[start + 10 : start + 30]
        return y

    expected = function(LONG)
    np.testing.assert_array_equal(jit(function, donate_argnums=0)(LONG.copy()), expected)


def test_complex_numbers_and_their_parts_share_memory():
    z = TRIPLES[:, 0] + 1j * TRIPLES[:, 1]
    parts = lambda z: np.stack([z.real, z.imag], -1) * 2  # noqa: E731
    join = lambda x: x[..., 0] - 1j * x[..., 1]  # noqa: E731
    for function, given_up in [
        (parts, z), (join, TRIPLES[:, :2].copy()), (join, np.arange(2.0)),
        (parts, z[:0]), (join, np.zeros((0, 2))), (parts, z.astype(np.complex64)),
    ]:  # fmt: skip
        expected = function(given_up)
        found = jit(function, donate_argnums=0)(given_up.copy())
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)

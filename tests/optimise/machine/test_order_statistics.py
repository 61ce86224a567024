"""Sorts of which few elements are read become order statistics, found by bisection."""

import numpy as np
import pytest

from functrans import config, jit
from functrans.optimise.machine.order_statistics import select_ranks
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays


def sort_read_at(*places, dtype="f64", shape="3,1000", others=""):
    reads = "\n    ".join(f"c{i} = slice[index=({x})] b" for i, x in enumerate(places))
    results = ", ".join([f"c{i}" for i in range(len(places))] + others.split())
    return f"""{{ x:{dtype}[{shape}] ->
    b = sort[axis={shape.count(",")}] x
    {reads}
    return {results} }}"""


def found(made):
    """The rank and the number of elements of each order statistic."""
    eqns = [eqn for eqn in made.eqns if eqn.primitive.name == "order_statistics"]
    return [(eqn.params["rank"], eqn.params["count"]) for eqn in eqns]


ALL = "(0, 3, 1)"


@pytest.mark.parametrize(
    ("places", "ranks"),
    [
        ([f"{ALL}, 7"], [(7, 1)]),
        ([f"{ALL}, (499, 2, 1)"], [(499, 2)]),
        ([f"{ALL}, (500, 2, -1)"], [(499, 2)]),
        ([f"{ALL}, 999", f"{ALL}, (998, 1, 1)"], [(998, 2)]),
        ([f"{ALL}, 250", f"{ALL}, 251", "1, (750, 1, 1)"], [(250, 2), (750, 1)]),
    ],
)
def test_few_ranks_are_found(places, ranks):
    made = rewritten(select_ranks, graph(sort_read_at(*places, shape="3,2000")))
    assert found(made) == ranks
    assert not any(eqn.primitive.name == "sort" for eqn in made.eqns)


@pytest.mark.parametrize(
    "made",
    [
        sort_read_at(f"{ALL}, (0, 3, 1)"),
        sort_read_at(f"{ALL}, 1", f"{ALL}, 300", f"{ALL}, 600"),
        sort_read_at(f"{ALL}, (1, 2, 2)"),
        sort_read_at(f"{ALL}, 7", others="b"),
        sort_read_at(f"{ALL}, 7", dtype="f16"),
        sort_read_at(f"{ALL}, 7", shape="3,190"),
        sort_read_at(f"{ALL}, 7", f"{ALL}, 100", shape="3,380"),
        sort_read_at("(0, 3000, 1), 7", shape="3000,100"),
    ],
    ids=[
        "three",
        "three apart",
        "not neighbours",
        "all",
        "half",
        "short",
        "short for two",
        "in lanes",
    ],
)  # fmt: skip
def test_other_sorts_stay(made):
    stays(select_ranks, made)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]
)
@pytest.mark.parametrize(
    "values", ["spread", "few", "equal", "any bits", "in order", "all but the last"]
)
@pytest.mark.parametrize("shape", [(5, 300), (2, 1, 1001)])
def test_ranks_are_those_of_a_sort(dtype, values, shape, monkeypatch):
    rng, size = np.random.default_rng(len(values)), np.dtype(dtype).itemsize
    x = rng.integers(0, 1 << (8 * size - 1), shape, np.dtype(f"u{size}")).view(dtype)
    if values == "spread":
        x = (100 * rng.normal(size=shape)).astype(np.int64).astype(dtype)
    elif values == "few":
        x = rng.choice(np.array([0, 3, 7, 100], dtype), shape)
    elif values == "equal":
        x = np.full(shape, 3, dtype)
    elif values == "in order":
        x = np.sort(x, axis=-1)
    elif values == "all but the last":
        x = np.sort(x, axis=-1)
        x[..., -1] = 2
    rank = shape[-1] // 3
    expected = np.sort(x, axis=-1)
    for threads in (1, 2):
        monkeypatch.setattr(config, "threads", threads)
        for place in (slice(rank, rank + 2), -1):
            got = jit(lambda x, place=place: np.sort(x, axis=-1)[..., place])(x)
            np.testing.assert_array_equal(got, expected[..., place], strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [0, 19, 59, 79, 139, 159, 179])
def test_special_values_have_their_places(dtype, rank):
    tiny = np.finfo(dtype).smallest_subnormal
    row = [-np.inf, -1, -tiny, -0.0, 0.0, tiny, 1, np.inf, np.nan, -np.nan]
    expected = np.repeat(np.array(row, dtype), 20)
    x = np.random.default_rng(0).permutation(expected)
    got = jit(lambda x: np.sort(x)[rank : rank + 2])(x)
    np.testing.assert_array_equal(got, expected[rank : rank + 2], strict=True)
    is_number = got == got
    np.testing.assert_array_equal(
        np.signbit(got)[is_number], np.signbit(expected[rank : rank + 2])[is_number]
    )

"""Sorts of which few elements are read become selections: by bisection, or partial sorts."""

import numpy as np
import pytest

from functrans import config, grad, jit
from functrans.errors import ShapeError
from functrans.ops.reductions.ranks import partial_argsort, partial_sort
from functrans.optimise.machine.selection import select_ranks
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays


def sort_read_at(*places, dtype="f64", shape="3,1000", others=""):
    reads = "\n    ".join(f"c{i} = slice[index=({x})] b" for i, x in enumerate(places))
    results = ", ".join([f"c{i}" for i in range(len(places))] + others.split())
    return f"""{{ x:{dtype}[{shape}] ->
    b = sort[axis={shape.count(",")}] x
    {reads}
    return {results} }}"""


def found(made, name="order_statistics"):
    """The parameters of each selection."""
    return [tuple(eqn.params.values()) for eqn in made.eqns if eqn.primitive.name == name]


ALL = "(0, 3, 1)"


@pytest.mark.parametrize(
    ("places", "ranks"),
    [
        ([f"{ALL}, 700"], [(700, 1)]),
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
    ("places", "parameters"),
    [
        ([f"{ALL}, 7"], (8, False)),
        ([f"{ALL}, (0, 3, 1)"], (3, False)),
        ([f"{ALL}, (40, 3, -20)"], (41, False)),
        ([f"{ALL}, (1970, 3, 10)", "1, 1999"], (30, True)),
    ],
)
def test_few_elements_at_one_end_are_a_partial_sort(places, parameters):
    made = rewritten(select_ranks, graph(sort_read_at(*places, shape="3,2000")))
    assert found(made, "partial_sort") == [parameters]
    assert not any(eqn.primitive.name == "sort" for eqn in made.eqns)


@pytest.mark.parametrize(
    "made",
    [
        sort_read_at(f"{ALL}, (400, 3, 1)"),
        sort_read_at(f"{ALL}, 100", f"{ALL}, 300", f"{ALL}, 600"),
        sort_read_at(f"{ALL}, (400, 2, 2)"),
        sort_read_at(f"{ALL}, (0, 42, 1)"),
        sort_read_at(f"{ALL}, 7", others="b"),
        sort_read_at(f"{ALL}, 7", dtype="f16"),
        sort_read_at(f"{ALL}, 7", shape="3,190"),
        sort_read_at(f"{ALL}, 70", f"{ALL}, 200", shape="3,380"),
        sort_read_at("(0, 3000, 1), 7", shape="3000,100"),
    ],
    ids=[
        "three",
        "three apart",
        "not neighbours",
        "too many",
        "all",
        "half",
        "short",
        "short for two",
        "in lanes",
    ],
)  # fmt: skip
def test_other_sorts_stay(made):
    stays(select_ranks, made)


def argsort_of(then):
    return f"""{{ x:f64[3,1000], part:f64[3,5] ->
    zeros = absent[shape=(3, 1000), dtype=float64]
    three = iota[size=3, dtype=int64]
    rows = reshape[shape=(3, 1)] three
    order = argsort[axis=1] x
    {then}
    return y }}"""


@pytest.mark.parametrize(
    ("then", "count"),
    [
        ("y = slice[index=((0, 3, 1), (995, 5, 1))] order", 5),
        ("""back = slice[index=((0, 3, 1), (999, 1000, -1))] order
    y = slice[index=((0, 3, 1), (0, 9, 1))] back""", 9),
        ("""around = embed[index=((0, 3, 1), (990, 5, 2)), shape=(3, 1000)] part
    y = scatter_add[axes=(0, 1), unique=False] zeros around rows order""", 10),
    ],
    ids=["slice", "slice of a slice", "scatter of a part in zeros"],
)  # fmt: skip
def test_readers_of_a_few_indices(then, count):
    made = rewritten(select_ranks, graph(argsort_of(then)))
    assert found(made, "partial_argsort") == [(count, True)]
    assert not any(eqn.primitive.name in ("argsort", "embed") for eqn in made.eqns)


@pytest.mark.parametrize(
    "then",
    [
        """around = embed[index=((0, 3, 1), (100, 5, 200)), shape=(3, 1000)] part
    y = scatter_add[axes=(0, 1), unique=False] zeros around rows order""",
        "y = gather[axes=(0, 1)] x rows order",
        "y = scatter_add[axes=(0, 1), unique=False] zeros x rows order",
    ],
    ids=["part in the middle", "gather of all", "scatter of all"],
)  # fmt: skip
def test_other_readers_need_all_indices(then):
    stays(select_ranks, argsort_of(then))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]
)
@pytest.mark.parametrize(
    "values",
    ["spread", "few", "equal", "any bits", "in order", "all but the last", "backwards", "sawtooth"],
)
@pytest.mark.parametrize("shape", [(5, 300), (2, 1, 1001), (2, 2600)])
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
    elif values == "backwards":
        x = np.sort(x, axis=-1)[..., ::-1].copy()
    elif values == "sawtooth":
        x = np.broadcast_to(np.arange(shape[-1]) % 7, shape).astype(dtype)
    elif values == "all but the last":
        x = np.sort(x, axis=-1)
        x[..., -1] = 2
    rank = shape[-1] // 3
    expected = np.sort(x, axis=-1)
    for threads in (1, 2):
        monkeypatch.setattr(config, "threads", threads)
        for place in (slice(rank, rank + 2), -1, slice(9), slice(-5, None)):
            got = jit(lambda x, place=place: np.sort(x, axis=-1)[..., place])(x)
            np.testing.assert_array_equal(got, expected[..., place], strict=True)
            got = jit(lambda x, place=place: np.argsort(x, stable=True)[..., place])(x)
            order = np.argsort(x, stable=True)[..., place]
            np.testing.assert_array_equal(got, order, strict=True)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 5, 24])
@pytest.mark.parametrize("share", [0, 0.5, 0.99, 1])
def test_indices_of_special_values(dtype, count, share):
    rng = np.random.default_rng(count)
    x = rng.choice(np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf], dtype), (4, 601))
    x[rng.random(x.shape) < share] = np.nan
    order = np.argsort(x, stable=True)
    for place in (slice(count), slice(-count, None)):
        got = jit(lambda x, place=place: np.argsort(x, stable=True)[:, place])(x)
        np.testing.assert_array_equal(got, order[:, place], strict=True)


@pytest.mark.parametrize("select", [np.sort, lambda x: np.partition(x, -8)], ids=["sort", "parts"])
def test_gradient_of_the_largest(select):
    x = np.random.default_rng(0).normal(size=(3, 700))
    value = jit(grad(lambda x: np.sum(select(x)[:, -8:] ** 2)))(x)
    expected = np.where(x >= np.sort(x)[:, -8:-7], 2 * x, 0)
    np.testing.assert_allclose(value, expected, rtol=1e-15)


@pytest.mark.parametrize("extent", [64, 65, 95, 96, 97, 128])
@pytest.mark.parametrize("greatest", [False, True])
def test_partial_sorts_of_short_lines(extent, greatest):
    x = np.random.default_rng(extent).normal(size=(3, extent))
    places = slice(extent - 16, None) if greatest else slice(16)
    for partly, whole in ((partial_sort, np.sort), (partial_argsort, np.argsort)):
        compiled = jit(lambda x, partly=partly: partly(x, count=16, greatest=greatest))
        np.testing.assert_array_equal(compiled(x), whole(x)[:, places], strict=True)
        with pytest.raises(ShapeError, match="elements of lines of 64"):
            compiled(x[:, :63])

"""shard_map with simulated processes, against NumPy on whole arrays."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap
from functrans.distributed import Mesh, P, shard_map
from functrans.errors import AxesError, ShapeError

RNG = np.random.default_rng(0)
MESH = Mesh({"data": 4})
GRID = Mesh({"rows": 2, "columns": 3})


def test_a_spec_says_how_arrays_are_divided():
    x = np.arange(24.0).reshape(4, 6)
    seen = []

    def part(*parts):
        seen[:] = [p.shape for p in parts]
        return parts

    specs = (
        P(), P("rows"), P("columns"), P(None, "columns"), P("rows", "columns"),
        P("columns", "rows"), P(None, ("rows", "columns")), P(None, ("columns", "rows")),
    )  # fmt: skip
    given = [x[:, :], x, x[:3], x, x, x[:3], x, x]
    found = shard_map(part, GRID, specs, specs)(*given)
    for a, b in zip(found, given, strict=True):
        np.testing.assert_array_equal(a, b)
    assert seen == [(4, 6), (2, 6), (1, 6), (4, 2), (2, 2), (1, 3), (4, 1), (4, 1)]


def test_parts_are_in_the_order_of_the_processes():
    def number(x):
        return x + lax.axis_index("rows") * 10 + lax.axis_index("columns")

    by_rows = shard_map(number, GRID, P(("rows", "columns")), P(("rows", "columns")))
    np.testing.assert_array_equal(by_rows(np.zeros(6)), [0, 1, 2, 10, 11, 12])
    by_columns = shard_map(number, GRID, P(("columns", "rows")), P(("columns", "rows")))
    np.testing.assert_array_equal(by_columns(np.zeros(6)), [0, 10, 1, 11, 2, 12])


def test_a_product_of_divided_matrices():
    a, b = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 5))
    f = shard_map(
        lambda a, b: lax.psum(a @ b, "columns"), GRID, (P("rows", "columns"), P("columns")),
        P("rows"),
    )  # fmt: skip
    np.testing.assert_allclose(f(a, b), a @ b)
    np.testing.assert_allclose(jit(f)(a, b), a @ b)
    by_b = grad(lambda b: np.sin(f(a, b)).sum())(b)
    np.testing.assert_allclose(by_b, a.T @ np.cos(a @ b))
    many = RNG.normal(size=(7, 6, 5))
    np.testing.assert_allclose(vmap(lambda b: f(a, b))(many), a @ many)


def test_pytrees_and_prefixes():
    params = {"w": RNG.normal(size=(3, 2)), "b": np.zeros(2)}
    x = RNG.normal(size=(8, 3))

    def f(params, x):
        out = x @ params["w"] + params["b"]
        return {"out": out, "mean": lax.pmean(out.mean(0), "data")}

    found = shard_map(f, MESH, (P(), P("data")), {"out": P("data"), "mean": P()})(params, x)
    np.testing.assert_allclose(found["out"], x @ params["w"])
    np.testing.assert_allclose(found["mean"], (x @ params["w"]).mean(0))


@pytest.mark.parametrize(
    ("function", "in_specs", "out_specs", "words"),
    [
        (lambda x: x, P("data"), P(),
         "the result of <lambda> varies along the axis 'data', and its spec P() in out_specs says "
         "that it is the same there"),
        (lambda x: x, P("rows"), P(), "P('rows') names 'rows', which Mesh({'data': 4}, engine="),
        (lambda x: x, 0, P(), "must hold PartitionSpecs, found 0 of type int"),
        (lambda x: x, (P(), P()), P(), "in_specs has 2 entries, but <lambda> was called with 1"),
        (lambda x: x.sum(), P(None, None, "data"), P(), "has more axes than argument 0 ('x')"),
        (lambda x: lax.psum(x.sum(), "data"), P("data"), P("data"),
         "out_specs: P('data') has more axes than the result of <lambda>, of shape ()"),
    ],
)  # fmt: skip
def test_specs_that_do_not_fit(function, in_specs, out_specs, words):
    with pytest.raises(AxesError) as caught:
        shard_map(function, MESH, in_specs, out_specs)(np.ones((4, 4)))
    assert words in str(caught.value)


def test_an_axis_that_does_not_fall_into_parts():
    with pytest.raises(ShapeError) as caught:
        shard_map(lambda x: x, MESH, P(None, "data"), P(None, "data"))(np.ones((4, 6)))
    assert str(caught.value).startswith(
        "argument 0 ('x') of <lambda> has shape (4, 6), and its axis 1 does not fall into equal "
        "parts for the 4 processes along 'data'"
    )


def test_a_loss_that_varies():
    f = shard_map(grad(lambda w, x: (w * x).sum()), MESH, (P(), P("data")), P())
    with pytest.raises(AxesError, match="differentiates a result that varies along the axis"):
        f(1.0, np.ones(4))


@pytest.mark.parametrize("axes", [{"data": 0}, {"data": 1.5}, {3: 2}])
def test_a_mesh_that_is_none(axes):
    with pytest.raises(ValueError, match="a Mesh has names and positive numbers of processes"):
        Mesh(axes)


def test_an_engine_that_is_none():
    with pytest.raises(ValueError, match="engine of a Mesh is 'sim' or 'mpi', not 'nccl'"):
        Mesh({"data": 2}, engine="nccl")


def test_specs_that_make_no_sense():
    with pytest.raises(AxesError, match="divides two axes along 'data'"):
        P("data", "data")
    with pytest.raises(AxesError, match="has 3 for the name of an axis"):
        P((3,))

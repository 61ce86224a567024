"""Reductions, running results and sorting, over any axes of any shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from functrans import config, jit, jvp, lax, vmap
from functrans.ir.primitive import bind, registry
from functrans.ir.types import aval_of
from functrans.ops.reductions.sorting import argsort, sort
from functrans.run.call.compiled import compile_graph
from functrans.scipy.special import softmax
from functrans.trace.stage import replay, rewrite
from tests.amount import examples
from tests.primitives.harness import inner, like, pulled_back, tangent_graph
from tests.targets import take_host_for

REDUCE = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_max": np.max,
    "reduce_min": np.min,
}
ALONG = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "sort": np.sort,
    "argsort": lambda x, axis: np.argsort(x, axis, kind="stable"),
    "argmax": np.argmax,
    "argmin": np.argmin,
}
NEEDS_ELEMENTS = {"reduce_max", "reduce_min", "argmax", "argmin"}


@st.composite
def reductions(draw):
    name = draw(st.sampled_from(sorted(REDUCE)))
    least = 1 if name in NEEDS_ELEMENTS else 0
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=least, max_side=5))
    axes = draw(st.sets(st.sampled_from(range(len(shape))))) if shape else set()
    return name, shape, tuple(sorted(axes))


@st.composite
def along_axes(draw):
    name = draw(st.sampled_from(sorted(ALONG)))
    least = 1 if name in NEEDS_ELEMENTS else 0
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=6))
    return name, shape, draw(st.sampled_from(range(len(shape))))


def graph_of(name, x, **params):
    return rewrite(lambda x: [bind(registry[name], (x,), params)], [aval_of(x)])


def reverse_of(name):
    return {"reverse": False} if name.startswith("cum") else {}


def some_zeros(rng, shape):
    """Numbers of which some are 0, and some are equal."""
    return rng.integers(-2, 3, shape) * rng.normal(size=shape).round(1)


def check_adjoint(graph, x, rng):
    tangent = tangent_graph(graph, (True,))
    direction = like(rng, x)
    [out] = replay(tangent, [x, direction])
    cotangent = like(rng, out)
    back = pulled_back(tangent, [x], [direction], [cotangent])
    assert [aval_of(b) for b in back] == [aval_of(x)]
    np.testing.assert_allclose(
        inner([cotangent], [out]), inner(back, [direction]), rtol=1e-11, atol=1e-11
    )


@given(reductions(), st.sampled_from([float, np.float32, np.int32, bool]))
def test_reductions(drawn, dtype):
    name, shape, axes = drawn
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    expected = REDUCE[name](x, axis=axes)
    if dtype in (np.int32, bool):
        expected = expected.astype(dtype)  # NumPy widens the integers that it adds up
    [found] = replay(graph_of(name, x, axes=axes), [x])
    assert aval_of(found) == aval_of(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@given(reductions())
def test_derivatives_of_reductions(drawn):
    name, shape, axes = drawn
    rng = np.random.default_rng(0)
    x = some_zeros(rng, shape)
    check_adjoint(graph_of(name, x, axes=axes), x, rng)


@settings(max_examples=examples(30))
@given(reductions())
def test_compiled_reductions(drawn):
    name, shape, axes = drawn
    x = np.random.default_rng(0).normal(size=shape)
    [found] = compile_graph(graph_of(name, x, axes=axes))(x)
    expected = REDUCE[name](x, axis=axes)
    assert aval_of(found) == aval_of(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@given(along_axes(), st.sampled_from([float, np.int64]))
def test_along_an_axis(drawn, dtype):
    name, shape, axis = drawn
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    expected = ALONG[name](x, axis=axis)
    [found] = replay(graph_of(name, x, axis=axis, **reverse_of(name)), [x])
    assert aval_of(found) == aval_of(expected)
    np.testing.assert_array_equal(found, expected)


@given(along_axes().filter(lambda drawn: not drawn[0].startswith("arg")))
def test_derivatives_along_an_axis(drawn):
    name, shape, axis = drawn
    rng = np.random.default_rng(0)
    x = some_zeros(rng, shape)
    check_adjoint(graph_of(name, x, axis=axis, **reverse_of(name)), x, rng)


@given(hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=5), st.data())
def test_the_derivative_of_a_product_leaves_one_factor_out(shape, data):
    x = some_zeros(np.random.default_rng(data.draw(st.integers(0, 50))), shape)
    graph = graph_of("reduce_prod", x, axes=tuple(range(len(shape))))
    tangent = tangent_graph(graph, (True,))
    back = pulled_back(tangent, [x], [x], [np.float64(1)])[0]
    others = [np.prod(np.delete(x.ravel(), i)) for i in range(x.size)]
    np.testing.assert_allclose(back.ravel(), others, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "u1", "?"])
@pytest.mark.parametrize("shape", [(0,), (1,), (2047,), (2600,), (5000,), (3, 2600), (2, 2600, 3)])
def test_equal_elements_keep_their_order(dtype, shape):
    rng = np.random.default_rng(0)
    for most in (3, 500, 10_000):
        x = rng.integers(0, most, shape).astype(dtype)
        if x.dtype.kind == "f":
            x[rng.random(shape) < 0.1] = np.nan
            x[rng.random(shape) < 0.1] = -0.0
            x[rng.random(shape) < 0.01] = -np.inf
        for axis in range(x.ndim):
            found = argsort(x, axis=axis)
            np.testing.assert_array_equal(found, np.argsort(x, axis=axis, kind="stable"))
            assert found.dtype == np.int64
            np.testing.assert_array_equal(sort(x, axis=axis), np.sort(x, axis=axis))


SORTED = [
    (5,), (16,), (17,), (100,), (1000, 3), (30, 16), (3, 300), (2600, 2), (2, 3, 24), (40, 9),
    (2, 9000, 2),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, bool])
@pytest.mark.parametrize("shape", SORTED)
def test_rows_are_sorted_by_compiled_code(shape, dtype):
    rng = np.random.default_rng(len(shape))
    x = (3 * rng.normal(size=shape)).astype(dtype)
    flat = x.reshape(-1)
    flat[: x.size // 3] = np.round(flat[-1])  # ties, whose order an argsort keeps
    if x.dtype.kind == "f":
        flat[:4] = np.nan, np.inf, -np.inf, -np.nan
    for axis in range(x.ndim):
        for f in (np.sort, lambda x, axis: np.argsort(x, axis=axis, kind="stable")):
            compiled = jit(lambda x, f=f, axis=axis: f(x, axis=axis))
            np.testing.assert_array_equal(compiled(x), f(x, axis=axis))


@pytest.mark.parametrize(
    "dtype", [np.uint64, np.int64, np.float64, np.uint32, np.int32, np.float32]
)
@pytest.mark.parametrize("extent", [700, 9000])
def test_all_digits_of_keys_are_sorted_by(extent, dtype):
    x = np.frombuffer(np.random.default_rng(0).bytes(extent * np.dtype(dtype).itemsize), dtype)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(jit(np.sort)(x), np.sort(x))
        np.testing.assert_array_equal(jit(np.argsort)(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("numbers", [(7,), (0, 1 << 40), range(300), (-1.5, np.inf)])
@pytest.mark.parametrize("extent", [700, 9000])
def test_keys_of_which_most_digits_are_equal(extent, numbers):
    x = np.random.default_rng(0).choice(list(numbers), extent)
    np.testing.assert_array_equal(jit(np.sort)(x), np.sort(x))
    np.testing.assert_array_equal(jit(np.argsort)(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("extent", [1000, 9000])
def test_threads_share_rows_that_are_sorted_by_radix(extent, monkeypatch):
    take_host_for(monkeypatch, library_sorts=False)
    x = np.random.default_rng(0).normal(size=(7, extent))
    for threads in (1, 3):
        monkeypatch.setattr(config, "threads", threads)
        np.testing.assert_array_equal(jit(lambda x: np.sort(x, axis=1))(x), np.sort(x, axis=1))


@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_orders_of_long_elements_whatever_a_vector_holds(vector_bytes, monkeypatch):
    """A key and its number have 12 bytes, of which no vector holds a power of two."""
    take_host_for(monkeypatch, vector_bytes=vector_bytes)
    x = np.random.default_rng(0).normal(size=(64, 3))
    order = jit(lambda x: np.argsort(x, axis=0))(x)
    np.testing.assert_array_equal(order, np.argsort(x, axis=0))
    np.testing.assert_array_equal(jit(np.argsort)(x[:, 0]), order[:, 0])


@pytest.mark.dear
@pytest.mark.parametrize("lines", [4, 8, 20, 33])
@pytest.mark.parametrize("extent", [17, 24, 65, 128, 200, 256])
def test_lines_of_medium_length_are_sorted_in_lanes(extent, lines):
    rng = np.random.default_rng(extent)
    for dtype in (np.float32, np.float64, np.int16):
        x = rng.integers(-9, 9, size=(extent, lines)).astype(dtype)
        for axis, lined in ((0, x), (1, x.T.copy())):
            order = jit(lambda x, axis=axis: np.argsort(x, axis=axis))(lined)
            np.testing.assert_array_equal(order, np.argsort(lined, axis=axis, kind="stable"))
            found = jit(lambda x, axis=axis: np.sort(x, axis=axis))(lined)
            np.testing.assert_array_equal(found, np.sort(lined, axis=axis))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
@pytest.mark.parametrize("shape", [(20,), (64,), (150,), (300,), (3, 500)])
@pytest.mark.parametrize("vector_bytes", [16, 64])  # by merges in float64, by a network
def test_few_lines_of_medium_length_are_sorted_one_by_one(shape, dtype, vector_bytes, monkeypatch):
    take_host_for(monkeypatch, vector_bytes=vector_bytes)
    x = np.random.default_rng(0).integers(-99, 99, size=shape).astype(dtype)
    if x.dtype.kind == "f":
        x[..., 1:9] = np.nan, np.inf, -np.inf, -np.nan, -0.0, 0.0, -0.0, np.nan
    compiled = jit(lambda x: (np.sort(x), np.argsort(x, stable=True)))
    if vector_bytes == 64 and dtype != "i2":
        assert "call NumPy" not in compiled.lower(x).schedule()
    found, order = compiled(x)
    np.testing.assert_array_equal(found, np.sort(x))
    np.testing.assert_array_equal(order, np.argsort(x, stable=True))


def test_many_lines_of_medium_length_are_sorted_without_a_step_back_to_python(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=64, registers=32)
    x = np.random.default_rng(0).normal(size=(30, 100))
    compiled = jit(lambda x: np.sort(x, axis=1))
    assert "call NumPy" not in compiled.lower(x).schedule()
    np.testing.assert_array_equal(compiled(x), np.sort(x, axis=1))
    assert "call NumPy" in compiled.lower(np.ones((30, 400), "f4")).schedule()


@pytest.mark.parametrize("library_sorts", [False, True])
def test_numpy_sorts_large_arrays_where_its_vectorised_sort_is_fast(library_sorts, monkeypatch):
    take_host_for(monkeypatch, library_sorts=library_sorts)
    for shape, dtype, is_large in (
        ((10_000,), "f8", True), ((3, 4000), "i4", True), ((9, 4000), "i4", False),
        ((4000,), "f8", False), ((40_000,), "i2", False), ((40_000,), "i1", False),
    ):  # fmt: skip
        x = (np.random.default_rng(0).normal(size=shape) * 100).astype(dtype)
        compiled = jit(lambda x: np.sort(x, axis=-1) * x.dtype.type(2))
        is_called = "call NumPy" in compiled.lower(x).schedule()
        assert is_called == (library_sorts and is_large)
        np.testing.assert_array_equal(compiled(x), np.sort(x, axis=-1) * x.dtype.type(2))


@pytest.mark.parametrize("shape", [(50, 40, 3), (20, 2, 300), (2, 30, 9, 4)])
def test_lines_are_sorted_along_any_of_several_axes(shape):
    x = np.random.default_rng(0).normal(size=shape)
    for axis in range(len(shape)):
        found = jit(lambda x, axis=axis: (np.sort(x, axis=axis), np.argsort(x, axis=axis)))(x)
        np.testing.assert_array_equal(found[0], np.sort(x, axis=axis))
        np.testing.assert_array_equal(found[1], np.argsort(x, axis=axis, kind="stable"))


@pytest.mark.parametrize("extent", [20, 2000, 9000])
def test_a_loop_sorts_without_leaving_it(extent):
    def step(state, x):
        return np.median(np.concatenate([x, state[None]])), np.argsort(x)

    xs = np.random.default_rng(0).normal(size=(10, extent))
    compiled = jit(lambda xs: lax.scan(step, 0.0, xs))
    assert "call NumPy" not in compiled.lower(xs).schedule()
    found, orders = compiled(xs)
    state = 0.0
    for x, order in zip(xs, orders, strict=True):
        state = np.median([*x, state])
        np.testing.assert_array_equal(order, np.argsort(x))
    np.testing.assert_allclose(found, state)


@pytest.mark.parametrize("shape", [(0, 3), (1,), (17,), (300,), (2, 17, 3)])
def test_products_of_complex_numbers_are_compiled(shape):
    rng = np.random.default_rng(0)
    z = np.exp(1j * rng.normal(size=shape))
    for axis in (0, None):
        compiled = jit(lambda z, axis=axis: np.prod(z, axis=axis))
        np.testing.assert_allclose(compiled(z), np.prod(z, axis=axis), rtol=1e-12)
        assert "call NumPy" not in compiled.lower(z).schedule()


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
def test_long_rows_are_searched_in_blocks(dtype):
    rng = np.random.default_rng(0)
    extent = 5 * (1 << 14) // np.dtype(dtype).itemsize + 7
    x = rng.integers(0, 100, size=(2, extent)).astype(dtype)
    rows = {"ties": x, "ends": np.sort(x), "equal": np.ones_like(x)}
    if dtype != "u1":
        rows["nan"] = np.where(x == 50, np.nan, x)
        rows["infinite"] = np.full_like(x, -np.inf)
    for name in ("argmax", "argmin"):
        compiled = jit(lambda x, name=name: ALONG[name](x, axis=1))
        assert "extremes" in compiled.lower(x).schedule()
        for case, row in rows.items():
            found, expected = compiled(row), ALONG[name](row, axis=1)
            np.testing.assert_array_equal(found, expected, err_msg=f"{name} {case}")


def test_rows_that_are_too_few_for_threads_are_searched_along_memory():
    x = np.random.default_rng(0).integers(0, 100, size=(30, 5000)).astype("f4")
    compiled = jit(lambda x: np.argmax(x, axis=1))
    assert "in parallel by" not in compiled.lower(x).schedule()
    np.testing.assert_array_equal(compiled(x), np.argmax(x, axis=1))


def test_extremes_and_sums_of_one_array_share_a_loop():
    x = np.random.default_rng(0).normal(size=3000)
    compiled = jit(lambda x: (np.max(x), np.sum(x), np.sum(x > 0)))
    assert compiled.lower(x).schedule().count("on in0") == 1
    np.testing.assert_allclose(compiled(x), (np.max(x), np.sum(x), np.sum(x > 0)), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", "?"])
def test_long_rows_in_order_are_copied(dtype):
    rng = np.random.default_rng(0)
    ordered = np.sort(rng.integers(0, 100, size=(2, 2001)).astype(dtype), axis=1)
    swapped = ordered.copy()
    swapped[:, [-1, -900]] = swapped[:, [-900, -1]]
    rows = [ordered, swapped, ordered[:, ::-1].copy(), np.ones_like(ordered)]
    if dtype == "f8":
        rows += [np.where(np.arange(2001) == at, np.nan, ordered) for at in (0, 1000, 1999, 2000)]
    sorts, argsorts = jit(np.sort), jit(np.argsort)
    for row in rows:
        np.testing.assert_array_equal(sorts(row), np.sort(row))
        np.testing.assert_array_equal(argsorts(row), np.argsort(row, kind="stable"))


@pytest.mark.parametrize("f", [np.sum, np.prod, softmax])
def test_float16_is_reduced_in_float32_along_every_axis(f):
    """NumPy rounds after each step along the first axis: a sum of thousands is stuck."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (3000, 2)).astype(np.float16)
    if f is np.prod:
        x[::2], x[1::2] = 2, 0.5
        x = x[:2000] * np.float16(1.001)
    found = jvp(lambda x: f(x, axis=0), (x,), (x,))
    expected = jvp(lambda x: f(x, axis=0), *2 * [(x.astype(np.float64),)])
    for one, other in zip(found, expected, strict=True):
        scale = np.abs(other).max()
        # the slope of a product is made of products of two in float16
        np.testing.assert_allclose(one, other, atol=(4e-2 if f is np.prod else 1e-2) * scale)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_running_bits_and_truths(name):
    x = np.random.default_rng(0).integers(-9, 9, (3, 50))
    for ufunc in (getattr(np, f"bitwise_{name}"), getattr(np, f"logical_{name}")):
        for dtype in (np.int8, np.uint16, np.int64, bool):
            given = x.astype(dtype)
            for axis in (0, 1):
                for method in (ufunc.accumulate, ufunc.reduce):
                    found = jit(lambda x, axis=axis, method=method: method(x, axis=axis))(given)
                    expected = method(given, axis=axis)
                    assert found.dtype == expected.dtype
                    np.testing.assert_array_equal(found, expected)
    with pytest.raises(TypeError, match="bitwise"):
        jit(getattr(np, f"bitwise_{name}").accumulate)(x + 0.5)
    truths = jit(getattr(np, f"logical_{name}").accumulate)(x[0] + 0.5)
    np.testing.assert_array_equal(truths, getattr(np, f"logical_{name}").accumulate(x[0] + 0.5))


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_minus_zeros_are_minus_zeros(axis):
    assert np.signbit(jit(lambda x: np.cumsum(x, axis))(np.full((3, 2), -0.0))).all()


@pytest.mark.parametrize("size", [0, 1, 2, 16, 17, 300])
def test_a_sum_of_nothing_but_negative_zeros_is_a_positive_one(size):
    def function(x):
        return [np.sum(x, axis=axis) for axis in (0, 1, (0, 1), ())]

    for dtype in (np.float16, np.float32, np.float64, np.complex128):
        x = np.full((3, size), -0.0, dtype)
        for found in (*jit(function)(x), *vmap(function)(x[None])):
            assert not (np.signbit(found.real) | np.signbit(found.imag)).any()

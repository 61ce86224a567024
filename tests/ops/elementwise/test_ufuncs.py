"""Ufuncs on shapes that broadcast, with empty and zero-dimensional ones among them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from functrans.ir.types import aval_of
from functrans.run.call.compiled import compile_graph
from functrans.trace.stage import replay, rewrite
from functrans.transform.batch import batch_graph
from tests.amount import examples
from tests.primitives.harness import inner, like, pulled_back, tangent_graph

DTYPES = [np.dtype(d) for d in (np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_)]
FLOATS = [np.dtype(d) for d in (np.float64, np.float32)]
BINARY = [
    np.add, np.multiply, np.divide, np.maximum, np.fmin, np.arctan2, np.hypot, np.logaddexp,
    np.remainder, np.floor_divide, np.less, np.logical_and, np.copysign,
]  # fmt: skip
UNARY = [np.exp, np.sqrt, np.tanh, np.absolute, np.rint, np.isnan, np.square, np.arctan]
SMOOTH = [np.add, np.multiply, np.subtract, np.arctan2, np.hypot, np.logaddexp, np.maximum]

shapes = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=4)


def numbers(rng, shape, dtype):
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)


def graph_of(function, *operands):
    return rewrite(lambda *xs: [function(*xs)], [aval_of(x) for x in operands])


def agree(found, expected):
    assert aval_of(found) == aval_of(expected)
    tolerance = {"float64": 1e-14, "float16": 1e-3}.get(str(expected.dtype), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@given(st.sampled_from(BINARY), shapes, st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_two_operands(ufunc, drawn, first, second, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, y = (
        numbers(rng, shape, dtype)
        for shape, dtype in zip(drawn.input_shapes, (first, second), strict=True)
    )
    with np.errstate(all="ignore"):
        expected = ufunc(x, y)
        [found] = replay(graph_of(ufunc, x, y), [x, y])
    agree(found, expected)


@given(st.sampled_from(UNARY), hnp.array_shapes(min_dims=0, min_side=0), st.sampled_from(DTYPES))
def test_one_operand(ufunc, shape, dtype):
    x = numbers(np.random.default_rng(0), shape, dtype)
    with np.errstate(all="ignore"):
        expected = ufunc(x)
        [found] = replay(graph_of(ufunc, x), [x])
    agree(found, expected)


@settings(max_examples=examples(30))
@given(st.sampled_from(BINARY), shapes, st.sampled_from(DTYPES))
def test_compiled(ufunc, drawn, dtype):
    rng = np.random.default_rng(0)
    x, y = (numbers(rng, shape, dtype) for shape in drawn.input_shapes)
    with np.errstate(all="ignore"):
        expected = ufunc(x, y)
    [found] = compile_graph(graph_of(ufunc, x, y))(x, y)
    agree(found, expected)


@given(st.sampled_from(SMOOTH), shapes, st.sampled_from(FLOATS))
def test_forward_and_reverse_are_adjoint(ufunc, drawn, dtype):
    rng = np.random.default_rng(0)
    x, y = (numbers(rng, shape, dtype)[()] for shape in drawn.input_shapes)
    tangent = tangent_graph(graph_of(ufunc, x, y), (True, True))
    directions = [like(rng, x), like(rng, y)]
    [out] = replay(tangent, [x, y, *directions])
    assert out.shape == drawn.result_shape
    cotangent = like(rng, out)
    back = pulled_back(tangent, [x, y], directions, [cotangent])
    assert [aval_of(b) for b in back] == [aval_of(x), aval_of(y)]
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(
        inner([cotangent], [out]), inner(back, directions), rtol=tolerance, atol=tolerance
    )


@given(st.sampled_from(BINARY), shapes, st.data())
def test_mapped_along_any_axis(ufunc, drawn, data):
    rng = np.random.default_rng(0)
    size = data.draw(st.integers(1, 3))
    plain = [numbers(rng, shape, np.dtype(float)) for shape in drawn.input_shapes]
    axes = data.draw(
        st.tuples(*(st.none() | st.integers(0, x.ndim) for x in plain)).filter(any_mapped)
    )
    inputs = [
        x if axis is None else numbers(rng, (*x.shape[:axis], size, *x.shape[axis:]), x.dtype)
        for x, axis in zip(plain, axes, strict=True)
    ]
    graph, (out_axis,) = batch_graph(graph_of(ufunc, *plain), axes, size)
    with np.errstate(all="ignore"):
        [found] = replay(graph, inputs)
        for i in range(size):
            row = [
                x if axis is None else np.take(x, i, axis)
                for x, axis in zip(inputs, axes, strict=True)
            ]
            np.testing.assert_allclose(np.take(found, i, out_axis), ufunc(*row), rtol=1e-14)


def any_mapped(axes):
    return any(axis is not None for axis in axes)


@pytest.mark.parametrize("ufunc", [np.add, np.arctan2])
def test_shapes_that_do_not_meet(ufunc):
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) do not broadcast"):
        graph_of(ufunc, np.zeros(2), np.zeros(3))

"""Dynamic slices and segment sums against Python loops."""

import numpy as np
import pytest

from functrans import errors, grad, jit, lax, testing, vmap

x = np.arange(20.0).reshape(4, 5) ** 1.5


def start_of(i, extent, size):
    return min(max(i + extent if i < 0 else i, 0), extent - size)


@pytest.mark.parametrize("start", [(0, 0), (1, 2), (-1, -3), (9, 9), (-9, 1), (3, 4)])
@pytest.mark.parametrize("sizes", [(2, 3), (4, 5), (1, 1), (0, 2)])
def test_dynamic_slices(start, sizes):
    i, j = map(start_of, start, x.shape, sizes)
    part = slice(i, i + sizes[0]), slice(j, j + sizes[1])
    new = np.ones(sizes)
    expected = x.copy()
    expected[part] = new
    for wrap in (lambda f: f, jit):
        read = wrap(lambda x, s: lax.dynamic_slice(x, s, sizes))
        write = wrap(lambda x, new, s: lax.dynamic_update_slice(x, new, s))
        np.testing.assert_array_equal(read(x, start), x[part])
        np.testing.assert_array_equal(read(x, np.array(start)), x[part])
        np.testing.assert_array_equal(write(x, new, start), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_one_axis(axis):
    for wrap in (lambda f: f, jit):
        got = wrap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis))(x, 1)
        np.testing.assert_array_equal(got, np.take(x, [1, 2], axis))
        got = wrap(lambda x, i: lax.dynamic_index_in_dim(x, i, axis, keepdims=False))(x, -1)
        np.testing.assert_array_equal(got, np.take(x, -1, axis))
        row = np.zeros_like(np.take(x, 0, axis))
        expected = np.delete(np.insert(x, 2, 0, axis), 3, axis)
        for new in (row, np.expand_dims(row, axis)):
            got = wrap(lambda x, new, i: lax.dynamic_update_index_in_dim(x, new, i, axis))(
                x, new, 2
            )
            np.testing.assert_array_equal(got, expected)


def test_derivatives_and_batches():
    def f(x, y, i):
        part = lax.dynamic_slice(x, (i, 1), (2, 2))
        return lax.dynamic_update_slice(x * 2, part * y, (1, i))

    testing.check_grads(lambda x, y: f(x, y, 1), (x, np.ones((2, 2))), order=2)
    starts = np.array([0, 2, -1])
    got = vmap(lambda i: lax.dynamic_slice(x, (i, i), (2, 2)))(starts)
    np.testing.assert_array_equal(got, [lax.dynamic_slice(x, (i, i), (2, 2)) for i in starts])


@pytest.mark.parametrize("dtype", "bBhHiIlL")
@pytest.mark.parametrize("size", [0, 1, 17, 300, 400])
def test_starts_of_all_integer_dtypes_are_moved_inside(dtype, size):
    y = np.arange(400.0)
    limits = np.iinfo(dtype)
    read = jit(lambda y, i: lax.dynamic_slice(y, (i,), (size,)))
    write = jit(lambda y, new, i: lax.dynamic_update_slice(y, new, (i,)))
    starts = [limits.min, limits.max, 0, 1, 99, 100] + [-1, -100] * (limits.min < 0)
    for i in np.array(starts, dtype):
        begin = start_of(int(i), 400, size)
        expected = y.copy()
        expected[begin : begin + size] = -1.0
        np.testing.assert_array_equal(read(y, i), y[begin : begin + size])
        np.testing.assert_array_equal(write(y, np.full(size, -1.0), i), expected)
    batched = vmap(lambda i: lax.dynamic_slice(y, (i,), (size,)))(np.array(starts, dtype))
    begins = [start_of(int(i), 400, size) for i in np.array(starts, dtype)]
    np.testing.assert_array_equal(batched, [y[i : i + size] for i in begins])


def test_slices_are_contiguous_and_checked_at_most_once():
    y, z = np.arange(1000.0), np.arange(600.0).reshape(30, 20)

    def both_axes(z, i):
        return lax.dynamic_update_slice(z, lax.dynamic_slice(z, (i, i), (5, 7)), (0, i))

    for function, arguments in [
        (lambda y, i: lax.dynamic_slice(y, (i,), (500,)), (y, 3)),
        (lambda y, i: lax.dynamic_update_slice(y, y[:300], (i,)), (y, 3)),
        (both_axes, (z, 3)),
        (grad(lambda y, i: np.sum(lax.dynamic_slice(y, (i,), (500,)) ** 2)), (y, 3)),
        (vmap(lambda y, i: lax.dynamic_slice(y, (i,), (16,))), (z, np.arange(30))),
    ]:
        assert "checked" not in jit(function).lower(*arguments).stages()
    window = jit(lambda y, i: y[i : i + 500]).lower(y, 3).stages()
    assert "in0[(v1 + i)]" in window


def test_a_known_slice_is_a_copy():
    part = lax.dynamic_slice(x, (1, 2), (2, 2))
    part[:] = 0
    assert x[1, 2] != 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(errors.ShapeError, match=r"has 2 start_indices and as many axes, not 1 and"):
        lax.dynamic_slice(x, (0,), (1, 1))
    with pytest.raises(errors.ShapeError, match="slice_sizes has 6 along axis 1, and the array 5"):
        lax.dynamic_slice(x, (0, 0), (1, 6))
    with pytest.raises(errors.ShapeError, match="the shape of update has 6 along axis 1"):
        lax.dynamic_update_slice(x, np.zeros((1, 6)), (0, 0))
    words = r"must hold an integer for each axis, as \(0, 2\) does, and is"
    with pytest.raises(errors.ShapeError, match=f"^start_indices {words} 0"):
        lax.dynamic_slice(x, 0, (1, 1))
    with pytest.raises(errors.ShapeError, match=f"^slice_sizes {words} 2"):
        lax.dynamic_slice(x, (0, 0), 2)
    with pytest.raises(errors.DtypeError, match=r"^a start index is an integer, not 1\.5"):
        lax.dynamic_slice_in_dim(x, 1.5, 1)
    for start in (True, np.array(True)):
        with pytest.raises(
            errors.DtypeError, match=r"^(a start index is an integer|start indices)"
        ):
            jit(lambda x, i: lax.dynamic_slice(x, (i,), (2,))).lower(np.arange(5.0), start)


SEGMENTS = {
    lax.segment_sum: (np.add, 0),
    lax.segment_prod: (np.multiply, 1),
    lax.segment_max: (np.maximum, None),
    lax.segment_min: (np.minimum, None),
}


@pytest.mark.parametrize("function", SEGMENTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8])
@pytest.mark.parametrize("shape", [(7,), (7, 2), (0,), (300, 3)])
def test_segments_are_reduced_like_a_loop_does(function, dtype, shape):
    rng = np.random.default_rng(3)
    data = rng.integers(-3, 4, shape).astype(dtype)
    ids = rng.integers(-1, 6, shape[0])
    operation, neutral = SEGMENTS[function]
    if neutral is None:
        info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
        neutral = info.min if function is lax.segment_max else info.max
        neutral = np.copysign(np.inf, neutral) if np.dtype(dtype).kind == "f" else neutral
    expected = np.full((5, *shape[1:]), neutral, dtype)
    for row, i in zip(data, ids, strict=True):
        if 0 <= i < 5:
            expected[i] = operation(expected[i], row)
    for wrap in (lambda f: f, jit):
        got = wrap(lambda data, ids: function(data, ids, 5))(data, ids)
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def test_segments_derivatives_and_number():
    ids = np.array([0, 2, 0])
    assert lax.segment_sum(np.ones(3), ids).shape == (3,)
    assert lax.segment_sum(np.ones(0), ids[:0]).shape == (0,)
    slopes = grad(lambda x: np.sum(lax.segment_sum(x, ids) ** 2))(np.array([1.0, 2, 3]))
    np.testing.assert_array_equal(slopes, [8, 4, 8])
    with pytest.raises(errors.ShapeError, match="say it by num_segments"):
        jit(lax.segment_sum)(np.ones(3), ids)
    with pytest.raises(errors.ShapeError, match="one number for each row of data"):
        lax.segment_sum(np.ones(3), ids[:2], 3)

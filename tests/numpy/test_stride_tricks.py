"""Sliding windows and strides on traced values: NumPy's values, views, derivatives, code."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import functrans.numpy as fnp
from functrans import grad, jit, vmap
from functrans.errors import MutationError, ShapeError, UnsupportedNumPyError
from functrans.testing import check_grads

rng = np.random.default_rng(0)

SLIDING = [
    ((5,), 3, None), ((5,), (5,), None), ((1,), 1, 0), ((4, 6), (2, 3), None), ((4, 6), 3, 1),
    ((4, 6), (2, 2), (1, 0)), ((7, 2), (2, 3), (0, 0)), ((2, 300), 17, -1), ((3, 4), (1, 4), None),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "window", "axis"), SLIDING)
def test_sliding_windows(shape, window, axis):
    x = rng.normal(size=shape)
    expected = sliding_window_view(x, window, axis)
    weights = rng.normal(size=expected.shape)

    def apply(x):
        return np.lib.stride_tricks.sliding_window_view(x, window, axis)

    np.testing.assert_array_equal(jit(apply)(x), expected)
    xs = rng.normal(size=(3, *shape))
    np.testing.assert_array_equal(vmap(apply)(xs), [apply(one) for one in xs])
    loss = lambda x: np.sum(weights * apply(x) ** 2)  # noqa: E731
    check_grads(loss, (x,), order=1, max_elements=5)
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=1e-12)


STRIDED = [
    ((6,), (4, 3), (8, 8)), ((6,), (3,), (16,)), ((4, 3), (2, 3, 2), (24, 8, 24)),
    ((4, 3), (12,), (8,)), ((5,), (3, 5), (0, 8)), ((5,), (2, 0), (8, 8)),
    ((6,), (2, 1, 3), (24, 8, 8)),
    ((40,), (8, 2, 9), (16, 40, 16)), ((3,), (), ()), ((300,), (17, 20), (128, 16)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "sizes", "strides"), STRIDED)
def test_strides(shape, sizes, strides):
    x = rng.normal(size=shape)
    expected = as_strided(x, sizes, strides)
    weights = rng.normal(size=expected.shape)

    def apply(x):
        return as_strided(x, sizes, strides)

    np.testing.assert_array_equal(jit(apply)(x), expected)
    np.testing.assert_array_equal(
        jit(fnp.as_strided, static_argnums=(1, 2))(x, sizes, strides), expected
    )
    np.testing.assert_array_equal(apply(x), expected)
    loss = lambda x: np.sum(weights * apply(x) ** 2)  # noqa: E731
    if expected.size:
        check_grads(loss, (x,), order=1, max_elements=5)
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=1e-12)


def test_strides_of_a_traced_value_are_those_of_a_c_contiguous_one():
    x = rng.normal(size=(3, 5, 2)).astype(np.float32)
    seen = set()  # (where there are threads, what changes its own state is traced twice)
    jit(lambda x: seen.add((x.strides, x.T.strides)) or x)(x)
    assert seen == {(x.strides, x.T.copy().strides)}


def test_windows_follow_what_is_assigned_to_the_array_and_cannot_be_assigned_to():
    def through(x):
        y = x.copy()
        windows = sliding_window_view(y, 2)
        y[1] *= 10.0
        return np.sum(windows)

    np.testing.assert_array_equal(grad(through)(np.ones(4)), [1, 20, 2, 1])
    for make in (lambda y: sliding_window_view(y, 1), lambda y: fnp.as_strided(y, (2,), (8,))):

        def assign(x, make=make):
            windows = make(x.copy())
            windows[0] = 1.0
            return np.sum(windows)

        with pytest.raises(MutationError, match="whose result NumPy does not let be written to"):
            grad(assign)(np.ones(4))


def test_what_is_refused():
    x = np.ones(4)
    with pytest.raises(UnsupportedNumPyError, match="an element stands in several windows"):
        jit(lambda x: sliding_window_view(x, 2, writeable=True))(x)
    with pytest.raises(ValueError, match="window shape cannot be larger than input array shape"):
        jit(lambda x: sliding_window_view(x, 5))(x)
    with pytest.raises(ValueError, match="Must provide matching length window_shape and axis"):
        jit(lambda x: sliding_window_view(x, (2, 2), 0))(x)
    for strides in ((16,), (-8,), (4,)):
        with pytest.raises(ShapeError, match=r"as_strided with shape \(3,\) and strides"):
            jit(lambda x, strides=strides: fnp.as_strided(x, (3,), strides))(x)

"""Padding with elements of the array: by slices if there are few of them."""

import itertools

import numpy as np
import pytest

from functrans import grad, jit, trace, vmap


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 17, 300])
def test_margins_and_their_gradients(mode, n):
    x, width = np.arange(2.0 * n).reshape(2, n) ** 2, ((0, 3), (20, 1))
    padded = np.pad(x, width, mode=mode)
    np.testing.assert_array_equal(jit(lambda x: np.pad(x, width, mode=mode))(x), padded)
    weights = np.arange(float(padded.size)).reshape(padded.shape)
    found = jit(grad(lambda x: np.sum(np.pad(x, width, mode=mode) * weights)))(x)
    # each element's share is the sum of the weights of where it went
    places = np.pad(np.arange(x.size).reshape(x.shape), width, mode=mode)
    expected = np.bincount(places.ravel(), weights.ravel(), x.size).reshape(x.shape)
    np.testing.assert_allclose(found, expected)


def test_narrow_margins_are_no_gathers():
    for mode in ("edge", "wrap", "reflect", "symmetric"):
        graph = trace(lambda x, mode=mode: np.pad(x, 5, mode=mode))(np.zeros(1000))
        assert "gather" not in str(graph)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("kind", ["even", "odd"])
def test_wider_than_the_array_at_both_ends(mode, kind):
    for size in range(1, 5):
        x = np.arange(size) ** 2 + 1
        for widths in itertools.product((0, 1, 4, 11), repeat=2):
            expected = np.pad(x, widths, mode, reflect_type=kind)
            found = vmap(lambda y, widths=widths: np.pad(y, widths, mode, reflect_type=kind))
            np.testing.assert_array_equal(found(x[None])[0], expected)


@pytest.mark.parametrize("value", [-0.0, np.float32(-0.0), complex(-0.0, 0.0)])
def test_a_negative_zero_keeps_its_sign(value):
    x = np.ones(2, np.result_type(value))
    expected = np.pad(x, 1, constant_values=value)
    found = jit(lambda y: np.pad(y, 1, constant_values=value))(x)
    np.testing.assert_array_equal(np.signbit(found.real), np.signbit(expected.real))


@pytest.mark.parametrize("mode", ["maximum", "minimum", "mean", "median"])
def test_extremes_of_wide_integers_are_exact(mode):
    x = np.array([[2**63 - 1, 2**53 + 1], [2, -3]])
    if mode in ("mean", "median"):
        x = x % 1000  # NumPy's are rounded in float64, too
    np.testing.assert_array_equal(jit(lambda x: np.pad(x, 1, mode))(x), np.pad(x, 1, mode))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirrored_truths(mode):
    x = np.array([[True, False, True], [False, True, True]])
    found = jit(lambda x: np.pad(x, 4, mode, reflect_type="odd"))(x)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, np.pad(x, 4, mode, reflect_type="odd"))

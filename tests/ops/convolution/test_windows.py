"""Windows and their transpose against their definition, for all small parameters."""

import itertools

import numpy as np
import pytest

from functrans import grad, jit
from functrans.ops.convolution.windows import (
    Window,
    from_elements,
    from_taps,
    overlap_add,
    windows_of,
)

COEFFICIENTS = [
    Window(places, taps, stride, dilation, offset, base)
    for places, taps in ((3, 2), (2, 4), (1, 1))
    for stride, dilation in itertools.product((1, 2, -1, -3), (1, 3, -2))
    for offset in (0, -2, 3)
    for base in (1, 2)
]


def related(window, extent):
    """All triples of a position, a tap and an element that belong together."""
    return {
        (p, k, i)
        for p, k, i in itertools.product(range(window.places), range(window.taps), range(extent))
        if window.base * i == window.stride * p + window.dilation * k + window.offset
    }


def by_relation(x, window):
    out = np.zeros((window.places, window.taps))
    for p, k, i in related(window, len(x)):
        out[p, k] = x[i]
    return out


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_windows_are_what_the_relation_says(extent):
    x = np.arange(1.0, extent + 1)
    for window in COEFFICIENTS:
        found = windows_of(x, axes=(0,), windows=(window,))
        np.testing.assert_array_equal(found, by_relation(x, window), err_msg=str(window))


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_overlap_add_is_the_transpose(extent):
    rng = np.random.default_rng(0)
    for window in COEFFICIENTS:
        y = rng.normal(size=(window.places, window.taps))
        found = overlap_add(y, axes=(0,), windows=(window,), shape=(extent,))
        expected = np.zeros(extent)
        for p, k, i in related(window, extent):
            expected[i] += y[p, k]
        np.testing.assert_allclose(found, expected, atol=1e-14, err_msg=str(window))


def test_the_compiled_forms():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5)
    some = COEFFICIENTS[::5]
    ys = [rng.normal(size=(window.places, window.taps)) for window in some]

    def both(x, ys):
        seen = [windows_of(x, axes=(0,), windows=(w,)) for w in some]
        added = [overlap_add(y, axes=(0,), windows=(w,), shape=(5,))
                 for y, w in zip(ys, some, strict=True)]  # fmt: skip
        return seen, added

    for found, expected in zip(jit(both)(x, ys), both(x, ys), strict=True):
        for one, other, window in zip(found, expected, some, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-14, err_msg=str(window))


def test_the_relation_from_the_other_sides():
    for window in COEFFICIENTS:
        triples = related(window, 5)
        assert {(k, p, i) for p, k, i in triples} == related(from_taps(window), 5)
        assert {(i, k, p) for p, k, i in triples} == related(
            from_elements(window, 5), window.places
        )
        assert from_elements(window, 5).base > 0


def test_windows_side_by_side_are_a_reshape():
    shown = str(jit(lambda x: windows_of(x, axes=(1,), windows=(Window(3, 2, 2),))).lower(
        np.zeros((2, 6))).graph())  # fmt: skip
    assert "windows" not in shown and "reshape" in shown


def test_the_derivative_of_windows_counts_how_often_an_element_is_seen():
    window = Window(4, 3)
    found = grad(lambda x: windows_of(x, axes=(0,), windows=(window,)).sum())(np.zeros(6))
    np.testing.assert_array_equal(found, [1, 2, 3, 3, 2, 1])

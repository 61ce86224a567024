"""Register-tiled convolutions for all orders of axes: vectorised axes, and their ends."""

import numpy as np
import pytest

from functrans import grad, jit, lax, trace
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.target import CPU
from functrans.ops.convolution.compiled.direct import taps_inside
from functrans.ops.convolution.compiled.tiles import share_inside, tiles
from functrans.ops.convolution.windows import Window

rng = np.random.default_rng(0)

LAST = ("NHWC", "HWIO", "NHWC")


def planned(x, k, strides=1, order=None):
    """How a convolution of images and a kernel is done."""

    def apply(x, k):
        both = (strides,) * (x.ndim - 2)
        return lax.conv_general_dilated(x, k, both, "SAME", dimension_numbers=order)

    (eqn,) = (eqn for eqn in trace(apply)(x, k).eqns if eqn.primitive.name == "convolution")
    return tiles(eqn, CPU)


def agrees(apply, x, k, tolerance=1e-9):
    """Hold compiled results and derivatives against NumPy's, in double precision."""
    given = rng.normal(size=apply(x, k).shape).astype(x.dtype)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * given), argnums=(0, 1))
    for one in (lambda x, k: [apply(x, k)], pulled):
        wanted = one(x.astype(float), k.astype(float))
        for found, expected in zip(jit(one)(x, k), wanted, strict=True):
            scale = 1 + np.max(np.abs(expected))
            np.testing.assert_allclose(found, expected, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("channels", "features", "side", "strides", "along_features"),
    [
        (64, 64, 56, 1, True),  # channels lie far apart
        (8, 32, 14, 1, True),  # lines fill no pair of vectors
        (8, 32, 56, 2, True),
        (3, 64, 56, 2, False),  # few channels
        (8, 32, 64, 1, False),  # lines fill vectors
        (64, 40, 64, 1, False),  # features do not
        (256, 8, 14, 1, False),
    ],
)
def test_what_vectors_go_along(channels, features, side, strides, along_features):
    x = np.ones((2, channels, side, side), np.float32)
    k = np.ones((features, channels, 3, 3), np.float32)
    assert planned(x, k, strides).along_features == along_features


def test_few_features_have_vectors_of_places_in_any_order():
    x = np.ones((2, 32, 32, 16), np.float32)
    for features, along_features in ((3, False), (16, True), (64, True)):
        k = np.ones((3, 3, 16, features), np.float32)
        assert planned(x, k, order=LAST).along_features == along_features


@pytest.mark.few(4)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize(
    ("channels", "features", "size", "taps", "strides", "padding", "dilation", "groups"),
    [
        (16, 32, (14, 14), (3, 3), (1, 1), "SAME", (1, 1), 1),
        (64, 64, (9, 31), (3, 3), (1, 1), "SAME", (1, 1), 1),
        (7, 33, (13, 9), (3, 2), (1, 1), [(2, 0), (0, 1)], (1, 1), 1),
        (8, 40, (15, 14), (3, 3), (2, 2), "SAME", (1, 1), 1),
        (8, 40, (21, 15), (3, 3), (2, 3), [(4, 4), (5, 1)], (2, 3), 1),
        (64, 35, (17,), (9,), (1,), "SAME", (1,), 1),
        (12, 34, (120,), (4,), (2,), [(1, 2)], (1,), 1),
        (6, 32, (5, 9, 7), (2, 3, 3), (1, 1, 1), "SAME", (1, 1, 1), 1),
        (64, 128, (7, 7), (3, 3), (1, 1), "SAME", (1, 1), 4),
        (130, 48, (7, 7), (1, 1), (1, 1), "SAME", (1, 1), 1),
    ],
)
def test_channels_copied_side_by_side(
    channels, features, size, taps, strides, padding, dilation, groups, dtype, tolerance
):
    x = rng.normal(size=(2, channels, *size)).astype(dtype)
    k = rng.normal(size=(features, channels // groups, *taps)).astype(dtype)

    def apply(x, k):
        return lax.conv_general_dilated(
            x, k, strides, padding, None, dilation, feature_group_count=groups
        )

    agrees(apply, x, k, tolerance)


@pytest.mark.dear
@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("channels", "features", "size", "taps", "strides"),
    [
        (1, 6, (28, 28), (5, 5), (1, 1)),
        (32, 3, (17, 40), (3, 3), (1, 1)),
        (9, 1, (12, 12), (5, 5), (1, 1)),
        (8, 5, (41, 37), (3, 3), (2, 2)),
        (3, 2, (300,), (7,), (1,)),
    ],
)
def test_few_features_as_the_last_axis(channels, features, size, taps, strides):
    """What a block sees is copied with its places side by side, and results have gaps."""
    order = LAST if len(size) == 2 else ("NWC", "WIO", "NWC")
    x = rng.normal(size=(3, *size, channels))
    k = rng.normal(size=(*taps, channels, features))
    agrees(
        lambda x, k: lax.conv_general_dilated(x, k, strides, "SAME", dimension_numbers=order), x, k
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("width", [16, 17, 20, 24, 25, 33, 40, 63])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_last_vector_of_a_line(width, dtype):
    """It is as short as what is left, or overlaps the one before."""
    x = rng.normal(size=(2, 2, 20, width)).astype(dtype)
    k = rng.normal(size=(6, 2, 5, 5)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    agrees(lambda x, k: lax.conv(x, k, (1, 1), [(0, 0), (2, 2)]), x, k, tolerance)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [-3, -1, 1, 2])
@pytest.mark.parametrize("offset", [-6, -1, 0, 4])
def test_taps_beside_an_image_are_left_out(stride, dilation, offset):
    window, extent = Window(7, 5, stride, dilation, offset), 8
    seen = [
        [0 <= stride * p + dilation * k + offset < extent for k in range(window.taps)]
        for p in range(window.places)
    ]
    assert share_inside(window, extent) == pytest.approx(np.mean(seen))
    simplify = Simplifier()
    for first in range(window.places):
        for last in range(first, window.places):
            places = const(first, INDEX), const(last, INDEX)
            bounds = (simplify(each) for each in taps_inside(window, extent, *places))
            start, stop = (int(each.attribute) for each in bounds)
            needed = [*np.flatnonzero(np.any(seen[first : last + 1], axis=0))]
            assert set(needed) <= set(range(start, stop))
            if first == last:
                assert needed == [*range(start, stop)]


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("channels", "features", "size", "padding"),
    [(16, 6, (8, 8), 4), (4, 32, (3, 3), 6), (8, 8, (2, 20), 9), (3, 20, (7, 7), 2)],
)
def test_more_margin_than_image(channels, features, size, padding):
    x = rng.normal(size=(3, channels, *size))
    k = rng.normal(size=(features, channels, 5, 3))
    pairs = [(padding, padding + 1), (padding - 1, padding)]
    agrees(lambda x, k: lax.conv(x, k, (1, 1), pairs), x, k)

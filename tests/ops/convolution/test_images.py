"""Vectors along images, if lines are short or have margins: no tap in the padding is multiplied."""

import numpy as np
import pytest

from functrans import config, grad, jit, lax, trace, vmap
from functrans.loop.target import CPU
from functrans.ops.convolution.compiled.tiles import tiles

rng = np.random.default_rng(0)

LAST = ("NHWC", "HWIO", "NHWC")


def forms(function, *arguments):
    """How the convolutions of a function are done by tiles, where they are."""
    eqns = [eqn for eqn in trace(function)(*arguments).eqns if eqn.primitive.name == "convolution"]
    return [found for eqn in eqns if (found := tiles(eqn, CPU)) is not None]


def agrees(apply, x, k, tolerance=1e-9):
    """Hold compiled results and derivatives against NumPy's; some have vectors along images."""
    given = rng.normal(size=apply(x, k).shape).astype(x.dtype)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * given), argnums=(0, 1))
    ways = (lambda x, k: [apply(x, k)], pulled)
    assert any(form.along_images for way in ways for form in forms(way, x, k))
    for way in ways:
        for found, expected in zip(jit(way)(x, k), way(x, k), strict=True):
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("images", "channels", "features", "side", "taps", "padding", "along_images"),
    [
        (128, 6, 16, 12, 5, 0, True),  # lines of 8 places
        (128, 16, 6, 8, 5, 4, True),  # two thirds of a line's taps are in the image
        (64, 20, 20, 4, 3, 1, True),
        (63, 20, 20, 4, 3, 1, False),  # no whole vectors
        (32, 20, 20, 4, 3, 1, False),  # too few blocks for threads
        (128, 1, 6, 28, 5, 0, False),  # short sums: transposing results takes longer
        (64, 64, 64, 28, 3, 1, False),  # full vectors of features
        (64, 256, 64, 8, 7, 3, False),  # images that exceed the cache
    ],
)
def test_where_vectors_go_along_images(
    images, channels, features, side, taps, padding, along_images
):
    x = np.zeros((images, channels, side, side), np.float32)
    k = np.zeros((features, channels, taps, taps), np.float32)
    pairs = [(padding, padding)] * 2
    (found,) = forms(lambda x, k: lax.conv(x, k, (1, 1), pairs), x, k)
    assert found.along_images is along_images


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("channels", "features", "size", "taps", "strides", "padding", "dilation"),
    [
        (8, 12, (6, 5), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
        (5, 17, (3, 7), (5, 3), (1, 2), [(4, 4), (3, 0)], (1, 1)),
        (9, 12, (9, 9), (3, 2), (2, 1), [(0, 3), (-1, 2)], (2, 3)),
        (12, 8, (2, 2), (3, 3), (1, 1), [(3, 3), (2, 4)], (1, 1)),  # places that see nothing
        (16, 33, (5,), (5,), (1,), [(2, 2)], (1,)),
        (4, 9, (4, 3, 3), (3, 3, 3), (1, 1, 1), [(1, 1)] * 3, (1, 1, 1)),
    ],
)
def test_vectors_of_images(dtype, channels, features, size, taps, strides, padding, dilation):
    x = rng.normal(size=(64, channels, *size)).astype(dtype)
    k = rng.normal(size=(features, channels, *taps)).astype(dtype)

    def apply(x, k):
        return lax.conv_general_dilated(x, k, strides, padding, rhs_dilation=dilation)

    agrees(apply, x, k, 1e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("groups", [1, 2])
def test_channels_last(groups):
    x = rng.normal(size=(64, 4, 4, 12))
    k = rng.normal(size=(3, 3, 12 // groups, 20))

    def apply(x, k):
        options = {"dimension_numbers": LAST, "feature_group_count": groups}
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", **options)

    agrees(apply, x, k)


@pytest.mark.parametrize("order", [("CHWN", "OIHW", "NCHW"), ("NCHW", "HWIO", "NHWC")])
def test_orders_of_axes(order):
    x = rng.normal(size=[{"N": 64, "C": 12, "H": 4, "W": 4}[axis] for axis in order[0]])
    k = rng.normal(size=[{"O": 20, "I": 12, "H": 3, "W": 3}[axis] for axis in order[1]])

    def apply(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=order)

    agrees(apply, x, k)


def test_images_of_a_batch():
    x, k = rng.normal(size=(2, 64, 12, 4, 4)), rng.normal(size=(2, 20, 12, 3, 3))
    agrees(vmap(lambda x, k: lax.conv(x, k, (1, 1), "SAME")), x, k)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_is_seen(bad):
    x, k = rng.normal(size=(64, 12, 4, 4)), rng.normal(size=(20, 12, 3, 3))
    x[5, 3, 1, 2] = k[2, 1, 0, 0] = bad
    for apply in (lambda x: lax.conv(x, k, (1, 1), "SAME"), lambda x: grad(_loss)(x, k)):
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(jit(apply)(x), apply(x), rtol=1e-9, atol=1e-9)


def _loss(x, k):
    return np.sum(lax.conv(x, k, (1, 1), "SAME") * 0.5)


def test_bits_do_not_depend_on_threads(monkeypatch):
    x, k = (rng.normal(size=s).astype(np.float32) for s in ((128, 12, 4, 4), (20, 12, 3, 3)))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append([jit(_loss)(x, k), *jit(grad(_loss, argnums=(0, 1)))(x, k)])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)

"""Register-tiled convolutions: vectorised axes, and blocks cut at any position."""

from dataclasses import replace

import numpy as np
import pytest

from functrans import config, grad, jit, lax, trace, vmap
from functrans.loop.target import CPU
from functrans.ops.convolution.compiled.accumulation import accumulation, parts_of
from functrans.ops.convolution.compiled.limits import Convolutions
from functrans.ops.convolution.compiled.tiles import most_sums, pitch_of, tiles
from functrans.ops.convolution.windows import Window
from functrans.scipy import signal
from tests.ops.convolution.by_loops import padded

rng = np.random.default_rng(0)


def planned(way, x, k, padding="SAME", wrt=None):
    """How the convolution in a function of images and a kernel is done, if it is done that way."""

    def apply(x, k):
        return lax.conv(x, k, (1,) * (x.ndim - 2), padding)

    given = rng.normal(size=apply(x, k).shape)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * given), argnums=wrt or 0)
    graph = trace(apply if wrt is None else pulled)(x, k)
    found = [way(eqn, CPU) for eqn in graph.eqns if eqn.primitive.name == "convolution"]
    return found[-1]


def by_taps(x, k, strides, padding, dilation):
    """The sum of what each tap sees, of a padded copy."""
    x = padded(x, range(2, x.ndim), padding)
    places = [
        (n - (m - 1) * d - 1) // s + 1
        for n, m, d, s in zip(x.shape[2:], k.shape[2:], dilation, strides, strict=True)
    ]
    total = 0.0
    for taps in np.ndindex(k.shape[2:]):
        starts = [tap * d for tap, d in zip(taps, dilation, strict=True)]
        seen = [
            slice(i, i + (n - 1) * s + 1, s)
            for i, n, s in zip(starts, places, strides, strict=True)
        ]
        total = total + np.einsum("nc...,oc->no...", x[:, :, *seen], k[:, :, *taps])
    return total


def agrees(apply, x, k):
    """Hold compiled results and derivatives against NumPy's."""
    given = rng.normal(size=apply(x, k).shape)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * given), argnums=(0, 1))
    for one in (lambda x, k: [apply(x, k)], pulled):
        for found, expected in zip(jit(one)(x, k), one(x, k), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_margin_behind_a_line_is_the_one_before_the_next():
    assert pitch_of(Window(56, 3, offset=-1), 56) == 57
    assert pitch_of(Window(54, 3), 56) == 56
    assert pitch_of(Window(58, 3, offset=-2), 56) == 58
    assert pitch_of(Window(57, 3, offset=-2), 56) == 58
    assert pitch_of(Window(56, 3, dilation=-1, offset=1), 56) == 57
    assert pitch_of(Window(20, 3, offset=4), 56) == 22


def test_lines_that_leave_vectors_empty_are_gone_through_as_one():
    kernel = np.ones((16, 16, 3, 3), np.float32)
    for side, pitch in ((56, 57), (14, 15), (7, 8), (64, 0)):
        images = np.ones((4, 16, side, side), np.float32)
        found = planned(tiles, images, kernel)
        assert (found.pitch, found.lanes) == (pitch, 32)


@pytest.mark.dear
@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("size", "taps", "padding", "dilation"),
    [
        ((7, 7), (3, 3), "SAME", (1, 1)),
        ((13, 9), (3, 2), [(2, 0), (0, 1)], (1, 1)),
        ((13, 9), (2, 5), [(-1, 3), (3, 1)], (1, 1)),
        ((11, 19), (3, 3), [(2, 2), (4, 3)], (2, 3)),
        ((9, 21), (1, 1), "VALID", (1, 1)),
        ((9, 21), (3, 3), [(-2, -1), (-3, -2)], (1, 1)),
        ((3, 9, 9), (2, 3, 3), "SAME", (1, 1, 1)),
    ],
)
def test_margins_of_joined_lines(size, taps, padding, dilation):
    x, k = rng.normal(size=(2, 8, *size)), rng.normal(size=(9, 8, *taps))
    agrees(
        lambda x, k: lax.conv_general_dilated(x, k, (1,) * len(size), padding, None, dilation),
        x, k,
    )  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize("size", [(57, 33), (19, 41)])
def test_blocks_of_lines_that_are_no_divisor(size):
    """Many channels, of which few lines fit into a cache, and fewer into the last block."""
    x, k = rng.normal(size=(1, 300, *size)), rng.normal(size=(8, 300, 3, 3))
    agrees(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), x, k)


def test_infinite_weights_at_margins_of_joined_lines():
    x, k = rng.normal(size=(1, 8, 9, 9)), rng.normal(size=(8, 8, 3, 3))
    k[0, 0, 0, 0], k[3, 1, 2, 1], k[5, 0, 1, 0] = np.inf, np.nan, -np.inf
    x[0, 2, 0, 0], x[0, 3, 4, 8] = np.inf, np.nan
    apply = jit(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(apply(x, k), lax.conv(x, k, (1, 1), "SAME"), atol=1e-11)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("size", "taps", "features", "padding"),
    [
        ((28, 28), (5, 5), (1, 6), "VALID"),
        ((40, 37), (3, 5), (3, 16), "SAME"),
        ((400, 37), (3, 3), (2, 5), [(1, 2), (3, 0)]),
        ((300,), (7,), (3, 8), [(1, 2)]),
        ((33, 32), (3, 3), (2, 13), "SAME"),
    ],
)
def test_kernels_of_few_channels(size, taps, features, padding):
    """Vectors go along the places that are summed over."""
    x = rng.normal(size=(3, features[0], *size))
    k = rng.normal(size=(features[1], features[0], *taps))
    assert planned(accumulation, x, k, padding, wrt=1).along_taps
    agrees(lambda x, k: lax.conv(x, k, (1,) * len(size), padding), x, k)


def test_kernels_of_many_channels():
    """Vectors go along the features."""
    x, k = rng.normal(size=(2, 8, 20, 20)), rng.normal(size=(16, 8, 3, 3))
    assert not planned(accumulation, x, k, wrt=1).along_taps


@pytest.mark.dear
def test_several_images_in_a_block():
    """Weights, and sums of their derivatives, beyond the nearest caches are read for two images."""
    x, k = rng.normal(size=(8, 64, 13, 14)), rng.normal(size=(128, 64, 3, 3))
    assert planned(tiles, x, k).images == 2
    assert planned(accumulation, x, k, wrt=1).images == 2
    agrees(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), x, k)


def test_a_number_of_images_without_divisors():
    x, k = rng.normal(size=(11, 64, 13, 14)), rng.normal(size=(128, 64, 3, 3))
    assert planned(tiles, x, k).images == planned(accumulation, x, k, wrt=1).images == 1


def test_sums_have_as_many_parts_as_fit():
    x, k = rng.normal(size=(11, 64, 13, 14)), rng.normal(size=(64, 64, 3, 3))
    found = planned(accumulation, x, k, wrt=1)
    size = 9 * 64 * 64
    for limit, parts in ((8 * size, 8), (7 * size, 4), (3 * size, 2)):
        assert parts_of(found, CPU[Convolutions]._replace(largest_parts=limit)) == parts


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("images", [2, 3, 5])
@pytest.mark.parametrize("features", [(70, 100), (61, 129), (65, 64)])
def test_sums_that_are_larger_than_their_operands(images, features):
    """Both are copied as a whole, and threads share the sums."""
    x, k = rng.normal(size=(images, features[1], 7, 6)), rng.normal(size=(*features, 3, 3))
    assert planned(accumulation, x, k, wrt=1).is_whole
    agrees(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), x, k)
    agrees(lambda x, k: lax.conv(x, k, (2, 2), [(1, 2), (0, 3)]), x, k)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(8, 64, 13, 14), (3, 70, 7, 6)])
def test_bits_do_not_depend_on_threads(size, monkeypatch):
    x, k = (rng.normal(size=s).astype(np.float32) for s in (size, (96, size[1], 3, 3)))
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(config, "threads", threads)
        loss = jit(lambda x, k: np.sum(np.tanh(lax.conv(x, k, (1, 1), "SAME"))))
        found.append([loss(x, k), *jit(grad(loss, argnums=(0, 1)))(x, k)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.dear
@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("size", "taps", "strides", "padding", "dilation"),
    [
        ((17, 21), (3, 3), (2, 2), [(1, 1), (1, 1)], (1, 1)),
        ((33, 40), (7, 7), (2, 2), [(3, 3), (3, 3)], (1, 1)),
        ((40, 37), (5, 2), (3, 2), [(0, 4), (2, 1)], (1, 1)),
        ((40, 37), (3, 3), (2, 3), [(4, 4), (5, 1)], (2, 3)),
        ((30, 41), (1, 3), (2, 2), [(0, 0), (0, 0)], (1, 1)),
        ((30, 41), (3, 3), (1, 4), [(-3, -1), (-2, -5)], (1, 1)),
        ((30, 41), (3, 2), (4, 3), [(45, 2), (1, 50)], (1, 1)),
        ((300,), (9,), (2,), [(3, 4)], (1,)),
        ((9, 11, 13), (3, 2, 3), (2, 1, 2), [(1, 1), (0, 1), (1, 1)], (1, 1, 1)),
    ],
)
def test_strides_in_phases(size, taps, strides, padding, dilation, dtype):
    """Vectors of places go along the elements that windows step over, each kind copied apart."""
    x = rng.normal(size=(3, 8, *size)).astype(dtype)
    k = rng.normal(size=(13, 8, *taps)).astype(dtype)

    def apply(x, k):
        return lax.conv_general_dilated(x, k, strides, padding, None, dilation)

    graph = trace(apply)(x, k)
    (eqn,) = (eqn for eqn in graph.eqns if eqn.primitive.name == "convolution")
    assert not tiles(eqn, CPU).along_features
    tolerance = 1e-10 if dtype == np.float64 else 1e-3
    expected = by_taps(x.astype(float), k.astype(float), strides, padding, dilation)
    np.testing.assert_allclose(jit(apply)(x, k), expected, atol=tolerance)
    # the transpose, in any direction, of what each tap sees
    given, v, u = (
        rng.normal(size=expected.shape),
        rng.normal(size=x.shape),
        rng.normal(size=k.shape),
    )
    found = jit(grad(lambda x, k: np.sum(apply(x, k) * given.astype(dtype)), argnums=(0, 1)))(x, k)
    wanted = by_taps(v, k, strides, padding, dilation), by_taps(x, u, strides, padding, dilation)
    for one, direction, seen in zip(found, (v, u), wanted, strict=True):
        np.testing.assert_allclose(
            np.sum(one * direction), np.sum(seen * given), rtol=1e-4, atol=30 * tolerance
        )


@pytest.mark.dear
@pytest.mark.parametrize("shape", [(3, 8, 11, 9), (2, 128, 20, 20)])
def test_groups_are_found_without_divisions(shape):
    """A channel that is a group, and one of it, has the same place: inside and outside."""
    x, k = rng.normal(size=shape), rng.normal(size=(shape[1], 1, 3, 3))

    def loss(x, k):
        groups = shape[1]
        out = lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=groups)
        return np.sum(out * out)

    pulled = jit(grad(loss, argnums=(0, 1)))
    kernels = pulled.lower(x, k).stages().split("== kernel construction")[1]
    assert "//" not in kernels
    assert "%" not in kernels
    for one, other in zip(pulled(x, k), grad(loss, argnums=(0, 1))(x, k), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@pytest.mark.dear
@pytest.mark.parametrize("size", [(300, 1), (300, 3), (2600, 1)])
@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (2, 1)])
def test_a_single_image_with_zeros_before_it(size, strides):
    """What is copied as a whole is copied from behind its margin on, which is cleared by itself."""
    x, k = rng.normal(size=(1, 2, *size)), rng.normal(size=(5, 2, 8, 1))
    agrees(lambda x, k: lax.conv(x, k, strides, [(4, 4), (0, 0)]), x, k)


@pytest.mark.dear
@pytest.mark.parametrize(
    ("images", "channels", "features", "groups", "size", "taps"),
    [
        (1, 1, 1, 1, (40, 33), (5, 5)),
        (2, 2, 2, 1, (33, 41), (3, 3)),
        (3, 1, 2, 1, (2600,), (17,)),
        (1, 17, 17, 17, (17, 20), (5, 4)),
        (2, 4, 8, 4, (20, 17), (7, 7)),
        (1, 5, 1, 1, (300, 17), (5, 1)),
    ],
)
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", [(3, 0), (0, 5)]])
def test_few_features_and_many_terms(images, channels, features, groups, size, taps, strides,
                                     padding):  # fmt: skip
    """Filters of images, and channels each by itself, against sums of what each tap sees."""
    x = rng.normal(size=(images, channels, *size))
    k = rng.normal(size=(features, channels // groups, *taps))
    strides = (strides,) * len(size)
    padding = padding if isinstance(padding, str) else padding[: len(size)]

    def apply(x, k):
        return lax.conv_general_dilated(x, k, strides, padding, feature_group_count=groups)

    (eqn,) = (eqn for eqn in trace(apply)(x, k).eqns if eqn.primitive.name == "convolution")
    assert tiles(eqn, CPU) is not None
    before_and_behind = padding
    if padding == "SAME":
        totals = [max((-(-n // s) - 1) * s + m - n, 0) for n, m, s in
                  zip(size, taps, strides, strict=True)]  # fmt: skip
        before_and_behind = [(total // 2, total - total // 2) for total in totals]
    each, made = channels // groups, features // groups
    expected = np.concatenate(
        [
            by_taps(
                x[:, each * g : each * (g + 1)], k[made * g : made * (g + 1)],
                strides, before_and_behind, (1,) * len(size),
            )
            for g in range(groups)
        ],
        axis=1,
    )  # fmt: skip
    np.testing.assert_allclose(jit(apply)(x, k), expected, atol=1e-10)
    agrees(apply, x, k)


@pytest.mark.parametrize(("size", "taps"), [(300, 17), (17, 300), (2600, 40)])
def test_sequences_without_features(size, taps):
    x, k = rng.normal(size=size), rng.normal(size=taps)
    np.testing.assert_allclose(jit(np.convolve)(x, k), np.convolve(x, k), atol=1e-10)
    agrees(np.convolve, x, k)


@pytest.mark.dear
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(5000, 200), (2600, 17), (17, 300), (300, 1)])
def test_a_filter_is_one_feature(sizes, mode):
    x, k = map(rng.normal, (0, 0), (1, 1), sizes)

    def apply(x, k):
        return np.convolve(x, k, mode)

    np.testing.assert_allclose(jit(apply)(x, k), apply(x, k), atol=1e-10)
    agrees(apply, x, k)


@pytest.mark.parametrize(
    ("size", "taps"), [((40, 37), (5, 3)), ((300, 20), (2, 17)), ((9, 60), (9, 20))]
)
def test_a_filter_of_images(size, taps):
    x, k = rng.normal(size=size), rng.normal(size=taps)
    agrees(lambda x, k: signal.convolve2d(x, k, "same"), x, k)
    agrees(lambda x, k: signal.correlate2d(x, k, "valid"), x, k)


@pytest.mark.dear
@pytest.mark.parametrize("batch", [(0, None), (None, 0), (0, 0)])
def test_filters_of_sequences_in_a_batch(batch):
    x, k = (
        rng.normal(size=(7, 2600)[batch[0] is None :]),
        rng.normal(size=(7, 33)[batch[1] is None :]),
    )
    agrees(vmap(np.convolve, in_axes=batch), x, k)


def test_sums_of_long_sequences_are_shared():
    x, k = np.ones((1, 1, 50_000)), np.ones((1, 1, 40))
    found = planned(accumulation, x, k, wrt=1)
    assert found.along_taps and found.width == 10 and parts_of(found, CPU[Convolutions]) > 1


def test_infinite_weights_of_a_filter_at_margins():
    x, k = rng.normal(size=3000), rng.normal(size=33)
    k[0], k[32] = np.inf, np.nan
    (convolution,) = trace(np.convolve)(x, k).eqns
    assert tiles(convolution, CPU) is not None
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(jit(np.convolve)(x, k), np.convolve(x, k), atol=1e-10)


def test_sums_of_few_features_do_not_wait_for_each_other():
    images = np.ones((4, 1, 128, 128), np.float32)
    for features, registers in ((1, 8), (2, 4), (4, 2), (8, 2)):
        found = planned(tiles, images, np.ones((features, 1, 5, 5), np.float32))
        assert (found.lanes, found.height) == (registers * CPU.lanes(4), features)


def test_infinite_weights_of_few_features_at_margins():
    x, k = rng.normal(size=(1, 1, 20, 23)), rng.normal(size=(1, 1, 5, 5))
    k[0, 0, 0, 0], k[0, 0, 4, 2] = np.inf, -np.inf
    apply = jit(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))
    with np.errstate(invalid="ignore"):
        expected = by_taps(x[:, :, 2:, 2:], k, (1, 1), [(0, 0), (0, 0)], (1, 1))
        np.testing.assert_allclose(apply(x, k)[:, :, 4:-2, 4:-2], expected, atol=1e-10)
        np.testing.assert_allclose(apply(x, k), lax.conv(x, k, (1, 1), "SAME"), atol=1e-10)


@pytest.mark.dear
def test_a_single_image_of_many_channels():
    """Sums that are longer than there are places; but not where weights are used for a few."""
    x, k = rng.normal(size=(1, 128, 10, 9)), rng.normal(size=(12, 128, 3, 3))
    assert planned(tiles, x, k) is not None
    assert planned(tiles, x[..., :4, :4], k) is None
    for size in (10, 4):
        agrees(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), x[..., :size, :size], k)


@pytest.mark.parametrize(("registers", "pairs", "single"), [(32, 12, 12), (16, 6, 12)])
def test_sums_of_a_tile_fit_the_registers(registers, pairs, single):
    machine = replace(CPU, registers=registers)
    lanes = machine.lanes(4)
    assert most_sums(machine, 4, 2 * lanes) == pairs
    assert most_sums(machine, 4, lanes) == single
    assert most_sums(machine, 4, lanes // 2) == single

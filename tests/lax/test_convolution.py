"""Convolutions against Python loops and SciPy; derivatives, batching, compiled forms."""

import itertools
import re

import numpy as np
import pytest
import scipy.signal

import functrans as ft
from functrans import grad, jit, lax, vmap
from functrans.errors import ShapeError
from functrans.testing import check_grads
from tests.ops.convolution import by_loops

rng = np.random.default_rng(0)

SPATIAL = {0: [((), ())], 1: [((5,), (3,)), ((1,), (1,))], 2: [((4, 5), (2, 3)), ((3, 0), (1, 2))],
           3: [((3, 2, 4), (2, 1, 2))]}  # fmt: skip


def draw(seed):
    """Shapes and parameters."""
    of = np.random.default_rng(seed)
    ndim = seed % 4
    sizes, taps = SPATIAL[ndim][seed // 4 % len(SPATIAL[ndim])]
    kind = seed // 4 % 4
    groups = [{}, {"feature_group_count": 2}, {"batch_group_count": 2}, {}][kind]
    some = iter(of.integers(1, 4, 100))
    pairs = of.integers(-1, 3, (ndim, 2)).tolist()

    def each(most):
        return tuple(int(next(some)) % most + 1 for _ in range(ndim))

    params = {
        "window_strides": each(3),
        "padding": pairs,
        "lhs_dilation": each(2 + seed % 2) if seed % 3 else (1,) * ndim,
        "rhs_dilation": each(2),
        **groups,
    }  # fmt: skip
    x = of.normal(size=(2, 2 if groups.get("feature_group_count") else 3, *sizes))
    k = of.normal(size=(4, 1 if groups.get("feature_group_count") else 3, *taps))
    return x, k, params


def by_loops_of(x, k, params):
    return by_loops.conv(
        x, k, params["window_strides"], params["padding"], params["lhs_dilation"],
        params["rhs_dilation"], params.get("feature_group_count", 1),
        params.get("batch_group_count", 1),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(48))
def test_values_are_those_of_loops(seed):
    x, k, params = draw(seed)
    expected = by_loops_of(x, k, params)
    found = lax.conv_general_dilated(x, k, **params)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("seed", range(24))
def test_derivatives(seed):
    x, k, params = draw(seed)
    check_grads(lambda x, k: lax.conv_general_dilated(x, k, **params), (x, k), order=2,
                max_elements=4)  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(16))
def test_compiled_values_and_derivatives(seed):
    x, k, params = draw(seed)

    def loss(x, k):
        y = lax.conv_general_dilated(x, k, **params)
        return np.sum(y * np.cos(y))

    for one in (lambda x, k: lax.conv_general_dilated(x, k, **params), grad(loss, argnums=(0, 1))):
        for found, expected in zip(jit(one)(x, k), one(x, k), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 1), (2, 0)])
@pytest.mark.parametrize("seed", [1, 2, 6, 9, 10])
def test_a_mapped_operand(seed, axes):
    x, k, params = draw(seed)
    (x_axis, k_axis), lanes = axes, 3
    xs = x if x_axis is None else rng.normal(size=(*x.shape[:x_axis], lanes, *x.shape[x_axis:]))
    ks = k if k_axis is None else rng.normal(size=(*k.shape[:k_axis], lanes, *k.shape[k_axis:]))

    def apply(x, k):
        return lax.conv_general_dilated(x, k, **params)

    expected = np.stack([
        apply(x if x_axis is None else np.take(xs, i, x_axis),
              k if k_axis is None else np.take(ks, i, k_axis))
        for i in range(lanes)
    ])  # fmt: skip
    mapped = vmap(apply, in_axes=axes)
    np.testing.assert_allclose(mapped(xs, ks), expected, atol=1e-13)
    np.testing.assert_allclose(jit(mapped)(xs, ks), expected, atol=1e-13)
    check_grads(mapped, (xs, ks), order=1, max_elements=3)


# -- those that BLAS multiplies --------------------------------------------------------------------

NCHW, NHWC = None, ("NHWC", "HWIO", "NHWC")


def layer(dims, batch=3, size=(17, 12), features=(9, 10), taps=(3, 2), groups=1):
    """Images and a kernel in an order of axes."""
    x = rng.normal(size=(batch, features[0] * groups, *size))
    k = rng.normal(size=(features[1] * groups, features[0], *taps))
    if dims is not NCHW:
        x, k = np.moveaxis(x, 1, -1).copy(), k.transpose(2, 3, 1, 0).copy()
    return x, k


@pytest.mark.dear
@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dims", [NCHW, NHWC, ("HNWC", "OHWI", "WNCH"), ("NCHW", "HWIO", "NHWC")])
@pytest.mark.parametrize(
    ("strides", "padding", "dilation"),
    [((1, 1), "SAME", (1, 1)), ((2, 3), "VALID", (1, 2)), ((1, 2), [(3, -1), (-2, 4)], (2, 1))],
)
def test_large_convolutions_are_those_of_numpy(dims, strides, padding, dilation, dtype):
    canonical = layer(NCHW)
    specs = lax.conv_dimension_numbers((0,) * 4, (0,) * 4, dims)
    x, k = (
        np.transpose(a, np.argsort(spec)).astype(dtype).copy()
        for a, spec in zip(canonical, specs, strict=False)
    )

    def apply(x, k):
        return lax.conv_general_dilated(x, k, strides, padding, None, dilation, dims)

    weights = rng.normal(size=apply(x, k).shape).astype(dtype)
    pullback = grad(lambda x, k: np.sum(apply(x, k) * weights), argnums=(0, 1))
    for one in (lambda x, k: [apply(x, k)], pullback):
        for found, expected in zip(jit(one)(x, k), one(x, k), strict=True):
            assert found.dtype == expected.dtype == dtype
            scale = 1e-11 if dtype == np.float64 else 1e-3
            np.testing.assert_allclose(found, expected, atol=scale)


@pytest.mark.full
@pytest.mark.parametrize("dims", [NCHW, NHWC])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_long_sum_is_cut_into_parts(dims, groups):
    x, k = layer(dims, batch=4, size=(40, 33), features=(8, 12), groups=groups)

    def loss(k):
        y = lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=dims, feature_group_count=groups
        )
        return np.sum(y * y)

    np.testing.assert_allclose(jit(grad(loss))(k), grad(loss)(k), rtol=1e-10, atol=1e-9)


def test_channels_that_do_not_fit_a_block():
    x, k = rng.normal(size=(1, 600, 6, 9)), rng.normal(size=(8, 600, 3, 3))
    apply = jit(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))
    np.testing.assert_allclose(apply(x, k), lax.conv(x, k, (1, 1), "SAME"), atol=1e-10)


def way_of(x, k, dims, strides=(1, 1), wrt=None, groups=1):
    """How a convolution, or its derivative with respect to an operand, is compiled."""

    def apply(x, k):
        return lax.conv_general_dilated(
            x, k, strides, "SAME", dimension_numbers=dims, feature_group_count=groups
        )

    weights = rng.normal(size=apply(x, k).shape)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * weights), argnums=wrt or 0)
    function = apply if wrt is None else pulled
    np.testing.assert_allclose(jit(function)(x, k), function(x, k), atol=1e-9)
    text = str(jit(function).lower(x, k).stages())
    kernels = text[text.index("== kernel construction") :]
    if "gemm" in kernels:
        return "products"
    if "sums" in kernels:
        return "accumulated"
    return "tiles" if "seen" in kernels else "elements"


@pytest.mark.parametrize(
    ("way", "dims", "options"),
    [
        ("tiles", NCHW, {}),
        ("tiles", NHWC, {}),
        ("tiles", NHWC, {"strides": (2, 2)}),
        ("tiles", NCHW, {"strides": (2, 2)}),
        ("tiles", NCHW, {"strides": (3, 1)}),
        ("tiles", NCHW, {"strides": (5, 5)}),
        ("accumulated", NCHW, {"wrt": 1}),
        ("accumulated", NHWC, {"wrt": 1}),
        ("accumulated", NHWC, {"wrt": 1, "groups": 2}),
        ("tiles", NCHW, {"groups": 2}),
    ],
)
@pytest.mark.parametrize(
    ("features", "size"), [((9, 10), (17, 12)), ((8, 16), (30, 33)), ((13, 23), (9, 70))]
)
def test_the_ways_to_compile_a_convolution(way, dims, options, features, size):
    x, k = layer(dims, size=size, features=features, groups=options.get("groups", 1))
    assert way_of(x, k, dims, **options) == way


@pytest.mark.parametrize("stride", [5, 7])
def test_few_channels_with_long_strides(stride):
    """Positions are vectors up to 36 phases, and features beyond that."""
    x, k = layer(NCHW, size=(30, 33), features=(3, 16))
    assert way_of(x, k, NCHW, strides=(stride, stride)) == "tiles"


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("size", "taps"), [((300,), (7,)), ((2600,), (3,)), ((5, 6, 20), (2, 1, 3))]
)
@pytest.mark.parametrize("wrt", [None, 0, 1])
def test_other_numbers_of_axes(size, taps, wrt):
    for dims in (None, ("NHC", "HIO", "NHC") if len(size) == 1 else ("NHWDC", "HWDIO", "NHWDC")):
        x, k = rng.normal(size=(2, 5, *size)), rng.normal(size=(9, 5, *taps))
        if dims is not None:
            x = np.moveaxis(x, 1, -1).copy()
            k = np.moveaxis(k, (0, 1), (-1, -2)).copy()
        way_of(x, k, dims, (1,) * len(size), wrt)


@pytest.mark.dear
def test_few_features_and_one_channel():
    """As in a first layer."""
    x, k = rng.normal(size=(4, 1, 28, 28)), rng.normal(size=(6, 1, 5, 5))
    assert way_of(x, k, NCHW) == "tiles"
    assert way_of(x, k, NCHW, wrt=1) == "accumulated"
    assert way_of(np.moveaxis(x, 1, -1), k.transpose(2, 3, 1, 0), NHWC) == "tiles"


# -- the other functions ---------------------------------------------------------------------------


def test_a_correlation_of_scipys():
    x, k = rng.normal(size=(7, 9)), rng.normal(size=(3, 4))
    found = lax.conv(x[None, None], k[None, None], (1, 1), "VALID")[0, 0]
    np.testing.assert_allclose(found, scipy.signal.correlate2d(x, k, "valid"))


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_paddings_by_name(padding, stride):
    x, k = rng.normal(size=(1, 1, 8)), rng.normal(size=(1, 1, 4))
    found = lax.conv(x, k, (stride,), padding)
    places = -(-8 // stride) if padding != "VALID" else (8 - 4) // stride + 1
    total = max((places - 1) * stride + 4 - 8, 0) if padding != "VALID" else 0
    before = total // 2 if padding == "SAME" else total - total // 2
    pairs = [(before, total - before)]
    np.testing.assert_allclose(found, by_loops.conv(x, k, (stride,), pairs, (1,), (1,)))
    assert found.shape == (1, 1, places)


@pytest.mark.parametrize(
    ("taps", "stride", "padding"),
    list(itertools.product([1, 2, 3, 4], [1, 2, 3], ["VALID", "SAME"])),
)
def test_conv_transpose_is_the_transpose(taps, stride, padding):
    """With the kernel transposed it is the derivative with respect to the images."""
    k = rng.normal(size=(taps, 2, 3))
    dims = ("NHC", "HIO", "NHC")
    y = rng.normal(size=(1, 4, 3))
    found = lax.conv_transpose(y, k, (stride,), padding, transpose_kernel=True)
    size = found.shape[1]
    assert size == 4 * stride + (max(taps - stride, 0) if padding == "VALID" else 0)
    forward = lambda x: lax.conv_general_dilated(x, k, (stride,), padding, dimension_numbers=dims)  # noqa: E731
    _, pullback = ft.vjp(forward, np.zeros((1, size, 2)))
    np.testing.assert_allclose(found, pullback(y)[0])


def test_patches():
    x = rng.normal(size=(2, 3, 6, 5))
    k = rng.normal(size=(4, 3, 2, 3))
    for dims in (None, ("NCHW", "OIHW", "NHWC")):
        given = {"padding": "SAME", "dimension_numbers": dims}
        patches = lax.conv_general_dilated_patches(x, (2, 3), (2, 1), **given)
        expected = lax.conv_general_dilated(x, k, (2, 1), **given)
        axis = 1 if dims is None else 3
        found = np.tensordot(patches, k.reshape(4, -1), (axis, 1))
        np.testing.assert_allclose(found, np.moveaxis(expected, axis, -1))


def test_dtypes():
    x, k = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float64)
    assert lax.conv(x, k, (1,), "VALID").dtype == np.float64
    bytes_ = np.full((1, 1, 4), 100, np.int8)
    assert lax.conv(bytes_, bytes_[..., :2], (1,), "VALID").dtype == np.int8
    wide = lax.conv(bytes_, bytes_[..., :2], (1,), "VALID", preferred_element_type=np.int32)
    np.testing.assert_array_equal(wide, np.full((1, 1, 3), 20000, np.int32))
    assert wide.dtype == np.int32
    narrow = lax.conv(x, x, (1,), "VALID", preferred_element_type=np.float16)
    assert narrow.dtype == np.float16


def test_nothing_is_left_of_an_image_smaller_than_the_kernel():
    assert lax.conv(np.ones((1, 1, 2)), np.ones((1, 1, 3)), (1,), "VALID").shape == (1, 1, 0)
    assert lax.conv(np.ones((0, 1, 4)), np.ones((2, 1, 3)), (1,), "VALID").shape == (0, 2, 2)
    empty = lax.conv(np.ones((1, 0, 4)), np.ones((2, 0, 3)), (1,), "VALID")
    np.testing.assert_array_equal(empty, np.zeros((1, 2, 2)))


# -- errors ----------------------------------------------------------------------------------------

X, K = np.ones((2, 3, 5)), np.ones((4, 3, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: lax.conv(X, np.ones((4, 2, 2)), (1,), "SAME"),
            "the images have 3 features (axis 1 of shape (2, 3, 5)), and the kernel takes 2 "
            "(axis 1 of shape (4, 2, 2))",
        ),
        (
            lambda: lax.conv(X, np.ones((4, 3)), (1,), "SAME"),
            "a convolution takes images and a kernel with the same number of axes, two of them for "
            "batch and features: found shapes (2, 3, 5) and (4, 3)",
        ),
        (
            lambda: lax.conv(X, K, (1, 1), "SAME"),
            "window_strides of conv_general_dilated must hold 1 integers of at least 1, one for "
            "each axis, and is (1, 1)",
        ),
        (
            lambda: lax.conv(X, K, (1,), "FULL"),
            "padding of conv_general_dilated must be 'SAME', 'VALID', 'SAME_LOWER' or pairs "
            "(before, behind), and is 'FULL'",
        ),
        (
            lambda: lax.conv_general_dilated(X, K, (1,), "SAME", feature_group_count=2),
            "the images have 3 features (axis 1 of shape (2, 3, 5)), and the kernel takes 3 "
            "(axis 1 of shape (4, 3, 2)) in each of 2 groups",
        ),
        (
            lambda: lax.conv_general_dilated(X, K, (1,), "SAME", batch_group_count=4),
            "a batch of 2 images cannot be divided into 4 groups",
        ),
        (
            lambda: lax.conv_general_dilated(X, K, (1,), "SAME", (2,)),
            "padding='SAME' of conv_general_dilated says nothing where the array's elements are "
            "(2,) apart: give pairs (before, behind)",
        ),
        (
            lambda: lax.conv_dimension_numbers(X.shape, K.shape, ("NCH", "OIW", "NCH")),
            "dimension_numbers ('NCH', 'OIW', 'NCH') do not name the axes of arrays of shapes "
            "(2, 3, 5) and (4, 3, 2): 'NCH' must have one each of N, C, W",
        ),
    ],
)  # fmt: skip
def test_messages(call, words):
    with pytest.raises(ShapeError) as caught:
        call()
    assert re.sub(r" at test_convolution\.py:\d+ \(.*?\), `.*`", "", str(caught.value)) == words


def test_messages_name_the_line():
    with pytest.raises(ShapeError, match=r"the images have 3 features .* at test_convolution\.py"):
        grad(lambda x: np.sum(lax.conv(x, np.ones((4, 2, 2)), (1,), "SAME")))(X)

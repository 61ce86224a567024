"""Each function of `functrans.scipy.ndimage` on traced values, against SciPy on arrays."""

import itertools

import numpy as np
import pytest
import scipy.ndimage

from functrans import grad, jit
from functrans.errors import TracerConversionError, TracerIndexError, UnsupportedNumPyError
from functrans.scipy import ndimage
from functrans.testing import check_grads
from tests.scipy.comparison import check

rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape)


x, m = floats(7), floats(5, 6)
ints = rng.integers(-90, 90, (5, 6))
bytes_ = rng.integers(0, 255, (5, 6)).astype(np.uint8)
single = floats(5, 6).astype(np.float32)

bools = m > 0
z, taps = m + 1j * floats(5, 6), floats(2, 3) + 1j * floats(2, 3)
cube = floats(3, 4, 5)

FILTERS = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant",
           "grid-wrap")  # fmt: skip

LINEAR = {
    **{
        f"{name}-{mode}-{size}-{origin}": (
            lambda s, x, w, name=name, mode=mode, origin=origin: getattr(s, name)(
                x, w, mode=mode, cval=0.3, origin=origin
            ),
            (x, floats(size)),
        )
        for name in ("correlate1d", "convolve1d")
        for mode in FILTERS
        for size, origin in ((3, 0), (4, 0), (4, 1), (3, -1), (1, 0))
        if mode in ("reflect", "constant") or (size, origin) == (4, 1)
    },
    "correlate1d-long": (lambda s, x, w: s.correlate1d(x, w, mode="mirror"), (x[:4], floats(15))),
    **{
        f"{name}-{mode}": (
            lambda s, x, w, name=name, mode=mode: getattr(s, name)(x, w, mode=mode, origin=(0, -1)),
            (m, floats(2, 3)),
        )
        for name in ("correlate", "convolve")
        for mode in ("reflect", "constant", "wrap")
    },
    "correlate-ints": (lambda s, x: s.correlate(x, np.full((2, 2), 0.37)), (ints,)),
    "correlate1d-bytes": (lambda s, x: s.correlate1d(x, [1, 0, -1]), (bytes_,)),
    "convolve-single": (lambda s, x: s.convolve(x, np.ones((3, 3))), (single,)),
    **{
        f"{name}-single-to-double": (
            lambda s, x, name=name, last=last: getattr(s, name)(x, *last, output=np.float64),
            (single,),
        )
        for name, last in {"correlate1d": ([0.1, 0.7],), "uniform_filter": (3,), "laplace": (),
                           "gaussian_filter": (1.0,), "prewitt": ()}.items()
    },
    "convolve1d-output": (lambda s, x: s.convolve1d(x, [1.0, 2.0], output=np.float32), (m,)),
    **{
        f"gaussian_filter1d-{order}": (
            lambda s, x, order=order: s.gaussian_filter1d(x, 0.8, order=order), (m,))
        for order in range(4)
    },
    "gaussian_filter1d-sigma": (
        lambda s, x, d: s.gaussian_filter1d(x, d, radius=3, order=1), (x, np.array(1.3))),
    "gaussian_filter-empty": (lambda s, x: s.gaussian_filter(x[:0], 1.0), (m,)),
    "gaussian_filter": (lambda s, x: s.gaussian_filter(x, (1.0, 0.5), (0, 1)), (m,)),
    "gaussian_filter-axes": (
        lambda s, x: s.gaussian_filter(x, 1.0, mode="wrap", axes=(1,), truncate=2.0), (m,)),
    "gaussian_filter-none": (lambda s, x: s.gaussian_filter(x, 0), (m,)),
    "gaussian_filter-bytes": (lambda s, x: s.gaussian_filter(x, 1.0), (bytes_,)),
    "uniform_filter1d": (lambda s, x: s.uniform_filter1d(x, 4, origin=1), (x,)),
    "uniform_filter": (lambda s, x: s.uniform_filter(x, (3, 2), mode="constant"), (m,)),
    "uniform_filter-ints": (lambda s, x: s.uniform_filter(x, 3), (ints,)),
    **{
        f"{name}-{axis}": (lambda s, x, name=name, axis=axis: getattr(s, name)(x, axis), (m,))
        for name in ("sobel", "prewitt") for axis in (0, -1)
    },
    "sobel-cube": (lambda s, x: s.sobel(x, 1, mode="constant"), (floats(3, 4, 2),)),
    "laplace": (lambda s, x: s.laplace(x), (m,)),
    "laplace-ints": (lambda s, x: s.laplace(x), (ints,)),
    "gaussian_laplace": (lambda s, x: s.gaussian_laplace(x, 0.7), (m,)),
    "gaussian_gradient_magnitude": (lambda s, x: s.gaussian_gradient_magnitude(x, 0.7), (m,)),
    "gaussian_gradient_magnitude-axes": (
        lambda s, x: s.gaussian_gradient_magnitude(x, (0.7, 0.5), axes=1), (m,),
    ),
    "sobel-unsigned": (lambda s, x: s.sobel(x), (bytes_.astype(np.uint32),)),
    "generic_gradient_magnitude": (
        lambda s, x: s.generic_gradient_magnitude(x, s.sobel), (m,)),
    **{
        f"{name}-complex-{i}": (lambda s, x, w, name=name: getattr(s, name)(x, w), operands)
        for name in ("correlate", "convolve", "correlate1d", "convolve1d")
        for i, operands in enumerate([(z, taps), (m, taps), (ints, taps), (single, taps)])
        for operands in [(operands[0], taps[0] if name.endswith("1d") else taps)]
    },
    **{
        f"{name}-axes": (
            lambda s, x, w, name=name: getattr(s, name)(x, w, axes=(2, 0), origin=(1, 0)),
            (cube, floats(2, 3)))
        for name in ("correlate", "convolve")
    },
    "uniform_filter-axes": (
        lambda s, x: s.uniform_filter(x, (3, 2), axes=(2, 0), mode=("wrap", "nearest")), (cube,)),
    "gaussian_filter-two-axes": (
        lambda s, x: s.gaussian_filter(x, (1.0, 0.5), (0, 1), axes=(1, 0)), (m,)),
    "gaussian_laplace-axes": (lambda s, x: s.gaussian_laplace(x, (1.0, 0.5), axes=(1, 0)), (m,)),
    "uniform_filter-bools": (lambda s, x: s.uniform_filter(x, 3), (bools,)),
    "correlate-bools": (lambda s, x: s.correlate1d(x, [0.6, -0.6, 1.0]), (bools,)),
    "uniform_filter-complex-output": (
        lambda s, x: s.uniform_filter(x, 3, output=np.float32), (z,)),
}  # fmt: skip

cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])

RANKS = {
    **{
        f"{name}-{i}": (lambda s, x, name=name, more=more: getattr(s, name)(x, **more), (m,))
        for name in ("maximum_filter", "minimum_filter", "median_filter")
        for i, more in enumerate([
            {"size": 3}, {"size": (2, 3), "mode": "nearest"}, {"footprint": cross},
            {"size": 2, "mode": "constant", "cval": 0.1, "origin": (0, -1)},
        ])
    },
    "maximum_filter-axes": (lambda s, x: s.maximum_filter(x, 3, axes=(0,)), (m,)),
    "maximum_filter-bytes": (lambda s, x: s.maximum_filter(x, 3), (bytes_,)),
    "maximum_filter1d": (lambda s, x: s.maximum_filter1d(x, 3, axis=0), (m,)),
    "minimum_filter1d": (lambda s, x: s.minimum_filter1d(x, 4, mode="wrap"), (m,)),
    "rank_filter": (lambda s, x: s.rank_filter(x, 2, 3), (m,)),
    "rank_filter-last": (lambda s, x: s.rank_filter(x, -1, footprint=cross), (m,)),
    "percentile_filter": (lambda s, x: s.percentile_filter(x, 30, 3), (m,)),
    "percentile_filter-negative": (lambda s, x: s.percentile_filter(x, -20, (3, 2)), (m,)),
    "median_filter-ints": (lambda s, x: s.median_filter(x, 3), (ints,)),
    **{
        f"{name}-{i}-axes": (
            lambda s, x, name=name, more=more: getattr(s, name)(x, axes=(2, 0), **more), (cube,))
        for name in ("maximum_filter", "median_filter")
        for i, more in enumerate([
            {"size": (3, 2), "origin": (0, -1)}, {"footprint": cross[:2], "origin": (-1, 0)},
            {"footprint": np.ones((2, 3))},
        ])
    },
    **{
        f"{name}-bytes-{cval}": (
            lambda s, x, name=name, cval=cval: getattr(s, name)(x, 3, mode="constant", cval=cval),
            (bytes_,))
        for name in ("maximum_filter", "minimum_filter1d") for cval in (-2.0, 1.5, 300.0)
    },
}  # fmt: skip

# large, because SciPy's filter for `reflect` is wrong by about 0.43 ** (2 * size)
image = floats(26, 31)

MODES = ("constant", "grid-constant", "nearest", "reflect", "grid-mirror", "mirror", "grid-wrap",
         "wrap")  # fmt: skip

# inside, on elements, between the last one and the outside, and far away
places = np.concatenate([
    rng.uniform(0, 25, (2, 4)), rng.uniform(-70, 90, (2, 14)),
    np.array([[0, 25.0, 2.0, -0.3, 25.2, -0.51, 25.6], [0, 30.0, 30.3, 2.0, -0.7, 30.0, 1.5]]),
], axis=1)  # fmt: skip

# SciPy puts 12 elements around an array for `nearest`, and is less exact beyond them
near = np.clip(places, -11.0, 36.0)

INTERPOLATION = {
    **{
        f"map_coordinates-{mode}-{order}": (
            lambda s, x, at, mode=mode, order=order: s.map_coordinates(
                x, at, order=order, mode=mode, cval=0.7
            ),
            (image, near if mode == "nearest" else places),
        )
        for mode in MODES for order in range(6)
    },
    "map_coordinates-without-filter": (
        lambda s, x, at: s.map_coordinates(x, at, prefilter=False, mode="mirror"), (image, places)),
    "map_coordinates-vector": (
        lambda s, x, at: s.map_coordinates(x, at, mode="reflect"), (floats(30), floats(1, 3, 2))),
    "map_coordinates-one": (
        lambda s, x, at: s.map_coordinates(x, at, mode="mirror"), (floats(1, 4), places % 1)),
    "map_coordinates-bytes": (lambda s, x: s.map_coordinates(x, places, mode="wrap"), (bytes_,)),
    "map_coordinates-single": (
        lambda s, x: s.map_coordinates(x, places, mode="nearest"), (single,)),
    "map_coordinates-output": (
        lambda s, x: s.map_coordinates(x, places, np.float32, mode="mirror"), (image,)),
    **{
        f"affine_transform-{order}-{mode}": (
            lambda s, x, a, b, order=order, mode=mode: s.affine_transform(
                x, a, b, (4, 7), order=order, mode=mode
            ),
            (image, np.eye(2) + 0.2 * floats(2, 2), floats(2)),
        )
        for order in (1, 3) for mode in ("constant", "nearest", "mirror")
    },
    "affine_transform-diagonal": (
        lambda s, x, a, b: s.affine_transform(x, a, b, mode="reflect"),
        (image, np.array([0.7, 1.2]), np.array([0.3, -0.2]))),
    "affine_transform-homogeneous": (
        lambda s, x: s.affine_transform(x, [[1.1, 0.1, 0.2], [0.0, 0.9, 0.3]], order=1), (image,)),
    **{
        f"shift-{order}-{mode}": (
            lambda s, x, by, order=order, mode=mode: s.shift(x, by, order=order, mode=mode),
            (image, np.array([0.4, -1.3])),
        )
        for order in (0, 1, 3) for mode in ("constant", "grid-wrap", "nearest")
    },
    "shift-number": (lambda s, x: s.shift(x, 1.5), (image,)),
    **{
        f"zoom-{mode}-{grid}": (
            lambda s, x, mode=mode, grid=grid: s.zoom(x, (1.7, 0.6), mode=mode, grid_mode=grid),
            (image,),
        )
        for mode in ("constant", "nearest", "reflect") for grid in (False, True)
    },
    "zoom-ints": (lambda s, x: s.zoom(x, 2, order=1), (ints,)),
    **{
        f"rotate-{angle}-{kept}": (
            lambda s, x, angle=angle, kept=kept: s.rotate(x, angle, reshape=kept, order=1,
                                                          mode="nearest"), (image,))
        for angle in (33.0, -100.0) for kept in (True, False)
    },
    "rotate-planes": (
        lambda s, x: s.rotate(x, 20.0, axes=(0, 2), mode="mirror"), (floats(4, 2, 5),)),
    **{
        f"spline_filter1d-{order}-{mode}": (
            lambda s, x, order=order, mode=mode: s.spline_filter1d(x, order, 0, mode=mode),
            (image,))
        for order in range(6) for mode in ("mirror", "reflect", "grid-wrap")
    },
    "spline_filter": (lambda s, x: s.spline_filter(x, 2), (image,)),
    "spline_filter-bytes": (lambda s, x: s.spline_filter(x), (bytes_,)),
    "spline_filter-short": (lambda s, x: s.spline_filter(x, 4), (floats(1, 2),)),
    "spline_filter-complex": (lambda s, x: s.spline_filter(x), (z,)),
    "spline_filter1d-complex": (lambda s, x: s.spline_filter1d(x, axis=0), (z,)),
    "map_coordinates-complex-output": (
        lambda s, x: s.map_coordinates(x, places, np.float32, mode="mirror"), (z,)),
    "shift-bools": (lambda s, x: s.shift(x, 0.3, order=1), (bools,)),
    "zoom-to-nothing": (lambda s, x: s.zoom(x, (0.1, 2), grid_mode=True), (m,)),
}  # fmt: skip

CASES = LINEAR | RANKS | INTERPOLATION

COMPILED = {
    *list(LINEAR)[::3], *list(RANKS)[::3],
    *(f"map_coordinates-{mode}-{order}" for mode in ("constant", "grid-constant", "reflect")
      for order in (0, 1, 3)),
    *(name for name in list(INTERPOLATION)[::4] if not name.startswith("map")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_scipy(name):
    call, operands = CASES[name]
    check(call, ndimage, scipy.ndimage, operands, compiled=name in COMPILED, grads=False)


DOUBLES = [
    name
    for name, (_, operands) in CASES.items()
    if all(np.asarray(x).dtype == np.float64 for x in operands) and "output" not in name
]


@pytest.mark.parametrize("name", DOUBLES[::3])
def test_derivatives(name):
    call, operands = CASES[name]
    check_grads(lambda x: call(ndimage, x, *operands[1:]), operands[:1], order=1, max_elements=3)


@pytest.mark.parametrize(("mode", "order"), list(itertools.product(MODES[::2], (1, 2, 3, 5))))
def test_derivatives_with_respect_to_coordinates(mode, order):
    at = np.stack([rng.uniform(0.1, 3.9, 6), rng.uniform(0.1, 4.9, 6)])
    at = at + np.where(np.abs(at - np.round(at)) < 0.05, 0.1, 0.0)
    at = at + np.where(np.abs(at - np.floor(at) - 0.5) < 0.05, 0.1, 0.0)
    check_grads(
        lambda x, at: ndimage.map_coordinates(x, at, order=order, mode=mode), (image, at), order=1,
        max_elements=5,
    )  # fmt: skip


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_coefficients_are_those_of_a_spline_through_the_data(order):
    """Also where SciPy's are not: at the ends of a short reflected array."""
    data = floats(5)
    found = jit(
        lambda x: ndimage.map_coordinates(x, np.arange(5.0)[None], order=order, mode="reflect")
    )(data)
    np.testing.assert_allclose(found, data, atol=1e-13)


def test_the_gradient_of_a_magnitude_that_is_zero_is_zero():
    flat = np.ones((4, 4))
    found = grad(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0).sum())(flat)
    np.testing.assert_array_equal(np.isfinite(found), True)


@pytest.mark.dear
def test_a_shift_is_found_by_its_derivative():
    smooth = 10 * scipy.ndimage.gaussian_filter(floats(24, 24), 3.0)
    target = scipy.ndimage.shift(smooth, (1.2, -0.7), order=3, mode="nearest")

    def loss(by):
        moved = ndimage.shift(smooth, by, order=3, mode="nearest")
        return np.sum((moved - target)[3:-3, 3:-3] ** 2)

    slope, by = jit(grad(loss)), np.zeros(2)
    for _ in range(60):
        by = by - 0.01 * slope(by)
    np.testing.assert_allclose(by, [1.2, -0.7], atol=1e-2)


OUTSIDE = np.zeros((5, 6))


@pytest.mark.parametrize("name", ["sobel", "laplace", "gaussian_laplace", "shift", "zoom"])
def test_an_array_of_the_trace_is_written_to(name):
    more = () if name in ("sobel", "laplace") else (1.0,)

    def twice(x):
        output = np.zeros((5, 6))
        result = getattr(ndimage, name)(x, *more, output=output)
        return output + result

    expected = getattr(scipy.ndimage, name)(m, *more)
    np.testing.assert_allclose(jit(twice)(m), 2 * expected, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: ndimage.zoom(x, x[0, 0]), TracerIndexError, "needs one integer"),
        (lambda x: ndimage.rotate(x, x[0, 0]), UnsupportedNumPyError, "Use reshape=False"),
        (lambda x: ndimage.gaussian_filter(x, x[0, 0]), UnsupportedNumPyError, "without radius"),
        (lambda x: ndimage.laplace(x, output=OUTSIDE), TracerConversionError, "plain np.ndarray"),
        (lambda x: ndimage.correlate1d(x, [1, 2], origin=3), ValueError, "Invalid origin"),
        (lambda x: ndimage.laplace(x, mode="some"), RuntimeError, "boundary mode not supported"),
        (lambda x: ndimage.map_coordinates(x, x), RuntimeError, "invalid shape for coordinate"),
        (lambda x: ndimage.map_coordinates(x, x[:2], order=6), RuntimeError, "order not supported"),
        (lambda x: ndimage.label(x), TracerConversionError, "plain"),
        (lambda x: ndimage.median_filter(x * 1j, 3), TypeError, "Complex type not supported"),
        (lambda x: ndimage.maximum_filter(x * 1j, 3), TypeError, "Complex type not supported"),
        (lambda x: ndimage.uniform_filter(x * 1j, output="f8"), RuntimeError, "complex dtype"),
        (lambda x: ndimage.uniform_filter(x, mode="constant", cval=1j), TypeError, "cval must be"),
        (lambda x: ndimage.shift(x, 1.5, cval=1j), TypeError, "cval must be real"),
    ],
)
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        jit(call)(m)


FOLDED = ["mirror", "nearest", "constant", "grid-constant", "wrap", "grid-wrap"]


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", FOLDED)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_coordinates_at_whole_periods(size, mode, order):
    x = np.random.default_rng(size).normal(size=size)
    whole = np.unique([n * m for n in range(-3, 4) for m in (1, size - 1, size, 2 * size - 2)])
    at = np.concatenate([whole, whole + 0.5, whole - 0.25, np.nextafter(whole, 9), [-1e-16, -0.0]])
    for prefilter in (True, False):
        options = {"order": order, "mode": mode, "cval": 7.0, "prefilter": prefilter}
        expected = scipy.ndimage.map_coordinates(x, at[None], **options)
        found = jit(lambda at, options=options: ndimage.map_coordinates(x, at[None], **options))(at)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    for by in (size - 1, 2 * size - 2, 1 - size, float(size)):
        expected = scipy.ndimage.shift(x, by, order=order, mode=mode)
        found = jit(lambda x, by=by: ndimage.shift(x, by, order=order, mode=mode))(x)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("at", [-4.0, -8.0, -4.0 - 1e-4, -3.9, 2.5, 4.0, 8.0, 4.1])
def test_slopes_at_whole_periods_of_wrap(at, order):
    x = np.random.default_rng(5).normal(size=5)

    def value(at, module):
        return module.map_coordinates(x, np.reshape(at, (1, 1)), order=order, mode="wrap")[0]

    # the last element belongs to what is before it, in front of the first one as well
    inwards = -1e-6 if at <= 4 else 1e-6
    other = np.float64(at + inwards)
    expected = (value(other, scipy.ndimage) - value(np.float64(at), scipy.ndimage)) / inwards
    for transform in (grad, lambda f: jit(grad(f))):
        found = transform(lambda at: value(at, ndimage))(at)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

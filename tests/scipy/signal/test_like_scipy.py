"""Each function of `functrans.scipy.signal` on traced values, against SciPy on arrays."""

import warnings

import numpy as np
import pytest
import scipy.signal

from functrans import grad, jit
from functrans.errors import ShapeError, TracerConversionError, UnsupportedNumPyError
from functrans.scipy import signal
from tests.scipy.comparison import check

rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape)


x, y, k = floats(9), floats(5), floats(4)
m, n = floats(5, 6), floats(2, 3)
ints = rng.integers(-5, 5, 7)
single = floats(8).astype(np.float32)
sos = scipy.signal.butter(4, 0.3, output="sos")
b3, a3 = scipy.signal.butter(3, 0.2)
long = floats(60)

CASES = {
    **{
        f"{name}-{mode}-{i}": (lambda s, a, b, name=name, mode=mode: getattr(s, name)(a, b, mode),
                               operands)
        for name in ("convolve", "correlate", "fftconvolve", "oaconvolve")
        for mode in ("full", "same", "valid")
        for i, operands in enumerate(
            [(x, y), (y, x), (m, n), (n, m), (x, k), (floats(1), x), (floats(2, 3, 4),) * 2]
        )
    },
    **{
        f"{name}-{mode}-{boundary}-{i}": (
            lambda s, a, b, name=name, mode=mode, boundary=boundary: getattr(s, name)(
                a, b, mode, boundary, 0.5
            ),
            operands,
        )
        for name in ("convolve2d", "correlate2d")
        for mode in ("full", "same", "valid")
        for boundary in ("fill", "wrap", "symm")
        for i, operands in enumerate([(m, n), (n, m), (m, floats(3, 3))])
        if mode != "valid" or boundary == "fill"
    },
    "convolve2d-integers": (lambda s, a, b: s.convolve2d(a, b, fillvalue=0.5), (ints[None], n)),
    **{
        f"convolve2d-{boundary}": (
            lambda s, a, b, boundary=boundary: s.convolve2d(a, b, boundary=boundary), (m, n))
        for boundary in ("circular", "symmetric", "pad")
    },
    **{
        f"{name}-{kind}": (lambda s, a, b, name=name: getattr(s, name)(a, b), operands)
        for name in ("fftconvolve", "oaconvolve")
        for kind, operands in {
            "ints": (ints, ints[:3]), "ints-scaled": (ints, ints[:1]),
            "half": (single.astype(np.float16), np.ones(2, np.float16)),
            "ints-scalar": (ints[0], ints[1]),
        }.items()
    },
    "fftconvolve-same-of-broadcast": (
        lambda s, a, b: s.fftconvolve(a, b, "same", axes=0), (floats(4, 1), floats(3, 3))
    ),
    "upfirdn-half": (lambda s, h, x: s.upfirdn(h, x, 2), (ints[:2].astype(np.int8), single)),
    "lfilter-of-bytes": (
        lambda s, b, x: s.lfilter(b, b, x), (single[:2], ints.astype(np.int8))
    ),
    "correlate2d-complex": (lambda s, a, b: s.correlate2d(a, b, "valid"), (n + 1j, m - 1j * m)),
    "resample_poly-complex": (lambda s, x, h: s.resample_poly(x, 3, 2, window=h), (x, k + 1j)),
    "convolve-ints": (lambda s, a, b: s.convolve(a, b), (ints, ints[:3])),
    "convolve-mixed": (lambda s, a, b: s.convolve(a, b), (ints, single)),
    "correlate-single": (lambda s, a, b: s.correlate(a, b), (single, single[:3])),
    "fftconvolve-axes": (lambda s, a, b: s.fftconvolve(a, b, axes=1), (m, n[:1])),
    "fftconvolve-equal": (lambda s, a, b: s.fftconvolve(a, b, "same", axes=-1), (m, floats(5, 2))),
    "lfilter": (lambda s, b, a, x: s.lfilter(b, a, x), (floats(3), a3, x)),
    "lfilter-longer": (lambda s, b, a, x: s.lfilter(b, a, x), (floats(5), np.array([2.0, 0.3]), x)),
    "lfilter-axis": (lambda s, b, a, x: s.lfilter(b, a, x, axis=0), (b3, a3, m)),
    "lfilter-fir": (lambda s, b, a, x: s.lfilter(b, a, x, axis=0), (k, np.array([2.0]), m)),
    "lfilter-fir-state": (
        lambda s, b, x, z: s.lfilter(b, [2.0], x, zi=z), (k, m, floats(5, 3))),
    "lfilter-one": (lambda s, b, a, x: s.lfilter(b, a, x), (floats(1), np.array([3.0]), x)),
    "lfilter-state": (lambda s, b, a, x, z: s.lfilter(b, a, x, zi=z), (b3, a3, m, floats(5, 3))),
    "lfilter-single": (lambda s, x: s.lfilter(b3.astype("f"), a3.astype("f"), x), (single,)),
    "lfilter-ints": (lambda s, x: s.lfilter(b3, a3, x), (ints,)),
    "lfilter-empty": (lambda s, x: s.lfilter(b3, a3, x), (floats(0),)),
    "lfilter_zi": (lambda s, b, a: s.lfilter_zi(b, a), (b3, a3)),
    "lfilter_zi-scaled": (lambda s, b, a: s.lfilter_zi(b, a), (b3, 2 * a3[:3])),
    "lfiltic": (lambda s, b, a, y, x: s.lfiltic(b, a, y, x), (b3, a3, y, floats(2))),
    "lfiltic-without": (lambda s, y: s.lfiltic(b3, a3, y), (y[:2],)),
    "lfiltic-single": (lambda s, y: s.lfiltic(b3.astype("f"), a3.astype("f"), y), (single[:2],)),
    **{
        f"filtfilt-{kind}": (lambda s, x, kind=kind: s.filtfilt(b3, a3, x, padtype=kind), (long,))
        for kind in ("odd", "even", "constant", None)
    },
    "filtfilt-coefficients": (
        lambda s, b, a, x: s.filtfilt(b, a, x, axis=0, padlen=3), (b3, a3, m)),
    "filtfilt-gust": (
        lambda s, b, a, x: s.filtfilt(b, a, x, axis=0, method="gust"), (b3, a3, m)),
    "filtfilt-gust-short": (
        lambda s, x: s.filtfilt(b3, a3, x, method="gust", irlen=4), (long,)),
    "filtfilt-one": (lambda s, x: s.filtfilt([2.0, 0.0], [1.0], x), (long,)),
    "sosfilt": (
        lambda s, c, x: s.sosfilt(np.concatenate([sos[:, :4], c], 1), x), (sos[:, 4:], x)),
    "sosfilt-axis": (lambda s, x: s.sosfilt(sos, x, axis=0), (m,)),
    "sosfilt-state": (lambda s, x, z: s.sosfilt(sos, x, zi=z), (m, floats(2, 5, 2))),
    "sosfilt-state-axis": (lambda s, x, z: s.sosfilt(sos, x, 0, z), (m, floats(2, 2, 6))),
    "sosfilt_zi": (lambda s, c: s.sosfilt_zi(c), (sos,)),
    "sosfiltfilt": (lambda s, x: s.sosfiltfilt(sos, x), (long,)),
    "sosfiltfilt-even": (lambda s, x: s.sosfiltfilt(sos, x, 0, "even", 3), (m,)),
    "detrend": (lambda s, x: s.detrend(x), (m,)),
    "detrend-axis": (lambda s, x: s.detrend(x, axis=0, bp=2), (m,)),
    "detrend-constant": (lambda s, x: s.detrend(x, type="constant"), (m,)),
    **{
        f"savgol_filter-{mode}-{window}": (
            lambda s, x, mode=mode, window=window: s.savgol_filter(
                x, window, 2, mode=mode, cval=0.3
            ),
            (x,),
        )
        for mode in ("interp", "mirror", "constant", "nearest", "wrap")
        for window in (3, 4, 5)
    },
    "savgol_filter-slope": (lambda s, x: s.savgol_filter(x, 5, 3, 1, 0.1, 0), (m,)),
    "savgol_filter-one": (lambda s, x: s.savgol_filter(x, 1, 0), (x,)),
    "medfilt": (lambda s, x: s.medfilt(x), (x,)),
    "medfilt-box": (lambda s, x: s.medfilt(x, (3, 1)), (m,)),
    "medfilt-ints": (lambda s, x: s.medfilt(x, 5), (ints,)),
    **{
        f"upfirdn-{up}-{down}": (
            lambda s, h, x, up=up, down=down: s.upfirdn(h, x, up, down), (k, x))
        for up in (1, 2, 3) for down in (1, 2, 3)
    },
    "upfirdn-axis": (lambda s, h, x: s.upfirdn(h, x, 3, 2, axis=0), (k, m)),
    **{
        f"resample_poly-{up}-{down}": (
            lambda s, x, up=up, down=down: s.resample_poly(x, up, down, axis=-1), (floats(2, 30),))
        for up, down in ((1, 1), (2, 1), (1, 3), (4, 6), (5, 3))
    },
    "resample_poly-window": (lambda s, x: s.resample_poly(x, 3, 2, window=[0.5, 1.0, 0.5]), (x,)),
    **{
        f"resample-{num}": (lambda s, x, num=num: s.resample(x, num), (x,)) for num in (4, 9, 12, 1)
    },
    "resample-even": (lambda s, x: s.resample(x, 4, axis=1), (m,)),
    "resample-complex": (lambda s, x: s.resample(x, 14, window="hamming"), (x + 1j * x[::-1],)),
    "fftconvolve-empty": (lambda s, a, b: s.fftconvolve(a, b), (x, floats(0))),
    "resample-single": (lambda s, x: s.resample(x, 12), (single,)),
    "hilbert": (lambda s, x: s.hilbert(x).imag, (x,)),
    "hilbert-axis": (lambda s, x: np.abs(s.hilbert(x, 8, axis=0)), (m,)),
    "hilbert-single": (lambda s, x: s.hilbert(x), (single,)),
    **{
        f"convolve-large-{mode}": (
            lambda s, a, b, mode=mode: s.convolve(a, b, mode), (floats(900), floats(700)))
        for mode in ("full", "same", "valid")
    },
    "fftconvolve-large": (
        lambda s, a, b: s.fftconvolve(a, b, "same"), (floats(40, 41), floats(30, 33))),
    "fftconvolve-large-single": (
        lambda s, a, b: s.fftconvolve(a, b), (single.repeat(100) / 99, single.repeat(90))),
    "resample-times": (lambda s, x, t: s.resample(x, 4, t), (x, np.arange(9.0) / 2)),
    "resample-window": (lambda s, x: s.resample(x, 8, axis=1, window="hamming"), (m,)),
}  # fmt: skip


COMPILED = {*list(CASES)[::6], *(name for name in CASES if name[0] in "lsdmru")}


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_scipy(name):
    call, operands = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check(call, signal, scipy.signal, operands, compiled=name in COMPILED)


def test_plain_arrays_are_left_to_scipy_and_so_is_what_designs_filters():
    assert isinstance(signal.lfilter(b3, a3, x), np.ndarray)
    np.testing.assert_array_equal(signal.get_window("hann", 5), scipy.signal.get_window("hann", 5))
    assert signal.kaiserord is scipy.signal.kaiserord
    assert "butter" in dir(signal) and "lfilter" in dir(signal)


def test_a_filter_is_fitted_by_its_derivative():
    target = scipy.signal.lfilter([0.3], [1.0, -0.7], long)

    def loss(p):
        return np.mean((signal.lfilter(p[:1], np.stack([1.0, p[1]]), long) - target) ** 2)

    slope = jit(grad(loss))
    p = np.array([0.5, -0.2])
    for _ in range(400):
        p = p - 0.3 * slope(p)
    np.testing.assert_allclose(p, [0.3, -0.7], atol=1e-3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: signal.convolve(x, x, "some"), ValueError, "acceptable mode flags"),
        (lambda x: signal.convolve(x[None], m[:, :1], "valid"), ShapeError, "one of the arrays"),
        (lambda x: signal.lfilter(b3, a3, x, zi=x), ShapeError, r"the state zi .* shape \(3,\)"),
        (lambda x: signal.filtfilt(b3, a3, x), ValueError, "must be greater than padlen"),
        (lambda x: signal.sosfiltfilt(x[:6][None], x), ValueError, "should be all ones"),
        (lambda x: signal.sosfilt([[1.0, 0, 0, 2, 0, 0]], x), ValueError, "should be all ones"),
        (lambda x: signal.detrend(x, bp=[-1]), ValueError, "Breakpoints must be"),
        (lambda x: signal.upfirdn(y, x, mode="edge"), UnsupportedNumPyError, "pad x before"),
        (lambda x: signal.medfilt(x, 2), ValueError, "should be odd"),
        (lambda x: signal.find_peaks(x), TracerConversionError, "plain"),
        (lambda x: signal.convolve(x, y[:0]), ValueError, "cannot be empty"),
        (lambda x: signal.convolve(x[:0], x[:0], "valid"), ValueError, "cannot be empty"),
        (lambda x: signal.correlate(y[:0], x, "full"), ValueError, "cannot be empty"),
        (lambda x: signal.fftconvolve(x, y, axes=[]), ValueError, "axes cannot be empty"),
        (lambda x: signal.convolve2d(x, y, "valid"), ValueError, "must both be 2-D"),
        (lambda x: signal.convolve2d(m, n, "valid", "odd"), ValueError, r"'symmetric' \(or"),
        (lambda x: signal.convolve2d(x[None], n, fillvalue=1j), ValueError, "could not cast"),
    ],
)
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        jit(call)(x)

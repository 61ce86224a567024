"""`numpy.fft` on traced values: against NumPy's values and dtypes, and finite differences."""

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import errors, grad, jit, testing, vmap

rng = np.random.default_rng(5)
X = rng.normal(size=(4, 6))
Z = X + 1j * rng.normal(size=X.shape)

OF_COMPLEX = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "irfft2", "irfftn", "hfft",
    "fftshift", "ifftshift",
]  # fmt: skip
OF_REAL = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "rfft2", "rfftn", "ihfft", "irfft",
    "fftshift", "ifftshift",
]  # fmt: skip
CALLS = [(name, Z) for name in OF_COMPLEX] + [(name, X) for name in OF_REAL]


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert got.dtype == expected.dtype and got.shape == expected.shape


@pytest.mark.few(6)
@pytest.mark.parametrize(("name", "x"), CALLS)
def test_values_and_derivatives(name, x):
    function = getattr(np.fft, name)
    close(jit(function)(x), function(x))
    close(getattr(fnp.fft, name)(x), function(x))
    close(
        vmap(function, in_axes=1)(np.stack([x, 2 * x], 1)), np.stack([function(x), function(2 * x)])
    )
    testing.check_grads(lambda x: function(x), (x,), order=2)


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "x"), [c for c in CALLS if "shift" not in c[0]])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_norms_and_extents(name, x, norm):
    function = getattr(np.fft, name)
    several = name.endswith(("n", "2"))
    options = (
        [{"s": (3, 8), "axes": (0, 1)}, {"axes": (1, 0)}, {"s": (-1, 5), "axes": (1, 0)}]
        if several
        else [{"n": 3}, {"n": 9, "axis": 0}, {"axis": 0}]
    )
    for option in options:
        close(
            jit(lambda x, o=option: function(x, norm=norm, **o))(x),
            function(x, norm=norm, **option),
        )


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft", "fftshift"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint32, np.float16, np.float32, np.complex64])
def test_dtypes(name, dtype):
    x = (X * 3).astype(dtype)
    function = getattr(np.fft, name)
    if name in ("rfft", "ihfft") and dtype is np.complex64:
        with pytest.raises(errors.DtypeError, match=r"take x\.real, or fft instead of rfft"):
            jit(function)(x)
        return
    got, expected = jit(function)(x), function(x)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("n", [1, 2, 17, 300, 2600])
def test_lengths(n):
    x = rng.normal(size=n)
    spectrum = jit(np.fft.rfft)(x)
    np.testing.assert_allclose(spectrum, np.fft.rfft(x), atol=1e-10)
    np.testing.assert_allclose(jit(lambda z: np.fft.irfft(z, n))(spectrum), x, atol=1e-10)
    # Parseval: half of the slope of the energy of the spectrum is n times the signal
    slope = grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(x)
    np.testing.assert_allclose(slope, 2 * n * x, rtol=1e-10)


def test_frequencies():
    np.testing.assert_array_equal(fnp.fft.fftfreq(5, 0.1), np.fft.fftfreq(5, 0.1))
    np.testing.assert_array_equal(fnp.fft.rfftfreq(6), np.fft.rfftfreq(6))
    assert fnp.fft.fftfreq(4, dtype=np.float32).dtype == np.float32
    np.testing.assert_allclose(grad(lambda d: fnp.fft.fftfreq(5, d)[1])(0.1), -20)


def test_what_is_refused():
    with pytest.raises(errors.ShapeError, match="has one point at the least, not 0"):
        jit(np.fft.fft)(np.zeros((2, 0)))
    with pytest.raises(ValueError, match='Invalid norm value unitary; should be "backward"'):
        jit(lambda x: np.fft.fft(x, norm="unitary"))(X)
    with pytest.raises(ValueError, match="Shape and axes have different lengths"):
        jit(lambda x: np.fft.fftn(x, s=(3,), axes=(0, 1)))(X)
    with pytest.raises(np.exceptions.AxisError):
        jit(lambda x: np.fft.fft(x, axis=2))(X)

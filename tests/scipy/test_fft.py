"""`functrans.scipy.fft` on plain and on traced values, against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.fft
import scipy.fftpack

import functrans.scipy.fft as ffft
from functrans import errors, jit, testing

rng = np.random.default_rng(6)
X = rng.normal(size=(4, 6))
Z = X + 1j * rng.normal(size=X.shape)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    assert got.dtype == expected.dtype and got.shape == expected.shape


@pytest.mark.parametrize("name", [n for n in ffft.__all__ if "fft" in n and "freq" not in n])
def test_fourier_transforms(name):
    ours, scipys = getattr(ffft, name), getattr(scipy.fft, name)
    x = X if name in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn") else Z
    close(ours(x), scipys(x))
    close(jit(ours)(x), scipys(x))
    if "shift" not in name:
        close(jit(lambda x: ours(x, norm="ortho"))(x), scipys(x, norm="ortho"))


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("orthogonalize", [None, True, False])
def test_by_cosines_and_sines(name, type, norm, orthogonalize):
    options = {"type": type, "norm": norm, "orthogonalize": orthogonalize}
    ours, scipys = getattr(ffft, name), getattr(scipy.fft, name)
    for x, axis in ((X, -1), (X, 0), (Z, 1)):
        expected = scipys(x, axis=axis, **options)
        close(ours(x, axis=axis, **options), expected)
        close(jit(lambda x, a=axis: ours(x, axis=a, **options))(x), expected)
    close(jit(lambda x: ours(x, n=9, **options))(X), scipys(X, n=9, **options))
    several, scipys_several = getattr(ffft, name + "n"), getattr(scipy.fft, name + "n")
    close(jit(lambda x: several(x, **options))(X), scipys_several(X, **options))


@pytest.mark.parametrize("kind", ["dct", "dst", "fft"])
@pytest.mark.parametrize("form", ["{}", "i{}", "{}n", "i{}n"])
def test_of_the_older_module(kind, form):
    transform = getattr(scipy.fftpack, form.format(kind))  # without a factor in the inverse
    close(jit(lambda x: transform(x))(X), transform(X))
    close(jit(lambda x: transform(x, 3 if "d" in kind else None))(X[:3, :3]),
          transform(X[:3, :3], 3 if "d" in kind else None))  # fmt: skip


@pytest.mark.parametrize("name", ["irfft", "hfft"])
def test_of_half_precision(name):
    x = X.astype(np.float16)
    np.testing.assert_allclose(jit(getattr(ffft, name))(x), getattr(scipy.fft, name)(x), rtol=1e-4)
    assert jit(getattr(ffft, name))(x).dtype == np.float32


@pytest.mark.parametrize(("kind", "type"), [*itertools.product(["dct", "idst"], [1, 2, 3, 4])])
def test_derivatives(kind, type):
    transform = getattr(ffft, kind)
    testing.check_grads(lambda x: transform(x, type=type, norm="ortho"), (X,), order=2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="is 1, 2, 3 or 4, not 5"):
        jit(lambda x: ffft.dct(x, type=5))(X)
    with pytest.raises(errors.UnsupportedNumPyError, match=r"scipy.fft.fht is not supported"):
        jit(lambda x: ffft.fht(x, 0.1, 0.5))(X)
    np.testing.assert_array_equal(ffft.fht(X, 0.1, 0.5), scipy.fft.fht(X, 0.1, 0.5))


@pytest.mark.parametrize("name", ["fftn", "irfftn", "hfftn", "dctn"])
def test_an_axis_that_is_given_twice_or_not_there(name):
    for module in (scipy.fft, ffft):
        with pytest.raises(ValueError, match="unique"):
            jit(lambda x, module=module: getattr(module, name)(x, axes=(0, -2)))(np.ones((3, 4)))
        with pytest.raises(ValueError, match=r"exceeds|out of bounds"):
            jit(lambda x, module=module: getattr(module, name)(x, axes=(0,)))(1.0)


def test_single_precision():
    x = X.astype(np.float32)
    for transform in (ffft.dct, ffft.rfft, ffft.idst):
        assert jit(transform)(x).dtype == transform(x).dtype


@pytest.mark.parametrize("name", [n for n in ffft.__all__ if n not in ("fht", "ifht")])
def test_scipys_names_on_traced_values(name):
    scipys = getattr(scipy.fft, name)
    if "freq" in name or "len" in name or name == "fhtoffset":
        return
    x = X if name in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn") else Z
    close(jit(lambda x: scipys(x))(x), scipys(x))
    close(jit(lambda x: getattr(scipy.fft, name)(x))(x), scipys(x))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16])
def test_transforms_by_cosines_of_small_numbers(dtype):
    x = (np.arange(6).reshape(2, 3) % 4).astype(dtype)
    for kind in (1, 2, 3):
        expected = scipy.fft.dctn(x, kind, norm="ortho")
        found = jit(lambda x, kind=kind: ffft.dctn(x, kind, norm="ortho"))(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{"s": 2}, {"axes": 0}, {"s": 5, "axes": -2}])
def test_one_axis_of_several_as_a_number(options):
    for name in ("fftn", "rfftn", "ifftn", "dctn"):
        transform = getattr(scipy.fft, name)
        close(jit(lambda x, f=transform: f(x, **options))(X), transform(X, **options))

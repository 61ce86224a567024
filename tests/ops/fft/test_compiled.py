"""Compiled Fourier transforms: as accurate as a library's, by each of the algorithms."""

import numpy as np
import pytest

from functrans import config, grad, jit, vmap
from functrans.ops.compiled.pairs import Pair
from functrans.ops.fft.compiled.butterflies import butterfly
from functrans.ops.fft.compiled.lines import radices
from functrans.ops.fft.split import (
    LARGEST_PRIME,
    LONGEST,
    factors,
    has_form,
    is_made,
    padded,
    split_fft_p,
)
from functrans.run.code import host
from tests.fuzz import thresholds
from tests.targets import take_host_for

LENGTHS = [
    1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 64, 97, 100, 300, 360, 512, 1000, 1001, 1024, 2310,
    2600, 4096, 19, 23, 29, 34, 101, 262, 289, 1009, 4099, 27, 45, 63, 99, 125, 153, 207, 303, 3027,
]  # fmt: skip

LONG = np.longdouble


def signal(shape, dtype=np.float64, seed=0):
    """Complex numbers."""
    re, im = np.random.default_rng(seed).normal(size=(2, *shape)).astype(dtype)
    return re + 1j * im


def exact(x, inverse=False):
    """The transform along the last axis, in extended precision: a short one by definition."""
    n = x.shape[-1]
    if n > 200:
        # too much work: the library's own, in that precision
        return (np.fft.ifft if inverse else np.fft.fft)(x.astype(np.clongdouble))
    k = np.arange(n)
    turns = LONG(8) * np.arctan(LONG(1)) * (np.outer(k, k) % n).astype(LONG) / n
    found = x.astype(np.clongdouble) @ (np.cos(turns) + (1j if inverse else -1j) * np.sin(turns))
    return found / n if inverse else found


def error(got, expected):
    """In the norm, in units of what the dtype resolves."""
    size = np.linalg.norm(expected.ravel().astype(complex))
    rest = np.linalg.norm((got - expected).ravel().astype(complex))
    return rest / size / np.finfo(got.dtype).eps


def bound(n):
    """What pocketfft's errors are: it, too, makes convolutions of large primes, those above 100."""
    return (0.7 if is_made(n) else 1.7) + 0.1 * np.log2(n)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("n", "dtype"), [(n, np.float64) for n in LENGTHS] + [(n, np.float32) for n in LENGTHS[::3]]
)
def test_errors(n, dtype):
    z = signal((n,), dtype)
    x, full = z.real.copy(), exact(z.real)
    half = full[: n // 2 + 1]
    spectrum = half.astype(z.dtype)
    back = np.fft.irfft(spectrum.astype(np.clongdouble), n)
    cases = [
        (np.fft.fft, z, exact(z)),
        (np.fft.ifft, z, exact(z, inverse=True)),
        (np.fft.rfft, x, half),
        (lambda z: np.fft.irfft(z, n), spectrum, back),
    ]
    for function, given, expected in cases:
        got = jit(function)(given)
        assert got.dtype == function(given).dtype
        assert error(got, expected) < bound(n)


SHAPES = [
    # rows: a few at a time, one by one, cut into matrices
    ((20, 12), 1), ((3, 12), 1), ((2, 3, 17, 36), 3), ((5, 128), 1), ((3, 11), 1),
    ((2, 2, 8192), 2), ((1, 6006), 1),
    # columns
    ((100, 3), 0), ((3, 64, 40), 1), ((12, 2, 17), 0), ((3, 10, 4, 9), 1), ((512, 37), 0),
    ((9, 1), 0), ((2100, 3), 0),
    ((2, 2200, 11), 1), ((2, 520, 130), 1),
    # nothing
    ((0, 12), 1), ((12, 0), 0),
]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_axes(shape, axis, dtype):
    z = signal(shape, dtype)
    moved = np.moveaxis(z, axis, -1)
    expected = np.moveaxis(exact(moved), -1, axis)
    got = jit(lambda z: np.fft.fft(z, axis=axis))(z)
    assert got.shape == z.shape and got.dtype == z.dtype
    if z.size:
        assert error(got, expected) < bound(shape[axis])


@pytest.mark.few(4)
@pytest.mark.parametrize(("shape", "axis"), [s for s in SHAPES if s[0] != (12, 0)])
def test_threads_share_without_changing_a_bit(shape, axis, monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 1)
    z = signal(shape)
    function = jit(lambda z: np.fft.fft(z, axis=axis))
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(config, "threads", threads)
        found.append(function(z))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


WAYS = {
    "rows": ({}, (3, 120), 1),
    "rows that share": ({"shared": 12}, (3, 120), 1),
    "one row that shares": ({"shared": 12}, (512,), 0),
    "short rows": ({}, (9, 12), 1),
    "uneven rows": ({}, (37, 125), 1),
    "long rows": ({"long": 12}, (3, 120), 1),
    "columns": ({}, (120, 19), 0),
    "shared columns": ({"largest_tile": 256}, (2, 120, 19), 1),
    "shared columns, vectors": ({"largest_tile": 256}, (512, 32), 0),
    "long columns": ({"largest_tile": 256, "long": 12}, (2, 120, 19), 1),
    # tiles that are too large for the stack
    "columns that share": ({"largest_stack": 1 << 12}, (2, 120, 37), 1),
    "short rows one after another": ({"largest_stack": 1 << 8}, (9, 12), 1),
    "long rows that share": ({"largest_stack": 64, "long": 12}, (3, 120), 1),
    "long columns that share": (
        {"largest_stack": 64, "largest_tile": 256, "long": 12}, (2, 120, 19), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("far", "registers"), [(1, 32), (1 << 12, 32), (1 << 12, 16)])
@pytest.mark.parametrize("way", WAYS)
def test_each_way(way, far, registers, dtype, monkeypatch):
    limits, shape, axis = WAYS[way]
    limits = {**limits, "far": far}
    stack = limits.pop("largest_stack", 1 << 18)
    take_host_for(monkeypatch, transforms=limits, largest_stack=stack)
    monkeypatch.setattr(host, "_registers", lambda: registers)
    monkeypatch.setattr(config, "parallel_threshold", 1)
    z = signal(shape, dtype)
    function = jit(lambda z: np.fft.fft(z, axis=axis))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(function(z))
    expected = np.moveaxis(exact(np.moveaxis(z, axis, -1)), -1, axis)
    assert error(found[0], expected) < bound(shape[axis])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("n", [*range(1, 33), 40, 64, 72, 96, 128, 512])
@pytest.mark.parametrize("axis", [0, 1])
def test_lengths_with_few_registers(axis, n, monkeypatch):
    """Eight is then four times two."""
    monkeypatch.setattr(host, "_registers", lambda: 16)
    z = signal((19, n) if axis else (n, 19))
    got = jit(lambda z: np.fft.fft(z, axis=axis))(z)
    np.testing.assert_allclose(got, np.fft.fft(z, axis=axis), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_too_large_for_the_stack_share_their_butterflies(axis):
    """So do columns that are too large for the cache."""
    z = signal((9, 1 << 15))
    given = z if axis else z.T.copy()
    found = jit(lambda z: np.fft.fft(z, axis=axis))(given)
    assert error(found if axis else found.T, exact(z)) < bound(1 << 15)


def passes(shape):
    """The outermost statements of each nest with the lines of a transform along the first axis."""
    schedule = jit(lambda z: np.fft.fft(z, axis=0)).lower(signal(shape)).schedule()
    nests = [nest.split("\n")[1:] for nest in schedule.split("\nnest ") if "lines_re[?] =" in nest]
    return [[line for line in nest if line.startswith("  ") and line[2] != " "] for nest in nests]


@pytest.mark.parametrize(
    "shape", [(1 << 16,), (1 << 17,), (1 << 15,), (3**3 * 5 * 7**3,), (512, 257), (1 << 14, 8)]
)
def test_each_pass_over_a_long_row_or_a_large_tile_is_a_loop_that_threads_share(shape):
    found = passes(shape)
    assert len(found) >= 4
    for nest in found:
        assert len(nest) == 1 and " in parallel" in nest[0]


def test_passes_over_a_short_row_are_one_kernel():
    assert len(passes((4096,))) == len(passes((8192,))) == len(passes((256, 64))) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("n", "dtype"),
    [(n, np.float64) for n in (1, 2, 17, 300, 2600, 1 << 16, 3**3 * 5 * 7**3, 20_011)]
    + [(1 << 17, np.float32)],
)
def test_threads_share_a_row_without_changing_a_bit(n, dtype, monkeypatch):
    z = signal((n,), dtype)
    full = exact(z)
    x, spectrum = z.real.copy(), full[: n // 2 + 1].astype(z.dtype)
    back = np.fft.irfft(spectrum.astype(np.clongdouble), n)
    function = jit(lambda z, x, y: (np.fft.fft(z), np.fft.rfft(x), np.fft.irfft(y, n)))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(function(z, x, spectrum))
    for got, expected in zip(found[0], (full, exact(x)[: n // 2 + 1], back), strict=True):
        assert error(got, expected) < bound(n)
    np.testing.assert_equal(found[1:], found[:1] * 2)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_other_machines(seed):
    draws = np.random.default_rng(seed)
    with thresholds.drawn(draws):
        for shape, axis in [((9, 30), 1), ((9, 30), 0), ((21, 10, 5), 1), ((120,), 0)]:
            z = signal(shape)
            got = jit(lambda z, axis=axis: np.fft.fft(z, axis=axis))(z)
            np.testing.assert_allclose(got, np.fft.fft(z, axis=axis), rtol=1e-12, atol=1e-12)
            got = jit(lambda x, axis=axis: np.fft.rfft(x, axis=axis))(z.real.copy())
            np.testing.assert_allclose(got, np.fft.rfft(z.real, axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("n", [6, 30, 17])
def test_transforms_of_transforms_compiled(n):
    z, w = signal((3, n)), signal((n // 2 + 1,), seed=1)

    def energy(x):
        filtered = np.fft.irfft(np.fft.rfft(x) * w, n)
        return np.sum(np.tanh(filtered) ** 2)

    x = z.real.copy()
    expected = np.stack([grad(energy)(row) for row in x])
    np.testing.assert_allclose(jit(vmap(grad(energy)))(x), expected, rtol=1e-12, atol=1e-12)
    inner = jit(lambda z: vmap(np.fft.fft, in_axes=1, out_axes=1)(z.T))
    np.testing.assert_allclose(inner(z), np.fft.fft(z).T, rtol=1e-12, atol=1e-12)


def test_a_donated_array_may_be_overwritten():
    z = signal((64, 64))
    expected = np.fft.fft2(z)
    got = jit(np.fft.fft2, donate_argnums=0)(z.copy())
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def calls_numpy(function, *args):
    return "call NumPy" in jit(function).lower(*args).schedule()


@pytest.mark.dear
def test_which_are_numpys():
    for n in (1, 8, 13, 23, 360, 4096, 2310):
        z = signal((n,))
        assert not calls_numpy(np.fft.fft, z)
        assert not calls_numpy(np.fft.rfft, z.real.copy())
        assert not calls_numpy(lambda z, n=n: np.fft.irfft(z, n), z[: n // 2 + 1])
    # of a large prime number of points
    assert not calls_numpy(np.fft.fft, signal((1009,)))
    assert not calls_numpy(np.fft.rfft, signal((2018,)).real.copy())


def test_the_longest_transforms():
    assert has_form(LONGEST) and has_form((1 << 20) + 7)
    assert not has_form(LONGEST + 1) and not has_form(3 * (1 << 20) + 1)


@pytest.mark.parametrize("n", [17, 64, 65, 1009, 10_007])
def test_convolutions_are_padded_to_short_factors(n):
    assert 2 * n - 1 <= padded(n) <= 2.6 * n + 16 and max(factors(padded(n))) <= 5


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 29), 1), ((29, 5), 0), ((2, 58, 3), 1), ((300, 101), 1), ((101, 37), 0)],
)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_large_primes_along_any_axis(shape, axis, norm):
    z = signal(shape)
    x, n = z.real.copy(), shape[axis]
    for function, given in (
        (lambda z: np.fft.fft(z, axis=axis, norm=norm), z),
        (lambda z: np.fft.ifft(z, axis=axis, norm=norm), z),
        (lambda x: np.fft.rfft(x, axis=axis, norm=norm), x),
        (lambda x: np.fft.irfft(np.fft.rfft(x, axis=axis), n, axis=axis, norm=norm), x),
        (lambda x: np.fft.fft2(x, axes=(0, 1), norm=norm), x),
    ):
        assert not calls_numpy(function, given)
        expected = function(given)
        size = np.abs(expected).max()
        np.testing.assert_allclose(jit(function)(given), expected, rtol=0, atol=1e-14 * size)


@pytest.mark.dear
def test_one_point_of_a_large_prime_number_gives_an_even_spectrum():
    x = np.zeros(1009)
    x[0] = 1
    np.testing.assert_allclose(jit(np.fft.fft)(x), np.ones(1009), rtol=0, atol=1e-14)


HALVED = [
    lambda x: np.fft.fft(x), lambda x: np.fft.ifft(x, axis=0), np.fft.fft2, np.fft.ifftn,
    lambda x: np.fft.ifft(np.fft.fft(x), axis=0), lambda x: np.fft.ifftn(np.fft.fftn(x)[..., ::-1]),
]  # fmt: skip


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(12, 18), (17, 12), (12, 9), (20, 1), (3, 10, 12)])
@pytest.mark.parametrize("function", HALVED)
def test_of_real_numbers_and_to_real_numbers(function, shape):
    z = signal(shape)

    def parts(z):
        return np.real(function(z)), np.imag(function(2 * z)), function(np.real(z))

    for got, expected in zip(jit(parts)(z), parts(z), strict=True):
        assert got.dtype == expected.dtype
        assert np.linalg.norm(got - expected) <= 2e-15 * np.linalg.norm(function(z))


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 45), 1), ((99, 17), 0), ((2, 27, 3), 1), ((0, 63), 1)]
)
def test_odd_numbers_of_real_numbers_along_any_axis(shape, axis, dtype):
    z = signal(shape, dtype)
    n = shape[axis]
    half = np.take(z, range(n // 2 + 1), axis)
    for norm in ("backward", "ortho"):
        for function, given in (
            (lambda x, norm=norm: np.fft.rfft(x, axis=axis, norm=norm), z.real),
            (lambda x, norm=norm: np.fft.irfft(x, n, axis=axis, norm=norm), half),
        ):
            got, expected = jit(function)(given), function(given)
            assert got.dtype == expected.dtype and got.shape == expected.shape
            if z.size:
                assert error(got, expected) < 2


def test_the_first_stage_of_an_odd_number_of_real_numbers_halves_it():
    """Three lines of nine points are transformed, and not five."""
    for function, x in (
        (np.fft.rfft, np.zeros((8, 45))),
        (np.fft.irfft, np.zeros((8, 23), complex)),
    ):
        made = jit(lambda x, of=function: of(x, 45)).lower(x).stages()
        assert ":f64[8,3,9] = split_fft" in made


@pytest.mark.full
def test_imaginary_parts_of_the_ends_do_not_count():
    # a transform of real numbers has none there, and NumPy does not look at them
    for n in (2, 5, 8, 12, 30, 64, 15):
        z = signal((3, n // 2 + 1))
        function = jit(lambda z, n=n: np.fft.irfft(z, n))
        np.testing.assert_allclose(function(z), np.fft.irfft(z, n), rtol=1e-12, atol=1e-12)


def test_what_is_not_finite_stays_where_it_is():
    z = signal((4, 32))
    z[1, 3], z[2, 5] = np.nan, np.inf
    got = jit(np.fft.fft)(z)
    assert np.isfinite(got[[0, 3]]).all()
    assert not np.isfinite(got[[1, 2]]).any()
    odd = np.where(np.arange(45) == 7, np.inf, 1.0)
    with np.errstate(invalid="ignore"):
        assert jit(np.fft.rfft)(odd)[0] == np.fft.rfft(odd)[0] == np.inf


@pytest.mark.parametrize("n", [*range(1, 18), 19, 20, 23, 25, 49])
def test_butterflies(n):
    z = signal((n,)).astype(np.clongdouble)
    found = butterfly([Pair(x.real, x.imag) for x in signal((n,))])
    assert error(np.array([y.re + 1j * y.im for y in found]), exact(z)) < bound(n)


@pytest.mark.parametrize("n", [1, 2, 16, 128, 512, 1024, 360, 4096, 2310, 289, 368])
def test_radices(n):
    for large in (1, 4, 64, 1 << 62):
        assert np.prod(radices(n, large)) == n and max(radices(n, large)) <= LARGEST_PRIME
    # without many registers, butterflies of powers of two have at most four points
    assert 8 not in radices(n, 1)
    assert np.prod(factors(n)) == n


def test_parts_that_are_not_alike_are_refused():
    from functrans.errors import DtypeError, ShapeError

    x = np.zeros(12)
    with pytest.raises(DtypeError, match="real and imaginary parts are floats, and alike"):
        jit(lambda x: split_fft_p(x, x.astype(np.float32), axis=0, scale=1.0))(x)
    with pytest.raises(ShapeError, match="there is no such transform"):
        jit(lambda x: split_fft_p(x, x, axis=0, scale=1.0))(np.zeros(29))

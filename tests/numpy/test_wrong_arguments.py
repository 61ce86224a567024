"""Invalid arguments for which NumPy and SciPy raise also raise in a trace."""

import numpy as np
import pytest
from scipy import fft, integrate, interpolate, linalg, optimize, signal, stats
from scipy.spatial import distance

from functrans import jit

X = np.arange(1.0, 7.0).reshape(2, 3)
V = np.arange(1.0, 4.0)

CALLS = {
    "interp, sizes": lambda x, v: np.interp(x, np.arange(3), np.arange(4.0)),
    "interp, axes": lambda x, v: np.interp(v, x, x),
    "interp, nothing": lambda x, v: np.interp(v, [], []),
    "interp, complex ends": lambda x, v: np.interp(v, v, v, left=1j),
    "convolve": lambda x, v: np.convolve(x, x),
    "correlate": lambda x, v: np.correlate(x, v),
    "sort": lambda x, v: np.sort(x, kind="bogo"),
    "argsort": lambda x, v: np.argsort(x, kind="bogo"),
    "partition": lambda x, v: np.partition(v, 9),
    "argpartition": lambda x, v: np.argpartition(v, [0, -9]),
    "take": lambda x, v: np.take(v, [0], mode="foo"),
    "compress": lambda x, v: np.compress([1, 0, 1, 1, 1], v),
    "tile": lambda x, v: np.tile(v, -1),
    "polyder": lambda x, v: np.polyder(v, -1),
    "vander": lambda x, v: np.vander(x),
    "cov": lambda x, v: np.cov(v, aweights=[1, -1, 1]),
    "digitize": lambda x, v: np.digitize(v, [1, 3, 2]),
    "lexsort": lambda x, v: np.lexsort((v, x)),
    "select": lambda x, v: np.select([v > 1], [-1], v.astype(np.uint8)),
    "pad, NaN": lambda x, v: np.pad(v.astype(int), 1, constant_values=np.nan),
    "pad, infinity": lambda x, v: np.pad(v.astype(int), 1, constant_values=np.inf),
    "ix_": lambda x, v: np.ix_(x),
    "partition, kind": lambda x, v: np.partition(v, 1, kind="bogo"),
    "partition, half": lambda x, v: np.argpartition(v, 1.5),
    "choose": lambda x, v: np.choose([0, 1], [v[:2], v[1:]], mode="foo"),
    "concatenate": lambda x, v: np.concatenate([v, v], casting="foo"),
    "isin": lambda x, v: np.isin(v, v, kind="foo"),
    "bincount": lambda x, v: np.bincount([0, 1, 1], v, minlength=-1),
    "bincount, weights": lambda x, v: np.bincount([0, 1, 1], v[0]),
    "resize": lambda x, v: np.resize(v, -1),
    "vander, columns": lambda x, v: np.vander(v, -1),
    "broadcast_to": lambda x, v: np.broadcast_to(v, (-1, 3)),
    "geomspace": lambda x, v: np.geomspace(v[0], 0.0, 3),
    "searchsorted": lambda x, v: np.searchsorted(x, v),
    "searchsorted, sorter": lambda x, v: np.searchsorted(v, v, sorter=[0, 1]),
    "compress, number": lambda x, v: np.compress(True, v),
    "take_along_axis": lambda x, v: np.take_along_axis(v, np.array([True, False]), 0),
    "packbits": lambda x, v: np.packbits(v),
    "unravel_index": lambda x, v: np.unravel_index(v, (3, 2)),
    "ravel_multi_index": lambda x, v: np.ravel_multi_index((v > 1, v > 2), (2, 2), mode="foo"),
    "ravel_multi_index, nothing": lambda x, v: np.ravel_multi_index((v > 1, v > 1), (2, 0), "clip"),
    "unravel_index, nothing": lambda x, v: np.unravel_index(v[:0], (3, 2)),
    "correlate, number": lambda x, v: np.correlate(v[0], v),
    "cov, fractions": lambda x, v: np.cov(v, fweights=[1.5, 1.0, 2.0]),
    "pad, lengths": lambda x, v: np.pad(v, 1, "mean", stat_length=-1),
    "roots, axes": lambda x, v: np.polynomial.polynomial.polyvalfromroots(x, v, tensor=False),
    "einsum, numbers": lambda x, v: np.einsum(x, [-1, 5], v, [5], [-1]),
    "isin, floats": lambda x, v: np.isin(v, v, kind="table"),
    "quantile, method": lambda x, v: np.quantile(v, 0.5, weights=v),
    "quantile, weights": lambda x, v: np.quantile(
        v, 0.5, method="inverted_cdf", weights=[-1, 2, 3]
    ),
    "delete": lambda x, v: np.delete(v, np.empty(0)),
    "insert": lambda x, v: np.insert(v, np.empty(0), 1.0),
    "put_along_axis": lambda x, v: np.put_along_axis(x.copy(), np.eye(2, dtype=int), 9.0, None),
    "put_along_axis, axes": lambda x, v: np.put_along_axis(x.copy(), np.arange(3), 9.0, 1),
    "put_along_axis, truths": lambda x, v: np.put_along_axis(x.copy(), x > 0, 9.0, 1),
    "cov, ddof": lambda x, v: np.cov(v, ddof=0.5),
    "ediff1d": lambda x, v: np.ediff1d(v, to_end=1j),
    "max": lambda x, v: np.max(v, initial=1j),
    "sum": lambda x, v: np.sum(v, initial=(1.0, 2.0)),
    "dtype": lambda x, v: np.sum(v, dtype=0),
    "ones_like": lambda x, v: np.ones_like(v, dtype=0),
    "histogram": lambda x, v: np.histogram(x, 3, weights=np.arange(6.0)),
    "polyint": lambda x, v: np.polyint(v, 3, [1.0, 2.0]),
    "lfilter": lambda x, v: signal.lfilter([], [1.0], v),
    "lfilter, poles": lambda x, v: signal.lfilter([1.0], [], v),
    "weights": lambda x, v: stats.wasserstein_distance(v, v, v[:2]),
    "no sample": lambda x, v: stats.energy_distance(v, v[:0]),
    "moment": lambda x, v: stats.moment(v, order=1.5),
    "pearsonr": lambda x, v: stats.pearsonr(v[:1], v[:1]),
    "alternative": lambda x, v: stats.pearsonr(v, v, alternative="foo"),
    "rankdata": lambda x, v: stats.rankdata(v, "foo"),
    "negative weights": lambda x, v: stats.wasserstein_distance(v, v, [1.0, -1.0, 2.0]),
    "derivative": lambda x, v: interpolate.UnivariateSpline(V, v, k=2, s=0).derivative(3),
    "integrand": lambda x, v: integrate.quad(None, 0.0, v[0]),
    "tolerance": lambda x, v: optimize.brentq(lambda t: t - v[0], 0, 2, xtol=-1.0),
    "relative tolerance": lambda x, v: optimize.bisect(lambda t: t - v[0], 0, 2, rtol=0.0),
    "steps": lambda x, v: optimize.ridder(lambda t: t - v[0], 0, 2, maxiter=-1),
    "interval": lambda x, v: optimize.toms748(lambda t: t - v[0], 2.0, 0.0),
    "secant": lambda x, v: optimize.newton(lambda t: t - v[0], 1.0, tol=0.0),
    "eigenvalues": lambda x, v: linalg.eigvalsh(x[:, :2], subset_by_index=(0, 5)),
    "a range of eigenvalues": lambda x, v: linalg.eigvalsh_tridiagonal(v, v[1:], "i"),
    "pinv": lambda x, v: linalg.pinv(x, rtol=-1.0),
    "points of a transform": lambda x, v: fft.dct(v, n=-1),
    "power of a distance": lambda x, v: distance.minkowski(v, v[::-1], -1),
    "weights of a distance": lambda x, v: distance.cityblock(v, v, w=[-1.0, 1.0, 1.0]),
    "a matrix of weights": lambda x, v: distance.euclidean(v, v, w=x),
    "complex vectors": lambda x, v: distance.cosine(v, 1j * v),
    "complex points": lambda x, v: distance.pdist(1j * x),
    "rate": lambda x, v: signal.welch(v, fs=-1, nperseg=2),
    "shares": lambda x, v: stats.gaussian_kde(v, weights=v[:2]),
    "rq": lambda x, v: linalg.rq(x, mode="foo"),
    "from inside": lambda x, v: np.fft.fft(v, norm=[]),
    "axes": lambda x, v: np.fft.fft2(x, axes=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_raises_what_numpy_raises(name):
    with pytest.raises((ValueError, IndexError, TypeError, OverflowError)) as expected:
        CALLS[name](X.copy(), V.copy())
    with pytest.raises(type(expected.value)) as found:
        jit(CALLS[name]).lower(X, V)
    assert str(found.value).startswith(str(expected.value))


OF_ANOTHER_SHAPE = [
    lambda x, v: np.add.reduce(x, 0, out=np.zeros_like(x[:1])),
    lambda x, v: np.mean(x, 1, out=np.zeros_like(x[:, :1])),
    lambda x, v: x.sum(0, out=np.zeros_like(x)),
    lambda x, v: np.cumsum(v, out=np.zeros_like(x)),
    lambda x, v: np.take(v, [0, 1, 2], out=np.zeros_like(x)),
    lambda x, v: np.einsum("ij->j", x, out=np.zeros_like(x)),
]


@pytest.mark.parametrize("call", OF_ANOTHER_SHAPE)
def test_only_elementwise_results_are_broadcast_to_an_array(call):
    with pytest.raises(ValueError):
        call(X, V)
    with pytest.raises(ValueError, match=r"^an array of shape \(\d, \d\) cannot hold the result"):
        jit(call).lower(X, V)


def test_floats_are_not_contracted_in_a_narrower_dtype():
    def function(v):
        return np.einsum("i,i", v, v, dtype=np.float32)

    for call in (function, jit(function)):
        with pytest.raises(TypeError, match="according to the rule 'safe'"):
            call(V)


def test_the_error_of_our_own_code_is_the_cause():
    def transformed(v):
        return np.fft.fft(v, norm=[])

    with pytest.raises(ValueError, match=r"^Invalid norm value \[\]") as numpys:
        jit(transformed)(V)
    assert isinstance(numpys.value.__cause__, TypeError)
    with pytest.raises(TypeError, match="unhashable"):  # NumPy is not asked about many numbers
        jit(transformed)(np.zeros(10_001))


def test_what_is_at_the_end_of_what_is_right():
    def f(v):
        ends = np.partition(v, -3), np.partition(v, [0, 2]), np.sort(v, kind="Mergesort")
        return *ends, np.compress([0, 1, 1, 0][:3], v), np.tile(v, 0), np.polyder(v, 0)

    for found, expected in zip(jit(f)(V), f(V), strict=True):
        np.testing.assert_array_equal(np.sort(found), np.sort(expected))


@pytest.mark.parametrize("ufunc", [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd])
def test_floats_have_no_bits_to_be_combined(ufunc):
    with pytest.raises(TypeError):
        jit(lambda x: ufunc.reduce(x))(V[:1])


@pytest.mark.parametrize("name", ["logical_xor", "logical_or", "bitwise_xor", "gcd", "hypot"])
def test_one_element_has_the_dtype_of_many(name):
    ufunc = getattr(np, name)
    for x in (np.array(5), np.array([5]), np.array([5, 3])):
        expected, found = ufunc.reduce(x), jit(lambda x: ufunc.reduce(x))(x)
        assert (found, found.dtype) == (expected, expected.dtype)


def assigned(y, v):
    y[0] = v
    return y


OF_NUMBERS = {
    "full_like": lambda y, v: np.full_like(y, v),
    "pad": lambda y, v: np.pad(y, 1, constant_values=v),
    "max": lambda y, v: np.max(y, initial=v),
    "min, where": lambda y, v: np.min(y, initial=v, where=y > 1),
    "prod": lambda y, v: np.prod(y, initial=v, dtype=y.dtype),
    "insert": lambda y, v: np.insert(y, 1, v),
    "put": lambda y, v: np.put(y, [0], v),
    "copyto": lambda y, v: np.copyto(y, v),
    "place": lambda y, v: np.place(y, y > 1, v),
    "putmask": lambda y, v: np.putmask(y, y > 1, v),
    "fill_diagonal": lambda y, v: np.fill_diagonal(y, v),
    "an element": assigned,
    "elements": lambda y, v: assigned(y, [v, 1]),
    "NumPy's number": lambda y, v: assigned(y, np.int64(v)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize(("dtype", "number"), [(np.int8, 300), (np.uint8, -1), (np.int8, -128)])
def test_integers_that_do_not_fit(name, dtype, number):
    def call(x):
        y = x.copy()
        result = OF_NUMBERS[name](y, number)
        return y if result is None else result

    x = np.array([[1, 2], [3, 4]], dtype)
    try:
        expected = call(x)
    except OverflowError as error:
        with pytest.raises(OverflowError, match=str(error)):
            jit(call)(x)
    else:
        np.testing.assert_array_equal(jit(call)(x), expected, strict=True)


ASSIGNED = ["put", "place", "putmask", "fill_diagonal", "insert", "an element", "elements"]


@pytest.mark.parametrize("name", ASSIGNED)
@pytest.mark.parametrize(
    ("dtype", "number"), [(np.int8, np.nan), (np.int64, np.inf), (np.int8, 1j), (float, 2j)]
)
def test_numbers_of_python_that_no_element_can_be(name, dtype, number):
    def call(x):
        y = x.copy()
        result = OF_NUMBERS[name](y, number)
        return y if result is None else result

    x = np.array([[1, 2], [3, 4]], dtype)
    with pytest.raises((TypeError, ValueError, OverflowError)) as numpys:
        call(x)
    with pytest.raises(numpys.type):
        jit(call)(x)


@pytest.mark.parametrize("order", ["K", "A"])
def test_the_layout_of_a_traced_array_is_not_known(order):
    for flat in (
        lambda x: np.ravel(x, order),
        lambda x: np.reshape(x, -1, order=order),
        lambda x: x.T.ravel(order),
    ):
        with pytest.raises(ValueError, match="order must be one of 'C' or 'F'"):
            jit(flat)(X)

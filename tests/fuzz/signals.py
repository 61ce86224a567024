"""Operations of random programs on signals, windows, sorted data and spectra."""

import numpy as np
import scipy.signal
import scipy.special
from numpy.lib.stride_tricks import sliding_window_view

import functrans
from functrans import lax
from functrans.scipy import signal as traced_signal
from functrans.scipy import special as traced_special
from tests.fuzz.complex_numbers import complexes


def is_plain(*values):
    return all(issubclass(type(value), (np.ndarray, np.generic)) for value in values)


def single_or_double(x):
    return x.dtype in (np.float32, np.float64)


def real(x):
    return x.dtype.kind in "fi"


def does_not_overflow(x):
    # between narrow integers NumPy's own quantiles overflow: they are subtracted as they are
    return real(x) and x.dtype.itemsize >= 4


def transform(d):
    """Fourier transforms, of an axis or two."""
    name = d.choice(["fft", "ifft", "rfft", "irfft", "hfft", "fft2", "fftshift", "by fft"])
    real = name in ("rfft", "by fft")
    least = 2 if name == "fft2" else 1
    first = d.value(
        lambda x: (single_or_double(x) or (complexes(x) and not real)) and x.ndim >= least
    )
    if first is None or 0 in d.values[first].shape:
        return None
    x = d.values[first]
    axis = d.integer(-x.ndim, x.ndim)
    norm = d.choice([None, "ortho", "forward"])
    n = d.choice([None, None, x.shape[axis] + 3, max(x.shape[axis] - 2, 1)])
    if name in ("irfft", "hfft") and x.shape[axis] < 2:
        return None
    functions = {
        "fft": lambda x: np.fft.fft(x, n, axis, norm),
        "ifft": lambda x: np.fft.ifft(x, n, axis, norm),
        "rfft": lambda x: np.fft.rfft(x, n, axis, norm),
        "irfft": lambda x: np.fft.irfft(x, axis=axis, norm=norm),
        "hfft": lambda x: np.fft.hfft(x, axis=axis, norm=norm),
        "fft2": lambda x: np.fft.fft2(x, norm=norm), "fftshift": lambda x: np.fft.fftshift(x, axis),
        "by fft": lambda x: np.fft.irfft(np.fft.rfft(x, axis=axis) * 0.5, x.shape[axis], axis),
    }  # fmt: skip
    return f"{name}(n={n}, axis={axis}, norm={norm})", [first], functions[name]


def windows(d):
    name = d.choice(["mean", "max", "product", "strided"])
    first = d.value(lambda x: x.dtype.kind in "fi" and x.ndim >= 1)
    if first is None:
        return None
    x = d.values[first]
    axis = d.integer(0, x.ndim)
    size = d.integer(1, 6)
    if x.shape[axis] < size:
        return None
    functions = {
        "mean": lambda w: w.mean(-1), "max": lambda w: w.max(-1),
        "strided": lambda w: w[..., 0] * 2, "product": lambda w: w * np.cos(w[..., :1]),
    }  # fmt: skip
    return (
        f"windows of {size} (axis={axis}): {name}",
        [first],
        lambda x: functions[name](sliding_window_view(x, size, axis)),
    )


def convolution(d):
    name = d.choice(["np.convolve", "np.correlate", "np.polymul", "of images", "layer"])
    mode = d.choice(["full", "same", "valid"])
    planes = name in ("of images", "layer")
    first = d.value(lambda x: single_or_double(x) and x.ndim == 1 + planes)
    if first is None or 0 in d.values[first].shape or max(d.values[first].shape) > 300:
        return None
    second = d.value(lambda y: y.dtype == d.values[first].dtype and y.ndim == 1 + planes)
    if second is None or 0 in d.values[second].shape:
        return None
    size = d.choice([1, 2, 3, 8, 40])
    cut = (slice(size),) * (1 + planes)

    def led_by_one(x):
        # NumPy takes zeros in front away, as many as there are: no shape of a compiled program
        return np.concatenate([np.ones(1, x.dtype), x])

    def of_images(x, y):
        y = y[cut]
        if is_plain(x, y):
            return scipy.signal.convolve(x, y, "full", method="direct")
        return traced_signal.convolve(x, y, "full", method="direct")

    def layer(x, y):
        # several kernels, of two channels each
        images, kernels = x[None, None], np.tanh(y[cut])
        if not is_plain(x, y):
            images = np.concatenate([images, images * 2], axis=1)
            stacked = np.stack([np.stack([kernels * (k + 1), kernels]) for k in range(5)])
            pads = [(n // 2, n // 2) for n in kernels.shape]
            return lax.conv_general_dilated(images, stacked, (1, 2), pads)[0]
        padded = np.pad(x, [(n // 2, n // 2) for n in kernels.shape])
        seen = sliding_window_view(padded, kernels.shape)[:, ::2]
        one = np.einsum("pqkl,kl->pq", seen, kernels)
        return np.stack([one * (k + 1) + 2 * one for k in range(5)])

    functions = {
        "np.convolve": lambda x, y: np.convolve(x, y[cut], mode),
        "np.correlate": lambda x, y: np.correlate(x, y[cut], mode),
        "np.polymul": lambda x, y: np.polymul(led_by_one(x), led_by_one(y[cut])),
        "of images": of_images, "layer": layer,
    }  # fmt: skip
    return f"{name} ({mode}, {size})", [first, second], functions[name]


def segments(d):
    name = d.choice(["bincount", "add.at", "maximum.at", "histogram", "segment_sum"])
    first = d.value(lambda x: single_or_double(x) and x.ndim == 1 and x.size > 0)
    if first is None:
        return None
    n = d.values[first].size
    count = d.choice([1, 3, 17])
    numbers = d.rng.integers(0, count, size=n)

    def at(ufunc, start):
        def apply(x):
            y = np.full(count, start, x.dtype) + 0 * x[:1].sum()
            ufunc.at(y, numbers, x)
            return y

        return apply

    def counted(x):
        weights = np.cos(x)
        if is_plain(x):
            return np.bincount(numbers, weights, minlength=count)
        return functrans.numpy.bincount(numbers, weights, length=count)

    def summed(x):
        return at(np.add, 0)(x) if is_plain(x) else lax.segment_sum(x, numbers, count)

    functions = {
        "segment_sum": summed, "bincount": counted,
        "add.at": at(np.add, 0), "maximum.at": at(np.maximum, -3),
        "histogram": lambda x: np.histogram(x, bins=count, range=(-1.5, 1.5), weights=x * x)[0],
    }  # fmt: skip
    return f"{name} into {count}", [first], functions[name]


def order(d):
    name = d.choice([
        "sort", "along argsort", "partition", "median", "quantile", "searchsorted", "sort complex",
        "interp", "descending", "take by rank",
    ])  # fmt: skip
    wanted = {"sort complex": complexes, "quantile": does_not_overflow}.get(name, real)
    first = d.value(lambda x: wanted(x) and x.ndim >= 1 and x.size > 0)
    if first is None or d.values[first].dtype == np.float16:
        return None
    x = d.values[first]
    axis = d.integer(-x.ndim, x.ndim)
    kth = d.integer(0, x.shape[axis])
    q = float(d.rng.random())
    grid = np.sort(d.rng.normal(size=7))
    functions = {
        "sort": lambda x: np.sort(x, axis=axis), "sort complex": lambda x: np.sort(x, axis=axis),
        "along argsort": lambda x: np.take_along_axis(
            np.cos(x), np.argsort(x, axis=axis, kind="stable"), axis
        ),
        "partition": lambda x: np.partition(x, kth, axis=axis).take(kth, axis),
        "median": lambda x: np.median(x, axis=axis),
        "quantile": lambda x: np.quantile(x, q, axis=axis),
        "searchsorted": lambda x: np.searchsorted(grid, x),
        "interp": lambda x: np.interp(x, grid, np.cos(3 * grid)),
        "descending": lambda x: np.flip(np.sort(x, axis=axis), axis),
        "take by rank": lambda x: x.ravel()[np.argsort(x, axis=None, kind="stable")[::2]],
    }  # fmt: skip
    return f"{name} (axis={axis}, {kth}, {q:.3f})", [first], functions[name]


def spectra(d):
    """Decompositions, of which only what is determined is looked at."""
    name = d.choice([
        "eigvalsh", "function of eigh", "svdvals", "nuclear norm", "pinv", "qr", "lstsq",
        "complex solve", "complex det", "expm",
    ])  # fmt: skip
    first = d.value(lambda x: single_or_double(x) and x.ndim == 2 and 1 < min(x.shape) <= 9)
    if first is None or max(d.values[first].shape) > 20:
        return None

    def spread(x, n):
        # far from matrices with equal eigenvalues
        a = np.tanh(x[:n, :n] + np.zeros((n, n), x.dtype)) / n
        return a + a.T + np.diag(np.arange(2.0, 2.0 + 3 * n, 3)).astype(x.dtype)

    n = min(d.values[first].shape)

    def by_eigh(x):
        values, vectors = np.linalg.eigh(spread(x, n))
        return (vectors * np.sqrt(values)) @ vectors.T

    def complex_matrix(x):
        return spread(x, n) + 1j * np.cos(x[:n, :n])

    functions = {
        "eigvalsh": lambda x: np.linalg.eigvalsh(spread(x, n)), "function of eigh": by_eigh,
        "svdvals": lambda x: np.linalg.svd(spread(x, n), compute_uv=False),
        "nuclear norm": lambda x: np.linalg.norm(spread(x, n), "nuc"),
        "pinv": lambda x: np.linalg.pinv(spread(x, n)),
        "qr": lambda x: np.abs(np.linalg.qr(spread(x, n))[1]),
        "lstsq": lambda x: np.linalg.lstsq(spread(x, n), x[:n], rcond=None)[0],
        "complex solve": lambda x: np.linalg.solve(complex_matrix(x), x[:n] + 0j),
        "complex det": lambda x: np.linalg.det(complex_matrix(x) / 5),
        "expm": lambda x: np.linalg.matrix_power(spread(x, n) / (3 * n), 3),
    }  # fmt: skip
    return name, [first], functions[name]


def special(d):
    names = [
        "gammaln", "erf", "expit", "ndtr", "j0", "i0e", "digamma", "log_ndtr", "xlog1py",
        "logsumexp", "softmax",
    ]  # fmt: skip
    name = d.choice(names)
    first = d.value(lambda x: single_or_double(x) and x.ndim >= 1 and x.size > 0)
    if first is None:
        return None

    def apply(x):
        module = scipy.special if is_plain(x) else traced_special
        function = getattr(module, name)
        if name == "xlog1py":
            return function(x, np.abs(x))
        if name in ("logsumexp", "softmax"):
            return function(x, axis=-1)
        return function(np.abs(x) + 0.5 if name in ("gammaln", "digamma") else x)

    return f"special: {name}", [first], apply


OPERATIONS = [transform, windows, windows, convolution, segments, order, order, spectra, special]

"""Spectra of traced signals, by SciPy's names and by ours, against SciPy."""

import numpy as np
import pytest
import scipy.signal as scipys

from functrans import jit, vmap
from functrans.scipy import signal as ours
from functrans.testing import check_grads

rng = np.random.default_rng(0)
X, Y, ROWS = rng.normal(size=50), rng.normal(size=50), rng.normal(size=(3, 50))
Z = X + 1j * Y
SIGNALS = {
    "real": X,
    "complex": Z,
    "rows": ROWS,
    "single": X.astype(np.float32),
    "whole": np.arange(50) % 7,
}

CALLS = [
    ("welch", {}), ("welch", {"nperseg": 15, "noverlap": 5, "detrend": "linear"}),
    ("welch", {"nperseg": 8, "average": "median"}),
    ("welch", {"nperseg": 16, "nfft": 32, "scaling": "spectrum", "detrend": False}),
    ("welch", {"fs": 100.0, "window": ("kaiser", 5.0), "nperseg": 16, "return_onesided": False}),
    ("welch", {"window": np.hanning(16)}),
    ("periodogram", {}), ("periodogram", {"nfft": 64}), ("periodogram", {"nfft": 30, "fs": 2.0}),
    ("stft", {}), ("stft", {"nperseg": 15, "noverlap": 5, "boundary": "even"}),
    ("stft", {"nperseg": 16, "boundary": "odd", "padded": False}),
    ("stft", {"nperseg": 16, "boundary": "constant", "nfft": 20, "return_onesided": False}),
    ("stft", {"nperseg": 16, "boundary": None, "scaling": "psd", "fs": 10.0}),
    ("spectrogram", {"nperseg": 16}), ("spectrogram", {"nperseg": 16, "mode": "magnitude"}),
    ("spectrogram", {"nperseg": 16, "mode": "complex"}),
]  # fmt: skip


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype and one.shape == other.shape
        tolerance = 1e-4 if other.dtype in (np.float32, np.complex64) else 1e-10
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:nperseg", "ignore:Input data is complex")
@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_of_one_signal(name, options, kind):
    x = SIGNALS[kind]
    expected = getattr(scipys, name)(x, **options)
    lanes = vmap(lambda x: getattr(ours, name)(x, **options)[-1])(x[None])
    close(lanes, expected[-1:])
    if kind in ("real", "single"):
        close(jit(lambda x: getattr(scipys, name)(x, **options))(x), expected)


@pytest.mark.parametrize("kind", ["whole", "bytes", "half"])
def test_windows_of_signals_of_other_dtypes(kind):
    x = {"whole": SIGNALS["whole"], "bytes": SIGNALS["whole"].astype(np.int8),
         "half": X.astype(np.float16)}[kind]  # fmt: skip
    options = {"nperseg": 16, "detrend": False}
    lanes = vmap(lambda x: scipys.welch(x, **options)[1])(x[None])
    close(lanes, [scipys.welch(x, **options)[1]])


@pytest.mark.parametrize("x", [X, X[:0]])
def test_of_nothing(x):
    expected = scipys.csd(x, X[:0])
    for found in (jit(ours.csd)(x, X[:0]), jit(ours.csd)(X[:0], x)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["welch", "periodogram", "stft", "spectrogram"])
def test_along_another_axis(name):
    columns = ROWS.T.copy()
    options = {} if name == "periodogram" else {"nperseg": 16}
    call = getattr(scipys, name)
    close(jit(lambda x: call(x, axis=0, **options))(columns), call(columns, axis=0, **options))


@pytest.mark.dear
@pytest.mark.parametrize("name", ["csd", "coherence"])
@pytest.mark.parametrize(("x", "y"), [(X, Y), (X, Y[:40]), (ROWS, Y)])
def test_of_two_signals(name, x, y):
    call = getattr(scipys, name)
    close(jit(lambda x, y: call(x, y, nperseg=16))(x, y), call(x, y, nperseg=16))


TRANSFORM = scipys.stft(ROWS, nperseg=16)[2]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noverlap": 8, "window": ("kaiser", 4.0)},
        {"scaling": "psd", "fs": 5.0},
        {"window": "boxcar"},
    ],
)
@pytest.mark.parametrize(
    ("z", "axes"),
    [
        (TRANSFORM, {}),
        (TRANSFORM[0], {}),
        (TRANSFORM[0].astype(np.complex64), {}),
        (np.moveaxis(TRANSFORM, (-1, -2), (0, 1)).copy(), {"time_axis": 0, "freq_axis": 1}),
    ],
)
def test_there_and_back(options, z, axes):
    options = options | axes
    close(jit(lambda z: scipys.istft(z, **options))(z), scipys.istft(z, **options))


def test_derivatives_with_respect_to_a_window():
    z = TRANSFORM[0]
    for scaling in ("spectrum", "psd"):
        check_grads(
            lambda w, scaling=scaling: scipys.istft(z, window=w, nperseg=16, scaling=scaling)[1],
            (np.hanning(16) + 0.1,), order=1, max_elements=3,
        )  # fmt: skip


def test_derivatives():
    check_grads(lambda x: ours.welch(x, nperseg=16)[1], (X,), order=1, max_elements=3)
    check_grads(lambda x, y: ours.csd(x, y, nperseg=16)[1], (X, Y), order=1, max_elements=3)
    check_grads(
        lambda x: ours.istft(2 * ours.stft(x, nperseg=16)[2])[1], (X,), order=1, max_elements=3
    )

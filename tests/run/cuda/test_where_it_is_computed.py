"""Library functions compute with device arrays on their device; none is copied silently."""

import numpy as np
import pytest

import functrans
import functrans.numpy as fnp
import functrans.scipy.fft
import functrans.scipy.integrate
import functrans.scipy.ndimage
import functrans.scipy.signal
import functrans.scipy.spatial
import functrans.scipy.special
import functrans.scipy.stats
from functrans import checkpoint, lax, random, stop_gradient, vmap
from functrans.run.cuda.array import DeviceArray

special, stats = functrans.scipy.special, functrans.scipy.stats
V = np.random.default_rng(0).normal(size=5)
X = np.random.default_rng(1).normal(size=(4, 5))
KEY = random.key(0)

CALLS = {
    "fnp.asarray": lambda v, x, k: fnp.asarray(v),
    "fnp.array of a list": lambda v, x, k: fnp.array([v, v]),
    "fnp.r_": lambda v, x, k: fnp.r_[v, v],
    "fnp.at": lambda v, x, k: fnp.at(v)[0].set(2.0),
    "fnp.vectorize": lambda v, x, k: fnp.vectorize(lambda a: a * 2)(v),
    "fnp.meshgrid": lambda v, x, k: fnp.meshgrid(v, v)[0],
    "windows": lambda v, x, k: np.lib.stride_tricks.sliding_window_view(v, 2),
    "cov": lambda v, x, k: np.cov(x),
    "polyval": lambda v, x, k: np.polyval(v, v),
    "special.gammaln": lambda v, x, k: special.gammaln(abs(v)),
    "special.softmax": lambda v, x, k: special.softmax(x, axis=1),
    "stats.norm.logpdf": lambda v, x, k: stats.norm.logpdf(v, loc=1.0),
    "stats.multivariate_normal": lambda v, x, k: stats.multivariate_normal.logpdf(v),
    "signal.convolve": lambda v, x, k: functrans.scipy.signal.convolve(v, v),
    "signal.wiener": lambda v, x, k: functrans.scipy.signal.wiener(v),
    "signal.hilbert": lambda v, x, k: functrans.scipy.signal.hilbert(v),
    "ndimage.uniform_filter1d": lambda v, x, k: functrans.scipy.ndimage.uniform_filter1d(v, 3),
    "integrate.simpson": lambda v, x, k: functrans.scipy.integrate.simpson(v),
    "integrate.trapezoid": lambda v, x, k: functrans.scipy.integrate.trapezoid(v),
    "spatial.distance_matrix": lambda v, x, k: functrans.scipy.spatial.distance_matrix(x, x),
    "fft": lambda v, x, k: functrans.scipy.fft.fft(v),
    "lax.dynamic_slice": lambda v, x, k: lax.dynamic_slice(x, (1, 2), (2, 2)),
    "lax.dynamic_update_slice": lambda v, x, k: lax.dynamic_update_slice(x, x[:2, :2], (1, 1)),
    "lax.map": lambda v, x, k: lax.map(lambda row: row * 2, x),
    "random.normal": lambda v, x, k: random.normal(k, (3,)),
    "random.split": lambda v, x, k: random.split(k, 3),
    "random.fold_in": lambda v, x, k: random.fold_in(k, 3),
    "stop_gradient": lambda v, x, k: stop_gradient(v),
    "checkpoint": lambda v, x, k: checkpoint(np.sin)(v),
    "vmap": lambda v, x, k: vmap(lambda r, s: (r * s).sum(), in_axes=(0, None))(x, v),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_computed_on_the_device(emulated, monkeypatch, name):
    there = [functrans.device_put(x) for x in (V, X, KEY)]
    with monkeypatch.context() as patched:
        patched.setattr(DeviceArray, "__array__", copied)
        found = CALLS[name](*there)
    assert isinstance(found, DeviceArray)
    expected = CALLS[name](V, X, KEY)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-9)
    there.clear()
    del found


def copied(self, *args, **kwargs):
    raise AssertionError("a device array was copied to the host")

"""Chirps, frequency responses and chirp z-transforms of traced values, against SciPy."""

import numpy as np
import pytest
import scipy.signal as scipys

from functrans import jit
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import signal as ours
from functrans.testing import check_grads
from tests.scipy.comparison import check, traced

T = np.linspace(0.0, 1.0, 7)
B, A = np.array([1.0, 0.4, -0.3]), np.array([1.0, 0.5])
ROWS = np.random.default_rng(0).normal(size=(3, 5))


def parts(z):
    return z.real, z.imag


def test_chirps_and_filters_that_scipy_refuses():
    for method, f0 in (("log", -1.0), ("hyp", 0.0)):
        with pytest.raises(ValueError, match="chirp must be nonzero and have the same sign, and"):
            traced(lambda t, f0=f0, method=method: scipys.chirp(t, f0, 2, 3, method=method))(T)
    with pytest.raises(ValueError, match=r"^Parameter b is not .*, since b.shape=\(1, 2\)!$"):
        traced(lambda x: scipys.lfilter([[1.0, 2.0]], [1.0], x))(T)
    with pytest.raises(ValueError, match=r"^a\[0\] of lfilter, the factor of the result, must not"):
        traced(lambda x: scipys.lfilter([1.0], [0.0, 1.0], x))(T)


@pytest.mark.parametrize("method", ["linear", "q", "lo", "hyperbolic"])
@pytest.mark.parametrize("options", [{}, {"vertex_zero": False, "phi": 30}])
@pytest.mark.parametrize("ends", [(1.5, 2.0, 3.0), (2.0, 1.5, 2.0), (3, 2, 1)])
def test_chirps(method, options, ends):
    f0, t1, f1 = ends
    expected = scipys.chirp(T, f0, t1, f1, method, **options)
    operands = T, np.float64(f0), np.float64(t1), np.float64(f1)

    def call(t, f0, t1, f1):
        return scipys.chirp(t, f0, t1, f1, method, **options)

    np.testing.assert_allclose(jit(call)(*operands), expected, rtol=1e-12, atol=1e-12)
    # of our own values: near to equal frequencies SciPy's are rounded
    check_grads(traced(call), operands, order=2, max_elements=3)
    turning = scipys.chirp(T, f0, t1, f1, method, complex=True)
    found = jit(lambda t: ours.chirp(t, f0, t1, f1, method, complex=True))(T)
    np.testing.assert_allclose(found, turning, rtol=1e-12, atol=1e-12)


def test_no_such_chirp():
    with pytest.raises(ValueError, match="method must be 'linear'"):
        jit(lambda t: scipys.chirp(t, 1.0, 1.0, 2.0, "slow"))(T)


@pytest.mark.parametrize(
    "options",
    [
        {"worN": 5}, {"worN": 6, "whole": True}, {"worN": 5, "include_nyquist": True, "fs": 10.0},
        {"worN": [0.1, 0.7]}, {"worN": 0.3, "fs": 4.0}, {},
    ],
    ids=str,
)  # fmt: skip
def test_responses(options):
    for operands in ((B, A), (A, B), (B, A[:1])):
        check(
            lambda of, b, a: (lambda w, h: (w, *parts(h)))(*of.freqz(b, a, **options)), ours,
            scipys, operands, compiled=operands[1] is A,
        )  # fmt: skip
    check(lambda of, b: parts(of.freqz(b, **options)[1]), ours, scipys, [B], compiled=False)
    found = jit(lambda b: scipys.freqz(b, b, **options)[1])(B.astype(np.float32))
    assert (
        found.dtype == scipys.freqz(B.astype(np.float32), B.astype(np.float32), **options)[1].dtype
    )


def test_responses_of_several_filters():
    several = ROWS.T[..., None]
    found = jit(lambda b: scipys.freqz(b, worN=4)[1])(several)
    np.testing.assert_allclose(found, scipys.freqz(several, worN=4)[1], rtol=1e-12)
    with pytest.raises(ValueError, match="shapes are incompatible"):
        jit(lambda b: scipys.freqz(b)[1])(ROWS)


@pytest.mark.parametrize(
    "options",
    [{}, {"m": 3}, {"m": 9}, {"axis": 0}, {"m": 4, "w": np.exp(-0.3j), "a": 1.1 + 0.2j}, {"a": 2}],
    ids=str,
)
def test_chirp_transforms(options):
    check(lambda of, x: parts(of.czt(x, **options)), ours, scipys, [ROWS], compiled=True)
    found = jit(lambda x: scipys.czt(x, **options))(ROWS + 1j)
    np.testing.assert_allclose(found, scipys.czt(ROWS + 1j, **options), rtol=1e-10, atol=1e-10)


def test_traced_points_of_a_chirp_transform_are_refused():
    with pytest.raises(UnsupportedNumPyError, match="give plain numbers as m, w and a"):
        jit(lambda a: scipys.czt(B, a=a))(2.0)

"""Addresses of BLAS and LAPACK routines, and calls by address."""

import ctypes

import numpy as np
import pytest
from scipy.linalg import cython_blas, cython_lapack

from functrans.run import blas
from functrans.run.cuda.libraries.table import has


def called(symbol, *arguments):
    """Call a routine; numbers are put into memory first."""
    held = [
        x if isinstance(x, np.ndarray) else np.array(x, np.int32 if type(x) is int else float)
        for x in arguments
    ]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(held))(blas.address(symbol))
    function(*(each.ctypes.data for each in held))


def test_a_routine_of_blas():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    called("daxpy", 3, 2.0, x, 1, y, 1)
    np.testing.assert_array_equal(y, [12.0, 24.0, 36.0])


def test_a_routine_of_lapack():
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    info = np.array(7, np.int32)
    called("dpotrf", np.array(b"U"), 2, a, 2, info)
    assert info == 0
    np.testing.assert_allclose(np.tril(a), np.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]))


def test_an_address_stays():
    assert blas.address("dgemm") == blas.address("dgemm") != blas.address("sgemm") != 0


def test_every_routine_that_kernels_call_is_there():
    from functrans.loop.footprints import _ROUTINES

    known = {*cython_blas.__pyx_capi__, *cython_lapack.__pyx_capi__}
    letters = {"fft": "cz", "bgemm_batch_strided": "s", "hgemm_batch_strided": "s"}
    called = {letter + name for name in _ROUTINES for letter in letters.get(name, "sd")}
    # a stack of products at once, and Fourier transforms, are only of a GPU's libraries
    of_a_gpu = {f"{kind}gemm_batch_strided" for kind in ("s", "d", "sb", "sh")}
    of_a_gpu |= {"cfft", "zfft", "srfft", "drfft", "sirfft", "dirfft"}
    assert called - known == of_a_gpu
    assert all(has(symbol) for symbol in called - known)


def test_there_is_no_such_routine():
    with pytest.raises(KeyError):
        blas.address("dnothing")


def test_the_record_that_holds_blas_to_one_thread():
    at = blas.limiter()
    if at:
        record = np.frombuffer((ctypes.c_int64 * 5).from_address(at), np.int64)
        assert record[0] == 0  # nobody is in there now
        threads = ctypes.CFUNCTYPE(ctypes.c_int)(int(record[2]))()
        assert threads >= 1
    assert blas.limiter() == at

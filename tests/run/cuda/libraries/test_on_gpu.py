"""The tests of adapters against BLAS, LAPACK and NumPy, with the real libraries.

``pytest -m gpu`` runs them, on a machine with a GPU and ``functrans[cuda-linalg]``.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.run.cuda.libraries import calls, test_fourier, test_linear_algebra, test_products
from tests.run.cuda.libraries.device import Device

pytestmark = pytest.mark.gpu

UPLO, JOBS = (b"U", b"L"), (b"N", b"S", b"A")
HALVES = (("h", np.float16), ("b", ml_dtypes.bfloat16))

RUNS = {
    test_products.test_gemm: itertools.product("sd", test_products.FLAGS),
    test_products.test_what_is_not_asked_for_is_not_read: [()],
    test_products.test_halves_are_summed_in_float32: HALVES,
    test_products.test_a_batch_of_products: [("s",), ("d",), ("sh",), ("sb",)],
    test_linear_algebra.test_trsm: itertools.product("sd", (b"L", b"R")),
    test_linear_algebra.test_trsv: [("s",), ("d",)],
    test_linear_algebra.test_lacpy: itertools.product("sd", (b"A", *UPLO)),
    test_linear_algebra.test_laset: itertools.product("sd", (b"A", *UPLO)),
    test_linear_algebra.test_potrf: itertools.product("sd", UPLO),
    test_linear_algebra.test_a_matrix_that_is_not_positive_definite_is_said_to_be: [("s",), ("d",)],
    test_linear_algebra.test_getrf_and_what_solves_by_it: [("s",), ("d",)],
    test_linear_algebra.test_factors_of_matrices_that_are_not_square: [("s",), ("d",)],
    test_linear_algebra.test_a_singular_matrix_is_said_to_be: [("s",), ("d",)],
    test_linear_algebra.test_orthogonal_factors: [("s",), ("d",)],
    test_linear_algebra.test_syevd: itertools.product("sd", UPLO, (b"N", b"V")),
    test_linear_algebra.test_gesdd: itertools.product("sd", JOBS),
    test_fourier.test_fft: itertools.product("cz", (b"F", b"I")),
    test_fourier.test_rfft: itertools.product("sd", (0, 1)),
    test_fourier.test_irfft: itertools.product("sd", (0, 1)),
    test_fourier.test_in_place: [()],
}
"""Each test with its arguments."""


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        pytest.param(function, arguments, id=f"{function.__name__}-{number}")
        for function, runs in RUNS.items()
        for number, arguments in enumerate(runs)
    ],
)
def test_the_real_libraries_do_what_the_stub_does(function, arguments, monkeypatch):
    pytest.importorskip("nvmath", reason="needs the packages of functrans[cuda-linalg]")
    for module in (calls, test_products, test_fourier):
        monkeypatch.setattr(module, "Machine", Device)
    # these differ from Fortran's in the order of their sums
    looser = {dtype: 20 * tolerance for dtype, tolerance in calls.TOLERANCE.items()}
    monkeypatch.setattr(calls, "TOLERANCE", looser)
    function(*arguments)

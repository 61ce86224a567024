"""Linear algebra: the functions of `scipy.linalg`, on arrays and on traced values.

A function without a traced form takes plain arrays; for traced ones, its error says what to write
instead.
"""

from __future__ import annotations

from typing import Any

import scipy.linalg as _scipy

from functrans.scipy.define import refused as _refused
from functrans.scipy.entries import of_scipys as _of_scipys
from functrans.scipy.linalg.banded import (
    cho_solve_banded,
    cholesky_banded,
    matmul_toeplitz,
    solve_banded,
    solve_circulant,
    solve_toeplitz,
    solveh_banded,
)
from functrans.scipy.linalg.factors import (
    cho_factor,
    cho_solve,
    cholesky,
    diagsvd,
    ldl,
    lu,
    lu_factor,
    lu_solve,
    null_space,
    orth,
    polar,
    qr,
    qr_multiply,
    rq,
    svd,
    svdvals,
)
from functrans.scipy.linalg.functions import (
    coshm,
    cosm,
    expm,
    expm_cond,
    expm_frechet,
    fractional_matrix_power,
    logm,
    signm,
    sinhm,
    sinm,
    sqrtm,
    tanhm,
    tanm,
)
from functrans.scipy.linalg.similarity import cdf2rdf, hessenberg, matrix_balance, rsf2csf, schur
from functrans.scipy.linalg.solutions import (
    det,
    inv,
    lstsq,
    norm,
    pinv,
    pinvh,
    solve,
    solve_continuous_are,
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_triangular,
)
from functrans.scipy.linalg.spectra import (
    eig,
    eig_banded,
    eigh,
    eigh_tridiagonal,
    eigvals,
    eigvals_banded,
    eigvalsh,
    eigvalsh_tridiagonal,
)
from functrans.scipy.linalg.structured import (
    bandwidth,
    circulant,
    clarkson_woodruff_transform,
    companion,
    fiedler_companion,
    hankel,
    ishermitian,
    issymmetric,
    orthogonal_procrustes,
    subspace_angles,
    toeplitz,
)

_NO_UPDATE = "factorise the new matrix by qr"
_NO_PENCIL = "solve the pencil by eigh(a, b) if it is Hermitian and definite"

_INSTEAD = {
    "cossin": "use svd of the blocks",
    "funm": "write the function by expm, logm, sqrtm and products",
    "ordqz": _NO_PENCIL,
    "qr_delete": _NO_UPDATE,
    "qr_insert": _NO_UPDATE,
    "qr_update": _NO_UPDATE,
    "qz": _NO_PENCIL,
}
"""The functions without a traced form, and what to write instead."""

__all__ = [
    "bandwidth", "cdf2rdf", "cho_factor", "cho_solve", "cho_solve_banded", "cholesky",
    "cholesky_banded", "circulant", "clarkson_woodruff_transform", "companion", "coshm", "cosm",
    "det", "diagsvd", "eig", "eig_banded", "eigh", "eigh_tridiagonal", "eigvals", "eigvals_banded",
    "eigvalsh", "eigvalsh_tridiagonal", "expm", "expm_cond", "expm_frechet", "fiedler_companion",
    "fractional_matrix_power", "hankel", "hessenberg", "inv", "ishermitian", "issymmetric", "ldl",
    "logm", "lstsq", "lu", "lu_factor", "lu_solve", "matmul_toeplitz", "matrix_balance", "norm",
    "null_space", "orth", "orthogonal_procrustes", "pinv", "pinvh", "polar", "qr", "qr_multiply",
    "rq", "rsf2csf", "schur", "signm", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant",
    "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_toeplitz",
    "solve_triangular", "solveh_banded", "sqrtm", "subspace_angles", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(_scipy, name):
        raise AttributeError(f"functrans.scipy.linalg has no {name!r}")
    if name in _INSTEAD:
        return _refused(getattr(_scipy, name), _INSTEAD[name])
    # functions of sizes alone, whose results are constants, are SciPy's own
    return _of_scipys("linalg", name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_scipy.__all__})

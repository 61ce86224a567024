"""Eigenvalues and eigenvectors, their derivatives by first-order perturbation of the spectrum.

The rule for Hermitian matrices is that of Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), section 3.1: with
``M = V^H dA V``, the eigenvalues change by the diagonal of ``M``, and the eigenvectors by
``V (F * M)``, where ``F[i, j] = 1 / (w[j] - w[i])``.

The vectors of equal eigenvalues (up to rounding) are not determined within their common space,
where ``F`` is taken to be 0. So functions that neither depend on the choice of these vectors nor
distinguish equal eigenvalues have correct first derivatives, if they are functions of the
eigenvalues or of the projections on such spaces. The phases of complex eigenvectors are not
determined either, and are kept: ``v^H dv = 0``.

For other matrices, ``M`` is ``V^-1 dA V``. LAPACK normalises their vectors to length 1 and a real
largest component, and the derivative is that of such vectors (Boeddeker et al., "On the computation
of complex-valued gradients with application to statistically optimum beamforming", 2017, section
4.3, has the rule without normalisation).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, complex_dtype, real_dtype
from functrans.ops.arrays.structural import broadcast_to, cast, expand_axes, reduce_sum, reshape
from functrans.ops.elementwise.choice import absolute, masked
from functrans.ops.elementwise.complex_numbers import complex_p, imag, real
from functrans.ops.indexing.gather import gather_along
from functrans.ops.linalg.factorisations import solve_p
from functrans.ops.linalg.matrices import (
    adjoint,
    by_lapack,
    check_square,
    decomposed_forms,
    diagonal_of_product,
    far_apart,
    hermitian,
    identity,
    of_matrices,
    on_columns,
    on_rows,
    only,
    product,
    reciprocal_where_apart,
    rounding,
)
from functrans.ops.reductions.reduce import argmax
from functrans.ops.samples import cases


def _uplo(lower: bool) -> Any:
    return "L" if lower else "U"


def _infer_eigvalsh(a: Aval, *, lower: bool) -> Aval:
    check_square(a, "eigh")
    return a.update(shape=a.shape[:-1], dtype=real_dtype(a.dtype))


def _jvp_eigh(primals: Any, tangents: Any, outs: Any, *, lower: bool) -> tuple[Any, Any]:
    (da,), (values, vectors) = tangents, outs
    turned = product(hermitian(da, lower=lower), vectors)
    inner = product(adjoint(vectors), turned)
    gaps = on_columns(values) - on_rows(values)
    turn = inner * reciprocal_where_apart(gaps, on_rows(rounding(values)))
    return diagonal_of_product(vectors, turned), product(vectors, turn)


def _jvp_eigvalsh(primals: Any, tangents: Any, outs: Any, *, lower: bool) -> Any:
    _, vectors = eigh_p(*primals, lower=lower)
    return diagonal_of_product(vectors, product(hermitian(tangents[0], lower=lower), vectors))


_samples = cases(
    ((far_apart, (3, 3)), {"lower": True}), ((far_apart, (3, 3)), {"lower": False}),
    ((far_apart, (2, 2, 2)), {"lower": True}), ((far_apart, (1, 1)), {"lower": True}),
    (np.zeros((0, 0)), {"lower": True}), (np.zeros((0, 2, 2)), {"lower": True}),
    ((far_apart, (2, 5, 5)), {"lower": False}),
)  # fmt: skip

eigh_p: Primitive = of_matrices(
    "eigh",
    **decomposed_forms("eigh"),
    infer=lambda a, *, lower: (_infer_eigvalsh(a, lower=lower), a.update()),
    numpy=lambda a, *, lower: tuple(np.linalg.eigh(a, _uplo(lower))),
    several=True,
    jvp=_jvp_eigh,
    trim=lambda eqn, wanted: only(0, eqn, wanted, eigvalsh_p, **eqn.params),
    samples=_samples,
)

eigvalsh_p: Primitive = of_matrices(
    "eigvalsh",
    **decomposed_forms("eigvalsh"),
    infer=_infer_eigvalsh,
    numpy=lambda a, *, lower: np.linalg.eigvalsh(a, _uplo(lower)),
    jvp=_jvp_eigvalsh,
    samples=_samples,
)

# -- matrices that are not Hermitian ---------------------------------------------------------------


def _infer_eigvals(a: Aval) -> Aval:
    check_square(a, "eig")
    if a.dtype == np.float16:
        raise DtypeError(
            "np.linalg.eig and eigvals take float32 and float64, not float16: write "
            "a.astype(np.float32)"
        )
    return a.update(shape=a.shape[:-1], dtype=complex_dtype(a.dtype))


def _as_complex(x: Any) -> Any:
    return x.astype(complex_dtype(x.dtype), copy=False)


def _in_own_basis(vectors: Any, da: Any) -> Any:
    """``V^-1 dA V``."""
    turned = product(cast(da, dtype=vectors.dtype), vectors)
    return solve_p(vectors, turned, transpose_a=False)


def _diagonal(x: Any) -> Any:
    on_it = cast(identity(x.shape[-1], x.dtype), dtype=np.dtype(bool))
    return reduce_sum(masked(broadcast_to(on_it, shape=x.shape), x), axes=(x.ndim - 1,))


def _jvp_eig(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    (da,), (values, vectors) = tangents, outs
    inner = _in_own_basis(vectors, da)
    gaps = on_columns(values) - on_rows(values)
    turn = product(vectors, inner * reciprocal_where_apart(gaps, on_rows(rounding(values))))
    return _diagonal(inner), turn + vectors * on_columns(_normalising(vectors, turn))


def _normalising(vectors: Any, turn: Any) -> Any:
    """The multiple of a vector in its tangent that keeps its length and its normalised phase."""
    rows = vectors.ndim - 2
    longer = -diagonal_of_product(vectors, turn)
    if not vectors.shape[-1]:
        return longer
    largest = expand_axes(argmax(absolute(vectors), axis=rows), (rows,))
    own, change = (gather_along(x, largest, rows) for x in (vectors, turn))
    phase = reshape(-imag(change) / real(own), shape=longer.shape)
    return complex_p(longer, phase)


def _jvp_eigvals(primals: Any, tangents: Any, outs: Any) -> Any:
    _, vectors = eig_p(*primals)
    return _diagonal(_in_own_basis(vectors, tangents[0]))


_all_kinds = cases(
    ((far_apart, (3, 3)), {}), (np.array([[1.0, -2.0, 0.0], [1.5, 1.0, 0.3], [0.2, 0.0, 4.0]]), {}),
    ((far_apart, (2, 2, 2)), {}), ((far_apart, (1, 1)), {}), (np.zeros((0, 0)), {}),
)  # fmt: skip

eig_p: Primitive = of_matrices(
    "eig",
    parts=by_lapack("eig"),
    infer=lambda a: (_infer_eigvals(a), a.update(dtype=complex_dtype(a.dtype))),
    numpy=lambda a: tuple(map(_as_complex, np.linalg.eig(a))),
    several=True,
    jvp=_jvp_eig,
    trim=lambda eqn, wanted: only(0, eqn, wanted, eigvals_p),
    samples=_all_kinds,
)

eigvals_p: Primitive = of_matrices(
    "eigvals",
    parts=by_lapack("eigvals"),
    infer=_infer_eigvals,
    numpy=lambda a: _as_complex(np.linalg.eigvals(a)),
    jvp=_jvp_eigvals,
    samples=_all_kinds,
)

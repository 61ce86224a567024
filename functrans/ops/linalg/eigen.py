"""Eigenvalues and eigenvectors, their derivatives by first-order perturbation of the spectrum.

The rule for Hermitian matrices is that of Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), section 3.1: with
``M = V^H dA V``, the eigenvalues change by the diagonal of ``M``, and the eigenvectors by
``V (F * M)``, where ``F[i, j] = 1 / (w[j] - w[i])``.

Where eigenvalues are equal (up to rounding), the vectors of their common space are not determined,
and ``F`` is taken to be 0 there. So what does not depend on the choice of these vectors, nor tells
equal eigenvalues apart, has its right first derivative if it is a function of the eigenvalues, or
of the projections on such spaces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, real_dtype
from functrans.ops.arrays.structural import reduce_sum
from functrans.ops.define import lazy
from functrans.ops.elementwise.complex_numbers import conj, real
from functrans.ops.linalg.matrices import (
    adjoint,
    check_square,
    decomposed,
    far_apart,
    hermitian,
    of_matrices,
    on_columns,
    on_rows,
    product,
    reciprocal_where_apart,
    rounding,
)
from functrans.ops.samples import cases


def _triangle(lower: bool) -> dict[str, bool]:
    return {"lower": lower}


def _uplo(lower: bool) -> Any:
    return "L" if lower else "U"


def _infer_eigh(a: Aval, *, lower: bool) -> tuple[Aval, Aval]:
    return _infer_eigvalsh(a, lower=lower), a.update()


def _infer_eigvalsh(a: Aval, *, lower: bool) -> Aval:
    check_square(a, "eigh")
    return a.update(shape=a.shape[:-1], dtype=real_dtype(a.dtype))


def _jvp_eigh(primals: Any, tangents: Any, outs: Any, *, lower: bool) -> tuple[Any, Any]:
    (da,), (values, vectors) = tangents, outs
    turned = product(hermitian(da, lower=lower), vectors)
    inner = product(adjoint(vectors), turned)
    gaps = on_columns(values) - on_rows(values)
    turn = inner * reciprocal_where_apart(gaps, on_rows(rounding(values)))
    return _changes(vectors, turned), product(vectors, turn)


def _changes(vectors: Any, turned: Any) -> Any:
    """The diagonal of ``V^H dA V``."""
    return real(reduce_sum(conj(vectors) * turned, axes=(vectors.ndim - 2,)))


def _jvp_eigvalsh(primals: Any, tangents: Any, outs: Any, *, lower: bool) -> Any:
    _, vectors = eigh_p(*primals, lower=lower)
    return _changes(vectors, product(hermitian(tangents[0], lower=lower), vectors))


def _without_vectors(eqn: Eqn, wanted: Any) -> Eqn:
    values, vectors = wanted
    if vectors or not values:
        return eqn
    return Eqn(eigvalsh_p, eqn.inputs, eqn.outputs[:1], eqn.params, eqn.source)


_samples = cases(
    ((far_apart, (3, 3)), _triangle(True)), ((far_apart, (3, 3)), _triangle(False)),
    ((far_apart, (2, 2, 2)), _triangle(True)), ((far_apart, (1, 1)), _triangle(True)),
    (np.zeros((0, 0)), _triangle(True)), (np.zeros((0, 2, 2)), _triangle(True)),
    ((far_apart, (2, 9, 9)), _triangle(False)),
)  # fmt: skip

eigh_p: Primitive = of_matrices(
    "eigh",
    emit=decomposed(lazy("functrans.ops.linalg.compiled.matrices:eigh")),
    infer=_infer_eigh,
    numpy=lambda a, *, lower: tuple(np.linalg.eigh(a, _uplo(lower))),
    several=True,
    jvp=_jvp_eigh,
    trim=_without_vectors,
    samples=_samples,
)

eigvalsh_p: Primitive = of_matrices(
    "eigvalsh",
    emit=decomposed(lazy("functrans.ops.linalg.compiled.matrices:eigvalsh")),
    infer=_infer_eigvalsh,
    numpy=lambda a, *, lower: np.linalg.eigvalsh(a, _uplo(lower)),
    jvp=_jvp_eigvalsh,
    samples=_samples,
)

"""SciPy's sparse matrices as arguments: pytrees of their stored values, with constant indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse

from functrans.api.compressed import Structure
from functrans.errors import ShapeError
from functrans.ir.primitive import current
from functrans.lazily import lazy
from functrans.tree.registration import register

_traced = lazy("functrans.scipy.sparse.traced:SparseMatrix")

Aux = tuple[Structure, str, bool]
"""The structure, the format, and whether it is a matrix class (`spmatrix`), not an array."""

FORMATS = {
    (kind, is_matrix): getattr(scipy.sparse, f"{kind}_{'matrix' if is_matrix else 'array'}")
    for kind in ("bsr", "coo", "csc", "csr", "dia")
    for is_matrix in (False, True)
}
"""SciPy's classes, of which those of the formats coo, csc and csr are pytrees."""


def children(matrix: Any) -> tuple[tuple[Any], Aux, tuple[str]]:
    """Flatten a SciPy matrix: its values row by row, and its structure."""
    if matrix.ndim != 2:
        raise ShapeError(
            f"a sparse array of shape {matrix.shape} cannot be an argument of a transformed "
            "function: make it a row, a.reshape(1, -1)"
        )
    by_rows = scipy.sparse.csr_array(matrix)
    if not by_rows.has_canonical_format:
        by_rows = by_rows.copy()
        by_rows.sum_duplicates()
    structure = Structure(by_rows.shape, by_rows.indptr, by_rows.indices)
    is_matrix = isinstance(matrix, scipy.sparse.spmatrix)
    return (by_rows.data,), (structure, matrix.format, is_matrix), ("data",)


def made(aux: Aux, values: Iterable[Any]) -> Any:
    """Unflatten: a SciPy matrix if the values are an array, otherwise one with traced values."""
    structure, kind, is_matrix = aux
    (own,) = values
    is_one = isinstance(own, np.ndarray) and own.shape == structure.indices.shape
    if not is_one or current.get() is not None:
        return _traced(structure, own, kind, is_matrix)
    # copies, since SciPy may modify a matrix in place
    parts = own, structure.indices.copy(), structure.indptr.copy()
    by_rows = scipy.sparse.csr_array(parts, shape=structure.shape)
    by_rows.has_canonical_format = True
    return by_rows if (kind, is_matrix) == ("csr", False) else FORMATS[kind, is_matrix](by_rows)


def register_all() -> None:
    """Register SciPy's sparse classes as pytrees."""
    for (kind, _), cls in FORMATS.items():
        if kind in ("coo", "csc", "csr"):
            register(cls, children, made)

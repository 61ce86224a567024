"""Sparse matrices as results: SciPy's, or `TracedSparse` if their values are traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from functrans.errors import ShapeError, UnsupportedAttributeError
from functrans.ir.primitive import current
from functrans.ops.dependence import Pattern
from functrans.ops.indexing.gather import gather, scatter_add
from functrans.tree.registration import register


class Structure:
    """The positions of a sparse matrix's entries, in CSR format with sorted columns.

    Structures compare equal if their contents do.
    """

    def __init__(self, shape: tuple[int, int], indptr: Any, indices: Any) -> None:
        self.shape = shape
        self.indptr = indptr
        self.indices = indices

    def __hash__(self) -> int:
        return hash((self.shape, len(self.indices)))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure)
            and self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    @property
    def rows(self) -> Any:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))


class TracedSparse:
    """A sparse matrix whose values are traced, or those of many matrices at once.

    Attributes
    ----------
    data : array
        The values of the entries, by rows, in the order of the columns. If `vmap` has computed
        many matrices, it has one more axis.
    indices, indptr : array
        The column of each entry, and the start of each row, as in `scipy.sparse.csr_array`.
    shape : tuple of int
    """

    def __init__(self, structure: Structure, data: Any) -> None:
        self._structure = structure
        self.data = data
        self.shape = structure.shape
        self.indices = structure.indices
        self.indptr = structure.indptr

    def __repr__(self) -> str:
        entries = len(self.indices)
        return f"<sparse matrix of shape {self.shape} with {entries} entries, {self.data}>"

    def __matmul__(self, x: Any) -> Any:
        """The product with a vector, or with the columns of a matrix."""
        if np.ndim(x) not in (1, 2) or np.shape(x)[0] != self.shape[1]:
            raise ShapeError(
                f"a sparse matrix of shape {self.shape} cannot be multiplied by an array of shape "
                f"{np.shape(x)}"
            )
        values = self.data if np.ndim(x) == 1 else self.data[:, None]
        terms = values * gather(x, self.indices.astype(np.int64), axes=(0,))
        nothing = np.zeros((self.shape[0], *np.shape(x)[1:]), terms.dtype)
        return scatter_add(nothing, terms, self._structure.rows, axes=(0,), unique=False)

    def toarray(self) -> Any:
        """The dense matrix."""
        nothing = np.zeros(self.shape, self.data.dtype)
        at = self._structure.rows, self.indices.astype(np.int64)
        return scatter_add(nothing, self.data, *at, axes=(0, 1), unique=True)

    todense = toarray

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedAttributeError(
            f"a sparse matrix whose values are traced has data, indices, indptr, shape, toarray() "
            f"and a product (@) with an array, but not {name!r}: return it from the traced "
            "function, and it is a scipy.sparse.csr_array"
        )


def assembled(pattern: Pattern, data: Any) -> Any:
    """The sparse matrix with a pattern and the values of its entries."""
    # 32-bit indices if possible, as in SciPy: SuperLU takes no others
    largest = max(*pattern.shape, pattern.nnz)
    integer = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    parts = pattern.indptr.astype(integer), pattern.indices.astype(integer)
    structure = Structure(pattern.shape, *parts)
    return _made(structure, (data,))


def _made(structure: Structure, children: Iterable[Any]) -> Any:
    (data,) = children
    is_one = isinstance(data, np.ndarray) and data.shape == structure.indices.shape
    if not is_one or current.get() is not None:
        return TracedSparse(structure, data)
    # copies, since SciPy may change a matrix in place
    parts = data, structure.indices.copy(), structure.indptr.copy()
    matrix = csr_array(parts, shape=structure.shape)
    matrix.has_canonical_format = True
    return matrix


register(TracedSparse, lambda x: ((x.data,), x._structure, ("data",)), _made)

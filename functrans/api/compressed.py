"""The structure of sparse matrices, which are pytrees of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from functrans.ops.dependence import Pattern
from functrans.tree import compare
from functrans.tree import core as tree


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


def structure_of(pattern: Pattern) -> compare.Structure:
    """The structure, as a pytree, of a sparse matrix with a pattern."""
    # 32-bit indices if possible: SuperLU takes no others
    largest = max(*pattern.shape, pattern.nnz)
    integer = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    places = pattern.indices.astype(integer), pattern.indptr.astype(integer)
    return tree.structure(csr_array((np.zeros(pattern.nnz), *places), shape=pattern.shape))

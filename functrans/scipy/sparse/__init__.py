"""`scipy.sparse` in traced functions: constant matrices, and traced values at constant indices.

The constructors, operators and functions are SciPy's own. A constant matrix takes traced arrays:
``A @ x``, ``x @ A``, ``A.T @ x``, ``A.dot(x)``. Given traced values, ``csr_array((values, (rows,
columns)), shape=...)``, `coo_array`, `csc_array`, `dia_array`, `diags` and the matrix classes make
a matrix of them: its places are constant, and its values have derivatives. It is transposed,
sliced, added up, multiplied, stacked and given to `kron`, `block_array` or `linalg.spsolve` like
one of SciPy's, and is one when a compiled function returns it. A product is one multiplication for
each element that is stored, added to its row.

Examples
--------
>>> import numpy as np
>>> from scipy.sparse import csr_array
>>> from functrans import grad
>>> from functrans.scipy import sparse
>>> a = csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
>>> grad(lambda x: np.sum((a @ x) ** 2))(np.array([1.0, 1.0]))
array([18.,  8.])
>>> def f(values):
...     a = csr_array((values, ([0, 1], [1, 0])), shape=(2, 2))
...     return np.sum((a @ np.array([1.0, 2.0])) ** 2)
>>> grad(f)(np.array([2.0, 3.0]))
array([16.,  6.])
"""

from typing import Any

import scipy.sparse as _scipy_sparse

from functrans.scipy.sparse import construction as _construction  # noqa: F401  makes them
from functrans.scipy.sparse import linalg as linalg
from functrans.scipy.sparse import products as _products  # noqa: F401  takes the place of A @ x

__all__ = [name for name in _scipy_sparse.__all__ if callable(getattr(_scipy_sparse, name))]


def __getattr__(name: str) -> Any:
    """SciPy's constructors and functions of sparse matrices are SciPy's."""
    return getattr(_scipy_sparse, name)


def __dir__() -> list[str]:
    return sorted({*__all__, "linalg"})

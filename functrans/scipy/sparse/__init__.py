"""`scipy.sparse` in traced functions: constant matrices, and traced values at constant indices.

The constructors, operators and functions are SciPy's own. A constant matrix takes traced arrays:
``A @ x``, ``x @ A``, ``A.T @ x``, ``A.dot(x)``. Given traced values, ``csr_array((values, (rows,
columns)), shape=...)``, `coo_array`, `csc_array`, `dia_array`, `diags` and the matrix classes
construct a matrix with a constant sparsity pattern, which is differentiable in its values. It can
be transposed, sliced, added, multiplied, stacked and passed to `kron`, `block_array` or
`linalg.spsolve` like a SciPy matrix, and a compiled function returns it as one. Products take one
multiplication for each stored element.

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

from functrans.scipy.sparse import construction as _construction  # noqa: F401  constructors
from functrans.scipy.sparse import linalg as linalg
from functrans.scipy.sparse import products as _products  # noqa: F401  dispatch of A @ x

__all__ = [name for name in _scipy_sparse.__all__ if callable(getattr(_scipy_sparse, name))]


def __getattr__(name: str) -> Any:
    """Other names are SciPy's constructors and functions."""
    return getattr(_scipy_sparse, name)


def __dir__() -> list[str]:
    return sorted({*__all__, "linalg"})

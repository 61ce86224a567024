"""`scipy.sparse`: constant sparse matrices times traced arrays.

The matrices are SciPy's own, and their values are not differentiated. In a traced function
``A @ x``, ``x @ A``, ``A.T @ x``, ``A.dot(x)`` (and ``A * x`` of the older matrix classes) take
traced arrays. They are one product for each element that is stored, added to its row, so they
have derivatives, lanes and a compiled form.

Examples
--------
>>> import numpy as np
>>> from scipy.sparse import csr_array
>>> from functrans import grad
>>> from functrans.scipy import sparse
>>> a = csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
>>> grad(lambda x: np.sum((a @ x) ** 2))(np.array([1.0, 1.0]))
array([18.,  8.])
"""

from typing import Any

import scipy.sparse as _scipy_sparse

from functrans.scipy.sparse import construction as _construction  # noqa: F401  which refuses
from functrans.scipy.sparse import linalg as linalg
from functrans.scipy.sparse import products as _products  # noqa: F401  takes the place of A @ x

__all__ = [name for name in _scipy_sparse.__all__ if callable(getattr(_scipy_sparse, name))]


def __getattr__(name: str) -> Any:
    """SciPy's constructors and functions of sparse matrices are SciPy's."""
    return getattr(_scipy_sparse, name)


def __dir__() -> list[str]:
    return sorted({*__all__, "linalg"})

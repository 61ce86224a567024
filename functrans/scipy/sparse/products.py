"""Products of a constant sparse matrix and a traced array: gather, multiply, scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from functrans.errors import ShapeError
from functrans.numpy.arrays import filled
from functrans.trace import protocols
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer


def product(matrix: Any, x: Any) -> Any:
    """``matrix @ x`` of a sparse matrix and a vector, or a matrix.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    shape = matrix.shape
    if len(shape) > 2 or x.ndim not in (1, 2) or x.shape[0] != shape[-1]:
        raise ShapeError(
            f"a sparse array of shape {shape} cannot be multiplied by an array of shape {x.shape}"
            f"{located(user_source())}"
        )
    if len(shape) == 1:
        return product(matrix.reshape(1, -1), x)[0]
    # by rows, so that the sums are SciPy's
    stored = matrix.tocsr().tocoo()
    values = stored.data if x.ndim == 1 else stored.data[:, None]
    terms = values * np.take(x, stored.col.astype(np.int64), axis=0)
    nothing = filled((shape[0], *x.shape[1:]), 0, terms.dtype)
    return nothing.at[stored.row.astype(np.int64)].add(terms)


def _dispatch(scipys: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(self: Any, other: Any) -> Any:
        if isinstance(other, Tracer) and other.ndim:
            return product(self, other)
        return scipys(self, other)

    return dispatch


def _take_the_place() -> None:
    """Let SciPy's matrices ask us about traced operands, while something is traced.

    All of their products go through these methods, which some classes have of their own. A product
    from the left is that of the transposes.
    """
    for owner in {*scipy.sparse.csr_array.__mro__, *scipy.sparse.coo_array.__mro__}:
        for name in {"_matmul_dispatch", "dot"} & vars(owner).keys():
            scipys = vars(owner)[name]
            protocols.replaced_methods[owner, name] = (scipys, _dispatch(scipys))


_take_the_place()

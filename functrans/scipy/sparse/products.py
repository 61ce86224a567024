"""Constant sparse matrices and traced values: products by gather, multiply and scatter."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse

from functrans.errors import ShapeError
from functrans.numpy.arrays import filled
from functrans.scipy.sparse.traced import SparseMethods, as_traced
from functrans.trace.delegation import delegate
from functrans.trace.source import here
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
            f"{here()}"
        )
    if len(shape) == 1:
        return product(matrix.reshape(1, -1), x)[0]
    # row by row, for SciPy's order of summation
    stored = matrix.tocsr().tocoo()
    values = stored.data if x.ndim == 1 else stored.data[:, None]
    terms = values * np.take(x, stored.col.astype(np.int64), axis=0)
    nothing = filled((shape[0], *x.shape[1:]), 0, terms.dtype)
    return nothing.at[stored.row.astype(np.int64)].add(terms)


def _product(self: Any, other: Any) -> Any:
    return as_traced(self) @ other if isinstance(other, SparseMethods) else product(self, other)


def _has_traced_factor(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    (other,) = (*args[1:], *kwargs.values())
    return isinstance(other, SparseMethods) or (isinstance(other, Tracer) and other.ndim > 0)


def _operator(name: str) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        return getattr(as_traced(self), name)(other)

    return operator


def _has_traced_operand(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    self, other = (*args, *kwargs.values())
    return isinstance(other, (SparseMethods, Tracer)) and not isinstance(self, SparseMethods)


_PRODUCTS = frozenset({"_matmul_dispatch", "dot"})

_OPERATORS = frozenset(
    {"__add__", "__mul__", "__radd__", "__rmul__", "__rsub__", "__sub__", "__truediv__", "multiply"}
)
"""The operators of a constant matrix that accept a traced matrix or number."""


def _take_the_place() -> None:
    """Install the dispatch of products with traced operands in SciPy's sparse classes.

    All products go through these methods, which some classes override. A product from the left is
    computed as the product of the transposes.
    """
    kinds = "bsr", "coo", "csc", "csr", "dia", "dok", "lil"
    classes = [getattr(scipy.sparse, f"{k}_{end}") for k in kinds for end in ("array", "matrix")]
    for owner in {owner for cls in classes for owner in cls.__mro__} - {object}:
        for name in (_PRODUCTS | _OPERATORS) & vars(owner).keys():
            if name in _PRODUCTS:
                delegate(vars(owner)[name], _product, _has_traced_factor)
            else:
                delegate(vars(owner)[name], _operator(name), _has_traced_operand)


_take_the_place()

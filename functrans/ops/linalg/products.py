"""matmul, dot, tensordot and similar products as contractions, with NumPy's rules for ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrans.errors import ShapeError
from functrans.ir.types import is_bfloat16
from functrans.ops.arrays.shape import asarray
from functrans.ops.arrays.structural import cast, expand_axes, move_axis, reduce_sum, reshape
from functrans.ops.elementwise.arithmetic import multiply
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.indexing.views import diagonal
from functrans.ops.linalg.contraction import Labels, contract_labelled, dot_general
from functrans.trace import protocols
from functrans.trace.source import here

_LEADING = tuple(f"batch {i}" for i in range(64))


def _labels(ndim: int, core: Labels) -> Labels:
    """Labels for leading axes, which are counted from the last one, and for the core axes."""
    return (*_LEADING[: ndim - len(core)][::-1], *core)


def _refused_by_numpy(function: Callable[..., Any], *operands: Any) -> ShapeError:
    """The error with NumPy's message, raised for dummy arrays of these shapes."""
    try:
        function(*(np.broadcast_to(np.zeros(()), x.shape) for x in operands))
    except ValueError as error:
        return ShapeError(f"{error}{here()}")
    raise AssertionError(f"NumPy takes what {function} was refused")


def _broadcast(x: Any, y: Any, x_core: Labels, y_core: Labels, refused: Any) -> Any:
    """The product over the label ``k``, with leading axes broadcast, as a gufunc does it."""
    x_labels, y_labels = _labels(x.ndim, x_core), _labels(y.ndim, y_core)
    sizes = dict(zip(x_labels, x.shape, strict=True))
    for label, extent in zip(y_labels, y.shape, strict=True):
        own = sizes.get(label, extent)
        if own != extent and (label == "k" or 1 not in (own, extent)):
            raise _refused_by_numpy(refused, x, y)
    leading = max(x.ndim - len(x_core), y.ndim - len(y_core))
    core = tuple(label for label in (*x_core, *y_core) if label != "k")
    return contract_labelled(x, x_labels, y, y_labels, (*_LEADING[:leading][::-1], *core))


def _factors(x: Any) -> Any:
    """An array as NumPy's gufuncs multiply it: bfloat16 as float32, which `dot` gives back."""
    x = asarray(x)
    return cast(x, dtype=np.dtype(np.float32)) if is_bfloat16(x.dtype) else x


def matmul(x: Any, y: Any) -> Any:
    """``x @ y``."""
    x, y = _factors(x), _factors(y)
    if x.ndim == 0 or y.ndim == 0:
        raise _refused_by_numpy(np.matmul, x, y)
    if x.ndim <= 2 and y.ndim <= 2 and x.shape[-1] == y.shape[0]:
        # a fast path for the common case
        return dot_general(x, y, contract=((x.ndim - 1,), (0,)), batch=((), ()))
    x_core = ("m", "k") if x.ndim > 1 else ("k",)
    y_core = ("k", "n") if y.ndim > 1 else ("k",)
    return _broadcast(x, y, x_core, y_core, np.matmul)


def matvec(x: Any, y: Any) -> Any:
    """Matrices times vectors, with the leading axes broadcast."""
    x, y = _factors(x), _factors(y)
    _check_ranks(np.matvec, x, y, 2, 1)
    return _broadcast(x, y, ("m", "k"), ("k",), np.matvec)


def vecmat(x: Any, y: Any) -> Any:
    """Vectors times matrices, with the leading axes broadcast."""
    x, y = _factors(x), _factors(y)
    _check_ranks(np.vecmat, x, y, 1, 2)
    return _broadcast(conj(x), y, ("k",), ("k", "n"), np.vecmat)


def vecdot(x: Any, y: Any, axis: int = -1, keepdims: bool = False) -> Any:
    """The inner products of vectors along an axis, the first conjugated; other axes broadcast."""
    x, y = _factors(x), _factors(y)
    _check_ranks(np.vecdot, x, y, 1, 1)
    x = move_axis(x, normalize_axis_index(axis, x.ndim), x.ndim - 1)
    y = move_axis(y, normalize_axis_index(axis, y.ndim), y.ndim - 1)
    out = _broadcast(conj(x), y, ("k",), ("k",), np.vecdot)
    return expand_axes(out, (normalize_axis_index(axis, out.ndim + 1),)) if keepdims else out


def _check_ranks(function: np.ufunc, x: Any, y: Any, x_least: int, y_least: int) -> None:
    if x.ndim < x_least or y.ndim < y_least:
        raise _refused_by_numpy(function, x, y)


def dot(x: Any, y: Any) -> Any:
    """The product over the last axis of ``x`` and the last but one of ``y`` (or its only one)."""
    x, y = asarray(x), asarray(y)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    y_axis = max(0, y.ndim - 2)
    if x.shape[-1] != y.shape[y_axis]:
        raise _refused_by_numpy(np.dot, x, y)
    return dot_general(x, y, contract=((x.ndim - 1,), (y_axis,)), batch=((), ()))


def inner(x: Any, y: Any) -> Any:
    """The product over the last axis of both."""
    x, y = asarray(x), asarray(y)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise _refused_by_numpy(np.inner, x, y)
    return dot_general(x, y, contract=((x.ndim - 1,), (y.ndim - 1,)), batch=((), ()))


def vdot(x: Any, y: Any) -> Any:
    """The inner product of two flattened arrays, of which the first is conjugated."""
    x, y = asarray(x), asarray(y)
    if x.size != y.size:
        raise _refused_by_numpy(np.vdot, x, y)
    return dot(reshape(conj(x), shape=(x.size,)), reshape(y, shape=(y.size,)))


def outer(x: Any, y: Any) -> Any:
    """The outer product of ``x`` and ``y``, both flattened."""
    x, y = asarray(x), asarray(y)
    x, y = reshape(x, shape=(x.size,)), reshape(y, shape=(y.size,))
    return dot_general(x, y, contract=((), ()), batch=((), ()))


def tensordot(x: Any, y: Any, axes: int | Sequence[Any] = 2) -> Any:
    """The product over pairs of axes: the last of ``x`` with the first of ``y``, or the given."""
    x, y = asarray(x), asarray(y)
    if not np.iterable(axes):
        count = operator.index(axes)
        axes = (range(-count, 0), range(count))
    of_x, of_y = axes
    x_axes, y_axes = normalize_axis_tuple(of_x, x.ndim), normalize_axis_tuple(of_y, y.ndim)
    if [x.shape[a] for a in x_axes] != [y.shape[a] for a in y_axes]:
        raise ShapeError(
            f"shape-mismatch for sum: axes {x_axes} of an array of shape {x.shape}, axes "
            f"{y_axes} of one of shape {y.shape}{here()}"
        )
    return dot_general(x, y, contract=(x_axes, y_axes), batch=((), ()))


def kron(x: Any, y: Any) -> Any:
    """The Kronecker product: every element of ``x`` times all of ``y``, as blocks."""
    x, y = asarray(x), asarray(y)
    ndim = max(x.ndim, y.ndim)
    x_shape = (*(1,) * (ndim - x.ndim), *x.shape)
    y_shape = (*(1,) * (ndim - y.ndim), *y.shape)
    blocks = multiply(
        reshape(x, shape=tuple(n for size in x_shape for n in (size, 1))),
        reshape(y, shape=tuple(n for size in y_shape for n in (1, size))),
    )
    return reshape(blocks, shape=tuple(a * b for a, b in zip(x_shape, y_shape, strict=True)))


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sums along the diagonals of the matrices along two axes."""
    along = diagonal(asarray(x), offset, axis1, axis2)
    return reduce_sum(along, axes=(along.ndim - 1,))


protocols.operators["matmul"] = matmul
protocols.ufuncs.update({"matmul": matmul, "vecdot": vecdot, "matvec": matvec, "vecmat": vecmat})

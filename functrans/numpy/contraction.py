"""Products and contractions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import array, astype, axis_of, check_castable
from functrans.numpy.define import answers, refuse_keyword
from functrans.numpy.reductions import sum
from functrans.ops.arrays.shape import stack
from functrans.ops.indexing import views
from functrans.ops.linalg import einsum as einsum_ops
from functrans.ops.linalg import products
from functrans.trace.tracer import Tracer

__all__ = [
    "cross", "dot", "einsum", "einsum_path", "inner", "kron", "outer", "tensordot", "trace",
    "vdot",
]  # fmt: skip

# -- products --------------------------------------------------------------------------------------


@answers(np.dot)
def dot(a: Any, b: Any) -> Any:
    """The dot product over the last axis of ``a`` and the second-to-last or only axis of ``b``."""
    return products.dot(array(a), array(b))


@answers(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """The sum of products over the last axes of both operands."""
    return products.inner(array(a), array(b))


@answers(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The inner product of two flattened arrays; the first one is conjugated."""
    return products.vdot(a, b)


@answers(np.outer)
def outer(a: Any, b: Any) -> Any:
    """The outer product of two flattened arrays."""
    return products.outer(a, b)


@answers(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The tensor contraction over pairs of axes."""
    return products.tensordot(array(a), array(b), axes)


@answers(np.kron)
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    return products.kron(a, b)


@answers(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum along a diagonal."""
    return sum(views.diagonal(array(a), offset, axis1, axis2), -1, dtype)


@answers(np.einsum, views=True)
def einsum(*operands: Any, optimize: Any = False, **kwargs: Any) -> Any:
    """Einstein summation; opt_einsum chooses the order of the products."""
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "safe")
    for keyword in kwargs:
        refuse_keyword(np.einsum, keyword)
    if dtype is not None:
        # the arrays follow the subscripts, or each precedes its own
        places = (
            range(1, len(operands))
            if isinstance(operands[0], str)
            else range(0, len(operands) - 1, 2)
        )
        given = {i: array(operands[i]) for i in places}
        for x in given.values():
            check_castable(x, dtype, casting)
        operands = tuple(
            astype(given[i], dtype) if i in given else x for i, x in enumerate(operands)
        )
    return einsum_ops.einsum(*[array(x) if isinstance(x, Tracer) else x for x in operands])


@answers(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy") -> Any:
    """The contraction order that NumPy would use."""
    plain = [np.zeros(x.shape, x.dtype) if isinstance(x, Tracer) else x for x in operands]
    return np.einsum_path(*plain, optimize=optimize)


@answers(np.cross)
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """The cross products of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = array(a), array(b)
    x = views.moveaxis(x, axis_of(axisa, x.ndim), -1)
    y = views.moveaxis(y, axis_of(axisb, y.ndim), -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(
            "incompatible dimensions for cross product (both dimensions must be 3), found "
            f"{x.shape[-1]} and {y.shape[-1]}"
        )
    # by slices, whose positions the compiler always knows
    (x0, x1, x2), (y0, y1, y2) = ([z[..., i] for i in range(3)] for z in (x, y))
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    result = stack(parts, axis=parts[0].ndim)
    return views.unlinked(views.moveaxis(result, -1, axis_of(axisc, result.ndim)))

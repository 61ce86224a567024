"""Banded linear systems, whose diagonals are stored as rows.

Row ``i`` holds the diagonal that is ``upper - i`` above the main one, each element in the column
that it has in the matrix. The corners, which are outside of the matrix, are not read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import zeros
from functrans.ops.define import primitive
from functrans.ops.linalg.matrices import above, batch_together, filled_by_matrix, on_rows, promoted
from functrans.ops.samples import Domain, cases

_solve_banded = lazy("scipy.linalg:solve_banded")


def shifted(x: Any, by: int, axis: int) -> Any:
    """``x`` shifted along an axis, filled with zeros."""
    size = x.shape[axis]
    gap = min(abs(by), size)
    if gap == 0:
        return x
    nothing = zeros((*x.shape[:axis], gap, *x.shape[axis + 1 :]), x.dtype)
    kept = read_along(x, axis, 0 if by > 0 else gap, size - gap)
    return concatenate([nothing, kept] if by > 0 else [kept, nothing], axis=axis)


def banded_product(bands: Any, x: Any, upper: int) -> Any:
    """The product of banded matrices with others."""
    total = None
    for i in range(bands.shape[-2]):
        row = read_along(bands, bands.ndim - 2, i, 1)
        moved = on_rows(row[..., 0, :]) * x
        part = shifted(moved, i - upper, moved.ndim - 2)
        total = part if total is None else total + part
    return total


def transposed_bands(bands: Any, upper: int) -> Any:
    """The diagonals of the transposed matrices."""
    rows = [
        shifted(read_along(bands, bands.ndim - 2, i, 1), i - upper, bands.ndim - 1)
        for i in range(bands.shape[-2])
    ]
    return above(*rows[::-1])


def _infer_banded(bands: Aval, b: Aval, *, upper: int) -> Aval:
    if bands.ndim < 2 or b.shape[:-1] != (*bands.shape[:-2], bands.shape[-1]):
        raise ShapeError(
            "solve_banded takes diagonals of shape (..., l + u + 1, n) and right-hand sides of "
            f"shape (..., n, k), not {bands.shape} and {b.shape}"
        )
    return b.update()


def _banded(bands: Any, b: Any, *, upper: int) -> Any:
    lower = bands.shape[-2] - 1 - upper
    of_one = partial(_solve_banded, (lower, upper), check_finite=False)
    return filled_by_matrix(of_one, [bands, b], np.zeros_like(b))


def _tangent_of_bands(bands: Any, b: Any, out: Any, d_bands: Any, *, upper: int) -> Any:
    return banded_p(bands, -banded_product(d_bands, out, upper), upper=upper)  # as for `solve`


def _transpose_banded(ct: Any, bands: Any, b: Any, *, upper: int) -> Any:
    lower = bands.shape[-2] - 1 - upper
    return banded_p(transposed_bands(bands, upper), ct, upper=lower)


def _diagonally_dominant(rng: np.random.Generator, shape: Any) -> Any:
    bands = rng.normal(size=shape)
    return np.where(np.arange(shape[-2])[:, None] == 1, 3 * shape[-2] + bands, bands)


_dominant = Domain(_diagonally_dominant)

banded_p: Primitive = primitive(
    "solve_banded",
    infer=_infer_banded,
    numpy=_banded,
    jvp=[_tangent_of_bands, lambda bands, b, out, db, *, upper: banded_p(bands, db, upper=upper)],
    linear=((1,),),
    transpose=[None, _transpose_banded],
    batch=lambda *args, **params: batch_together(banded_p, *args, **params),
    prepare=promoted,
    samples=cases(
        ((_dominant, (3, 4)), (4, 2), {"upper": 1}),
        ((_dominant, (2, 4, 5)), (2, 5, 1), {"upper": 1}),
        ((_dominant, (2, 3)), (3, 1), {"upper": 1}), ((_dominant, (3, 1)), (1, 1), {"upper": 1}),
    ),
)  # fmt: skip

"""Constructors of sparse matrices with traced values at constant indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse

from functrans.api.compressed import Structure
from functrans.errors import ShapeError
from functrans.numpy.arrays import filled
from functrans.numpy.define import needed, refuse
from functrans.ops.arrays.shape import asarray, holds_tracer
from functrans.ops.indexing.gather import scatter_add
from functrans.scipy.entries import enter
from functrans.scipy.sparse.traced import (
    Places,
    SparseMatrix,
    SparseMethods,
    as_traced,
    by_keys,
    is_sparse,
    of_places,
    traced_class,
)
from functrans.scipy.sparse_arguments import FORMATS
from functrans.trace.delegation import own
from functrans.trace.source import here
from functrans.trace.tracer import Tracer


def from_coordinates(
    values: Any, rows: Any, columns: Any, shape: tuple[int, int], kind: str, is_matrix: bool
) -> SparseMatrix:
    """The matrix of values at coordinates (COO); duplicates are summed."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    keys = rows * max(shape[1], 1) + columns
    joined, at = np.unique(keys, return_inverse=True)
    nothing = filled((len(joined),), 0, values.dtype)
    added = scatter_add(
        nothing, values, at.astype(np.int64), axes=(0,), unique=len(joined) == len(keys)
    )
    empty = SparseMatrix(Structure(shape, np.zeros(1), np.zeros(0)), values, kind, is_matrix)
    return by_keys(joined, shape, added, empty)


def together(parts: Sequence[Any]) -> tuple[list[Any], Callable[[Places], SparseMatrix]]:
    """Replace the values of several arrays and matrices by consecutive numbers.

    Returns these, and a function that converts a matrix which SciPy has built of the numbers to a
    matrix of the values.
    """
    places, values, first = [], [], 0
    for part in parts:
        if is_sparse(part):
            matrix = as_traced(part)
            own = matrix._places
            own.data = own.data + first
            places.append(FORMATS[matrix._kind, matrix._is_matrix](own))
            values.append(matrix._values)
            first += matrix.nnz
        else:
            array = part if isinstance(part, Tracer) else np.asarray(part)
            size = int(np.prod(array.shape, dtype=int))
            places.append(np.arange(first + 1, first + size + 1).reshape(array.shape))
            values.append(array.reshape(-1))
            first += size
    whole = np.concatenate(values) if values else np.zeros(0)
    return places, lambda made: of_places(made, whole)


_INSTEAD = (
    "a matrix of traced values is made of values and places, csr_array((values, (rows, columns)), "
    "shape=...), where the places are constant"
)


def holds_traced(x: Any) -> bool:
    """Whether nested lists and tuples contain traced values, or matrices of traced values."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_traced, x))
    return isinstance(x, SparseMethods) or holds_tracer(x)


def concerned(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of a call contain traced values, or matrices of traced values."""
    return any(map(holds_traced, args)) or any(map(holds_traced, kwargs.values()))


# -- the classes -----------------------------------------------------------------------------------


def _constructor(
    self: Any, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any
) -> None:
    kind, is_matrix = self.format, isinstance(self, scipy.sparse.spmatrix)
    made = _made(arg1, shape, kind, is_matrix)
    if dtype is not None:
        made = made.astype(dtype)
    # SciPy has already allocated the object, so its class is changed to ours
    vars(self).clear()
    vars(self).update(vars(made))
    scipys: Any = type(self)
    self.__class__ = traced_class(scipys)


def _made(arg1: Any, shape: Any, kind: str, is_matrix: bool) -> SparseMatrix:
    name = f"scipy.sparse.{kind}_{'matrix' if is_matrix else 'array'}"
    if is_sparse(arg1):
        found = as_traced(arg1).asformat(kind)
        return SparseMatrix(found._structure, found._values, kind, is_matrix)
    if not isinstance(arg1, tuple) or kind not in ("coo", "csc", "csr", "dia"):
        refuse(name, _INSTEAD)
    values = asarray(arg1[0])
    arg1 = (values, *(_plain(places, name) for places in arg1[1:]))
    if kind == "dia":
        (places,), joined = together([values])
        made = joined(scipy.sparse.dia_array((places, arg1[1]), shape=shape))
        return SparseMatrix(made._structure, made._values, "csr", is_matrix)
    if len(arg1) == 2:
        rows, columns = arg1[1]
        if shape is None:
            shape = (int(np.max(rows)) + 1, int(np.max(columns)) + 1)
    else:
        _, indices, indptr = arg1
        major = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        rows, columns = (major, indices) if kind == "csr" else (indices, major)
        if shape is None:
            minor = int(np.max(indices, initial=-1)) + 1
            shape = (len(indptr) - 1, minor) if kind == "csr" else (minor, len(indptr) - 1)
    _check_places(values, rows, columns, shape, name)
    height, width = map(int, shape)
    if (
        kind == "coo"
        and values.dtype == bool
        and len(set(zip(rows, columns, strict=True))) < len(rows)
    ):
        refuse(
            f"{name} of bools with duplicates, which SciPy counts in products and not elsewhere",
            "convert the values to integers, or join the duplicates by csr_array",
        )
    return from_coordinates(values, rows, columns, (height, width), kind, is_matrix)


def _plain(places: Any, name: str) -> Any:
    """Indices as plain numbers; those of ``np.argsort(x)``, a tracer, may be known, too."""
    if not holds_tracer(places):
        return places
    if isinstance(places, (list, tuple)):
        return [_plain(each, name) for each in places]
    return needed(places, f"{name} with places that are traced", _INSTEAD)


def _check_places(values: Any, rows: Any, columns: Any, shape: Any, name: str) -> None:
    if values.ndim != 1 or not values.shape[0] == len(rows) == len(columns):
        raise ShapeError(
            f"{name} takes a row and a column for each value: there are values of shape "
            f"{values.shape}, {len(rows)} rows and {len(columns)} columns{here()}"
        )
    for places, extent, what in ((rows, shape[0], "row"), (columns, shape[1], "column")):
        if len(places) and not (0 <= np.min(places) and np.max(places) < extent):
            raise ValueError(
                f"{name}: a {what} of {np.max(places)} is outside of the shape {tuple(shape)}"
                f"{here()}"
            )


for _name in "bsr_array coo_array csc_array csr_array dia_array dok_array lil_array".split():
    # several classes share a constructor, including the matrix classes
    enter(f"scipy.sparse:{_name}.__init__", _constructor, concerned)


# -- functions that combine matrices ---------------------------------------------------------------


def _scipys(name: str) -> Callable[..., Any]:
    return own(getattr(scipy.sparse, name))


def _format(made: SparseMatrix, format: Any, dtype: Any = None) -> SparseMatrix:
    made = made if dtype is None else made.astype(dtype)
    return made if format is None else made.asformat(format)


def _stacked(name: str) -> Callable[..., SparseMatrix]:
    def stacked(blocks: Any, format: Any = None, dtype: Any = None) -> SparseMatrix:
        places, joined = together(list(blocks))
        return _format(joined(_scipys(name)(places)), format, dtype)

    return stacked


def _blocks(name: str) -> Callable[..., SparseMatrix]:
    def blocks(blocks: Any, format: Any = None, dtype: Any = None) -> SparseMatrix:
        rows = [list(row) for row in blocks]
        given = [x for row in rows for x in row if x is not None]
        places, joined = together(given)
        left = iter(places)
        grid = [[None if x is None else next(left) for x in row] for row in rows]
        return _format(joined(_scipys(name)(grid)), format, dtype)

    return blocks


def _diagonals(name: str) -> Callable[..., SparseMatrix]:
    def diagonals(
        diagonals: Any, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None,
        **keywords: Any,
    ) -> SparseMatrix:  # fmt: skip
        offsets = keywords.get("offsets", offsets)
        if np.ndim(offsets) == 0 and not isinstance(diagonals, (list, tuple)):
            diagonals = [diagonals]
        parts = [np.atleast_1d(asarray(x)) for x in diagonals]
        if isinstance(diagonals, (list, tuple)) and all(x.shape == (1,) for x in parts):
            if np.ndim(offsets) == 0:
                parts = [np.concatenate(parts)]
        places, joined = together(parts)
        at = np.atleast_1d(offsets)
        made = _scipys(name)(places, offsets=at, shape=shape, dtype=np.int64)
        return _format(joined(made), format, dtype)

    return diagonals


def _spdiags(data: Any, diags: Any, m: Any = None, n: Any = None, format: Any = None) -> Any:
    (places,), joined = together([np.atleast_2d(asarray(data))])
    return _format(joined(_scipys("spdiags")(places, diags, m, n)), format)


def _kron(A: Any, B: Any, format: Any = None) -> SparseMatrix:
    """Kronecker products: the values are products of one stored value of each matrix."""
    a, b = as_traced(_sparse(A)), as_traced(_sparse(B))
    numbers = [
        scipy.sparse.csr_array(_scipys("kron")(x, y))
        for x, y in ((a._places, _ones(b)), (_ones(a), b._places))
    ]
    for found in numbers:
        found.sort_indices()
    of_a, of_b = (of_places(found, x._values) for found, x in zip(numbers, (a, b), strict=True))
    made = SparseMatrix(
        of_a._structure, of_a._values * of_b._values, "coo", a._is_matrix or b._is_matrix
    )
    return _format(made, format)


def _sparse(x: Any) -> Any:
    if is_sparse(x):
        return x
    if holds_tracer(x):
        refuse("scipy.sparse.kron of an array that is traced", _INSTEAD)
    return scipy.sparse.coo_array(np.atleast_2d(x))


def _ones(x: SparseMatrix) -> Any:
    places = x._places
    places.data = np.ones_like(places.data)
    return places


def _kronsum(A: Any, B: Any, format: Any = None) -> SparseMatrix:
    a, b = as_traced(_sparse(A)), as_traced(_sparse(B))
    dtype = np.result_type(a.dtype, b.dtype)
    eyes = [scipy.sparse.eye_array(x.shape[0], dtype=dtype, format="csr") for x in (a, b)]
    return _format(_kron(eyes[1], a) + _kron(b, eyes[0]), format)


def _block_diagonal(mats: Any, format: Any = None, dtype: Any = None) -> SparseMatrix:
    places, joined = together([_sparse(x) for x in mats])
    return _format(joined(_scipys("block_diag")(places)), format, dtype)


def _triangle(name: str) -> Callable[..., SparseMatrix]:
    def triangle(A: Any, k: int = 0, format: Any = None) -> SparseMatrix:
        (places,), joined = together([A])
        return _format(joined(_scipys(name)(places, k)), format)

    return triangle


_OURS: dict[str, Callable[..., Any]] = {
    "block_array": _blocks("block_array"),
    "block_diag": _block_diagonal,
    "bmat": _blocks("bmat"),
    "diags": _diagonals("diags"),
    "diags_array": _diagonals("diags_array"),
    "hstack": _stacked("hstack"),
    "issparse": is_sparse,
    "kron": _kron,
    "kronsum": _kronsum,
    "spdiags": _spdiags,
    "tril": _triangle("tril"),
    "triu": _triangle("triu"),
    "vstack": _stacked("vstack"),
}

for _name, _ours in _OURS.items():
    enter(f"scipy.sparse:{_name}", _ours, concerned)

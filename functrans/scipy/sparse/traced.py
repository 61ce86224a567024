"""Sparse matrices with traced values and a constant sparsity pattern.

Operations that only rearrange stored values, such as transposition, slicing and Kronecker products,
have no algorithms here: SciPy applies them to a matrix that holds the index of each stored value,
and the result says where each value goes. Sums and products compute with the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from functrans.api.compressed import Structure
from functrans.caches import cached
from functrans.errors import ShapeError, UnsupportedNumPyError
from functrans.numpy.arrays import axes_of, filled, known
from functrans.ops.indexing.gather import gather, scatter_add
from functrans.scipy.define import since_1_18
from functrans.scipy.sparse_arguments import FORMATS, made
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.tree.registration import register

Places = Any
"""A SciPy sparse matrix whose elements are the numbers of the stored values, from 1 on."""


class SparseMethods:
    """The methods of a sparse matrix with traced values.

    The values are stored row by row for all formats. The format determines the order in which
    ``data``, ``indices`` and ``indptr`` (COO: ``row`` and ``col``) present them.
    """

    ndim = 2
    __array_ufunc__ = None  # NumPy's arrays defer operators to this class
    __array_priority__ = 100.0

    def __init__(
        self, structure: Structure, values: Any, kind: str = "csr", is_matrix: bool = False
    ) -> None:
        self._structure, self._values = structure, values
        self._kind, self._is_matrix = kind, is_matrix

    # -- structure ---------------------------------------------------------------------------------

    @property
    def _places(self) -> Places:
        """A SciPy matrix of this format that holds the number of each value, from 1 on."""
        parts = self._structure
        numbers = np.arange(1, len(parts.indices) + 1)
        places = scipy.sparse.csr_array((numbers, parts.indices, parts.indptr), shape=self.shape)
        return places.asformat(self._kind)

    shape = property(lambda self: self._structure.shape)
    data = property(lambda self: self._in_order())
    indices = property(lambda self: self._places.indices)
    indptr = property(lambda self: self._places.indptr)
    row = property(lambda self: self._places.tocoo().row)
    col = property(lambda self: self._places.tocoo().col)
    coords = property(lambda self: (self.row, self.col))
    dtype = property(lambda self: self._values.dtype)
    nnz = size = property(lambda self: len(self._structure.indices))
    format = property(lambda self: self._kind)
    T = property(lambda self: self.transpose())
    real = property(lambda self: self._with(self._values.real))
    imag = property(lambda self: self._with(self._values.imag))
    has_sorted_indices = has_canonical_format = True

    def _in_order(self) -> Any:
        """The values in the order of the format; of many matrices, if `vmap` has computed them."""
        return self._values if self._kind == "csr" else _taken(self._values, self._places.data)

    def _with(self, values: Any) -> SparseMatrix:
        return SparseMatrix(self._structure, values, self._kind, self._is_matrix)

    # -- rearrangements ----------------------------------------------------------------------------

    def _moved(self, move: Callable[[Places], Any]) -> Any:
        """Apply a SciPy operation to the matrix of value numbers, and gather the values."""
        places = self._places
        if self._is_matrix:
            places = FORMATS[self._kind, True](places)
        found = move(places)
        if is_sparse(found) and found.ndim == 2:
            return of_places(found, self._values, self._is_matrix)
        numbers = found.toarray() if is_sparse(found) else np.asarray(found)
        with_zero = np.concatenate([np.zeros(1, self.dtype), self._values])
        return _taken(with_zero, numbers + 1)

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        return self._moved(lambda x: x.transpose(axes))

    def asformat(self, format: str | None, copy: bool = False) -> SparseMatrix:
        kind = format or self._kind
        if (kind, self._is_matrix) not in FORMATS or kind in ("bsr", "dia"):
            _refuse(f"the format {kind!r}")
        return SparseMatrix(self._structure, self._values, kind, self._is_matrix)

    def tocsr(self, copy: bool = False) -> SparseMatrix:
        return self.asformat("csr")

    def tocsc(self, copy: bool = False) -> SparseMatrix:
        return self.asformat("csc")

    def tocoo(self, copy: bool = False) -> SparseMatrix:
        return self.asformat("coo")

    def copy(self) -> SparseMatrix:
        return self._with(self._values)

    def sum_duplicates(self) -> None:
        """Has no effect: there are no duplicates."""

    sort_indices = eliminate_zeros = sum_duplicates

    def __getitem__(self, key: Any) -> Any:
        return self.tocsr()._moved(lambda x: x[key])

    def getrow(self, i: int) -> Any:
        return self._moved(lambda x: x.tocsr()[[i]])

    def getcol(self, i: int) -> Any:
        return self._moved(lambda x: x.tocsc()[:, [i]])

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self._moved(lambda x: x.reshape(*shape, **options))

    def diagonal(self, k: int = 0) -> Any:
        return self._moved(lambda x: x.diagonal(k))

    # -- arithmetic --------------------------------------------------------------------------------

    def __neg__(self) -> SparseMatrix:
        return self._with(-self._values)

    def __abs__(self) -> SparseMatrix:
        return self._with(abs(self._values))

    def __round__(self, ndigits: int = 0) -> SparseMatrix:
        return self._with(np.round(self._values, ndigits))

    def power(self, n: Any, dtype: Any = None) -> SparseMatrix:
        if known(np.asarray(n)) == 0:
            raise NotImplementedError(
                f"the power 0 of a sparse matrix is dense{here()}: write np.ones"
            )
        return self._with((self._values if dtype is None else self._values.astype(dtype)) ** n)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> SparseMatrix:
        return self._with(self._values.astype(dtype))

    def conj(self, copy: bool = True) -> SparseMatrix:
        return self._with(self._values.conj())

    conjugate = conj

    def __add__(self, other: Any) -> Any:
        if _is_number(other):
            if isinstance(other, Tracer) or other != 0:
                raise NotImplementedError(
                    "adding a number to a sparse matrix makes it dense"
                    f"{here()}: write A.toarray() + {other!r}"
                )
            return self._with(self._values)  # the initial value of Python's sum()
        if not is_sparse(other):
            return self.toarray() + other
        return self._joined(np.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if _is_number(other):
            return self + (-other)
        if not is_sparse(other):
            return self.toarray() - other
        # not the sum with the negative: that of an unsigned integer wraps around
        truths = self.dtype.kind == "b" and other.dtype.kind == "b"
        return self._joined(np.logical_xor if truths else np.subtract, other)

    def __rsub__(self, other: Any) -> Any:
        if _is_number(other):
            return (-self) + other
        return as_traced(other) - self if is_sparse(other) else other - self.toarray()

    def _joined(self, operation: Callable[[Any, Any], Any], other: Any) -> SparseMatrix:
        """An operation on the stored elements of both matrices."""
        other = as_traced(other)
        _check_shapes(self, other, "added")
        keys = [m._structure.rows * self.shape[1] + m._structure.indices for m in (self, other)]
        joined = np.union1d(*keys)
        operands = []
        for key, matrix in zip(keys, (self, other), strict=True):
            nothing = filled((len(joined),), 0, matrix.dtype)
            at = np.searchsorted(joined, key)
            operands.append(scatter_add(nothing, matrix._values, at, axes=(0,), unique=True))
        return by_keys(joined, self.shape, operation(*operands), self)

    def multiply(self, other: Any) -> Any:
        """Multiply element by element; elements that are not stored stay zero."""
        if is_sparse(other):
            other = as_traced(other)
            _check_shapes(self, other, "multiplied element by element")
            a, b = self._structure, other._structure
            keys = [s.rows * self.shape[1] + s.indices for s in (a, b)]
            common, mine, theirs = np.intersect1d(*keys, return_indices=True)
            values = _taken(self._values, mine + 1) * _taken(other._values, theirs + 1)
            return by_keys(common, self.shape, values, self)
        if _is_number(other):
            return self._with(self._values * other)
        return self._with(self._values * self._elements_of(other))

    def _elements_of(self, array: Any) -> Any:
        """The elements of an array, broadcast to this shape, at the stored positions."""
        array = array if isinstance(array, Tracer) else np.asarray(array)
        if array.ndim > 2 or np.broadcast_shapes(array.shape, self.shape) != self.shape:
            raise ShapeError(
                f"an array of shape {array.shape} does not broadcast to the shape {self.shape} of "
                f"a sparse matrix{here()}"
            )
        shape = (1,) * (2 - array.ndim) + array.shape
        rows = self._structure.rows if shape[0] > 1 else np.int64(0)
        columns = self._structure.indices.astype(np.int64) if shape[1] > 1 else np.int64(0)
        return _taken(array.reshape(-1), rows * shape[1] + columns + 1)

    def __mul__(self, other: Any) -> Any:
        if _is_number(other) or not self._is_matrix:
            return self.multiply(other)
        return self @ other

    def __rmul__(self, other: Any) -> Any:
        if _is_number(other) or not self._is_matrix:
            return self.multiply(other)
        return other @ self

    def __truediv__(self, other: Any) -> Any:
        return self.multiply(1.0 / other)

    def __pow__(self, n: int) -> Any:
        if not self._is_matrix:
            return self.power(n)
        if n == 0:
            return as_traced(scipy.sparse.eye(self.shape[0], dtype=self.dtype, format="csr"))
        product = self
        for _ in range(n - 1):
            product = product @ self
        return product

    def __matmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _product(self, as_traced(other))
        other = other if isinstance(other, Tracer) else np.asarray(other)
        return self._times(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _product(as_traced(other), self)
        other = other if isinstance(other, Tracer) else np.asarray(other)
        if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
            raise ShapeError(
                f"an array of shape {other.shape} cannot be multiplied by a sparse matrix of shape "
                f"{self.shape}{here()}"
            )
        return (self.T @ other.T).T

    def dot(self, other: Any) -> Any:
        return self.multiply(other) if _is_number(other) else self @ other

    def _times(self, x: Any) -> Any:
        """The product with a vector or a dense matrix."""
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"a sparse matrix of shape {self.shape} cannot be multiplied by an array of shape "
                f"{x.shape}{here()}"
            )
        values = self._values if x.ndim == 1 else self._values[:, None]
        terms = values * gather(x, self._structure.indices.astype(np.int64), axes=(0,))
        nothing = filled((self.shape[0], *x.shape[1:]), 0, terms.dtype)
        return scatter_add(nothing, terms, self._structure.rows, axes=(0,), unique=False)

    # -- reductions --------------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if out is not None:
            _refuse("out=")
        # SciPy before 1.18 converts the sums only
        elements = self.dtype if dtype is None or not since_1_18() else np.dtype(dtype)
        # small integers are added as NumPy does, without overflow
        values = self._values.astype(elements).astype(np.sum(np.zeros(0, elements)).dtype)
        axis = _one_axis(axis)
        if axis is None:
            total = np.sum(values)
        else:
            along = self._structure.rows if axis == 1 else self._structure.indices.astype(np.int64)
            nothing = filled((self.shape[1 - axis],), 0, values.dtype)
            total = scatter_add(nothing, values, along, axes=(0,), unique=False)
            if self._is_matrix:
                total = total[:, None] if axis == 1 else total[None, :]
        return total if dtype is None else total.astype(dtype)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        axis = _one_axis(axis)
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        total = self.sum(axis, out=out) / count
        return total if dtype is None else total.astype(dtype)

    def trace(self, offset: int = 0) -> Any:
        return np.sum(self.diagonal(offset))

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """The matrix as a dense array."""
        if out is not None:
            _refuse("out=")
        nothing = filled(self.shape, 0, self.dtype)
        at = self._structure.rows, self._structure.indices.astype(np.int64)
        return scatter_add(nothing, self._values, *at, axes=(0, 1), unique=True)

    todense = toarray


def _elementwise(name: str) -> Callable[..., SparseMatrix]:
    def apply(self: SparseMethods) -> SparseMatrix:
        return self._with(getattr(np, name)(self._values))

    return apply


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _refuse(f"{name!r}")

    return refuse


for _name in (
    "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt "
    "tan tanh trunc"
).split():
    # these functions map 0 to 0
    setattr(SparseMethods, _name, _elementwise(_name))

for _name in "eq ge gt le lt ne setitem iadd isub imul itruediv len iter bool".split():
    setattr(SparseMethods, f"__{_name}__", _refused(f"__{_name}__"))

for _name in "data indices indptr row col coords".split():
    _read_only = getattr(SparseMethods, _name)
    setattr(SparseMethods, _name, _read_only.setter(_refused(f"A.{_name} = ...")))


class SparseMatrix(SparseMethods):
    """A sparse matrix with traced values."""

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<sparse matrix of shape {self.shape} with {self.nnz} entries, {self._values}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _refuse(f"{name!r}")


def _taken(values: Any, numbers: Any) -> Any:
    """Gather values by their numbers, which start from 1."""
    return gather(values, np.asarray(numbers, np.int64) - 1, axes=(0,))


def _one_axis(axis: Any) -> int | None:
    """The one axis of a reduction, or None for both."""
    axes = axes_of(axis, 2)
    return axes[0] if len(axes) == 1 else None


def _is_number(x: Any) -> bool:
    return not is_sparse(x) and np.ndim(x) == 0


def is_sparse(x: Any) -> bool:
    """Whether an object is a sparse matrix, SciPy's or one with traced values."""
    return isinstance(x, (SparseMethods, scipy.sparse.sparray, scipy.sparse.spmatrix))


def _refuse(what: str) -> Any:
    raise UnsupportedNumPyError(
        f"{what} is not supported for sparse matrices of traced values{here()}: "
        "their formats are csr, csc and coo; data, products, sums and what moves values are there"
    )


def _check_shapes(a: Any, b: Any, what: str) -> None:
    if a.shape != b.shape:
        raise ShapeError(
            f"sparse matrices of shapes {a.shape} and {b.shape} cannot be {what}{here()}"
        )


def of_places(places: Places, values: Any, is_matrix: bool | None = None) -> SparseMatrix:
    """The matrix of values, given a SciPy matrix of value numbers."""
    is_matrix = isinstance(places, scipy.sparse.spmatrix) if is_matrix is None else is_matrix
    kind = places.format if places.format in ("coo", "csc", "csr") else "csr"
    by_rows = scipy.sparse.csr_array(places)
    by_rows.eliminate_zeros()  # block formats may store zeros
    by_rows.sort_indices()
    structure = Structure(by_rows.shape, by_rows.indptr.copy(), by_rows.indices.copy())
    return SparseMatrix(structure, _taken(values, by_rows.data), kind, is_matrix)


def by_keys(keys: Any, shape: tuple[int, int], values: Any, like: SparseMethods) -> SparseMatrix:
    """The matrix of values at sorted flat indices."""
    rows, columns = np.divmod(keys, max(shape[1], 1))
    indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
    structure = Structure(shape, indptr, columns)
    return SparseMatrix(structure, values, like._kind, like._is_matrix)


def as_traced(matrix: Any) -> SparseMatrix:
    """Convert any sparse matrix to one with traced values."""
    if isinstance(matrix, SparseMethods):
        return SparseMatrix(matrix._structure, matrix._values, matrix._kind, matrix._is_matrix)
    by_rows = scipy.sparse.csr_array(matrix).copy()
    by_rows.sum_duplicates()
    structure = Structure(by_rows.shape, by_rows.indptr, by_rows.indices)
    kind = matrix.format if matrix.format in ("coo", "csc", "csr") else "csr"
    return SparseMatrix(structure, by_rows.data, kind, isinstance(matrix, scipy.sparse.spmatrix))


def _product(a: SparseMethods, b: SparseMethods) -> SparseMatrix:
    """Sparse matrix product (Gustavson): products of stored values, summed by target element."""
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"sparse matrices of shapes {a.shape} and {b.shape} cannot be multiplied{here()}"
        )
    mine, theirs = a._structure, b._structure
    lengths = np.diff(theirs.indptr)[mine.indices]
    of_a = np.repeat(np.arange(len(mine.indices)), lengths)
    begins = np.repeat(theirs.indptr[:-1][mine.indices], lengths)
    within = np.arange(len(of_a)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    of_b = begins + within
    keys = mine.rows[of_a] * b.shape[1] + theirs.indices[of_b]
    joined, at = np.unique(keys, return_inverse=True)
    terms = _taken(a._values, of_a + 1) * _taken(b._values, of_b + 1)
    nothing = filled((len(joined),), 0, terms.dtype)
    values = scatter_add(nothing, terms, at.astype(np.int64), axes=(0,), unique=False)
    return by_keys(joined, (a.shape[0], b.shape[1]), values, a)


def _children(x: SparseMethods) -> tuple[Any, ...]:
    return (x._values,), (x._structure, x._kind, x._is_matrix), ("data",)


register(SparseMatrix, _children, made)


@cached(32)
def traced_class(scipys: type) -> type[SparseMethods]:
    """The subclass of a SciPy sparse class whose objects hold traced values."""
    names = {name for name in dir(scipys) if not name.startswith("_")}
    others = {name: _refused(name) for name in names - set(dir(SparseMethods))}
    # SciPy's class comes first: `__class__` can only be changed to a class of the same layout
    methods = {k: x for k, x in vars(SparseMethods).items() if k not in ("__dict__", "__weakref__")}
    ours = type(f"traced_{scipys.__name__}", (scipys, SparseMethods), others | methods)
    register(ours, _children, made)
    return ours

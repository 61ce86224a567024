"""Sparse gradients of embedding tables: gradients of only the rows that were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans import numpy as np
from functrans import tree
from functrans.api.arguments import (
    as_array,
    aval_of_leaf,
    check_callable,
    leaf_names,
    name_of,
    value_of_leaf,
)
from functrans.api.derivatives import value_and_grad
from functrans.api.flat import called
from functrans.api.transformed import transform
from functrans.lax.slicing import segment_sum
from functrans.ops.calls.effect import performed, without_effects
from functrans.ops.indexing.gather import scatter_add
from functrans.records import dataclass
from functrans.trace.absent import UNKNOWN, holds
from functrans.trace.stage import replay, stage
from functrans.train.precision import Keep
from functrans.transform.lookups import with_offsets


@tree.register_dataclass
@dataclass(frozen=True, eq=False)
class Rows:
    """The nonzero rows of an array: the gradient of a table of which some rows were read.

    ``table - rate * rows`` and ``table + rows`` change these rows of the table, in place if a
    jitted function takes the table as a donated argument. `Rows` are a pytree whose leaves include
    the indices: so do not map functions over leaves, but scale and add the `Rows` themselves.

    Parameters
    ----------
    indices : array of int64, shape (n,)
        The index of each row. A row that was read several times occurs several times, and its
        gradient is the sum.
    values : array, shape (n, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> rows = train.Rows(np.array([2, 0, 2]), np.array([[1.0], [2.0], [4.0]]))
    >>> np.zeros((3, 1)) - 0.5 * rows
    array([[-1. ],
           [ 0. ],
           [-2.5]])
    """

    indices: Any
    values: Any

    __array_ufunc__ = None  # arrays defer to the operators below

    def __neg__(self) -> Rows:
        return Rows(self.indices, -self.values)

    def __mul__(self, factor: Any) -> Rows:
        return Rows(self.indices, self.values * _number(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Rows:
        return Rows(self.indices, self.values / _number(divisor))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Rows):
            pairs = (self.indices, other.indices), (self.values, other.values)
            return Rows(*(np.concatenate(pair) for pair in pairs))
        table = np.asarray(other)
        if table.shape[1:] != self.values.shape[1:] or table.ndim == 0:
            raise ValueError(
                f"rows of shape {self.values.shape[1:]} are added to a table of such rows, not to "
                f"an array of shape {table.shape}"
            )
        values = self.values.astype(table.dtype)
        return scatter_add(table, values, self.indices, axes=(0,), unique=False)

    __radd__ = __add__

    def __rsub__(self, table: Any) -> Any:
        return table + -self

    def dense(self, count: int) -> Any:
        """The dense array, which has this number of rows."""
        return np.zeros((count, *self.values.shape[1:]), self.values.dtype) + self

    def merged(self) -> Rows:
        """The same with one entry for each row, in ascending order.

        The number of entries stays the same: surplus ones, at the end, are zeros for row 0. Norms
        and other nonlinear functions need merged rows.
        """
        count = self.indices.shape[0]
        if count == 0:
            return self
        order = np.argsort(self.indices, kind="stable")
        indices = self.indices[order]
        group = np.cumsum(np.concatenate([np.zeros(1, bool), indices[1:] != indices[:-1]]))
        places = np.arange(count)
        first = np.minimum(np.searchsorted(group, places), count - 1)
        return Rows(
            np.where(places <= group[-1], indices[first], 0),
            segment_sum(self.values[order], group, count),
        )

    def joined(self) -> Rows:
        """The rows of a stack of `Rows`, as `vmap` and `lax.scan` give it, one after the other."""
        count = self.indices.shape[0] * self.indices.shape[1]
        return Rows(self.indices.reshape(count), self.values.reshape(count, *self.values.shape[2:]))


def _number(x: Any) -> Any:
    if isinstance(x, Rows):
        raise TypeError(
            "a product of Rows is not a sum over those of equal index: "
            ".merged().values has each row once, and .dense(count) is an array"
        )
    if np.ndim(x):
        raise TypeError(
            f"Rows are scaled by a number, not by an array of shape {np.shape(x)}: scale .values"
        )
    return x


def is_rows(node: Any) -> bool:
    """Whether a node of a pytree is `Rows`, which functions of gradients treat as a leaf."""
    return isinstance(node, Rows)


def map_gradients(f: Callable[[Any], Any], gradients: Any) -> Any:
    """A linear function of each array of a pytree, or of the values of its rows."""
    return tree.map(
        lambda x: Rows(x.indices, f(x.values)) if is_rows(x) else f(np.asarray(x)),
        gradients,
        is_leaf=is_rows,
    )


def merged_values(gradients: Any) -> Sequence[Any]:
    """The arrays of a pytree; of rows the values, those of one row summed."""
    return [
        x.merged().values if is_rows(x) else np.asarray(x)
        for x in tree.leaves(gradients, is_leaf=is_rows)
    ]


@transform
def value_and_row_grad(
    function: Callable[..., Any], tables: Keep = ("",), has_aux: bool = False
) -> Callable[..., Any]:
    """The value of a function, and its gradient with only the rows of tables that were read.

    Like `functrans.value_and_grad` of the first argument, but the gradient of each table is
    `Rows`: its memory and time are proportional to the number of look-ups, not to the size of the
    table.

    Parameters
    ----------
    function : callable
        Returns one number. It may use a table only to read rows, ``table[indices]`` or
        ``table[3]``, and not in a loop or branch of `functrans.lax`.
    tables : str, sequence of str, or callable, optional
        The leaves of the first argument that are tables: those whose path contains one of the
        strings (``"embedding"`` in ``['embedding']``), or for whose path the callable returns True.
        By default all.
    has_aux : bool, optional
        As for `functrans.value_and_grad`.

    Returns
    -------
    callable
        With the arguments of ``function``; it returns ``(value, gradient)``, or with ``has_aux``
        ``((value, aux), gradient)``.

    Raises
    ------
    NotDifferentiableError
        If the function uses a table otherwise than to look rows up.
    ValueError
        If no leaf is a table.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> def loss(params, words):
    ...     return np.sum(params["embedding"][words] @ params["w"])
    >>> params = {"embedding": np.zeros((1_000_000, 2)), "w": np.array([1.0, 2.0])}
    >>> f = train.value_and_row_grad(loss, tables="embedding")
    >>> value, gradient = f(params, np.array([7, 42, 7]))
    >>> gradient["embedding"]
    Rows(indices=array([ 7, 42,  7]), values=array([[1., 2.],
           [1., 2.],
           [1., 2.]]))
    >>> gradient["w"]
    array([0., 0.])
    """
    check_callable(function, "train.value_and_row_grad")
    if isinstance(tables, str):
        tables = (tables,)
    is_table = tables if callable(tables) else lambda path: any(text in path for text in tables)

    def computed(params: Any, *args: Any, **kwargs: Any) -> Any:
        leaves, call = tree.flatten(((params, *args), kwargs))
        paths = tree.paths(params)
        count = len(paths)
        chosen = [i for i, path in enumerate(paths) if is_table(str(path))]
        if not chosen:
            raise ValueError(
                f"tables={tables!r} names no leaf of the first argument of {name_of(function)}: "
                f"there are {', '.join(map(str, paths)) or 'none'}"
            )
        names = [leaf_names(function, range(1), (params,))[i] for i in chosen]
        arrays = [as_array(x, lambda i: f"argument {i}", i) for i, x in enumerate(leaves)]
        flat = called(function, call)
        values = [value_of_leaf(x) for x in arrays]
        staged = stage(
            flat, [aval_of_leaf(x) for x in arrays], kind="value_and_row_grad", values=values
        )
        graph = performed(staged.graph, staged.value_of)
        if not holds(values, UNKNOWN):
            graph = without_effects(graph)  # these took place during tracing
        offset_graph, look_ups = with_offsets(graph, chosen, names)
        dense = [i for i in range(count) if i not in chosen]

        def objective(dense_leaves: Any, offsets: Any) -> Any:
            given = list(arrays)
            for i, x in zip(dense, dense_leaves, strict=True):
                given[i] = x
            outs = replay(offset_graph, [*given, *staged.captures, *offsets])
            split = flat.result.num_leaves
            result = flat.result.unflatten(outs[:split])
            value, aux = result if has_aux else (result, None)
            return value, (aux, outs[split:])

        objective.__name__ = name_of(function)
        offsets = [np.zeros(look_up.aval.shape, look_up.aval.dtype) for look_up in look_ups]
        (value, (aux, indices)), (dense_gradient, pulled) = value_and_grad(
            objective, argnums=(0, 1), has_aux=True
        )([arrays[i] for i in dense], offsets)
        read = iter(indices)
        rows = [next(read) if look_up.rows is None else look_up.rows for look_up in look_ups]
        gradient = dict(zip(dense, dense_gradient, strict=True))
        for i in chosen:
            of_table = [k for k, look_up in enumerate(look_ups) if look_up.table == i]
            gradient[i] = _rows_of(arrays[i], [(rows[k], pulled[k]) for k in of_table])
        result = tree.structure(params).unflatten([gradient[i] for i in range(count)])
        return ((value, aux) if has_aux else value), result

    return computed


def _rows_of(table: Any, pairs: Sequence[tuple[Any, Any]]) -> Rows:
    """The gradient of a table from the indices and cotangents of its look-ups."""
    aval = aval_of_leaf(table)
    indices = [np.zeros(0, np.int64)]
    values = [np.zeros((0, *aval.shape[1:]), aval.dtype)]
    for rows, cotangent in pairs:
        flat_rows = np.reshape(np.asarray(rows), -1).astype(np.int64)
        indices.append(np.where(flat_rows < 0, flat_rows + aval.shape[0], flat_rows))
        values.append(np.reshape(cotangent, (-1, *aval.shape[1:])).astype(aval.dtype))
    return Rows(np.concatenate(indices), np.concatenate(values))

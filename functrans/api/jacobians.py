"""Whole derivatives: jacfwd, jacrev, and jacobian in the cheaper mode, dense or sparse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from functrans.api.arguments import (
    Argnums,
    aval_of_leaf,
    check_argnums,
    check_callable,
    name_of,
    wrap,
)
from functrans.api.derivatives import check_holomorphic_arguments, check_holomorphic_results
from functrans.api.linearization import Linear, Point, run_derivative
from functrans.api.problem import Problem, problem_of
from functrans.api.transformed import transform
from functrans.errors import DtypeError
from functrans.ir.graph import Graph
from functrans.ir.types import is_complex, is_inexact
from functrans.lazily import lazy
from functrans.ops.arrays.structural import reshape, zeros
from functrans.ops.calls.custom import is_reverse_only
from functrans.run.call.ownership import own
from functrans.transform.jacobian import forward_block, reverse_block


@transform
def jacfwd(
    function: Callable[..., Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function, one input direction at a time (forward mode).

    It is the better choice if there are fewer inputs than outputs.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them.
    argnums : int or sequence of int, optional
        The positional argument(s) to differentiate with respect to.
    has_aux : bool, optional
        Whether the function returns ``(result, aux)``.
    chunk_size : int, optional
        How many directions are computed at once; all, if left out. Fewer take less memory.
    holomorphic : bool, optional
        Whether the function takes and returns complex numbers and has a complex derivative.

    Returns
    -------
    callable
        It returns, for each leaf of the result and each leaf of the argument, an array of the shape
        ``result.shape + argument.shape``: a pytree like the result, of pytrees like the argument
        (of tuples of them, if ``argnums`` is a sequence); with ``has_aux``, ``(jacobian, aux)``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacfwd
    >>> jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian_by(function, argnums, has_aux, chunk_size, holomorphic, "jacfwd", by_columns)


@transform
def jacrev(
    function: Callable[..., Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function, one output element at a time (reverse mode).

    It is the better choice if there are fewer outputs than inputs.

    Parameters
    ----------
    function, argnums, has_aux, chunk_size, holomorphic
        As for `jacfwd`; the chunks are of output elements.

    Returns
    -------
    callable
        As for `jacfwd`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> jacrev(lambda x: np.stack([x[0] ** 2 + x[1], x[0] * x[1]]))(np.array([2.0, 3.0]))
    array([[4., 1.],
           [3., 2.]])
    """
    return jacobian_by(function, argnums, has_aux, chunk_size, holomorphic, "jacrev", by_rows)


_sparse_blocks = lazy("functrans.api.sparse:sparse_blocks")
_pattern_of = lazy("functrans.api.sparse:pattern_of")

Blocks = list[list[Any]]
"""The Jacobian of each leaf of the result with respect to each leaf of the argument."""


def jacobian_by(
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    chunk_size: int | None,
    holomorphic: bool,
    transform: str,
    blocks_of: Callable[[Point, Problem, int | None], Blocks],
) -> Callable[..., Any]:
    check_callable(function, transform)
    check_argnums(argnums, function)
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        problem = problem_of(function, argnums, args, kwargs, has_aux, transform)
        check_holomorphic_arguments(problem, holomorphic)
        if blocks_of is not by_rows and not holomorphic:
            _check_real_arguments(problem)
        point = problem.point()
        _check_float_results(problem)
        if blocks_of is by_rows or holomorphic:
            check_holomorphic_results(problem, holomorphic)
        linear = point.linear
        _, aux = problem.unpack(linear.outputs)
        try:
            blocks = blocks_of(point, problem, chunk_size)
        except MemoryError as error:
            error.add_note(
                f"{transform} of {name_of(function)}: chunk_size=n takes n directions at once; "
                "jvp, vjp and hvp take one, and do without the matrix."
            )
            raise
        owned = iter(own([block for row in blocks for block in row], point.inputs))
        rows = [_row(problem, [*islice(owned, len(row))], argnums) for row in blocks]
        derivative = problem.out_structure.unflatten(rows)
        return (derivative, aux) if has_aux else derivative

    return wrap(function, jacobian, transform)


def _check_float_results(problem: Problem) -> None:
    for x in problem.outs:
        if not is_inexact(aval_of_leaf(x).dtype):
            raise DtypeError(
                f"{problem.transform} needs a function that returns floats, but "
                f"{name_of(problem.function)} returned {aval_of_leaf(x).dtype}; return it as "
                "auxiliary data: has_aux=True"
            )


def _check_real_arguments(problem: Problem) -> None:
    """Raise if an argument is complex, unless the function is holomorphic."""
    for i, x in enumerate(problem.leaves):
        dtype = aval_of_leaf(x).dtype
        if is_complex(dtype):
            name = name_of(problem.function)
            raise DtypeError(
                f"{problem.transform} differentiates with respect to real numbers, but "
                f"{problem.leaf_name(i)} has dtype {dtype}: pass its real and imaginary part, use "
                f"grad or jacrev if {name} returns real numbers, or write "
                f"{problem.transform}(..., holomorphic=True) if it has a complex derivative"
            )


def _row(problem: Problem, row: list[Any], argnums: Argnums) -> Any:
    arguments = problem.structure.unflatten(row)
    return arguments[0] if isinstance(argnums, (int, np.integer)) else arguments


def _chunks(size: int, chunk_size: int | None) -> list[tuple[int, int]]:
    """``(start, count)`` of each chunk."""
    step = size if chunk_size is None else min(chunk_size, size)
    return [(start, min(step, size - start)) for start in range(0, size, step or 1)]


def shapes(values: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    """The shape and the dtype of each value."""
    return [(aval_of_leaf(x).shape, aval_of_leaf(x).dtype) for x in values]


def by_columns(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """The blocks of a Jacobian, by forward-mode products with basis vectors of the arguments."""
    linear = point.linear
    outs = shapes(problem.outs)
    blocks: Blocks = [[] for _ in outs]
    for i, (shape, _) in enumerate(shapes(problem.leaves)):
        columns = _products(linear, forward_block, i, prod(shape), chunk_size, -1)
        for row, (out_shape, dtype), nonzero in zip(blocks, outs, linear.nonzero, strict=False):
            block = next(columns, None) if nonzero else None
            row.append(_block(block, out_shape + shape, dtype))
    return blocks


def by_rows(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """The blocks of a Jacobian, by reverse-mode products with basis vectors of the results."""
    linear = point.linear
    blocks: Blocks = []
    ins = shapes(problem.leaves)
    position = 0
    for (out_shape, dtype), nonzero in zip(shapes(problem.outs), linear.nonzero, strict=False):
        size = prod(out_shape) if nonzero else 0
        rows = _products(linear, reverse_block, position, size, chunk_size, 0)
        position += nonzero
        blocks.append([_block(next(rows, None), out_shape + shape, dtype) for shape, _ in ins])
    return blocks


def _products(
    linear: Linear,
    block: Callable[[Graph, int, int, int], Graph],
    number: int,  # of the argument, or of the result
    size: int,
    chunk_size: int | None,
    axis: int,
) -> Iterator[Any]:
    """The products of a derivative with all basis vectors of one argument or result."""
    residuals = linear.residuals
    parts = [
        run_derivative(
            block(linear.graph, len(residuals), number, count), [*residuals, np.int64(start)]
        )
        for start, count in _chunks(size, chunk_size)
    ]
    return iter(
        [p[0] if len(p) == 1 else np.concatenate(p, axis) for p in zip(*parts, strict=True)]
    )


def _block(block: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return zeros(shape, dtype) if block is None else reshape(block, shape=shape)


@transform
def jacobian(
    function: Callable[..., Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparse: Any = False,
) -> Callable[..., Any]:
    """The Jacobian of a function, dense or sparse, in the cheaper mode.

    A dense one is that of `jacfwd` where there are fewer inputs than outputs, and else that of
    `jacrev`. For a sparse one the pattern is found first (`sparsity`); columns without a row in
    common, or rows without a column in common, have one colour, and there is one product for each
    colour: three for a tridiagonal matrix of any size (Curtis, Powell and Reid, 1974; Gebremedhin,
    Manne and Pothen, 2005). Under `jit`, pattern and colours are found once, while the function
    is traced.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them; real ones.
    argnums : int or sequence of int, optional
        The positional argument(s) to differentiate with respect to.
    has_aux : bool, optional
        Whether the function returns ``(result, aux)``.
    chunk_size : int, optional
        How many products are computed at once; all, if left out. Fewer take less memory.
    sparse : bool or sparse matrix, optional
        Whether sparse matrices are returned. A matrix of `scipy.sparse` is taken as the pattern:
        all that may be nonzero must be in it, for it is not checked.

    Returns
    -------
    callable
        As for `jacfwd`. A sparse Jacobian has, for each leaf of the result and each leaf of the
        argument, a `scipy.sparse.csr_array` of shape ``(result.size, argument.size)``, with sorted
        indices. Inside of a traced function it has the methods of a sparse matrix with traced
        values: products, sums, slices, ``toarray()``.

    Raises
    ------
    DensePatternError
        If the pattern would have more than 100 million entries.
    DtypeError
        If the function takes or returns complex numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacobian
    >>> f = lambda x: x[1:] ** 2 - x[:-1]
    >>> jacobian(f, sparse=True)(np.array([1.0, 2.0, 3.0])).toarray()
    array([[-1.,  4.,  0.],
           [ 0., -1.,  6.]])
    """
    blocks_of = _by_fewer if sparse is False else _sparse_blocks(sparse, lambda problem: False)
    return jacobian_by(function, argnums, has_aux, chunk_size, False, "jacobian", blocks_of)


def _by_fewer(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    ins, outs = (sum(aval_of_leaf(x).size for x in side) for side in (problem.leaves, problem.outs))
    forward = ins <= outs and not is_reverse_only(point.linear.graph)
    return (by_columns if forward else by_rows)(point, problem, chunk_size)


@transform
def sparsity(function: Callable[..., Any], /, argnums: Argnums = 0) -> Callable[..., Any]:
    """The sparsity pattern of a function's Jacobian: which result may depend on which argument.

    It is derived from the operations of the function, not from values, and holds for all values of
    the differentiated arguments. If indices or matrices are other arguments, or arrays that the
    function reads, the pattern holds for their current values. It may have entries that are never
    nonzero, because an index that is computed from differentiated arguments may take any value.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them.
    argnums : int or sequence of int, optional
        The positional argument(s) to differentiate with respect to.

    Returns
    -------
    callable
        Takes the function's arguments, and returns a `scipy.sparse.csr_array` of bool, of shape
        ``(elements of the results, elements of the arguments)``: the leaves one after another.

    Raises
    ------
    DensePatternError
        If the pattern would have more than 100 million entries.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import sparsity
    >>> sparsity(lambda x: np.diff(np.sin(x)))(np.zeros(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    check_callable(function, "sparsity")
    check_argnums(argnums, function)

    def pattern(*args: Any, **kwargs: Any) -> Any:
        problem = problem_of(function, argnums, args, kwargs, False, "sparsity")
        return _pattern_of(problem.point(), name_of(function)).copy()

    return pattern

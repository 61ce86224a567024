"""The Jacobian in the cheaper mode, dense or sparse; and its sparsity pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from functrans.api.arguments import (
    Argnums,
    aval_of_leaf,
    check_argnums,
    check_callable,
    decorated,
    name_of,
)
from functrans.api.jacobians import Blocks, by_columns, by_rows, jacobian_by
from functrans.api.linearization import Point
from functrans.api.problem import Problem, problem_of
from functrans.api.transformed import P, Transformed
from functrans.lazily import lazy
from functrans.ops.calls.custom import is_reverse_only
from functrans.tracebacks import boundary

_sparse_blocks = lazy("functrans.api.sparse:sparse_blocks")
_pattern_of = lazy("functrans.api.sparse:pattern_of")


@overload
def jacobian(
    function: Callable[P, Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparse: Any = False,
) -> Transformed[P, Any]: ...


@overload
def jacobian(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparse: Any = False,
) -> Callable[[Callable[P, Any]], Transformed[P, Any]]: ...


@boundary
def jacobian(
    function: Callable[..., Any] | None = None,
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparse: Any = False,
) -> Any:
    """The Jacobian of a function, dense or sparse, in the mode that takes fewer products.

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
        indices. Inside of a traced function it has ``data``, ``indices``, ``indptr``, ``shape``,
        ``toarray()`` and a product with arrays (``@``).

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
    options: dict[str, Any] = {
        "argnums": argnums,
        "has_aux": has_aux,
        "chunk_size": chunk_size,
        "sparse": sparse,
    }
    if function is None:
        return decorated(jacobian, **options)
    blocks_of = _by_fewer if sparse is False else _sparse_blocks(sparse, lambda problem: False)
    call = jacobian_by(function, argnums, has_aux, chunk_size, False, "jacobian", blocks_of)
    return Transformed(jacobian, function, options, call)


def _by_fewer(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    ins, outs = (sum(aval_of_leaf(x).size for x in side) for side in (problem.leaves, problem.outs))
    forward = ins <= outs and not is_reverse_only(point.linear.graph)
    return (by_columns if forward else by_rows)(point, problem, chunk_size)


@boundary
def sparsity(function: Callable[P, Any], /, argnums: Argnums = 0) -> Callable[P, Any]:
    """The sparsity pattern of a function's Jacobian: which result may depend on which argument.

    It is found without numbers, by a walk over the operations that the function consists of, and
    holds for all values of the differentiated arguments. Where positions, or a matrix that is
    multiplied by, are other arguments or arrays that the function reads, it holds for their values
    as they are. It may have more entries than are ever nonzero: a position that is computed from
    what is differentiated may be any.

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

    found: Transformed[P, Any] = Transformed(sparsity, function, {"argnums": argnums}, pattern)
    return found

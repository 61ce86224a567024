"""Whole derivatives: jacfwd, jacrev, hessian; and the Hessian in one direction: hvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, overload

import numpy as np

from functrans.api.arguments import (
    Argnums,
    argument_name,
    as_array,
    aval_of_leaf,
    check_argnums,
    check_callable,
    decorated,
    name_of,
    normalized_argnums,
    wrap,
)
from functrans.api.derivatives import (
    check_holomorphic_arguments,
    check_holomorphic_results,
    grad,
)
from functrans.api.linearization import Point, run_derivative
from functrans.api.problem import (
    Problem,
    filled_tangents,
    forward_problem,
    matching,
    problem_of,
)
from functrans.api.transformed import P, Transformed
from functrans.errors import DtypeError
from functrans.ir.types import is_complex, is_inexact
from functrans.lazily import lazy
from functrans.ops.arrays.structural import reshape, zeros
from functrans.ops.calls.custom import is_reverse_only
from functrans.run.call.ownership import own
from functrans.tracebacks import boundary
from functrans.transform.jacobian import forward_block, reverse_block
from functrans.tree import core as tree


@overload
def jacfwd(
    function: Callable[P, Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Transformed[P, Any]: ...


@overload
def jacfwd(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[[Callable[P, Any]], Transformed[P, Any]]: ...


@boundary
def jacfwd(
    function: Callable[..., Any] | None = None,
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Any:
    """The Jacobian of a function, one input direction at a time (forward mode).

    The better choice when there are fewer inputs than outputs.

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
    options: dict[str, Any] = {
        "argnums": argnums,
        "has_aux": has_aux,
        "chunk_size": chunk_size,
        "holomorphic": holomorphic,
    }
    if function is None:
        return decorated(jacfwd, **options)
    call = jacobian_by(function, argnums, has_aux, chunk_size, holomorphic, "jacfwd", by_columns)
    return Transformed(jacfwd, function, options, call)


@overload
def jacrev(
    function: Callable[P, Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Transformed[P, Any]: ...


@overload
def jacrev(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[[Callable[P, Any]], Transformed[P, Any]]: ...


@boundary
def jacrev(
    function: Callable[..., Any] | None = None,
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Any:
    """The Jacobian of a function, one output element at a time (reverse mode).

    The better choice when there are fewer outputs than inputs.

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
    options: dict[str, Any] = {
        "argnums": argnums,
        "has_aux": has_aux,
        "chunk_size": chunk_size,
        "holomorphic": holomorphic,
    }
    if function is None:
        return decorated(jacrev, **options)
    call = jacobian_by(function, argnums, has_aux, chunk_size, holomorphic, "jacrev", by_rows)
    return Transformed(jacrev, function, options, call)


_sparse_blocks = lazy("functrans.api.sparse:sparse_blocks")

Blocks = list[list[Any]]
"""For each leaf of the result, for each leaf of the argument, the Jacobian of one by the other."""


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
        rows = [_row(problem, row, point, argnums) for row in blocks]
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
    """Raise if a direction in the plane of complex numbers would have to be chosen."""
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


def _row(problem: Problem, row: list[Any], point: Point, argnums: Argnums) -> Any:
    arguments = problem.structure.unflatten(own(row, point.inputs))
    return arguments[0] if isinstance(argnums, (int, np.integer)) else arguments


def _chunks(size: int, chunk_size: int | None) -> list[tuple[int, int]]:
    """``(start, count)`` of each chunk."""
    step = size if chunk_size is None else min(chunk_size, size)
    return [(start, min(step, size - start)) for start in range(0, size, step or 1)]


def _shapes(values: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(aval_of_leaf(x).shape, aval_of_leaf(x).dtype) for x in values]


def by_columns(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """The blocks of a derivative, by products with basis vectors of the arguments."""
    linear = point.linear
    outs = _shapes(problem.outs)
    blocks: Blocks = [[] for _ in outs]
    residuals = len(linear.residuals)
    for i, (shape, _) in enumerate(_shapes(problem.leaves)):
        parts = [
            run_derivative(
                forward_block(linear.graph, residuals, i, count),
                [*linear.residuals, np.int64(start)],
            )
            for start, count in _chunks(prod(shape), chunk_size)
        ]
        columns = iter([_joined(p, -1) for p in zip(*parts, strict=True)])
        for row, (out_shape, dtype), nonzero in zip(blocks, outs, linear.nonzero, strict=False):
            block = next(columns, None) if nonzero else None
            row.append(_block(block, out_shape + shape, dtype))
    return blocks


def by_rows(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """The blocks of a derivative, by products with basis vectors of the results."""
    linear = point.linear
    blocks: Blocks = []
    residuals = len(linear.residuals)
    ins = _shapes(problem.leaves)
    position = 0
    for (out_shape, dtype), nonzero in zip(_shapes(problem.outs), linear.nonzero, strict=False):
        parts = [
            run_derivative(
                reverse_block(linear.graph, residuals, position, count),
                [*linear.residuals, np.int64(start)],
            )
            for start, count in (_chunks(prod(out_shape), chunk_size) if nonzero else [])
        ]
        position += nonzero
        rows = iter([_joined(p, 0) for p in zip(*parts, strict=True)])
        blocks.append([_block(next(rows, None), out_shape + shape, dtype) for shape, _ in ins])
    return blocks


def by_either(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """By columns, unless a rule of `custom_vjp` is met, which knows rows only."""
    blocks_of = by_rows if is_reverse_only(point.linear.graph) else by_columns
    return blocks_of(point, problem, chunk_size)


def _joined(parts: Sequence[Any], axis: int) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


def _block(block: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return zeros(shape, dtype) if block is None else reshape(block, shape=shape)


@overload
def hessian(
    function: Callable[P, Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    sparse: Any = False,
) -> Transformed[P, Any]: ...


@overload
def hessian(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    sparse: Any = False,
) -> Callable[[Callable[P, Any]], Transformed[P, Any]]: ...


@boundary
def hessian(
    function: Callable[..., Any] | None = None,
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    sparse: Any = False,
) -> Any:
    """The second derivative of a function: ``jacfwd(jacrev(function))``.

    Where the first derivative meets a function of `custom_vjp`, which has no forward mode, it is
    ``jacrev(jacrev(function))``.

    Parameters
    ----------
    function, argnums, has_aux
        As for `jacfwd`. The function may return any shape; one number is the usual case.
    chunk_size : int, optional
        How many directions are computed at once.
    holomorphic : bool, optional
        Whether the function takes and returns complex numbers and has complex derivatives.
    sparse : bool or sparse matrix, optional
        Whether matrices of `scipy.sparse` are returned, as by `jacobian`; or their pattern, as
        `sparsity` of the gradient gives it. Of each pair of elements that are equal one is computed
        (by a star colouring).

    Returns
    -------
    callable
        For one array argument and a scalar result, it returns an array of the shape
        ``argument.shape + argument.shape``; for pytrees, a pytree like the result, of pytrees like
        the argument, of pytrees like the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import hessian
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    options: dict[str, Any] = {
        "argnums": argnums,
        "has_aux": has_aux,
        "chunk_size": chunk_size,
        "holomorphic": holomorphic,
        "sparse": sparse,
    }
    if function is None:
        return decorated(hessian, **options)
    check_callable(function, "hessian")
    first = jacobian_by(function, argnums, has_aux, None, holomorphic, "hessian", by_rows)
    blocks_of = by_either if sparse is False else _sparse_blocks(sparse, _is_symmetric)
    second = jacobian_by(first, argnums, has_aux, chunk_size, holomorphic, "hessian", blocks_of)
    return Transformed(hessian, function, options, second)


def _is_symmetric(problem: Problem) -> bool:
    """Whether the derivative of a gradient is a square matrix: that of one number."""
    sizes = [sum(aval_of_leaf(x).size for x in side) for side in (problem.outs, problem.leaves)]
    return sizes[0] == sizes[1]


@overload
def hvp(
    function: Callable[..., Any], /, argnums: int = 0, has_aux: bool = False
) -> Transformed[..., Any]: ...


@overload
def hvp(
    *, argnums: int = 0, has_aux: bool = False
) -> Callable[[Callable[..., Any]], Transformed[..., Any]]: ...


@boundary
def hvp(
    function: Callable[..., Any] | None = None, /, argnums: int = 0, has_aux: bool = False
) -> Any:
    """The product of a Hessian and a vector, without the Hessian.

    It is the gradient's derivative in the vector's direction; or, where the gradient meets a
    function of `custom_vjp`, which has no forward mode, the gradient's pullback of the vector. The
    two are the same as long as the rules give a symmetric Hessian, as true derivatives do.

    Parameters
    ----------
    function : callable
        Returns one number (or ``(number, aux)``).
    argnums : int, optional
        The positional argument to differentiate with respect to, twice.
    has_aux : bool, optional
        Whether the function returns ``(number, aux)``.

    Returns
    -------
    callable
        Takes the function's arguments and then, as the last positional argument, the vector: in
        the structure and shapes of the differentiated argument, as is the result. With ``has_aux``,
        it returns ``(product, aux)``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import hvp
    >>> hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """
    if function is None:
        return decorated(hvp, argnums=argnums, has_aux=has_aux)
    check_callable(function, "hvp")
    gradient = grad(function, argnums, has_aux=has_aux)

    def product(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise TypeError(
                f"hvp({name_of(function)}) takes the arguments of {name_of(function)} and then the "
                f"vector, by position; found {len(args)} positional argument(s)"
            )
        *arguments, vector = args
        (position,) = normalized_argnums(argnums, len(arguments), function)

        def along(x: Any) -> Any:
            return gradient(*arguments[:position], x, *arguments[position + 1 :], **kwargs)

        leaves, structure = tree.flatten(arguments[position])
        label = argument_name(function, position)
        avals = [aval_of_leaf(as_array(x, str, label)) for x in leaves]
        given = matching(vector, structure, avals, "the vector", label)
        problem = forward_problem(along, (arguments[position],), has_aux, "hvp")
        point = problem.point()
        if is_reverse_only(point.tangent.graph):
            auxiliary = [None] * (len(point.graph.outputs) - len(given))
            outputs, results = point.pull([*given, *auxiliary])
            (found,) = problem.derivative(results, point, given)
        else:
            outputs, results = point.push(given)
            found = filled_tangents(problem, results, point, given)
        return (found, problem.unpack(outputs)[1]) if has_aux else found

    return Transformed(hvp, function, {"argnums": argnums, "has_aux": has_aux}, product)

"""Second derivatives: the Hessian, dense or sparse, and in one direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from functrans.api.arguments import (
    Argnums,
    argument_name,
    as_array,
    aval_of_leaf,
    check_callable,
    name_of,
    normalized_argnums,
    wrap,
)
from functrans.api.derivatives import grad
from functrans.api.jacobians import Blocks, by_columns, by_rows, jacobian_by
from functrans.api.linearization import Point
from functrans.api.problem import Problem, filled_tangents, forward_problem, matching
from functrans.api.transformed import Transformed, transform
from functrans.lazily import lazy
from functrans.ops.calls.custom import is_reverse_only
from functrans.tree import core as tree

_sparse_blocks = lazy("functrans.api.sparse:sparse_blocks")


def by_either(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
    """Blocks by columns, or by rows if a `custom_vjp` rule, which has no forward mode, occurs."""
    blocks_of = by_rows if is_reverse_only(point.linear.graph) else by_columns
    return blocks_of(point, problem, chunk_size)


@transform
def hessian(
    function: Callable[..., Any],
    /,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    sparse: Any = False,
) -> Callable[..., Any]:
    """The second derivative of a function: ``jacfwd(jacrev(function))``.

    If the first derivative contains a function of `custom_vjp`, which has no forward mode, it is
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
        (by a star colouring; or by an acyclic one and substitution, where that saves a third of the
        products), unless the function has rules of its own (`custom_jvp`, `custom_vjp`), for which
        they may differ.

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
    check_callable(function, "hessian")
    if sparse is not False:
        return _sparse_hessian(function, argnums, has_aux, chunk_size, sparse)
    first = jacobian_by(function, argnums, has_aux, None, holomorphic, "hessian", by_rows)
    return jacobian_by(first, argnums, has_aux, chunk_size, holomorphic, "hessian", by_either)


def _sparse_hessian(
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    chunk_size: int | None,
    sparse: Any,
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        rules: list[bool] = []

        def rows(point: Point, problem: Problem, chunk_size: int | None) -> Blocks:
            rules.append(point.has_rules)
            return by_rows(point, problem, chunk_size)

        def is_symmetric(problem: Problem) -> bool:
            sides = problem.outs, problem.leaves
            height, width = (sum(aval_of_leaf(x).size for x in side) for side in sides)
            return height == width and not any(rules)

        blocks_of = _sparse_blocks(sparse, is_symmetric)
        first = jacobian_by(function, argnums, has_aux, None, False, "hessian", rows)
        second = jacobian_by(first, argnums, has_aux, chunk_size, False, "hessian", blocks_of)
        return second(*args, **kwargs)

    return wrap(function, call, "hessian")


@overload
def hvp(
    function: Callable[..., Any], /, argnums: int = 0, has_aux: bool = False
) -> Transformed[..., Any]: ...


@overload
def hvp(
    *, argnums: int = 0, has_aux: bool = False
) -> Callable[[Callable[..., Any]], Transformed[..., Any]]: ...


@transform
def hvp(function: Callable[..., Any], /, argnums: int = 0, has_aux: bool = False) -> Any:
    """The Hessian-vector product, computed without the Hessian.

    It is the derivative of the gradient along the vector; or, if the gradient contains a function
    of `custom_vjp`, which has no forward mode, the gradient's pullback of the vector. The two are
    equal if the rules give a symmetric Hessian, as true derivatives do.

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

    return product

"""Sums of derivatives: the Laplacian and the divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.arguments import Argnums, aval_of_leaf, check_argnums, check_callable, name_of
from functrans.api.linearization import is_traced_here, run_derivative
from functrans.api.problem import Problem, problem_of
from functrans.api.transformed import transform
from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import is_float
from functrans.ops.arrays.structural import reduce_sum, reshape
from functrans.ops.calls.effect import without_effects
from functrans.run.call.ownership import own
from functrans.transform.jacobian import forward_block
from functrans.transform.laplacian import laplacian_graph


@transform
def laplacian(function: Callable[..., Any], /, argnums: Argnums = 0) -> Callable[..., Any]:
    """The Laplacian of a function: the sum of its second derivatives with respect to each element.

    One forward pass computes the value, first derivatives and Laplacian of every intermediate value
    (forward Laplacian: Li, Ye, Xu and others, 2024). It needs no Hessian: for a network it takes a
    third of the work of the Hessian's diagonal by Hessian-vector products.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them; real ones.
    argnums : int or sequence of int, optional
        The positional argument(s) over all of whose elements the second derivatives are summed.

    Returns
    -------
    callable
        Takes the function's arguments, and returns a pytree like the function's result: the
        Laplacian of each of its elements.

    Raises
    ------
    DtypeError
        If an argument or result is not real.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import laplacian
    >>> laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    np.float64(18.0)
    """
    check_callable(function, "laplacian")
    check_argnums(argnums, function)

    def sums(*args: Any, **kwargs: Any) -> Any:
        problem = problem_of(function, argnums, args, kwargs, False, "laplacian")
        point = problem.point()
        _check_floats(problem)
        # with concrete values, effects took place during tracing
        is_traced = is_traced_here(point.inputs)
        graph = point.graph if is_traced else without_effects(point.graph)
        results = run_derivative(laplacian_graph(graph, point.moving), point.inputs)
        return problem.out_structure.unflatten(own(results[: len(problem.outs)], point.inputs))

    return sums


@transform
def divergence(function: Callable[..., Any], /, argnums: int = 0) -> Callable[..., Any]:
    """The divergence of a vector field: the sum of the diagonal elements of its Jacobian.

    Parameters
    ----------
    function : callable
        Returns an array of the shape of the argument, or a pytree like it.
    argnums : int, optional
        The positional argument to differentiate with respect to.

    Returns
    -------
    callable
        Takes the function's arguments, and returns a number.

    Raises
    ------
    ShapeError
        If the shapes of the result differ from those of the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import divergence
    >>> divergence(lambda x: x**2)(np.array([1.0, 2.0]))
    np.float64(6.0)
    """
    check_callable(function, "divergence")
    check_argnums(argnums, function)

    def total(*args: Any, **kwargs: Any) -> Any:
        problem = problem_of(function, argnums, args, kwargs, False, "divergence")
        point = problem.point()
        _check_floats(problem)
        _check_field(problem)
        linear = point.linear
        residuals = len(linear.residuals)
        found: Any = np.zeros((), aval_of_leaf(problem.outs[0]).dtype)
        for i, x in enumerate(problem.outs):
            size = aval_of_leaf(x).size
            if not linear.nonzero[i] or not size:
                continue
            blocks = run_derivative(
                forward_block(linear.graph, residuals, i, size), [*linear.residuals, np.int64(0)]
            )
            square = reshape(blocks[sum(linear.nonzero[:i])], shape=(size, size))
            found = found + reduce_sum(np.diagonal(square), axes=(0,))
        return own([found], point.inputs)[0]

    return total


def _check_floats(problem: Problem) -> None:
    for x in (*problem.leaves, *problem.outs):
        if not is_float(aval_of_leaf(x).dtype):
            raise DtypeError(
                f"{problem.transform} needs a function of real floats that returns such, but "
                f"{name_of(problem.function)} takes or returns {aval_of_leaf(x).dtype}"
            )


def _check_field(problem: Problem) -> None:
    inside, outside = (
        [aval_of_leaf(x).shape for x in side] for side in (problem.leaves, problem.outs)
    )
    if inside != outside:
        raise ShapeError(
            f"divergence needs a function whose result has the shapes of its argument, but "
            f"{name_of(problem.function)} takes {inside} and returns {outside}"
        )

"""Taylor mode: derivatives of any order along a curve, in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from functrans.api.arguments import aval_of_leaf, check_callable, name_of
from functrans.api.linearization import run_derivative
from functrans.api.problem import Problem, forward_problem, matching
from functrans.api.transformed import Transformed
from functrans.errors import ShapeError, TreeMismatchError
from functrans.ir.types import describe
from functrans.ops.arrays.structural import zeros_like
from functrans.run.call.ownership import own
from functrans.tracebacks import boundary
from functrans.transform.taylor import taylor_graph


@boundary
def jet(
    function: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], /
) -> tuple[Any, list[Any]]:
    """The value of a function, and its derivatives along a curve, up to any order.

    The curve starts at the primals, and its derivatives there are the series:
    ``x(t) = x0 + x1 t + x2 t**2 / 2 + x3 t**3 / 6 + ...``. The value and the derivatives of
    ``f(x(t))`` are computed by Taylor arithmetic (Griewank and Walther, "Evaluating Derivatives",
    chapter 13): the time grows with the square of the order, while each nested `jvp` doubles it.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of floats.
    primals : tuple or list
        The arguments.
    series : tuple or list
        For each argument, the derivatives of the curve, from the first to the last: each in the
        structure, shapes and dtypes of the argument.

    Returns
    -------
    value : pytree
        The function's result.
    derivatives : list of pytree
        As many derivatives as the series have, each with the structure of the result.

    Raises
    ------
    TreeMismatchError, ShapeError
        If the series do not fit the primals, or differ in length.
    NotDifferentiableError
        If the function has an operation without a derivative, or one with a derivative in reverse
        mode only.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jet
    >>> value, (first, second) = jet(np.sin, (0.0,), ((1.0, 0.0),))
    >>> float(first), float(second)
    (1.0, 0.0)
    >>> jet(lambda x, y: x * y, (2.0, 3.0), ((1.0, 0.0), (1.0, 0.0)))[1]
    [np.float64(5.0), np.float64(2.0)]
    """
    check_callable(function, "jet")
    problem = forward_problem(function, primals, False, "jet")
    if not isinstance(series, (tuple, list)) or len(series) != len(primals):
        raise TreeMismatchError(
            f"jet takes a series for each argument of {name_of(function)}, a tuple of "
            f"{len(primals)}, not {_described(series)}"
        )
    order = _order(problem, series)
    moving = [
        matching(
            tuple(of_one[k] for of_one in series),
            problem.structure,
            [aval_of_leaf(x) for x in problem.leaves],
            f"the derivatives of order {k + 1}",
            "the primals",
        )
        for k in range(order)
    ]
    outs, derivatives = _expanded(problem, moving, order)
    return problem.out_structure.unflatten(outs), [
        problem.out_structure.unflatten(each) for each in derivatives
    ]


def _order(problem: Problem, series: Sequence[Any]) -> int:
    lengths = []
    for i, of_one in enumerate(series):
        if not isinstance(of_one, (tuple, list)):
            raise TreeMismatchError(
                f"series[{i}] of jet must be a tuple or a list of derivatives, from the first "
                f"order on, not {describe(of_one)}: write (v,) for one"
            )
        lengths.append(len(of_one))
    if len(set(lengths)) > 1:
        raise TreeMismatchError(
            f"the series of jet must be of one length, and are of lengths {lengths}: add zeros"
        )
    return lengths[0] if lengths else 0


def _described(series: Any) -> str:
    return f"{len(series)}" if isinstance(series, (tuple, list)) else describe(series)


def _expanded(
    problem: Problem, moving: Sequence[Sequence[Any]], order: int
) -> tuple[list[Any], list[list[Any]]]:
    """The results, and their derivatives for each order, along a curve with these derivatives.

    There may be fewer than the order: the others are 0, and absent, since a product of 0 and an
    infinite derivative would be NaN.
    """
    point = problem.point()
    if order == 0:
        return own(point.outputs(), point.inputs), []
    taylor = taylor_graph(point.graph, point.moving, order=order, degree=len(moving))
    coefficients = [
        x if k == 0 else x / factorial(k + 1)
        for leaf in range(len(problem.leaves))
        for k, x in enumerate(of_order[leaf] for of_order in moving)
    ]
    found = run_derivative(taylor.graph, [*point.inputs, *coefficients])
    moved = iter(found[len(point.graph.outputs) :])
    by_result = [[next(moved) for _ in range(order)] if flag else None for flag in taylor.nonzero]
    derivatives = [
        [
            zeros_like(aval_of_leaf(x)) if own_ is None else _scaled(own_[k], k + 1)
            for x, own_ in zip(problem.outs, by_result, strict=False)
        ]
        for k in range(order)
    ]
    given = [*point.inputs, *coefficients]
    outs = point.outputs()[: len(problem.outs)]
    return own(outs, given), [own(each, given) for each in derivatives]


def _scaled(coefficient: Any, order: int) -> Any:
    return coefficient if order == 1 else coefficient * factorial(order)


@boundary
def derivatives(function: Callable[[Any], Any], /, order: int) -> Transformed[..., list[Any]]:
    """The value and all derivatives of a function of one number, up to an order.

    Parameters
    ----------
    function : callable
        Takes a number, and returns a pytree of floats.
    order : int
        The highest order.

    Returns
    -------
    callable
        Takes a number, and returns a list of ``order + 1`` pytrees like the function's result.

    Raises
    ------
    ShapeError
        If it is called with an array: `functrans.vmap` maps it over one.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import derivatives
    >>> derivatives(lambda x: x**3, 4)(2.0)
    [np.float64(8.0), np.float64(12.0), np.float64(12.0), np.float64(6.0), np.float64(0.0)]
    """
    check_callable(function, "derivatives")
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ValueError(f"order of derivatives must be 0 or more, not {order!r}")

    def expanded(x: Any) -> list[Any]:
        problem = forward_problem(function, (x,), False, "derivatives")
        shapes = [aval_of_leaf(leaf).shape for leaf in problem.leaves]
        if shapes != [()]:
            given = f"an array of shape {shapes[0]}" if len(shapes) == 1 else "a pytree"
            raise ShapeError(
                f"derivatives takes a function of one number, and {name_of(function)} was called "
                f"with {given}: "
                "write vmap(derivatives(f, order)) for each element of an array, or jet for the "
                "derivatives along a curve"
            )
        moving = [[aval_of_leaf(problem.leaves[0]).dtype.type(1)]]
        outs, found = _expanded(problem, moving, order)
        return [problem.out_structure.unflatten(each) for each in (outs, *found)]

    return Transformed(derivatives, function, {"order": order}, expanded)

"""Linear functions: linearisation of a function at a point, and transposition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans import config
from functrans.api.arguments import (
    argument_name,
    as_array,
    aval_of_leaf,
    check_point,
    leaf_names,
    name_of,
)
from functrans.api.flat import Flat
from functrans.api.linear_maps import Pushforward
from functrans.api.linearization import run
from functrans.api.problem import forward_problem, matching
from functrans.api.transformed import checked
from functrans.errors import IntegerInputError
from functrans.ir.types import Aval, is_inexact
from functrans.ops.arrays.structural import instantiated
from functrans.ops.control.layout import spread
from functrans.run.call.ownership import own
from functrans.trace.stage import stage
from functrans.tracebacks import boundary
from functrans.transform.transpose import check_linear, transpose_graph
from functrans.tree import core as tree


@boundary
def linearize(
    function: Callable[..., Any], /, *primals: Any, has_aux: bool = False, allow_int: bool = False
) -> Any:
    """The value of a function, and its derivative as a linear function of tangents.

    The computation that does not depend on the tangents is done once. For many tangents this is
    cheaper than `jvp`.

    Parameters
    ----------
    function : callable
    *primals : pytrees of floats
    has_aux : bool, optional
        Whether the function returns ``(result, aux)``.
    allow_int : bool, optional
        Whether the primals may contain arrays of integers and bools. Their tangents are None, or
        arrays of dtype `float0`.

    Returns
    -------
    result
        ``function(*primals)``.
    pushforward : callable
        Takes one tangent for each primal, and returns the tangent of the result. It is a pytree of
        its residuals.
    aux
        With ``has_aux`` only.

    Examples
    --------
    >>> from functrans import linearize
    >>> y, pushforward = linearize(lambda x: x**3, 2.0)
    >>> pushforward(1.0), pushforward(0.5)
    (np.float64(12.0), np.float64(6.0))
    """
    check_point(function, "linearize", primals)
    problem = forward_problem(function, primals, has_aux, "linearize", allow_int)
    point = problem.point()
    linear = point.linear
    result, aux = problem.unpack(linear.outputs)

    pushforward = Pushforward(problem.form(linear), linear.residuals)
    if config.check_values is not None:
        checked(function, primals, {}, result)
        count = len(primals)
        again = partial(linearize, function, has_aux=has_aux, allow_int=allow_int)
        pushforward.origin = (lambda *x: again(*x[:count])[1](*x[count:])), primals
    return (result, pushforward, aux) if has_aux else (result, pushforward)


@boundary
def linear_transpose(function: Callable[..., Any], /, *examples: Any) -> Callable[..., Any]:
    """The transpose of a linear function.

    Parameters
    ----------
    function : callable
        Linear in all its arguments together.
    *examples : pytrees
        Arrays, or any objects with ``shape`` and ``dtype``; only these are read.

    Returns
    -------
    callable
        Takes a cotangent of the result, and returns a tuple with the cotangent of each argument.

    Raises
    ------
    NotDifferentiableError
        If the function is not linear in its arguments.
    IntegerInputError
        If an example is not a float: integer cotangents would lose their fractional part.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import linear_transpose
    >>> transpose = linear_transpose(lambda x: np.array([[1.0, 2.0]]) @ x, np.zeros(2))
    >>> transpose(np.array([3.0]))
    (array([3., 6.]),)
    """
    check_point(function, "linear_transpose", examples)
    leaves, structure = tree.flatten(examples)

    def names() -> list[str]:
        return leaf_names(function, range(len(examples)), examples)

    avals = [
        x if isinstance(x, Aval) else Aval(tuple(x.shape), x.dtype) if hasattr(x, "shape")
        else aval_of_leaf(as_array(x, lambda i=i: names()[i]))
        for i, x in enumerate(leaves)
    ]  # fmt: skip
    _check_floats(function, examples, avals)
    flat = Flat(function, structure, name_of(function))
    staged = stage(flat, avals, kind="linear_transpose")
    graph = staged.graph
    linear = (True,) * len(avals) + (False,) * len(staged.captures)
    zeros = [type(x) is np.ndarray and x.dtype != object and not x.any() for x in staged.captures]
    check_linear(graph, linear, name_of(function), [False] * len(avals) + zeros)
    transposed_graph, nonzero = transpose_graph(graph, linear)

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        cotangents = matching(
            cotangent, flat.result, graph.out_avals,
            "the cotangent", f"the result of {name_of(function)}",
        )  # fmt: skip
        results = run(transposed_graph, [*staged.captures, *cotangents])
        results = spread(results[len(results) - sum(nonzero) :], nonzero)  # after results of zeros
        filled = own(instantiated(results, avals), [*staged.captures, *cotangents])
        return tuple(tree.unflatten(structure, filled))

    return transposed


def _check_floats(function: Callable[..., Any], examples: Any, avals: list[Aval]) -> None:
    arguments = (i for i, example in enumerate(examples) for _ in tree.leaves(example))
    for i, aval in zip(arguments, avals, strict=True):
        if not is_inexact(aval.dtype):
            raise IntegerInputError(
                f"linear_transpose takes floats, but the example for "
                f"{argument_name(function, i)} has dtype {aval.dtype}: a cotangent would lose "
                "what is behind the point; give an example of floats"
            )

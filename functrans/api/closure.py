"""Functions that close over traced values: closure_convert and custom_gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import (
    as_array,
    aval_of_leaf,
    check_callable,
    check_point,
    leaf_names,
    name_of,
    wrap,
)
from functrans.api.custom import CustomVjp, custom_vjp
from functrans.api.flat import Flat
from functrans.api.transformed import P
from functrans.errors import CustomRuleError
from functrans.ir.types import describe
from functrans.trace.stage import replay, stage
from functrans.tracebacks import boundary
from functrans.tree import core as tree


@boundary
def closure_convert(
    function: Callable[..., Any], *examples: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Convert a closure to a function that takes the captured values as additional arguments.

    Use it in a function with a derivative rule that takes another function as an argument: traced
    values in the closure of that function must be arguments for the rule to differentiate.

    Parameters
    ----------
    function : callable
        Traced immediately, without values: it must not branch in Python on its arguments.
    *examples : pytrees
        Arguments of the types that it will be called with.

    Returns
    -------
    converted : callable
        ``converted(*args, *consts)`` equals ``function(*args)``.
    consts : list
        The captured arrays and traced values.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import closure_convert
    >>> scale = np.array([2.0, 3.0])
    >>> converted, consts = closure_convert(lambda x: scale * x, 1.0)
    >>> consts
    [array([2., 3.])]
    >>> converted(10.0, *consts)
    array([20., 30.])
    """
    check_point(function, "closure_convert", examples)
    leaves, structure = tree.flatten(examples)

    def name(i: int) -> str:
        return leaf_names(function, range(len(examples)), examples)[i]

    arrays = [as_array(x, name, i) for i, x in enumerate(leaves)]
    flat = Flat(function, structure, name_of(function))
    staged = stage(flat, [aval_of_leaf(x) for x in arrays], kind="closure_convert")
    count = len(examples)

    def converted(*args: Any) -> Any:
        given, found = tree.flatten(args[:count])
        if found != structure or len(args) != count + len(staged.captures):
            raise TypeError(
                f"{name_of(function)} was converted for {count} arguments like its examples, and "
                f"takes {len(staged.captures)} constants behind them"
            )
        return flat.result.unflatten(replay(staged.graph, [*given, *args[count:]]))

    converted.__name__ = name_of(function)
    return converted, list(staged.captures)


@boundary
def custom_gradient(function: Callable[P, Any], /) -> CustomVjp[P, Any]:
    """Let a function define its reverse-mode derivative: it returns its result and pullback.

    The pullback reads its residuals from its closure, so you need not return them, as in
    `custom_vjp`.

    Parameters
    ----------
    function : callable
        Returns ``(result, backward)``; ``backward(cotangent)`` gives a tuple with the cotangent of
        each argument, or the cotangent alone of a single one.

    Returns
    -------
    callable
        Takes the arguments of ``function``, and returns only the result.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import custom_gradient, grad
    >>> @custom_gradient
    ... def log1pexp(x):
    ...     e = np.exp(x)
    ...     return np.log1p(e), lambda ct: ct * (1.0 - 1.0 / (1.0 + e))
    >>> grad(log1pexp)(0.0)
    np.float64(0.5)
    """
    check_callable(function, "custom_gradient")

    def both(args: Any) -> tuple[Any, Callable[..., Any]]:
        pair = function(*args)  # type: ignore[call-arg]
        if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1])):
            raise CustomRuleError(
                f"custom_gradient({name_of(function)}) must return (result, backward), and "
                f"returned {describe(pair)}"
            )
        return pair

    def result_only(*args: Any) -> Any:
        return both(args)[0]

    named: Callable[P, Any] = wrap(function, result_only, "custom_gradient")  # type: ignore[assignment]
    made = custom_vjp(named)
    found: list[Any] = []

    def forward(*args: Any) -> Any:
        result, backward = both(args)
        converted, consts = closure_convert(backward, result)
        found[:] = converted, len(args) == 1, len(args) == 1 and isinstance(args[0], tuple)
        return result, consts

    def backward(consts: Any, cotangent: Any) -> Any:
        converted, is_one, is_tuple = found
        cotangents = converted(cotangent, *consts)
        # the cotangent of an argument that is a tuple may be a tuple of one, too
        wrapped = isinstance(cotangents, tuple) and len(cotangents) == 1 and not is_tuple
        return (cotangents,) if is_one and not wrapped else cotangents

    made.defvjp(forward, backward)
    return made

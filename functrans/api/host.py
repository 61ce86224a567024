"""Host callbacks: untraced functions that a program calls with arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from functrans.api.arguments import as_array, aval_of_leaf, check_callable, leaf_of_call, name_of
from functrans.api.originals import original
from functrans.api.transformed import transform
from functrans.errors import TreeMismatchError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.types import Aval
from functrans.ops.calls.external import Elements, external
from functrans.records import dataclass
from functrans.trace.source import warn_user
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

Batching = Literal["sequential", "batched"]


@dataclass(frozen=True)
class _Host:
    """A function of pytrees as a function of flat arrays; equal ones make equal programs."""

    function: Callable[..., Any]
    arguments: Structure
    results: Structure

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", name_of(self.function))

    def __call__(self, *values: Any) -> list[Any]:
        # copies: the function must not change values of the program
        args, kwargs = tree.unflatten(self.arguments, [np.array(x)[()] for x in values])
        leaves, structure = tree.flatten(self.function(*args, **kwargs))
        if structure != self.results:
            raise TreeMismatchError(
                f"{name_of(self.function)} did not return what out_types says: "
                f"{difference(self.results, structure)}"
            )
        return leaves


@transform
def callback(
    function: Callable[..., Any], /, out_types: Any, *, vmap: Batching = "sequential"
) -> Callable[..., Any]:
    """Call a function that cannot be traced from traced functions.

    The function may do anything that Python can: call a SciPy solver or another library, or read a
    table. It is called with plain arrays, once their values are known: immediately under `grad`, at
    each call under `jit`, for each example under `vmap`, at each step in a loop. Nothing is traced
    while it runs.

    It must be pure. A call whose result is not used is left out, and `jit` warns about it. The
    order of two calls, and the number of equal calls, are not defined. Use
    `functrans.debug.callback` to call a function for its side effects.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them. Its arguments are copies, which it may
        write to.
    out_types : pytree of Aval or arrays, or callable
        The types of its results: for each array an object with ``shape`` and ``dtype``, such as an
        `Aval` or an example; or a function that returns these, given `Aval`s in place of the
        arguments' arrays.
    vmap : {"sequential", "batched"}, optional
        How it is called under `vmap`: for each example, or once for all examples, which are then
        along a first axis of every argument and of every result.

    Returns
    -------
    callable
        Takes the arguments of ``function``. It has no derivative: to give it one, call it in a
        function with a rule, of `custom_jvp` or `custom_vjp`.

    Raises
    ------
    TreeMismatchError, ShapeError, DtypeError
        When it is called, if its results do not match ``out_types``. Exceptions of the function
        itself are passed on.
    NotDifferentiableError
        If a derivative is taken through it.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import brentq
    >>> from functrans import Aval, callback, custom_jvp, grad, jit
    >>> @callback(out_types=Aval((), float))
    ... def solve(a):
    ...     return brentq(lambda x: x**3 + x - a, -10.0, 10.0)
    >>> @custom_jvp
    ... def root(a):
    ...     return solve(a)
    >>> root.defjvps(lambda tangent, x, a: tangent / (3.0 * x**2 + 1.0))
    >>> print(f"{jit(root)(2.0):.6f} {grad(root)(2.0):.6f}")
    1.000000 0.250000
    """
    check_callable(function, "callback")
    if vmap not in ("sequential", "batched"):
        raise ValueError(f"callback(vmap=...) must be 'sequential' or 'batched', not {vmap!r}")

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, arguments = tree.flatten((args, kwargs))
        leaves = [
            as_array(x, lambda i: leaf_of_call(function, arguments, i), i)
            for i, x in enumerate(leaves)
        ]
        types, results = tree.flatten(_types_of(out_types, arguments, leaves))
        host = _Host(original(function), arguments, results)
        elements = Elements(host, True, vmap == "batched")
        wanted = tuple(Aval(tuple(x.shape), x.dtype) for x in types)
        return results.unflatten(external(*leaves, elements=elements, results=wanted, lanes=()))

    return call


def warn_of_unused(graph: Graph) -> None:
    """Warn about callbacks that are never called, because their results are not used."""
    for eqn in unused(graph):
        elements: Elements = eqn.params["elements"]
        warn_user(
            f"nothing uses the result of callback({name_of(elements.function)}), so it is never "
            "called: use what it returns, or write functrans.debug.callback for what it does",
            RuntimeWarning,
            eqn.source,
        )


def unused(graph: Graph) -> Iterator[Eqn]:
    """The callbacks in a graph whose results are not used."""
    calls = [eqn for eqn in graph.eqns if eqn.primitive is external]
    if calls:
        used = {atom for eqn in graph.eqns for atom in eqn.inputs} | set(graph.outputs)
        yield from (eqn for eqn in calls if used.isdisjoint(eqn.outputs))


def _types_of(out_types: Any, arguments: Structure, leaves: list[Any]) -> Any:
    if not callable(out_types):
        return out_types
    args, kwargs = tree.unflatten(arguments, [aval_of_leaf(x) for x in leaves])
    return out_types(*args, **kwargs)

"""Branches: cond, switch, select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import aval_of_leaf, name_of
from functrans.errors import BranchError, TreeMismatchError
from functrans.lax import staging
from functrans.ops.arrays.structural import astype
from functrans.ops.control.cond import cond_p
from functrans.ops.elementwise import choice
from functrans.tracebacks import boundary
from functrans.transform.variance import variance
from functrans.tree import core as tree
from functrans.tree.compare import difference


@boundary
def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    Both functions are traced, and one is executed. Under `vmap` with a mapped ``pred``, each lane
    executes only its own branch, so the other one may divide by zero or loop forever.

    Parameters
    ----------
    pred : bool
    true_fun, false_fun : callable
        Functions of the operands that return pytrees of the same structure and types. Their
        closures may contain other values, also traced ones.
    *operands : pytrees

    Returns
    -------
    pytree
        What the chosen function returns.

    Raises
    ------
    BranchError
        If ``pred`` is not one bool, or if the results of the functions differ in structure or type.

    Examples
    --------
    >>> from functrans import grad, lax
    >>> def f(x):
    ...     return lax.cond(x > 0, lambda x: x**2, lambda x: -x, x)
    >>> f(3.0), grad(f)(3.0), grad(f)(-3.0)
    (np.float64(9.0), np.float64(6.0), np.float64(-1.0))
    """
    pred = staging.single(pred, "pred of cond")
    staging.check_scalar_bool(pred, "pred of cond", BranchError)
    return _branch(pred, [false_fun, true_fun], operands, "cond")


@boundary
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index out of range selects the nearest branch.

    Parameters
    ----------
    index : int
    branches : sequence of callable
        Functions of the operands that return pytrees of the same structure and types.
    *operands : pytrees

    Returns
    -------
    pytree
        What the chosen function returns.

    Raises
    ------
    BranchError
        If ``index`` is not one integer, if there are no branches, or if their results differ in
        structure or type.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> [lax.switch(i, [np.sin, np.cos, np.exp], 0.0) for i in range(3)]
    [np.float64(0.0), np.float64(1.0), np.float64(1.0)]
    """
    index = staging.single(index, "the index of switch")
    aval = aval_of_leaf(index)
    if aval.shape != () or aval.dtype.kind not in "iu":
        raise BranchError(f"the index of switch must be one integer, and is {aval}")
    if not branches:
        raise BranchError("switch needs at least one branch")
    if len(branches) == 1:
        staging.check_function(branches[0], "branch 0", "switch", _names(operands))
        return branches[0](*operands)
    chosen = index > 0 if len(branches) == 2 else astype(index, np.int64)
    return _branch(chosen, branches, operands, "switch")


def _branch(index: Any, functions: Sequence[Callable[..., Any]], operands: Any, what: str) -> Any:
    given = staging.flattened(operands, "operand ")
    names = [_label(f, i, what) for i, f in enumerate(functions)]
    bodies = []
    varying = [variance(x) for x in given.leaves]
    for function, name in zip(functions, names, strict=True):
        staging.check_function(function, name, what, _names(operands))
        bodies.append(staging.staged(function, given.structure, given.avals, what, name, varying))
    graphs, captures = staging.closed(bodies, staging.agreeing(bodies, names, what))
    outs = cond_p(index, *captures, *given.leaves, branches=tuple(graphs))
    return bodies[0].result.unflatten(staging.apart(outs, [*captures, *given.leaves]))


def _names(operands: Any) -> list[str]:
    return [f"operand {i}" for i in range(len(operands))]


def _label(function: Callable[..., Any], i: int, what: str) -> str:
    name = name_of(function) if callable(function) else "<lambda>"
    place = ("false_fun", "true_fun")[i] if what == "cond" else f"branch {i}"
    return place if name == "<lambda>" else f"{place} ({name})"


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of ``on_true`` where ``pred`` holds, of ``on_false`` elsewhere, leaf by leaf.

    Both are computed; use `cond` to compute only one.

    Parameters
    ----------
    pred : array of bool
        Broadcast against each leaf.
    on_true, on_false : pytrees
        Of the same structure.

    Raises
    ------
    TreeMismatchError
        If the structures differ.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.select(np.array([True, False]), {"a": np.ones(2)}, {"a": np.zeros(2)})
    {'a': array([1., 0.])}
    """
    x, y = staging.flattened(on_true, "on_true"), staging.flattened(on_false, "on_false")
    if x.structure != y.structure:
        raise TreeMismatchError(
            f"select chooses between pytrees of the same structure: "
            f"{difference(x.structure, y.structure)} (expected is on_true, found is on_false)"
        )
    return tree.unflatten(
        x.structure, [choice.select(pred, a, b) for a, b in zip(x.leaves, y.leaves, strict=True)]
    )

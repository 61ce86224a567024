"""Rematerialisation (checkpoint), and stop_gradient."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from itertools import compress
from typing import Any

import numpy as np

from functrans.api.arguments import check_callable, name_of
from functrans.api.inner import Inner
from functrans.api.transformed import alike
from functrans.caches import cached
from functrans.ir.graph import Eqn
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import current
from functrans.ir.types import describe
from functrans.ops.calls.budget import Budget
from functrans.ops.calls.call import checkpoint_p
from functrans.ops.elementwise.stop import named
from functrans.ops.elementwise.stop import stop_gradient as stop_gradient_p
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree


def stop_gradient(x: Any) -> Any:
    """The same value, which derivatives treat as a constant.

    Parameters
    ----------
    x : array, number or pytree

    Returns
    -------
    The same values, in the same structure.

    Examples
    --------
    >>> from functrans import grad, stop_gradient
    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return tree.map(lambda leaf: stop_gradient_p(leaf) if isinstance(leaf, Tracer) else leaf, x)


def keep_nothing(eqn: Eqn) -> bool:
    """The default policy: recompute everything."""
    return False


def keep_dots(eqn: Eqn) -> bool:
    """A policy: keep the results of contractions (matrix products), recompute the rest."""
    return eqn.primitive.name == "dot_general"


@cached(1024)
def keep_names(*names: str) -> Callable[[Eqn], bool]:
    """A policy: keep values with one of these names, and results of primitives of these names."""

    def policy(eqn: Eqn) -> bool:
        own = eqn.params["name"] if eqn.primitive is named else eqn.primitive.name
        return own in names

    return policy


POLICIES = {"nothing": keep_nothing, "dots": keep_dots}


Policy = str | Sequence[str] | Callable[[Eqn], bool]


@alike
def checkpoint(
    function: Callable[..., Any], /, policy: Policy = "nothing", *, budget: int | str | None = None
) -> Callable[..., Any]:
    """Recompute the intermediate values of a function in the backward pass instead of storing them.

    Parameters
    ----------
    function : callable
    policy : {"nothing", "dots"}, sequence of str, or callable, optional
        What may be stored nevertheless: nothing; the results of matrix products; the values that
        `functrans.debug.name` has given one of these names, and the results of primitives with one
        of these names; or the results of equations for which the callable returns True.
    budget : int or str, optional
        Instead of a policy: how many bytes may be stored, ``200_000_000`` or ``"200MB"``. The
        residuals that take the most work to recompute, for their size, are stored first; under
        `vmap` of a gradient, the budget applies to each example.

    Returns
    -------
    callable
        Computes the same as ``function``. Its derivative takes more time and less memory.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import checkpoint, grad
    >>> grad(checkpoint(lambda x: np.sin(np.sin(x))))(1.0) == grad(lambda x: np.sin(np.sin(x)))(1.0)
    np.True_
    """
    check_callable(function, "checkpoint")
    keep: Callable[[Eqn], bool] | Budget
    if budget is not None:
        if policy != "nothing":
            raise ValueError(f"checkpoint takes a policy ({policy!r}) or a budget, not both")
        keep = Budget(_in_bytes(budget))
    elif isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(f"checkpoint has no policy {policy!r}: one of {', '.join(POLICIES)}")
        keep = POLICIES[policy]
    elif callable(policy):
        keep = policy
    elif isinstance(policy, (Sequence, Set)) and all(isinstance(name, str) for name in policy):
        keep = keep_names(*policy)
    else:
        raise TypeError(
            "the policy of checkpoint is 'nothing', 'dots', a list of names or a function, not "
            f"{describe(policy)}: write checkpoint(f)(x), not checkpoint(f, x)"
        )

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if current.get() is None:
            return function(*args, **kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        # flags, sizes and objects (the `self` of a method) are not differentiated
        traced = [
            isinstance(x, (Tracer, OnDevice, np.ndarray, np.generic, float, complex))
            for x in leaves
        ]

        def of_arrays(*arrays: Any) -> Any:
            given = iter(arrays)
            merged = [next(given) if flag else x for x, flag in zip(leaves, traced, strict=True)]
            inner_args, inner_kwargs = structure.unflatten(merged)
            return function(*inner_args, **inner_kwargs)

        arrays = tuple(compress(leaves, traced))
        inner = Inner(of_arrays, arrays, f"checkpoint({name_of(function)})")
        staged = inner.stage()
        return inner.bind(checkpoint_p, staged, {"graph": staged.graph, "keep": keep})

    return checkpointed


_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _in_bytes(size: int | str) -> int:
    """A number of bytes, which may be given as a string with a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?) *([KMG]?I?B?)", str(size).strip().upper())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"budget of checkpoint is a number of bytes, or '200MB': not {size!r}")
    return int(float(found[1]) * _UNITS[found[2]])

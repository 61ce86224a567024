"""Rematerialisation and cut gradients: checkpoint and stop_gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, overload

import numpy as np

from functrans.api.arguments import check_callable, decorated, name_of
from functrans.api.inner import Inner
from functrans.api.transformed import P, R, Transformed
from functrans.caches import cached
from functrans.ir.graph import Eqn
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import current
from functrans.ops.calls.call import checkpoint_p
from functrans.ops.elementwise.stop import named
from functrans.ops.elementwise.stop import stop_gradient as stop_gradient_p
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree


def stop_gradient(x: Any) -> Any:
    """The same value, as a constant: derivatives do not pass.

    Parameters
    ----------
    x : array, number or pytree

    Returns
    -------
    The same, in the same structure.

    Examples
    --------
    >>> from functrans import grad, stop_gradient
    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return tree.map(lambda leaf: stop_gradient_p(leaf) if isinstance(leaf, Tracer) else leaf, x)


def keep_nothing(eqn: Eqn) -> bool:
    """The default policy: everything inside is computed again."""
    return False


def keep_dots(eqn: Eqn) -> bool:
    """A policy: keep the results of contractions (matrix products), compute the rest again."""
    return eqn.primitive.name == "dot_general"


@cached(1024)
def keep_names(*names: str) -> Callable[[Eqn], bool]:
    """A policy: keep what has one of these names, itself or by its primitive."""

    def policy(eqn: Eqn) -> bool:
        own = eqn.params["name"] if eqn.primitive is named else eqn.primitive.name
        return own in names

    return policy


POLICIES = {"nothing": keep_nothing, "dots": keep_dots}


Policy = str | Sequence[str] | Callable[[Eqn], bool]


@overload
def checkpoint(function: Callable[P, R], /, policy: Policy = "nothing") -> Transformed[P, R]: ...


@overload
def checkpoint(*, policy: Policy = "nothing") -> Callable[[Callable[P, R]], Transformed[P, R]]: ...


@boundary
def checkpoint(function: Callable[..., Any] | None = None, /, policy: Policy = "nothing") -> Any:
    """Keep nothing inside a function for the backward pass, but compute it again there.

    Parameters
    ----------
    function : callable
    policy : {"nothing", "dots"}, sequence of str, or callable, optional
        What may be kept all the same: nothing; the results of matrix products; what
        `functrans.debug.name` has given one of the names, and the results of the primitives with
        these names; or of the equations for which the callable holds.

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
    if function is None:
        return decorated(checkpoint, policy=policy)
    check_callable(function, "checkpoint")
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(f"checkpoint has no policy {policy!r}: one of {', '.join(POLICIES)}")
        keep: Callable[[Eqn], bool] = POLICIES[policy]
    else:
        keep = policy if callable(policy) else keep_names(*policy)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if current.get() is None:
            return function(*args, **kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        # flags, sizes and objects (the `self` of a method) are no part of what is differentiated
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

    return Transformed(checkpoint, function, {"policy": policy}, checkpointed)

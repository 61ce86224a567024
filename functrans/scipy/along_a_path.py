"""Path specialisation: the loops of solvers as Python's own, along the path of the current call.

A loop of `lax` traces its body once for all steps, so a function that is given to a solver cannot
branch on its argument. If it does, and values are known (in the derivative of a function that is
not compiled), the solver runs again, and Python executes each step in the enclosing trace. Under
`jit` that would not be worthwhile: every step is a copy of the loop's body, which takes a minute to
compile, and nearly every call has a path of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from functrans.api import lowered
from functrans.api.arguments import aval_of_leaf, known_values, name_of
from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.errors import TracerBoolError, TracerConversionError, TracerIndexError
from functrans.ir.primitive import current
from functrans.lax import branches, implicit, loops, scanning
from functrans.trace.stage import replay, stage
from functrans.trace.trace import Trace
from functrans.tree import core as tree

Function = Callable[..., Any]

_active = ContextVar("along_a_path", default=False)
_UNTRACEABLE = (TracerBoolError, TracerConversionError, TracerIndexError)


def is_active() -> bool:
    """Whether the solver runs along the path of the call."""
    return _active.get()


def _values_are_known() -> bool:
    trace = current.get()
    return isinstance(trace, Trace) and trace.concrete


def on_a_path_if_needed(solver: Function) -> Function:
    """A solver that runs along the path of the call if its functions cannot be traced otherwise."""

    def solve(*args: Any, **kwargs: Any) -> Any:
        try:
            return solver(*args, **kwargs)
        except _UNTRACEABLE as error:
            if is_active() or not _values_are_known():
                raise
            refusal = error
        token = _active.set(True)
        try:
            return solver(*args, **kwargs)
        except _UNTRACEABLE:
            raise refusal from None
        finally:
            _active.reset(token)

    return solve


def of_known_values(function: Function) -> Function:
    """A function of an array along the path of the call; what it captures has no derivatives."""

    def plain(x: Any) -> Any:
        traced = stage(
            lambda x: [function(x)], [aval_of_leaf(x)], kind="a solver", values=known_values([x]),
            operands=[x],
        )  # fmt: skip
        captures = known_values(traced.captures)
        if captures is None:
            raise TracerConversionError(
                f"a solver needs the values that {name_of(function)} reads: call it outside of jit "
                "and vmap, or let the function not branch on values"
            )
        return replay(traced.graph, [x, *captures])[0]

    return plain


def while_loop(goes_on: Function, step: Function, state: Any) -> Any:
    """`lax.while_loop`."""
    if not is_active():
        return loops.while_loop(goes_on, step, state)
    while goes_on(state):
        state = step(state)
    return state


def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """`lax.cond`."""
    if not is_active():
        return branches.cond(pred, true_fun, false_fun, *operands)
    return (true_fun if pred else false_fun)(*operands)


def scan(step: Function, carry: Any, xs: Any) -> tuple[Any, Any]:
    """`lax.scan` over an array, with at least one step."""
    if not is_active():
        return scanning.scan(step, carry, xs)
    outs = []
    for x in xs:
        carry, out = step(carry, x)
        outs.append(out)
    return carry, tree.map(lambda *leaves: np.stack(leaves), *outs)


def at_each(f: Function) -> Function:
    """`vmap` of a function that gives one array."""
    if not is_active():
        return vmap(f)
    return lambda *xs: np.stack([f(*x) for x in zip(*xs, strict=True)])


def eval_shape(f: Function, x: Any) -> Any:
    """`functrans.eval_shape`, or the result of that shape."""
    return f(x) if is_active() else lowered.eval_shape(f, x)


def custom_root(
    f: Function, guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """`lax.custom_root`."""
    if not is_active():
        return implicit.custom_root(f, guess, solve, tangent_solve, has_aux)
    found = tree.map(stop_gradient, solve(of_known_values(f), guess))
    root, aux = found if has_aux else (found, ())
    root = implicit.root_found(f, root, tangent_solve)
    return (root, aux) if has_aux else root

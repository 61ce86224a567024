"""Loops with a condition, and over integers: while_loop and fori_loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.api.arguments import aval_of_leaf, leaf_names
from functrans.api.progress import Bar, Counter, every, titled
from functrans.errors import CarryError
from functrans.ir.types import Aval
from functrans.lax import staging
from functrans.lax.scanning import Own, scan_for
from functrans.ops.arrays.structural import astype, iota, made
from functrans.ops.calls.effect import perform
from functrans.ops.control.while_loop import While, step_limit_error
from functrans.trace.stage import replay
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any,
    max_steps: int | None = None, progress: str | None = None,
) -> Any:  # fmt: skip
    """Apply a function repeatedly to a value while a condition holds.

    It does what this does, as one operation::

        while cond_fun(value):
            value = body_fun(value)
        return value

    Both modes of differentiation work. Reverse mode stores the residuals of each step on a stack
    that grows as the loop runs; with ``max_steps``, the stack has that length from the start. Under
    `vmap`, each lane has its own number of steps if the condition depends on the lane.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(value)`` gives one bool.
    body_fun : callable
        ``body_fun(value)`` gives the next value, in the same structure, shapes and dtypes; only
        Python numbers in ``init_val`` take the dtype that ``body_fun`` gives them.
    init_val : pytree
    max_steps : int, optional
        The maximum number of steps.
    progress : str, optional
        The title of a tqdm progress bar that counts the steps, also of compiled loops. Under
        `vmap`, each example has its own bar; backward passes have none.

    Returns
    -------
    pytree
        The value for which the condition does not hold.

    Raises
    ------
    CarryError
        If ``body_fun`` returns a value of another structure or type, or ``cond_fun`` does not
        return one bool.
    StepLimitError
        If the condition still holds after ``max_steps`` steps.

    Examples
    --------
    >>> from functrans import grad, lax
    >>> def root(a):            # Heron's method
    ...     return lax.while_loop(
    ...         lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, a
    ...     )
    >>> root(2.0), grad(root)(2.0)
    (np.float64(1.414213562), np.float64(0.353553391))
    """
    staging.check_function(cond_fun, "cond", "while_loop", ("carry",))
    staging.check_function(body_fun, "body", "while_loop", ("carry",))
    return _while(cond_fun, body_fun, init_val, max_steps, "while_loop", progress=progress)


def _while(
    cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max_steps: int | None,
    what: str, counts: bool = False, progress: str | None = None,
    own: Callable[[Any, Any], Any] | None = None,
) -> Any:  # fmt: skip
    """A while loop, called ``what`` in messages.

    If it ``counts``, the first leaf is an int64 that its body takes for a Python integer. ``own``
    is then the user's function of the two parts of the value, which ``body`` calls.
    """
    first = staging.flattened(init, "init")
    if counts:
        first = first._replace(avals=(Aval((), np.int64, weak=True), *first.avals[1:]))
    arguments = tree.structure((init,))

    def step(value: Any) -> Any:
        value = body(value)
        staging.check_carry_structure(first.structure, tree.structure(value), what)
        return value

    def holds(value: Any) -> Any:
        result = staging.single(cond(value), f"what cond of {what} returns")
        staging.check_scalar_bool(result, f"what cond of {what} returns", CarryError)
        return result

    def names(given: Any, function: Callable[..., Any] = body) -> list[str]:
        return leaf_names(own, (0, 1), given[0]) if own else leaf_names(function, (0,), given)

    def stage_with(avals: Sequence[Aval]) -> staging.Body:
        return staging.steady(
            lambda carry: staging.staged(step, arguments, avals, what, "body", carry, names),
            first.leaves,
        )

    looped, start = staging.carried(stage_with, first, what)
    varying = looped.varying or None
    types = [aval_of_leaf(x) for x in start]
    condition = staging.staged(
        holds, arguments, types, what, "cond", varying, lambda given: names(given, cond)
    )
    bodies = [condition, looped]
    (test, graph), captures = staging.closed(bodies, [b.graph for b in bodies])
    loop = While(test, graph, len(captures), len(start), max_steps)
    if progress is None:
        results = loop.bind(captures, start)[: len(start)]
    else:
        results = _in_shown_segments(loop, captures, start, Counter(titled(progress, what)))
    return first.structure.unflatten(staging.apart(results, [*captures, *start]))


def _in_shown_segments(
    loop: While, consts: Sequence[Any], init: Sequence[Any], shown: Counter
) -> Sequence[Any]:
    """The last carry of a loop, with a bar that moves between segments of the loop."""
    limit = loop.max_steps

    def goes_on(carry: Sequence[Any]) -> Any:
        return replay(loop.cond, [*consts, *carry])[0]

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        carry, done = state
        return tuple(replay(loop.body, [*consts, *carry])), done + 1

    def segment(state: tuple[Any, Any]) -> tuple[Any, Any]:
        until = shown.next_shown(state[1])
        until = until if limit is None else np.minimum(until, limit)

        def holds(state: tuple[Any, Any]) -> Any:
            return (state[1] < until) & goes_on(state[0])

        carry, done = _while(holds, step, state, None, "while_loop")
        return carry, shown.moved(done, carry)

    def holds(state: tuple[Any, Any]) -> Any:
        on = goes_on(state[0])
        return on if limit is None else on & (state[1] < limit)

    carry: Sequence[Any]
    carry, done = _while(holds, segment, (tuple(init), np.int64(0)), None, "while_loop")
    shown.ended(done)
    if limit is not None:
        perform(partial(_check_ended, limit=limit), goes_on(carry))
    return carry


def _check_ended(goes_on: Any, limit: int) -> None:
    if goes_on:
        raise step_limit_error(limit)


@boundary
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any,
    max_steps: int | None = None, progress: str | None = None,
) -> Any:  # fmt: skip
    """Apply a function for each integer in a range.

    It does what this does, as one operation::

        for i in range(lower, upper):
            value = body_fun(i, value)
        return value

    With Python integers as bounds, it is a `scan`; with traced ones, a `while_loop`.

    Parameters
    ----------
    lower, upper : int
    body_fun : callable
        ``body_fun(i, value)`` gives the next value, in the same structure, shapes and dtypes.
    init_val : pytree
    max_steps : int, optional
        As for `while_loop`, if the bounds are traced.
    progress : str, optional
        The title of a progress bar, as for `scan`, or as for `while_loop` if the bounds are traced.

    Returns
    -------
    pytree
        The last value.

    Raises
    ------
    CarryError
        If ``body_fun`` returns a value of another structure or type.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> lax.fori_loop(0, 3, lambda i, s: s + x[0] * i, 0.0)
    np.float64(3.0)
    """
    staging.check_function(body_fun, "body", "fori_loop", ("i", "carry"))
    for bound, name in ((lower, "lower"), (upper, "upper")):
        aval = aval_of_leaf(staging.single(bound, f"{name} of fori_loop"))
        if aval.shape != () or aval.dtype.kind not in "iu":
            raise CarryError(f"the bounds of fori_loop are integers, and {name} is {aval}")
    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer):
        steps = max(int(upper) - int(lower), 0)
        if progress is not None:
            return _counted_in_segments(body_fun, init_val, int(lower), steps, progress)
        return _counted(body_fun, init_val, int(lower), steps)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        i, value = state
        return i + 1, body_fun(i, value)

    def below(state: tuple[Any, Any]) -> Any:
        return state[0] < upper

    start = (astype(lower, np.int64), init_val)
    return _while(below, step, start, max_steps, "fori_loop", True, progress, body_fun)[1]


def _counted(body: Callable[[Any, Any], Any], init: Any, first: Any, steps: int) -> Any:
    """The last value of a loop over ``steps`` integers from ``first`` on."""
    # with a counter, not an array of numbers, which would be as long as the loop
    numbers = made(iota, size=steps, dtype=np.int64)

    def numbered(value: Any, i: Any) -> tuple[Any, Any]:
        return body(i + first if isinstance(first, Tracer) or first else i, value), None

    own = Own(body, "body", (1, 0), "[0]")
    return scan_for(numbered, init, numbers, None, False, 1, "fori_loop", counts=True, own=own)[0]


def _counted_in_segments(
    body: Callable[[Any, Any], Any], init: Any, first: int, steps: int, progress: str
) -> Any:
    """The same with a progress bar, which moves between segments of the loop."""
    shown = Bar(titled(progress, "fori_loop"), steps)
    each = every(steps)
    whole, left = divmod(steps, each)

    def segment(state: tuple[Any, Any], number: Any) -> tuple[Any, None]:
        done, value = state
        value = _counted(body, value, number * each + first, each)
        return (shown.moved(done + each, value), value), None

    numbers = made(iota, size=whole, dtype=np.int64)
    state = (np.int64(0), init)
    done, value = scan_for(segment, state, numbers, None, False, 1, "fori_loop", counts=True)[0]
    if left:
        value = _counted(body, value, first + whole * each, left)
        shown.moved(done + left, value)
    return value

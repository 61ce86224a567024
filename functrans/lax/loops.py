"""Loops: scan, map, while_loop, fori_loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import aval_of_leaf
from functrans.api.mapping import vmap
from functrans.api.recompute import checkpoint
from functrans.errors import AxisSizeError, CarryError
from functrans.ir.types import Aval, describe
from functrans.lax.progress import bar
from functrans.lax.staging import (
    Body,
    Tree,
    apart,
    carried,
    check_carry_structure,
    check_function,
    check_scalar_bool,
    closed,
    flattened,
    staged,
)
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.structural import astype, iota, made
from functrans.ops.control.scan import scan_p
from functrans.ops.control.while_loop import While
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | None = None,
    progress: str | None = None,
) -> tuple[Any, Any]:
    """Apply a function to one element after the other, handing a carry from step to step.

    It does what this does, as one operation, which compiles to one loop::

        ys = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    Parameters
    ----------
    f : callable
        ``f(carry, x) -> (carry, y)``. The carry keeps its structure, shapes and dtypes; only Python
        numbers in ``init`` take the dtype that ``f`` gives them.
    init : pytree
        The first carry.
    xs : pytree, optional
        Arrays with an element for each step along the first axis. Without them ``length`` says how
        many steps there are, and ``f`` gets None.
    length : int, optional
    reverse : bool, optional
        Whether to go from the last element to the first; ``ys`` is in the order of ``xs`` all the
        same.
    unroll : int, optional
        How many steps to compile as one: a hint.
    checkpoint_every : int, optional
        Keep for the backward pass only what is carried into every so many steps, and compute the
        steps between again. With the root of the number of steps the gradient takes that much
        memory instead of all.
    progress : str, optional
        The title of a progress bar, which tqdm draws, also from compiled loops: they stop for it a
        hundred times. Backward passes have none.

    Returns
    -------
    carry
        The last one.
    ys : pytree
        What ``f`` returned beside the carry, stacked along a new first axis.

    Raises
    ------
    CarryError
        If ``f`` does not return ``(carry, y)``, or a carry of another structure or type.
    AxisSizeError
        If the arrays in ``xs`` are not of one length.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax
    >>> lax.scan(lambda s, x: (s + x, s * x), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 2., 9.]))
    >>> grad(lambda r: lax.scan(lambda s, _: (r * s, None), 1.0, length=5)[0])(2.0)
    np.float64(80.0)
    """
    check_function(f, "f", "scan")
    if progress is not None:
        steps = _length(flattened(xs, "xs"), xs, length)
        shown = bar(progress, steps, "scan")

        def shown_segment(carry: Any, x: Any, count: int) -> tuple[Any, Any]:
            done, carry = carry
            carry, ys = scan(f, carry, x, count, reverse, unroll, checkpoint_every)
            return (shown.moved(done, count, (carry, ys)), carry), ys

        init = (np.int64(0), init)
        (_, carry), ys = _in_segments(shown_segment, init, xs, steps, reverse, shown.every)
        return carry, ys
    if checkpoint_every is not None:
        steps = _length(flattened(xs, "xs"), xs, length)
        if checkpoint_every < 1:
            raise ValueError(
                f"checkpoint_every={checkpoint_every}: a segment has at least one step"
            )

        def kept_segment(carry: Any, x: Any, count: int) -> tuple[Any, Any]:
            inner = checkpoint(lambda c, x: scan(f, c, x, count, reverse, unroll))
            result: tuple[Any, Any] = inner(carry, x)
            return result

        return _in_segments(kept_segment, init, xs, steps, reverse, checkpoint_every)
    return _scan(f, init, xs, length, reverse, unroll, "scan")


def _scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
    unroll: int,
    what: str,
    counts: bool = False,
) -> tuple[Any, Any]:
    """A scan that a message calls ``what``; if it ``counts``, its elements are Python integers."""
    first, rows = flattened(init, "init"), flattened(xs, "xs")
    steps = _length(rows, xs, length)
    row_avals = [Aval(aval.shape[1:], aval.dtype, weak=counts) for aval in rows.avals]
    arguments = tree.structure((init, xs))
    y_structure: list[Any] = []

    def step(carry: Any, x: Any) -> Any:
        pair = f(carry, x)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise CarryError(
                f"f of scan must return (carry, y), and returned {_described(pair)}: return "
                "(carry, None) if there is nothing to stack"
            )
        check_carry_structure(first.structure, tree.structure(pair[0]), what)
        y_structure[:] = [tree.structure(pair[1])]
        return pair

    def stage_with(avals: Sequence[Aval]) -> Body:
        return staged(step, arguments, [*avals, *row_avals], what, "f")

    body, start = carried(stage_with, first, what)
    (graph,), captures = closed([body], [body.graph])
    results = scan_p(
        *captures, *start, *rows.leaves, body=graph, length=steps, reverse=reverse,
        n_consts=len(captures), n_carry=len(start), unroll=unroll,
    )  # fmt: skip
    results = apart(results, [*captures, *start, *rows.leaves])
    return (
        first.structure.unflatten(results[: len(start)]),
        y_structure[0].unflatten(results[len(start) :]),
    )


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"one array ({value._aval})" if isinstance(value, Tracer) else describe(value)


def _length(rows: Tree, xs: Any, length: int | None) -> int:
    sizes = []
    for aval, path in zip(rows.avals, tree.paths(xs), strict=True):
        if aval.ndim == 0:
            raise AxisSizeError(f"scan goes along the first axis of xs, but xs{path} is {aval}")
        sizes.append((aval.shape[0], f"xs{path}"))
    if length is not None:
        sizes.append((int(length), "length"))
    if not sizes:
        raise AxisSizeError("scan needs xs or length, to know how many steps there are")
    for size, name in sizes[1:]:
        if size != sizes[0][0]:
            raise AxisSizeError(
                f"the steps of scan do not agree: {sizes[0][1]} has {sizes[0][0]}, and "
                f"{name} has {size}"
            )
    return sizes[0][0]


def _in_segments(
    segment: Callable[[Any, Any, int], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int,
    reverse: bool,
    every: int,
) -> tuple[Any, Any]:
    """A scan over segments: ``segment(carry, rows, count)`` goes so many steps."""
    whole, left = divmod(length, every)
    if whole == 0:
        return segment(init, xs, left)
    # what is left over comes last, which is at the beginning if the direction is reversed
    bulk, rest = slice(0, whole * every), slice(whole * every, length)
    if reverse:
        bulk, rest = slice(left, length), slice(0, left)

    def segmented(x: Any) -> Any:
        return x[bulk].reshape(whole, every, *x.shape[1:])

    carry, ys = scan(
        lambda carry, x: segment(carry, x, every), init, tree.map(segmented, xs), whole, reverse
    )
    ys = tree.map(_joined, ys)
    if left == 0:
        return carry, ys
    carry, last = segment(carry, tree.map(lambda x: x[rest], xs), left)
    parts = (last, ys) if reverse else (ys, last)
    return carry, tree.map(lambda a, b: np.concatenate([a, b]), *parts)


def _joined(y: Any) -> Any:
    return y.reshape(y.shape[0] * y.shape[1], *y.shape[2:])


@boundary
def map(
    f: Callable[[Any], Any],
    xs: Any,
    *,
    batch_size: int | None = None,
    progress: str | None = None,
) -> Any:
    """Apply a function to one element after the other, and stack the results.

    Like `vmap` in what it gives, like a loop in what it does: it takes the memory of one element,
    and each may take its own branches.

    Parameters
    ----------
    f : callable
    xs : pytree
        Arrays with an element for each call along the first axis.
    batch_size : int, optional
        How many elements are done at once, by `vmap`: more are faster, and take more memory.
    progress : str, optional
        The title of a progress bar, as for `scan`.

    Returns
    -------
    pytree
        Like the result of ``f``, with a new first axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.map(lambda x: x @ x, np.arange(6.0).reshape(3, 2))
    array([ 1., 13., 41.])
    >>> lax.map(lambda x: x @ x, np.arange(6.0).reshape(3, 2), batch_size=2)
    array([ 1., 13., 41.])
    """
    check_function(f, "f", "map")
    if batch_size is None:
        return scan(lambda carry, x: (carry, f(x)), None, xs, progress=progress)[1]
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size of map must be a positive integer, not {batch_size!r}")
    rows = flattened(xs, "xs")
    whole = _length(rows, xs, None) // batch_size * batch_size
    batches = [
        x[:whole].reshape((-1, batch_size, *aval.shape[1:]))
        for x, aval in zip(rows.leaves, rows.avals, strict=True)
    ]
    many = vmap(f)
    rest = many(rows.structure.unflatten([x[whole:] for x in rows.leaves]))
    if not whole:
        return rest
    done = map(many, rows.structure.unflatten(batches), progress=progress)

    def joined(first: Any, last: Any) -> Any:
        return concatenate([first.reshape((whole, *first.shape[2:])), last], axis=0)

    return tree.map(joined, done, rest)


@boundary
def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: int | None = None,
) -> Any:
    """Apply a function to a value as long as a condition holds.

    It does what this does, as one operation::

        while cond(value):
            value = body(value)
        return value

    It has derivatives of every kind. Reverse mode keeps what it needs of each step on a stack that
    grows as the loop runs; with ``max_steps`` the stack has that length from the start. Under
    `vmap` with a condition that depends on the lane, each lane runs for as long as it takes itself.

    Parameters
    ----------
    cond : callable
        ``cond(value)`` gives one bool.
    body : callable
        ``body(value)`` gives the next value, in the same structure, shapes and dtypes; only Python
        numbers in ``init`` take the dtype that ``body`` gives them.
    init : pytree
    max_steps : int, optional
        How many steps there may be.

    Returns
    -------
    pytree
        The value for which the condition does not hold.

    Raises
    ------
    CarryError
        If ``body`` returns a value of another structure or type, or ``cond`` something else than
        one bool.
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
    check_function(cond, "cond", "while_loop")
    check_function(body, "body", "while_loop")
    return _while(cond, body, init, max_steps, "while_loop")


def _while(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: int | None,
    what: str,
    counts: bool = False,
) -> Any:
    """A while loop that a message calls ``what``.

    If it ``counts``, the first leaf is an int64 that its body takes for a Python integer.
    """
    first = flattened(init, "init")
    if counts:
        first = first._replace(avals=(Aval((), np.int64, weak=True), *first.avals[1:]))
    arguments = tree.structure((init,))

    def step(value: Any) -> Any:
        value = body(value)
        check_carry_structure(first.structure, tree.structure(value), what)
        return value

    def holds(value: Any) -> Any:
        (result,) = flattened([cond(value)], "the condition").leaves
        check_scalar_bool(result, f"what cond of {what} returns", CarryError)
        return result

    def stage_with(avals: Sequence[Aval]) -> Body:
        return staged(step, arguments, avals, what, "body")

    looped, start = carried(stage_with, first, what)
    condition = staged(holds, arguments, [aval_of_leaf(x) for x in start], what, "cond")
    bodies = [condition, looped]
    (test, graph), captures = closed(bodies, [b.graph for b in bodies])
    loop = While(test, graph, len(captures), len(start), max_steps)
    results = loop.bind(captures, start)[: len(start)]
    return first.structure.unflatten(apart(results, [*captures, *start]))


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body: Callable[[Any, Any], Any],
    init: Any,
    max_steps: int | None = None,
    progress: str | None = None,
) -> Any:
    """Apply a function for each integer in a range.

    It does what this does, as one operation::

        for i in range(lower, upper):
            value = body(i, value)
        return value

    With Python integers as bounds it is a `scan`, with traced ones a `while_loop`.

    Parameters
    ----------
    lower, upper : int
    body : callable
        ``body(i, value)`` gives the next value, in the same structure, shapes and dtypes.
    init : pytree
    max_steps : int, optional
        As for `while_loop`, where the bounds are traced.
    progress : str, optional
        The title of a progress bar, as for `scan`. The bounds are Python integers then.

    Returns
    -------
    pytree
        The last value.

    Raises
    ------
    CarryError
        If ``body`` returns a value of another structure or type.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> lax.fori_loop(0, 3, lambda i, s: s + x[0] * i, 0.0)
    np.float64(3.0)
    """
    check_function(body, "body", "fori_loop")
    for bound, name in ((lower, "lower"), (upper, "upper")):
        aval = aval_of_leaf(*flattened([bound], name).leaves)
        if aval.shape != () or aval.dtype.kind not in "iu":
            raise CarryError(f"the bounds of fori_loop are integers, and {name} is {aval}")
    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer):
        steps = max(int(upper) - int(lower), 0)
        if progress is not None:
            return _counted_in_segments(body, init, int(lower), steps, progress)
        return _counted(body, init, int(lower), steps)
    if progress is not None:
        raise CarryError(
            "fori_loop shows progress for bounds that are Python integers: "
            f"{'lower' if isinstance(lower, Tracer) else 'upper'} is traced"
        )

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        i, value = state
        return i + 1, body(i, value)

    start = (astype(lower, np.int64), init)
    return _while(lambda state: state[0] < upper, step, start, max_steps, "fori_loop", True)[1]


def _counted(body: Callable[[Any, Any], Any], init: Any, first: Any, steps: int) -> Any:
    """The last value of a loop over so many integers, which begin with the first."""
    # by what counts them, and not by an array, which would be as long as the loop
    numbers = made(iota, size=steps, dtype=np.int64)

    def numbered(value: Any, i: Any) -> tuple[Any, Any]:
        return body(i + first if isinstance(first, Tracer) or first else i, value), None

    return _scan(numbered, init, numbers, None, False, 1, "fori_loop", counts=True)[0]


def _counted_in_segments(
    body: Callable[[Any, Any], Any], init: Any, first: int, steps: int, progress: str
) -> Any:
    """The same with a progress bar, which moves between segments of the loop."""
    shown = bar(progress, steps, "fori_loop")
    every = shown.every
    whole, left = divmod(steps, every)

    def segment(state: tuple[Any, Any], number: Any) -> tuple[Any, None]:
        done, value = state
        value = _counted(body, value, number * every + first, every)
        return (shown.moved(done, every, value), value), None

    numbers = made(iota, size=whole, dtype=np.int64)
    state = (np.int64(0), init)
    done, value = _scan(segment, state, numbers, None, False, 1, "fori_loop", counts=True)[0]
    if left:
        value = _counted(body, value, first + whole * every, left)
        shown.moved(done, left, value)
    return value

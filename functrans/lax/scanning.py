"""Loops over elements: scan and map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import leaf_names
from functrans.api.mapping import vmap
from functrans.api.progress import Bar, every, titled
from functrans.api.recompute import checkpoint
from functrans.errors import AxisSizeError, CarryError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval, describe
from functrans.lax import staging
from functrans.ops.arrays.shape import concatenate, merged, read_along, stack
from functrans.ops.arrays.structural import reshape
from functrans.ops.control.layout import cut
from functrans.ops.control.scan import scan_p
from functrans.records import NamedTuple
from functrans.trace.stage import replay
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.transform.variance import variance
from functrans.tree import core as tree


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False, unroll: int | bool = 1, checkpoint_every: int | None = None,
    progress: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Apply a function to one element after the other, passing a carry from step to step.

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
        Arrays with an element for each step along the first axis. Without them, ``length`` is the
        number of steps, and ``f`` receives None.
    length : int, optional
    reverse : bool, optional
        Whether to go from the last element to the first; ``ys`` is in the order of ``xs``, too.
    unroll : int or bool, optional
        True, 0, or at least the number of steps: the loop is unrolled completely, which is faster
        for a few short steps. Smaller numbers have no effect, since partial unrolling is no faster.
    checkpoint_every : int, optional
        For the backward pass, store only the carry of every n-th step, and recompute the steps
        between. With the square root of the number of steps, memory is proportional to that root.
    progress : str, optional
        The title of a tqdm progress bar, also of compiled loops, which update it a hundred times.
        Backward passes have none.

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
        If the arrays in ``xs`` differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax
    >>> lax.scan(lambda s, x: (s + x, s * x), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 2., 9.]))
    >>> grad(lambda r: lax.scan(lambda s, _: (r * s, None), 1.0, length=5)[0])(2.0)
    np.float64(80.0)
    """
    staging.check_function(f, "f", "scan", ("carry", "x"))
    check_unroll(unroll)
    if progress is not None:
        return _shown(
            lambda carry, x, count: scan(f, carry, x, count, reverse, unroll, checkpoint_every),
            init, xs, _length(staging.flattened(xs, "xs"), xs, length), reverse,
            titled(progress, "scan"),
        )  # fmt: skip
    if checkpoint_every is not None:
        steps = _length(staging.flattened(xs, "xs"), xs, length)
        if checkpoint_every < 1:
            raise ValueError(
                f"checkpoint_every={checkpoint_every}: a segment has at least one step"
            )

        def kept_segment(carry: Any, x: Any, count: int) -> tuple[Any, Any]:
            inner = checkpoint(lambda c, x: scan(f, c, x, count, reverse, unroll))
            return inner(carry, x)

        return _in_segments(kept_segment, init, xs, steps, reverse, checkpoint_every)
    return scan_for(f, init, xs, length, reverse, unroll, "scan")


class Own(NamedTuple):
    """The user's function, which is called by the body of a scan."""

    function: Callable[..., Any]
    name: str
    """The name of the parameter that it was passed for."""
    positions: tuple[int, int]
    """The positions of the carry and of the element among its arguments."""
    result: str
    """The path to its result in that of the body."""


def scan_for(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: int | None, reverse: bool,
    unroll: int | bool, what: str, counts: bool = False,
    own: Own | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """A scan, called ``what`` in messages; if it ``counts``, its elements are Python integers.

    ``own`` is the user's function, if ``f`` calls it.
    """
    own = own or Own(f, "f", (0, 1), "")
    first, rows = staging.flattened(init, "init"), staging.flattened(xs, "xs")
    steps = _length(rows, xs, length, what)
    row_avals = [Aval(aval.shape[1:], aval.dtype, weak=counts) for aval in rows.avals]
    arguments = tree.structure((init, xs))

    def step(carry: Any, x: Any) -> Any:
        pair = f(carry, x)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            wanted = (
                "a tuple, not a list"
                if isinstance(pair, list)
                else "(carry, None) if there is nothing to stack"
            )
            raise CarryError(
                f"f of scan must return (carry, y), and returned {_described(pair)}: return "
                f"{wanted}"
            )
        staging.check_carry_structure(first.structure, tree.structure(pair[0]), what)
        return pair

    row_varying = [variance(x) for x in rows.leaves]

    def names(given: Any) -> list[str]:
        return leaf_names(own.function, own.positions, given)

    def stage_with(avals: Sequence[Aval]) -> staging.Body:
        types = [*avals, *row_avals]
        return staging.steady(
            lambda carry: staging.staged(
                step, arguments, types, what, own.name, [*carry, *row_varying], names, own.result
            ),
            first.leaves,
        )

    body, start = staging.carried(stage_with, first, what)
    (graph,), captures = staging.closed([body], [body.graph])
    if 0 < steps and _is_whole(unroll, steps):
        results = _one_by_one(graph, captures, start, rows.leaves, steps, reverse)
    else:
        results = scan_p(
            *captures, *start, *rows.leaves, body=graph, length=steps, reverse=reverse,
            n_consts=len(captures), n_carry=len(start),
        )  # fmt: skip
    results = staging.apart(results, [*captures, *start, *rows.leaves])
    return (
        first.structure.unflatten(results[: len(start)]),
        body.result.children()[1].unflatten(results[len(start) :]),
    )


def check_unroll(unroll: Any) -> None:
    """Raise unless this is a valid number of steps to unroll."""
    is_known = isinstance(unroll, (bool, np.bool_, int, np.integer))
    if not is_known or unroll < 0:
        error = ValueError if is_known else TypeError
        raise error(
            f"unroll={unroll!r}: it is a number of steps to compile as one, or True (or 0) for all "
            "of them"
        )


def _is_whole(unroll: int | bool, steps: int) -> bool:
    """Whether all steps are unrolled."""
    if isinstance(unroll, (bool, np.bool_)):
        return bool(unroll)
    return unroll == 0 or unroll >= steps > 1


def _one_by_one(
    body: Graph, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], steps: int,
    reverse: bool,
) -> list[Any]:  # fmt: skip
    """The results of a scan, step after step."""
    stacks: list[Sequence[Any]] = []
    for i in reversed(range(steps)) if reverse else range(steps):
        row = (reshape(read_along(x, 0, i, 1), shape=x.shape[1:]) for x in xs)
        carry, ys = cut(replay(body, [*consts, *carry, *row]), len(carry))
        stacks.append(ys)
    if reverse:
        stacks.reverse()
    return [*carry, *(stack(list(each), axis=0) for each in zip(*stacks, strict=True))]


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"one array ({value._aval})" if isinstance(value, Tracer) else describe(value)


def _length(rows: staging.Tree, xs: Any, length: int | None, what: str = "scan") -> int:
    sizes = []
    for aval, path in zip(rows.avals, tree.paths(xs), strict=True):
        if aval.ndim == 0:
            raise AxisSizeError(f"{what} goes along the first axis of xs, but xs{path} is {aval}")
        sizes.append((aval.shape[0], f"xs{path}"))
    if length is not None:
        sizes.append((int(length), "length"))
    if not sizes:
        given = "xs or length" if what == "scan" else "an array in xs"
        raise AxisSizeError(f"{what} needs {given}, to know how many steps there are")
    for size, name in sizes[1:]:
        if size != sizes[0][0]:
            raise AxisSizeError(
                f"the steps of {what} do not agree: {sizes[0][1]} has {sizes[0][0]}, and "
                f"{name} has {size}"
            )
    return sizes[0][0]


def _in_segments(
    segment: Callable[[Any, Any, int], tuple[Any, Any]], init: Any, xs: Any, length: int,
    reverse: bool, every: int,
) -> tuple[Any, Any]:  # fmt: skip
    """A scan over segments; ``segment(carry, rows, count)`` makes ``count`` steps."""
    whole, left = divmod(length, every)
    if whole == 0:
        return segment(init, xs, left)
    # remaining steps come last: those of the first elements, if the direction is reversed
    bulk, rest = slice(0, whole * every), slice(whole * every, length)
    if reverse:
        bulk, rest = slice(left, length), slice(0, left)

    def segmented(x: Any) -> Any:
        return x[bulk].reshape(whole, every, *x.shape[1:])

    carry, ys = scan(
        lambda carry, x: segment(carry, x, every), init, tree.map(segmented, xs), whole, reverse
    )
    ys = tree.map(lambda y: merged(y, 0), ys)
    if left == 0:
        return carry, ys
    carry, last = segment(carry, tree.map(lambda x: x[rest], xs), left)
    parts = (last, ys) if reverse else (ys, last)
    return carry, tree.map(lambda a, b: np.concatenate([a, b]), *parts)


def _shown(
    segment: Callable[[Any, Any, int], tuple[Any, Any]], init: Any, xs: Any, steps: int,
    reverse: bool, title: str,
) -> tuple[Any, Any]:  # fmt: skip
    """A scan over segments, with a progress bar that moves after each."""
    bar = Bar(title, steps)

    def shown_segment(state: Any, x: Any, count: int) -> tuple[Any, Any]:
        done, carry = state
        carry, ys = segment(carry, x, count)
        return (bar.moved(done + count, (carry, ys)), carry), ys

    init = (np.int64(0), init)
    (_, carry), ys = _in_segments(shown_segment, init, xs, steps, reverse, every(steps))
    return carry, ys


@boundary
def map(
    f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None, progress: str | None = None
) -> Any:
    """Apply a function to one element after the other, and stack the results.

    The result is that of `vmap`, but it is computed by a loop, with the memory of one element; each
    element takes its own branches.

    Parameters
    ----------
    f : callable
    xs : pytree
        Arrays with an element for each call along the first axis.
    batch_size : int, optional
        How many elements are computed at once, by `vmap`: more are faster, and need more memory.
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
    staging.check_function(f, "f", "map", ("x",))
    if batch_size is None:

        def step(carry: Any, x: Any) -> Any:
            return carry, f(x)

        own = Own(f, "f", (0, 0), "[1]")

        def mapped(carry: Any, x: Any, count: int | None) -> tuple[Any, Any]:
            return scan_for(step, carry, x, count, False, 1, "map", own=own)

        if progress is None:
            return mapped(None, xs, None)[1]
        count = _length(staging.flattened(xs, "xs"), xs, None, "map")
        return _shown(mapped, None, xs, count, False, titled(progress, "map"))[1]
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size of map must be a positive integer, not {batch_size!r}")
    rows = staging.flattened(xs, "xs")
    whole = _length(rows, xs, None, "map") // batch_size * batch_size
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

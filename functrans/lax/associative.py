"""Scans of associative operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import AxisSizeError, TreeMismatchError
from functrans.lax.staging import apart, check_function, flattened
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import difference

Leaves = list[Any]


@boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """The scan of an associative operation: ``x0, fn(x0, x1), fn(fn(x0, x1), x2), ...``.

    The elements are combined in pairs, the pairs in pairs, and so on: ``fn`` is called on whole
    arrays, about 2 log2(n) times, and each element takes part in about two combinations.

    Parameters
    ----------
    fn : callable
        ``fn(a, b)`` combines pytrees of arrays with many elements along ``axis``, element by
        element. It must be associative.
    elems : pytree
        Arrays of one length along ``axis``.
    reverse : bool, optional
        Whether to begin at the last element; ``fn`` then gets the later element first.
    axis : int, optional

    Returns
    -------
    pytree
        With the structure and shapes of ``elems``.

    Raises
    ------
    AxisSizeError
        If the arrays differ in their length along ``axis``.
    TreeMismatchError
        If the result of ``fn`` has another structure than ``elems``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.associative_scan(np.maximum, np.array([1, 3, 2, 5, 4]))
    array([1, 3, 3, 5, 5])
    >>> def compose(f, g):          # of the maps x -> a x + b
    ...     return f[0] * g[0], f[1] * g[0] + g[1]
    >>> lax.associative_scan(compose, (np.full(3, 0.5), np.ones(3)))[1]
    array([1.  , 1.5 , 1.75])
    """
    check_function(fn, "fn", "associative_scan", ("a", "b"))
    given = flattened(elems, "elems")
    leaves = [_front(np.asarray(x) if np.ndim(x) == 0 else x, axis) for x in given.leaves]
    for x, path in zip(leaves, tree.paths(elems), strict=True):
        if not x.ndim:
            raise AxisSizeError(f"associative_scan: elems{path} is a number, and has no axis")
        if x.shape[0] != leaves[0].shape[0]:
            raise AxisSizeError(
                f"associative_scan: elems{path} has {x.shape[0]} elements along axis {axis}, "
                f"another one has {leaves[0].shape[0]}"
            )

    def combine(a: Leaves, b: Leaves) -> Leaves:
        both = ([_back(x, axis) for x in side] for side in (a, b))
        result = fn(*(given.structure.unflatten(side) for side in both))
        outs, structure = tree.flatten(result)
        if structure != given.structure:
            raise TreeMismatchError(
                "fn of associative_scan must return the structure of elems: "
                f"{difference(given.structure, structure)}"
            )
        return [_front(x, axis) for x in outs]

    if reverse:
        leaves = [x[::-1] for x in leaves]
    results = _running(combine, leaves) if leaves and leaves[0].shape[0] > 1 else leaves
    if reverse:
        results = [x[::-1] for x in results]
    results = apart([_back(x, axis) for x in results], given.leaves)
    return given.structure.unflatten(results)


def _front(x: Any, axis: int) -> Any:
    return np.moveaxis(x, axis, 0) if axis else x


def _back(x: Any, axis: int) -> Any:
    return np.moveaxis(x, 0, axis) if axis else x


def _running(combine: Callable[[Leaves, Leaves], Leaves], xs: Leaves) -> Leaves:
    """The partial results: those of pairs are every second one; the others take one more step."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[0 : count - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _running(combine, pairs)
    left = [x[: (count - 1) // 2] for x in odd]
    even = combine(left, [x[2::2] for x in xs]) if count > 2 else [x[:0] for x in xs]
    firsts = [np.concatenate([x[:1], y]) for x, y in zip(xs, even, strict=True)]
    return [_interleaved(e, o) for e, o in zip(firsts, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    """``even[0], odd[0], even[1], ...``; ``even`` may have one more element."""
    n = odd.shape[0]
    pairs = np.stack([even[:n], odd], axis=1).reshape(2 * n, *odd.shape[1:])
    return np.concatenate([pairs, even[n:]]) if even.shape[0] > n else pairs


def cumlogsumexp(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """``log(cumsum(exp(x)))`` along an axis, without overflow.

    Parameters
    ----------
    x : array
    axis : int, optional
    reverse : bool, optional
        Whether to begin at the last element.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.cumlogsumexp(np.array([1000.0, 1000.0, -np.inf]))
    array([1000.        , 1000.69314718, 1000.69314718])
    """
    return associative_scan(np.logaddexp, x, reverse=reverse, axis=axis)

"""Partial application as a pytree of the given arguments."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from functrans.tree.registration import register


class Partial(functools.partial[Any]):
    """`functools.partial` as a pytree: its leaves are the leaves of the bound arguments.

    Unlike a plain function, it may be an argument or a result of a jitted function, or the carry of
    a loop.

    Parameters
    ----------
    func : callable
        Part of the structure: two structures are equal only if the functions are.
    *args, **keywords
        Pytrees.

    Examples
    --------
    >>> from functrans import grad, jit, tree
    >>> line = tree.Partial(lambda w, x: w * x, 3.0)
    >>> tree.leaves(line)
    [3.0]
    >>> jit(lambda f, x: f(x) + 1.0)(line, 2.0)
    np.float64(7.0)
    """


def _rebuilt(func: Any, children: Iterable[Any]) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register(Partial, lambda partial: ((partial.args, partial.keywords), partial.func), _rebuilt)

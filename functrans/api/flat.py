"""Flattened functions: a user's function of pytrees as a function from arrays to arrays.

A graph has no type for float0, the dtype of derivatives with respect to integers, which hold
nothing. In the result of a traced function such an array is a container of zeros, which give it its
shape, also where `vmap` or a loop adds an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import as_array, name_of
from functrans.ir.types import Aval, is_inexact
from functrans.tree import core as tree
from functrans.tree.compare import Structure
from functrans.tree.registration import register

FLOAT0 = np.dtype([("float0", np.void, 0)])
"""The dtype of derivatives with respect to integers, which hold no data."""


class Flat:
    """A function of the leaves of its ``arguments``; it records the structure of its ``result``.

    In messages its name is ``name``, and that of a result leaf ``result_name(number, structure)``.
    """

    result: Structure

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Structure,
        name: str,
        result_name: Callable[[int, Structure], str] | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.result_name = result_name or (lambda *_: f"a result of {name}")

    def __call__(self, *leaves: Any) -> list[Any]:
        result = self.function(*self.arguments.unflatten(leaves))
        outs, self.result = tree.flatten(result)
        if any(map(is_float0, outs)):
            outs, self.result = tree.flatten(tree.map(_contained, result))
        return [as_array(x, self.result_name, i, self.result) for i, x in enumerate(outs)]


def called(function: Callable[..., Any], call: Structure) -> Flat:
    """A function of the leaves of all arguments of a ``call``, ``(args, kwargs)``."""
    return Flat(lambda args, kwargs: function(*args, **kwargs), call, name_of(function))


class _Contained:
    """Zeros in the place of an array of dtype float0, as which they come out of a tree."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.zeros = np.zeros(shape, bool)


register(
    _Contained,
    lambda contained: ((contained.zeros,), None),
    lambda _, children: np.zeros(np.shape(next(iter(children))), FLOAT0),
)


def is_float0(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == FLOAT0


def _contained(x: Any) -> Any:
    return _Contained(x.shape) if is_float0(x) else x


def among_floats(found: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Derivatives with respect to all arguments, from those with respect to the floats."""
    rest = iter(found)
    return [next(rest) if is_inexact(a.dtype) else np.zeros(a.shape, FLOAT0) for a in avals]

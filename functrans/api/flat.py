"""Flattened functions: a user's function of pytrees as a function from arrays to arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import as_array, name_of
from functrans.api.float0 import contained, is_float0
from functrans.tree import core as tree
from functrans.tree.compare import Structure


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
            outs, self.result = tree.flatten(contained(result))
        return [as_array(x, self.result_name, i, self.result) for i, x in enumerate(outs)]


def called(function: Callable[..., Any], call: Structure) -> Flat:
    """A function of the leaves of all arguments of a ``call``, ``(args, kwargs)``."""
    return Flat(lambda args, kwargs: function(*args, **kwargs), call, name_of(function))

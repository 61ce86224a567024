"""Functions of `scipy.special` that are objects of one class, with degrees and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.lazily import lazy
from functrans.scipy.entries import enter
from functrans.scipy.inside import refuse

_scipy = lazy("scipy:special")


def enter_orders(*ours: Callable[..., Any]) -> None:
    """Let them ask us within a trace, each for the one of its name."""
    by_name = {function.__name__: function for function in ours}

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = _scipy.resolve()
        for name, function in by_name.items():
            if getattr(module, name) is self:
                return function(*args, **kwargs)
        refuse("a function of all degrees of scipy.special's", "stack the degrees that you need")

    enter("scipy.special:legendre_p.__call__", call)

"""How a function takes the place of one of SciPy's wherever an argument is traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.define import lazy

Function = Callable[..., Any]

implementations: dict[str, Function] = {}
"""What was decorated, by the path of SciPy's function: ``"scipy.special:comb"``."""


def answers(path: str) -> Callable[[Function], Function]:
    """Let the decorated function answer for SciPy's; calls without traced arguments go to SciPy."""
    original = lazy(path)

    def enter(implementation: Function) -> Function:
        implementations[path] = implementation

        @wraps(implementation)
        def public(*args: Any, **kwargs: Any) -> Any:
            if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
                return implementation(*args, **kwargs)
            return original(*args, **kwargs)

        return public

    return enter

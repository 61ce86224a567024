"""Compiled methods: bound methods of functions that `jit` decorates in a class."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrans.tracebacks import boundary

if TYPE_CHECKING:
    from functrans.api.compile import Jitted

MOST_KEPT = 64
"""The most instances without weak references that the methods of a function keep alive."""


def is_referable(instance: Any) -> bool:
    """Whether an instance has weak references; those of classes with slots and tuples have none."""
    return bool(type(instance).__weakrefoffset__)


def reference_to(instance: Any, forget: Callable[[], Any]) -> Callable[[], Any]:
    """A weak reference to an instance, so that a cache does not keep it alive, if it has any.

    ``forget`` is called when the instance is deleted.
    """
    if is_referable(instance):
        return weakref.ref(instance, lambda _: forget())
    return lambda: instance


class JitMethod:
    """A compiled method bound to its instance; its attributes are those of the method.

    Like Python's bound methods, one is created at each access, as cheaply.
    """

    __slots__ = ("_compiled", "_instance")

    def __init__(self, compiled: Jitted[..., Any], instance: Any) -> None:
        self._compiled = compiled
        self._instance = instance

    def __getattr__(self, name: str) -> Any:
        if name in JitMethod.__slots__:  # not created yet
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JitMethod) and self._compiled is other._compiled

    def __hash__(self) -> int:
        return hash(self._compiled)

    def __repr__(self) -> str:
        return repr(self._compiled)

    def __reduce__(self) -> Any:
        return getattr, (self._instance, self._compiled.__name__)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)


# a class's own docstring would hide the instance's
JitMethod.__doc__ = property(lambda method: method._compiled.__doc__)  # type: ignore[assignment]

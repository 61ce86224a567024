"""Bounded caches: memoised results, their limits, and how to clear them.

Every cache of the library is made here, and nothing else may make one (a test reads the sources).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from weakref import WeakSet

from functrans.locks import lock

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_caches: WeakSet[Any] = WeakSet()
_adding = lock()

when_clear: list[Callable[[], None]] = []
"""Called after all caches have been cleared."""


def clear_caches() -> None:
    """Clear all traced, transformed and compiled programs from memory.

    Caches are bounded, so you need not call this, unless the process does something else next and
    needs the memory. Jitted functions are traced and compiled again when
    they are next called. Code that is still in use is kept: results of `compile` and `linearize`
    remain valid. The disk cache is not cleared. The call waits for GPUs that are in use, and
    returns the free memory of their pools to the system, for other libraries.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> double = functrans.jit(lambda x: 2.0 * x)
    >>> double(np.ones(2))
    array([2., 2.])
    >>> functrans.clear_caches()
    >>> double(np.ones(2))
    array([2., 2.])
    """
    with _adding:
        caches = list(_caches)
    for cache in caches:
        cache.clear()
    for action in when_clear:
        action()


def cached(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """Have the results of a function remembered, for so many arguments that came last.

    Two threads that ask at once may get results of their own: equal ones must do.
    """

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        remembering = lru_cache(maxsize=most)(function)
        remembering.clear = remembering.cache_clear  # type: ignore[attr-defined]
        register(remembering)
        return remembering

    return decorate


class Table(dict[K, V]):
    """A dictionary with so many entries at most: what came first goes first.

    `remember` may be called by several threads at once, and while another clears the table.
    """

    __slots__ = ("__weakref__", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        register(self)

    # tables are told apart, not compared
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def remember(self, key: K, value: V) -> None:
        """Enter something, in place of what has been there for longest if there is no room."""
        while len(self) >= self.most:
            with suppress(StopIteration, RuntimeError):  # another thread was faster
                self.pop(next(iter(self)), None)
        self[key] = value


def register(cache: Any) -> None:
    """Have `clear_caches` call the ``clear`` of something, which is not kept alive by that."""
    with _adding:
        _caches.add(cache)


def once(function: Callable[[], T]) -> Callable[[], T]:
    """Have a function called once in a process, whichever threads ask: its result stays for ever.

    That is no cache: such results are what the process consists of. If the call fails, or is
    broken off, it is made again.
    """
    results: list[T] = []
    calling = lock()

    @wraps(function)
    def result() -> T:
        if not results:
            with calling:
                if not results:
                    results.append(function())
        return results[0]

    return result


class cached_property(Generic[T]):
    """An attribute that is worked out when it is first read.

    The standard library's holds a lock meanwhile, before Python 3.12: one for all instances. Here,
    threads that read it at once may each work it out, and all get what one of them found.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...

    def __get__(self, instance: object | None, owner: Any) -> cached_property[T] | T:
        if instance is None:
            return self
        found: T = instance.__dict__.setdefault(self.name, self.function(instance))
        return found

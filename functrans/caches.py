"""Bounded caches: memoised results, their limits, and how to clear them.

All caches of the library are made by this module; a test reads the sources to enforce this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache, wraps
from struct import pack
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from weakref import WeakSet

import numpy as np

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


def bits(number: float | complex) -> bytes:
    """A number in a key: its bits tell 0.0 from -0.0, and NaNs of other signs or payloads apart."""
    return pack("2d", number.real, number.imag)


def exact(value: Any, other: Callable[[Any], Hashable]) -> Hashable:
    """A key that distinguishes equal values: 1 and True, 0.0 and -0.0, also in tuples and slices.

    Ranges are equal if their elements are, but their bounds and steps may differ.
    ``other`` gives the keys of values that are neither of these nor NumPy's numbers.
    """
    kind = type(value)
    if isinstance(value, (float, complex)):
        return kind, bits(value)
    if isinstance(value, (slice, range)):
        value = (value.start, value.stop, value.step)
    if isinstance(value, tuple):
        return kind, *[exact(item, other) for item in tuple.__iter__(value)]
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.dtype, value.tobytes()
    return other(value)


class Exact(tuple[Any, ...]):
    """A tuple that equals another one only if their items have the same types and bits."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return exact(self, _with_type) == exact(other, _with_type)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _with_type(value: Any) -> Hashable:
    return type(value), value


def clear_caches() -> None:
    """Clear all traced, transformed and compiled programs from memory.

    Caches are bounded, so this is needed only to free memory for other work. Jitted functions are
    traced and compiled again at their next call. Results of `compile` and `linearize` remain valid.
    The disk cache is not cleared. The call waits for GPUs that are in use, and returns the free
    memory of their pools to the system.

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
    """Memoise a function: its results for the ``most`` recently used arguments are kept.

    Two threads that call it at the same time may get different objects, which are equal.
    """

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        remembering = lru_cache(maxsize=most)(function)
        remembering.clear = remembering.cache_clear  # type: ignore[attr-defined]
        register(remembering)
        return remembering

    return decorate


class Table(dict[K, V]):
    """A dictionary of at most ``most`` entries; the oldest ones are removed first.

    Threads may call `remember` at the same time, also while another thread clears the table.
    """

    __slots__ = ("__weakref__", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        register(self)

    # tables are compared by identity
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def remember(self, key: K, value: V) -> None:
        """Add an entry; if the table is full, remove the oldest ones."""
        while len(self) >= self.most:
            with suppress(StopIteration, RuntimeError):  # another thread has removed it
                self.pop(next(iter(self)), None)
        self[key] = value


def register(cache: Any) -> None:
    """Register an object, by a weak reference, whose method ``clear`` `clear_caches` calls."""
    with _adding:
        _caches.add(cache)


def once(function: Callable[[], T]) -> Callable[[], T]:
    """Decorate a function so that it is called only once in a process, by one thread.

    `clear_caches` does not clear the result. A call that raises or is interrupted is repeated.
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
    """An attribute that is computed when it is first read.

    Before Python 3.12, `functools.cached_property` holds a lock that all instances share. This one
    takes no lock: threads may compute the value at the same time, and all get the first result.
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
        return instance.__dict__.setdefault(self.name, self.function(instance))

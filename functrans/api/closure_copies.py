"""Closure conversion: a function that takes as arguments what it closes over.

The user's objects are not changed, since other threads use them. All objects on the path from the
function to such an array are copied, with another value in place of the array: functions (the same
code with other cells and globals), bound methods, partials, instances, and containers. All other
objects are shared.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from functrans.api.kinds import attributes_of, has_attributes
from functrans.api.places import Place
from functrans.api.reach import Walk
from functrans.api.transformed import Transformed, again
from functrans.errors import LeakedTracerError
from functrans.trace.tracer import Tracer


def fixed(walk: Walk) -> set[Hashable]:
    """Objects that cannot be copied on some path to them, with everything that they reach."""
    starts = [edge.value for edge in walk.edges if not edge.presentable]
    return _reached(starts, [(edge.owner, edge.value) for edge in walk.edges])


def leading(walk: Walk, places: Sequence[Place]) -> set[Hashable]:
    """The objects on the access paths to some arrays."""
    starts = [place.owner for place in places]
    return _reached(starts, [(edge.value, edge.owner) for edge in walk.edges])


def _reached(starts: list[Hashable], edges: list[tuple[Hashable, Hashable]]) -> set[Hashable]:
    """The nodes of a directed graph that are reached from some of them, and these."""
    after: dict[Hashable, list[Hashable]] = {}
    for one, other in edges:
        after.setdefault(one, []).append(other)
    found: set[Hashable] = set()
    waiting = starts
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += after.get(value, ())
    return found


class Copies:
    """Copies of objects, with other values at the ends of some access paths."""

    def __init__(
        self,
        walk: Walk,
        places: Sequence[Place],
        values: Sequence[Any],  # the new values
    ) -> None:
        self._leads = leading(walk, places)
        self._instead = {
            (place.owner, place.key): value for place, value in zip(places, values, strict=True)
        }
        self._copies: dict[Hashable, Any] = {}
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._originals: dict[int, tuple[Any, Any]] = {}
        """Copies, which are kept alive, and their originals, by the id of the copy."""
        self._made: list[tuple[Callable[[], Any], Any]] = []

    def unchanged(self) -> bool:
        """Whether the copies have not been written to."""
        return all(_alike(read(), before) for read, before in self._made)

    def of(self, value: Any) -> Any:
        """The copy of a value, or the value itself if it is shared."""
        number = id(value)
        if number not in self._leads:
            return value
        if number in self._copies:
            return self._copies[number]
        copied: Any
        kind = type(value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.CellType:
            made = self._enter(value, types.CellType())
            made.cell_contents = self._at(number, "", value.cell_contents)
            self._remember(lambda: [made.cell_contents])
            return made
        if kind is types.MethodType:
            copied = types.MethodType(self.of(value.__func__), self.of(value.__self__))
        elif kind is functools.partial:
            copied = functools.partial(
                self.of(value.func), *self.of(value.args), **self.of(value.keywords)
            )
        elif isinstance(value, Transformed):
            copied = again(value._transform, self.of(value._function), value._options)
        elif kind is dict:
            copied = self._enter(value, {})
            for i, (key, item) in enumerate(value.items()):
                label = (key,) if type(key) in (str, int) else (i,)
                copied[key] = self._at(number, label, item)
            made_dict = copied
            self._remember(lambda: [*made_dict.keys(), *made_dict.values()])
        elif kind in (list, deque):
            copied = self._enter(value, [] if kind is list else deque(maxlen=value.maxlen))
            copied.extend(self._at(number, (i,), item) for i, item in enumerate(value))
            made_list = copied
            self._remember(lambda: list(made_list))
        elif kind is tuple:
            copied = tuple(self._at(number, (i,), item) for i, item in enumerate(value))
        else:
            return self._instance(value)
        return self._enter(value, copied)

    def _enter(self, value: Any, copied: Any) -> Any:
        self._copies[id(value)] = copied
        self._originals[id(copied)] = copied, value
        return copied

    def original(self, value: Any) -> Any:
        """The original of a copied value; any other value itself.

        Functions that copied code has made get the user's globals and cells.

        Raises `LeakedTracerError` if such a function refers to a traced value.
        """
        known = self._originals.get(id(value))
        if known is not None:
            return known[1]
        kind = type(value)
        make: Callable[..., Any]
        parts: list[Any]
        if kind is types.FunctionType:
            make, parts = functools.partial(_rebuilt, value), [value.__globals__]
            parts += [*(value.__defaults__ or ()), *(value.__closure__ or ())]
        elif kind is types.CellType and value != types.CellType():
            make, parts = types.CellType, [value.cell_contents]
        elif kind is types.MethodType:
            make, parts = types.MethodType, [value.__func__, value.__self__]
        elif kind is functools.partial:
            make = functools.partial(_partial, tuple(value.keywords))
            parts = [value.func, *value.keywords.values(), *value.args]
        elif isinstance(value, Transformed):
            make, parts = again, [value._transform, value._function, value._options]
        elif isinstance(value, Tracer):
            raise LeakedTracerError(
                "a function that the program calls while it runs refers to a traced value: pass it "
                "as an argument of the callback"
            )
        else:
            return value
        self._originals[id(value)] = value, value  # met again inside of itself, it stays
        own = [self.original(part) for part in parts]
        result = value if _alike(own, parts) else make(*own)
        self._originals[id(value)] = value, result
        return result

    def _at(self, owner: Hashable, key: Any, value: Any) -> Any:
        """The value at an access path, or its replacement."""
        instead = self._instead.get((owner, key))
        return self.of(value) if instead is None else instead

    def _remember(self, read: Callable[[], Any]) -> None:
        self._made.append((read, read()))

    def _function(self, function: types.FunctionType) -> Any:
        defaults = function.__defaults__ or ()
        cells = (self.of(cell) for cell in function.__closure__ or ())
        copied = _rebuilt(function, self._namespace(function.__globals__), *defaults, *cells)
        self._enter(function, copied)
        copied.__defaults__ = self.of(function.__defaults__)
        copied.__kwdefaults__ = self.of(function.__kwdefaults__)
        copied.__module__ = function.__module__
        return copied

    def _namespace(self, namespace: dict[str, Any]) -> dict[str, Any]:
        number = id(namespace)
        names = [name for name in namespace if (number, name) in self._leads]
        if not names:
            return namespace
        copied = self._namespaces.get(number)
        if copied is None:
            copied = self._namespaces[number] = dict(namespace)
            self._originals[id(copied)] = copied, namespace
            for name in names:
                copied[name] = self._at((number, name), name, namespace[name])
            made = copied
            self._remember(lambda: [*made, *made.values()])
        return copied

    def _instance(self, value: Any) -> Any:
        copied = self._enter(value, object.__new__(type(value)))
        own = getattr(value, "__dict__", {})
        for name in attributes_of(value):
            if name in own:
                item = own[name]
            elif hasattr(value, name):
                item = getattr(value, name)
            else:
                continue
            object.__setattr__(copied, name, self._at(id(value), f".{name}", item))
        assert has_attributes(copied)
        self._remember(lambda: [getattr(copied, name, None) for name in attributes_of(copied)])
        return copied


def _rebuilt(function: types.FunctionType, namespace: dict[str, Any], *parts: Any) -> Any:
    """A function with other globals, defaults and cells."""
    count = len(function.__defaults__ or ())
    made = types.FunctionType(
        function.__code__,
        namespace,
        function.__name__,
        parts[:count] or None,
        parts[count:] or None,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__dict__.update(function.__dict__)
    return made


def _partial(names: tuple[str, ...], function: Callable[..., Any], *values: Any) -> Any:
    """A partial, whose first values are those of the named keywords."""
    count = len(names)
    keywords = dict(zip(names, values[:count], strict=True))
    return functools.partial(function, *values[count:], **keywords)


def _alike(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))

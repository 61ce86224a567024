"""What a function reads besides its arguments: found in its code, and looked at before each call.

A compiled function holds what it read while it was traced. Arrays may be changed in place since,
and no array says so: so the ones that the function's code can reach are compared with copies. They
are reached through names (closures, globals, modules of the user's, attributes) that stand in the
code of the function and of the user's functions that it names, and through containers.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import gcd
from typing import Any, Literal

import numpy as np

from functrans.caches import cached
from functrans.ir.on_device import OnDevice
from functrans.trace.codes import codes
from functrans.trace.source import is_installed
from functrans.trace.tracer import Tracer

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_ARRAYS = (np.ndarray, OnDevice)
_LEAVES = (*_ARRAYS, *_PLAIN)
_SEQUENCES = (list, tuple, deque)
_WITHOUT_STATE = (
    type, types.ModuleType, types.BuiltinFunctionType, types.FunctionType, types.MethodType,
    np.ufunc, np.dtype, weakref.ref, functools.partial, Tracer,
)  # fmt: skip
_OURS = __name__.partition(".")[0]
_DEEPEST = 50
_SMALL = 4096  # bytes up to which a copy takes less time than a comparison by NumPy

Look = Callable[[], Any]


class Outside:
    """The arrays outside that a function reads, as they were when it was last traced.

    Parameters
    ----------
    function : callable
    instance : callable, optional
        Gives the instance whose method the function is, of which all attributes count.
    """

    def __init__(self, function: Callable[..., Any], instance: Look | None = None) -> None:
        self._function = function
        self._instance = instance
        self._places: list[Look] = []
        self._names: frozenset[str] = frozenset()
        self._before: list[Any] = []

    def note(self) -> None:
        """Remember what there is: the function has just been traced."""
        reach = _Reach(self._function, self._instance)
        self._names = frozenset(reach.names)
        self._places = [look for look in reach.places if _holds_arrays(self._parts_at(look))]
        self._before = [_Copy(x) if _may_change(x) else _reference(x) for x in self._leaves()]

    @property
    def watches(self) -> bool:
        """Whether there is anything to look at before a call."""
        return bool(self._before)

    def changed(self) -> bool:
        """Whether anything is another than what was noted."""
        if not self._before:
            return False
        pairs = zip_longest(self._before, self._leaves(), fillvalue=_NOTHING)
        return not all(_same(before, now) for before, now in pairs)

    def _leaves(self) -> Iterator[Any]:
        for look in self._places:
            yield from self._parts_at(look)
        if self._instance is not None:
            owner = self._instance()
            for name, value in _attributes(owner):
                yield name
                yield from self._parts(value, {id(owner)}) if name in self._names else (value,)

    def _parts_at(self, look: Look) -> list[Any]:
        try:
            value = look()
        except (ValueError, KeyError, AttributeError):  # what has gone
            return []
        return self._parts(value, set())

    def _parts(self, value: Any, seen: set[int], depth: int = 0) -> list[Any]:
        """The arrays and numbers in a value; the value itself if there are no arrays."""
        if isinstance(value, np.ma.MaskedArray):
            return [np.asarray(value), np.ma.getmaskarray(value)]
        if isinstance(value, _LEAVES) or id(value) in seen or depth > _DEEPEST:
            return [value]
        seen.add(id(value))
        if isinstance(value, Mapping):
            inside = [*value.items()]
        elif isinstance(value, _SEQUENCES):
            inside = [*enumerate(value)]
        elif isinstance(value, _WITHOUT_STATE):
            return [value]
        else:
            inside = [pair for pair in _attributes(value) if pair[0] in self._names]
        parts = [x for key, item in inside for x in (key, *self._parts(item, seen, depth + 1))]
        return parts if _holds_arrays(parts) else [value]


_NOTHING = object()


class _Copy:
    """An array as it was."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.type = type(array), array.shape, array.dtype
        self.order: Literal["C", "F"] = "F" if array.flags.f_contiguous else "C"
        small = array.nbytes <= _SMALL or array.dtype.hasobject
        self.bytes = array.tobytes(self.order) if small else None
        self.bits = None if small else self._bits_of(array).copy()

    def same(self, array: Any) -> bool:
        """Whether an array has the same type and the same bits."""
        kind, shape, dtype = self.type
        if type(array) is not kind or array.shape != shape or array.dtype != dtype:
            return False
        if self.bits is None:
            return bool(array.tobytes(self.order) == self.bytes)
        bits, block = self._bits_of(array), 1 << 17  # which stays in the cache
        starts = range(0, bits.size, block)
        return all(np.array_equal(bits[i : i + block], self.bits[i : i + block]) for i in starts)

    def _bits_of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        flat = np.asarray(array).ravel(self.order)
        return flat.view(f"u{gcd(flat.itemsize, 8)}")


def _same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    if type(before) is _Copy:
        return before.same(now)
    if callable(before):
        return before() is now
    if isinstance(before, _PLAIN):
        return type(before) is type(now) and bool(before == now or before != before)
    return False


def _may_change(x: Any) -> bool:
    """Whether it is an array that somebody may write to."""
    return isinstance(x, np.ndarray) and (x.flags.writeable or not x.flags.owndata)


def _reference(value: Any) -> Any:
    """A value, not kept alive if it might be in turn what keeps its owner alive."""
    return value if isinstance(value, _LEAVES) else _held(value)


def _holds_arrays(parts: Sequence[Any]) -> bool:
    return any(isinstance(x, _ARRAYS) for x in parts)


def _attributes(instance: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of an instance's own attributes, with a dictionary or slots."""
    yield from list(getattr(instance, "__dict__", {}).items())
    for name in _slots(type(instance)):  # type: ignore[arg-type]  # types can be hashed
        if hasattr(instance, name):
            yield name, getattr(instance, name)


@cached(1024)
def _slots(kind: type) -> tuple[str, ...]:
    slots = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


# -- where the names of the code lead --------------------------------------------------------------


class _Reach:
    """The places and names that a function's code, and the user's code that it names, speaks of."""

    def __init__(self, function: Callable[..., Any], instance: Look | None) -> None:
        self.places: list[Look] = []
        self.names: set[str] = set()
        self._package = _package_of(function)
        self._done: set[Any] = set()
        self._classes: list[type] = []
        self._function = function
        self._waiting: list[Any] = [function]
        if instance is not None:
            self._waiting.append(instance())
        while self._waiting:
            self._visit(self._waiting.pop())
            if not self._waiting:
                self._visit_classes()

    def _visit(self, value: Any) -> None:
        while hasattr(value, "__wrapped__") and not isinstance(value, type):
            value = value.__wrapped__
        if isinstance(value, _LEAVES) or id(value) in self._done:
            return
        self._done.add(id(value))
        if isinstance(value, types.FunctionType):
            self._visit_code(value)
        elif isinstance(value, types.MethodType):
            owner = _held(value.__self__)
            self._place(lambda: owner())
            self._waiting.append(value.__func__)
        elif isinstance(value, functools.partial):
            given = _held(value)
            self._place(lambda: (given().args, given().keywords))
            self._waiting.append(value.func)
        elif isinstance(value, Mapping):
            self._waiting += value.values()
        elif isinstance(value, _SEQUENCES):
            self._waiting += value
        elif not isinstance(value, _WITHOUT_STATE) and self._is_users(type(value)):
            self._waiting += [x for _, x in _attributes(value)]
            if type(value) not in self._done:
                self._done.add(type(value))
                self._classes += [base for base in type(value).__mro__ if self._is_users(base)]
            if value is self._function:
                self._place(lambda: value)
                self.names.add("__call__")

    def _visit_code(self, function: types.FunctionType) -> None:
        if not self._is_users(function):
            return
        names = {name for code in codes(function.__code__) for name in code.co_names}
        self.names |= names
        for cell in function.__closure__ or ():
            self._place(functools.partial(getattr, cell, "cell_contents"))
        if function.__defaults__ or function.__kwdefaults__:
            self._place(lambda: (function.__defaults__, function.__kwdefaults__))
        self._visit_names(function.__globals__, names)

    def _visit_names(self, namespace: dict[str, Any], names: set[str]) -> None:
        for name in sorted(names & namespace.keys()):
            value = namespace[name]
            if not isinstance(value, types.ModuleType):
                self._place(functools.partial(operator.getitem, namespace, name))
            elif value.__name__ not in self._done and not is_installed(_file_of(value.__name__)):
                self._done.add(value.__name__)
                self._visit_names(vars(value), names)

    def _place(self, look: Look) -> None:
        try:
            value = look()
        except ValueError:  # a cell that is filled later
            return
        self.places.append(look)
        self._waiting.append(value)

    def _visit_classes(self) -> None:
        """The methods, properties and arrays of classes that the names so far may stand for."""
        for owner in self._classes:
            for name in sorted(self.names & owner.__dict__.keys()):
                if (owner, name) not in self._done:
                    self._done.add((owner, name))
                    value = owner.__dict__[name]
                    self._waiting += [getattr(value, "fget", None), getattr(value, "func", None)]
                    self._place(functools.partial(owner.__dict__.__getitem__, name))

    def _is_users(self, value: Any) -> bool:
        """Whether a function or class is of the user's code, or of the package of the function."""
        package = _package_of(value)
        code = getattr(value, "__code__", None)
        path = code.co_filename if code is not None else _file_of(value.__module__)
        return not is_installed(path) or package == self._package != _OURS


def _held(value: Any) -> Look:
    """Gives a value, which is not kept alive if that can be."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _package_of(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _file_of(module: str) -> str:
    """The file of a module; those that have none belong to Python, but for ``__main__``."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return path or ("" if module == "__main__" else "<frozen >")

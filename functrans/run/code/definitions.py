"""Fingerprints of user-defined operations: their rules, and everything that these depend on.

A rule is a Python function: its bytecode, constants, defaults and closure are hashed, and so is,
recursively, everything that it names. A C function or a class is hashed by name, and by the state
of the file that contains it. Anything whose meaning could change without a change of the
fingerprint has no fingerprint, and programs with it are not cached: a wrong number is worse than a
cold start.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import _lru_cache_wrapper, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from functrans.caches import bits
from functrans.ir.primitive import Primitive
from functrans.lazily import Lazy
from functrans.ops import is_built_in
from functrans.run.code.references import Nameless, globals_of, name_of, state_of, top

MOST = 4096
"""The most values of a definition, and the most bytes of an array in it."""

_BY_NAME = (type, BuiltinFunctionType, type(str.join), np.ufunc, type(np.where))

_REFLECTION = frozenset(map(id, (
    __import__, breakpoint, compile, delattr, dir, eval, exec, getattr, globals, hasattr, id, input,
    locals, open, setattr, vars,
)))  # fmt: skip
"""Builtins by which a function accesses variables that its code does not name."""

_first: WeakKeyDictionary[Primitive, str | None] = WeakKeyDictionary()


def fingerprint(primitive: Primitive) -> str | None:
    """A hash that identifies the definition in all processes; None if that is impossible.

    It is also None if the definition has changed since the first request, because results derived
    from the old definition may be memoised.
    """
    walk = _Walk()
    try:
        walk.write(primitive)
        now: str | None = walk.digest.hexdigest()
    except (Nameless, RecursionError):
        now = None
    return now if _first.setdefault(primitive, now) == now else None


class _Walk:
    """A traversal of a value and its components."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256(sys.version.encode())
        self._met: dict[int, tuple[int, Any]] = {}
        self._count = 0

    def write(self, value: Any) -> None:
        """Add a value to the hash; by a number if it was visited before."""
        kind = type(value)
        text = _text(value)
        parts: Sequence[Any] = ()
        if text is None and id(value) in self._met:
            text = str(self._met[id(value)][0])
        elif text is None:
            self._count += 1
            if self._count > MOST or id(value) in _REFLECTION:
                raise Nameless(value)
            if kind not in (tuple, frozenset, slice, CodeType):  # equal values may be one object
                self._met[id(value)] = len(self._met), value
            parts = _PARTS.get(kind, _others)(value)
        head = f"{kind.__name__} {len(parts)} {len(text or '')} {text}"
        self.digest.update(head.encode(errors="surrogatepass"))
        for part in parts:
            self.write(part)


def _text(value: Any) -> str | None:
    """The text of a number, a string or an array."""
    kind = type(value)
    if kind is int:
        return f"{value:x}"
    if kind in (float, complex):
        return bits(value).hex()
    if kind in (bool, str, bytes, type(None), type(...), type(NotImplemented)):
        return repr(value)
    dtype = value.dtype if isinstance(value, (np.ndarray, np.generic)) else value
    if not isinstance(dtype, np.dtype) or dtype.isbuiltin != 1 or dtype.hasobject:
        return None
    if value is dtype:
        return str(dtype.str)
    is_small = kind is dtype.type or (kind is np.ndarray and value.nbytes <= MOST)
    return f"{dtype.str} {value.shape} {value.tobytes().hex()}" if is_small else None


def _of_function(function: FunctionType) -> list[Any]:
    cells = function.__closure__ or ()
    try:
        parts = [function.__code__, function.__defaults__, function.__kwdefaults__,
                 function.__dict__, *[cell.cell_contents for cell in cells]]  # fmt: skip
    except ValueError:  # some of its variables are not assigned yet
        raise Nameless(function) from None
    if _is_ours(function):
        return [*parts, function.__module__]  # the library's own files are part of every key
    for name, *attributes in globals_of(function.__code__):
        spaces = [function.__globals__, cast(Any, function).__builtins__]
        found = [space[name] for space in spaces if name in space]
        if not found:
            raise Nameless(name)
        value = found[0]
        for attribute in attributes:
            if type(value) is not ModuleType or attribute not in vars(value):
                break
            value = vars(value)[attribute]
        parts += [name, value]
    return parts


def _of_code(code: CodeType) -> list[Any]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return [code.co_code, code.co_exceptiontable, counts, names, *code.co_consts]


def _of_primitive(primitive: Primitive) -> list[Any]:
    if is_built_in(primitive):
        return [primitive.name]
    # `samples` are for tests, and the place of the definition does not matter
    slots = [slot.name for slot in fields(primitive) if slot.name not in ("samples", "home")]
    return [getattr(primitive, slot) for slot in slots]


def _of_module(module: ModuleType) -> list[Any]:
    """A module any of whose attributes may be read."""
    if top(module.__name__) not in ("functrans", "numpy"):
        raise Nameless(module)
    return [module.__name__, state_of(module.__name__)]


def _of_lazy(function: Lazy) -> list[Any]:
    """A lazily imported function of an installed package, which is not imported for this."""
    package = top(function.module)
    if function.module in sys.modules and top(name_of(function.resolve())[0]) != package:
        raise Nameless(function)
    return [function.module, function.name, state_of(package)]


def _of_set(values: frozenset[Any]) -> list[Any]:
    texts = [f"{type(x).__name__} {_text(x)}" for x in values]
    if None in map(_text, values):
        raise Nameless(values)
    return sorted(texts)


def _others(value: Any) -> list[Any]:
    """The components of objects that are hashed by name, or belong to the library's classes."""
    if type(value) is BuiltinFunctionType and type(value.__self__) not in (ModuleType, type(None)):
        return [value.__self__, value.__name__]
    if type(value) is _lru_cache_wrapper and _is_ours(value.__wrapped__):
        return [value.__wrapped__]
    if isinstance(value, Lazy):
        return _of_lazy(value)
    if isinstance(value, _BY_NAME):
        module, name = name_of(value)
        return [module, name, state_of(module)]
    kind = type(value)
    if top(kind.__module__) == "functrans":
        if isinstance(value, tuple):
            return [kind, *value]
        if not any("__slots__" in vars(each) for each in kind.__mro__):
            return [kind, vars(value)]
    raise Nameless(value)


_PARTS: dict[type, Callable[[Any], Sequence[Any]]] = {
    tuple: tuple,
    list: list,
    dict: lambda x: [*x.keys(), *x.values()],
    frozenset: _of_set,
    slice: lambda x: [x.start, x.stop, x.step],
    partial: lambda x: [x.func, x.args, x.keywords],
    MethodType: lambda x: [x.__func__, x.__self__],
    ModuleType: _of_module,
    FunctionType: _of_function,
    CodeType: _of_code,
    Primitive: _of_primitive,
}
"""The components of a value, by its type."""


def _is_ours(function: Any) -> bool:
    """Whether a function belongs to the library."""
    module = sys.modules.get(function.__module__)
    ours = top(function.__module__ or "") == "functrans"
    return ours and getattr(function, "__globals__", None) is vars(module)

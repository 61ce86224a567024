"""Purity analysis: whether the results of a function depend on its arguments alone.

The analysis is conservative. A function is pure if its code, and that of all functions that it can
call, names only numbers, strings, functions, and the modules of NumPy, SciPy and this package.
Lists, arrays and instances may change unnoticed: a function that names one does not count as pure.
A class counts as pure if all its methods do, and if its other attributes are numbers or strings.
The objects that names refer to may be replaced, so they are recorded, and compared by identity;
classes by their versions.
"""

from __future__ import annotations

import builtins
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from reprlib import recursive_repr
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np

from functrans.api.kinds import OF_EVERY_CLASS, WITHOUT_STATE, builtins_of, is_installed_class
from functrans.api.transformed import Transformed, global_name
from functrans.caches import cached
from functrans.lazily import Lazy
from functrans.records import NamedTuple
from functrans.run.call import layouts
from functrans.trace import bytecode

_LIBRARIES = frozenset(
    ("numpy", "scipy", "functrans", "math", "cmath", "operator", "itertools", "functools")
)
_STATES = frozenset(
    (
        "config", "ctypeslib", "fromfile", "genfromtxt", "geterr", "geterrcall", "load", "loadtxt",
        "memmap", "rand", "randint", "randn", "random", "random_state", "rvs", "seed",
        "__dict__", "__globals__", "__closure__", "__builtins__", "__self__", "__wrapped__",
        "__dataclass_fields__", "__annotations__", "__doc__", "__name__", "__qualname__",
        "_field_defaults", "__subclasses__",
    )
)  # fmt: skip
"""Names in these libraries whose results differ from call to call, and attributes of functions and
classes that may be objects with a state."""

_BUILTINS = frozenset(
    (
        "abs", "all", "any", "bool", "callable", "complex", "dict", "divmod", "enumerate", "filter",
        "float", "frozenset", "int", "isinstance", "issubclass", "iter", "len", "list", "map",
        "max", "min", "next", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted",
        "str", "sum", "tuple", "type", "zip", "ArithmeticError", "AssertionError", "Exception",
        "IndexError", "KeyError", "NotImplemented", "NotImplementedError", "RuntimeError",
        "TypeError", "ValueError", "ZeroDivisionError",
    )
)  # fmt: skip

_ABSENT: Any = object()

_NEW_TUPLE = tuple.__new__


class Dependency(NamedTuple):
    """A name on which a function depends, and the object that it referred to."""

    look: Callable[[], Any]
    found: Any


def dependencies(functions: Sequence[Any]) -> list[Dependency] | None:
    """All dependencies of functions besides their arguments; None if these cannot be determined."""
    found: list[Dependency] = []
    seen: set[int] = set()
    waiting = [*functions]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or _is_fixed(value):
            continue
        seen.add(id(value))
        if type(value) is tuple:
            waiting += value
            continue
        if isinstance(value, type):
            version, parts = layouts.version(value), _parts(value)
            if parts is None or not version:
                return None
            found.append(Dependency(_is_version(value, version), True))
            waiting += parts
            continue
        inside = _inside(value)
        if inside is None:
            return None
        found += inside
        waiting += [x for look, x in inside if x is not _ABSENT and type(x) is not CodeType]
    return found


def unchanged(found: Sequence[Dependency]) -> bool:
    """Whether all names still refer to the same objects."""
    try:
        for look, value in found:
            if look() is not value:
                return False
    except (ValueError, AttributeError):  # a deleted variable
        return False
    return True


def _is_fixed(value: Any) -> bool:
    """Whether a value is immutable, and behaves the same each time it is used."""
    kind = type(value)
    if kind in WITHOUT_STATE or value is ...:
        return True
    if isinstance(value, np.dtype):
        return value.names is None
    if isinstance(value, Lazy):
        return value.module.partition(".")[0] in _LIBRARIES
    if isinstance(value, ModuleType):
        names = value.__name__.split(".")
        return names[0] in _LIBRARIES and _STATES.isdisjoint(names)
    if isinstance(value, FunctionType) and global_name(value) is None:
        return False  # a closure, whose variables may change
    if isinstance(value, (BuiltinFunctionType, FunctionType, type, np.ufunc, type(np.sum))):
        owner = getattr(value, "__self__", None)
        if isinstance(value, BuiltinFunctionType) and not (
            isinstance(owner, (ModuleType, type(None))) or value is _NEW_TUPLE
        ):
            return False
        names = [*(getattr(value, "__module__", None) or "numpy").split("."), value.__name__]
        if names[0] == "builtins":
            return value.__name__ in _BUILTINS
        return names[0].lstrip("_") in _LIBRARIES and _STATES.isdisjoint(names)
    return False


def _parts(kind: type) -> list[Any] | None:
    """The methods and attributes of a class and of its bases; None if some may have a state."""
    if type(kind) is not type or is_installed_class(kind):
        return None
    found: list[Any] = []
    for base in kind.__mro__:
        if base not in (object, tuple):
            if is_installed_class(base):
                return None
            found += [x for name, x in base.__dict__.items() if name not in _OF_CLASSES]
    found = [x.__func__ if type(x) in (staticmethod, classmethod) else x for x in found]
    found = [
        part for x in found
        for part in ((x.fget, x.fset, x.fdel) if type(x) is property else (x,))
    ]  # fmt: skip
    return [
        x for x in found
        if type(x) not in _FIELDS
        and not (type(x) is FunctionType and x.__code__.co_filename in _GENERATORS)
    ]  # fmt: skip


_GENERATORS = {f.__code__.co_filename for f in (namedtuple, dataclass, recursive_repr)}
"""Files whose functions are methods of named tuples, and the ``__repr__`` of dataclasses."""

_FIELDS = (MemberDescriptorType, type(namedtuple("_Pair", "first").__dict__["first"]))

_OF_CLASSES = OF_EVERY_CLASS | {"_field_defaults"}


def _is_version(kind: type, version: int) -> Callable[[], bool]:
    return lambda: layouts.version(kind) == version


def _inside(value: Any) -> list[Dependency] | None:
    """The dependencies in a function or a transformed function; None for any other object."""
    if type(value) is FunctionType:
        return _inside_function(value)
    if isinstance(value, Transformed):
        own = vars(value)
        parts = ["_function", *(name for name in ("_jvp", "_rules") if name in own)]
        options = tuple(own["_options"].values())
        found = [Dependency(partial(own.get, name), own[name]) for name in parts]
        return [*found, Dependency(lambda: options, options)]
    return None


def _inside_function(function: FunctionType) -> list[Dependency] | None:
    names = _global_names(function.__code__)
    own = builtins_of(function)
    if names is None or vars(function) or (own and own is not vars(builtins)):
        return None
    scope = function.__globals__
    found = [
        Dependency(lambda: function.__code__, function.__code__),
        Dependency(lambda: function.__defaults__, function.__defaults__),
    ]
    if function.__kwdefaults__:
        return None
    for cell in function.__closure__ or ():
        if not _is_set(cell):
            return None
        found.append(Dependency(partial(getattr, cell, "cell_contents"), cell.cell_contents))
    for name in names:
        value = scope.get(name, _ABSENT)
        found.append(Dependency(partial(scope.get, name, _ABSENT), value))
        if value is _ABSENT and not (name in _BUILTINS and hasattr(builtins, name)):
            return None
    return found


@cached(4096)
def _global_names(code: CodeType) -> tuple[str, ...] | None:
    """The globals that code reads; None if it contains unsupported instructions."""
    names: dict[str, None] = {}
    for one in bytecode.codes(code):
        initialising = bytecode.initialising(one)
        for instruction in bytecode.instructions(one):
            operation, name = instruction.opname, instruction.argval
            if instruction.offset in initialising:
                continue
            assigns = operation == bytecode.STORES_CELL and name in one.co_freevars
            if operation in bytecode.ESCAPES or assigns:
                return None
            if operation in bytecode.READS_GLOBAL:
                names[name] = None
            elif isinstance(name, str) and name in _STATES and operation != bytecode.CONSTANT:
                return None
    return tuple(names)


def _is_set(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

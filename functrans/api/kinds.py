"""Kinds of objects in a walk over a program's state, and the components of each."""

from __future__ import annotations

import builtins
import gc
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Hashable, Iterable
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

import numpy as np

from functrans.caches import Table, cached, exact
from functrans.trace.bytecode import codes, global_names, imported_names
from functrans.trace.source import is_installed

PLAIN: tuple[type, ...] = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented),
    slice, range, np.generic, np.dtype,
)  # fmt: skip
BUFFERS = (bytearray, memoryview, np.void)
BUILTIN: tuple[type, ...] = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.CodeType, np.ufunc,
    type(namedtuple("_Pair", "first").__dict__["first"]),
)  # fmt: skip
EXACT = (list, tuple, deque)
OURS = __name__.partition(".")[0]

ANY_ATTRIBUTE = frozenset({"getattr", "hasattr", "vars", "dir", "eval", "exec", "locals"})
ANY_ATTRIBUTE |= {"format", "format_map"}
ANY_GLOBAL = frozenset({"globals", "eval", "exec", "locals", "__import__"})
"""Builtins and string methods by which code may access attributes and globals that it does not
name."""

READS_ALL = frozenset({"__dict__", "__getattribute__", "__getstate__", "__reduce__"})
READS_ALL |= {"__reduce_ex__", "__slots__", "__match_args__"}
READS_GLOBALS = frozenset({"__globals__", "f_globals", "f_locals"})

TRUSTED = frozenset(
    "numpy scipy functrans math cmath functools itertools collections typing abc enum numbers "
    "warnings time datetime random contextlib threading weakref types fractions builtins "
    "_functools _collections _thread _weakref _abc _random _collections_abc".split()
)
"""Packages whose functions read only protocol attributes of a user's objects."""


class Identity:
    """An object as a key, compared by identity, that does not keep the object alive."""

    __slots__ = ("_get", "_hash")

    def __init__(self, value: Any) -> None:
        self._get = held(value)
        self._hash = id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return False
        own = self._get()
        return own is not None and own is other._get()


def held(value: Any, callback: Callable[[Any], None] | None = None) -> Callable[[], Any]:
    """A weak reference if possible, else a strong one; ``callback`` is called on deletion."""
    if type(value) is not str:  # names are the most frequent values, and an error takes longer
        try:
            return weakref.ref(value, callback)
        except TypeError:
            pass
    return lambda: value


class Absent:
    """The value of a missing variable, which differs from None."""

    __slots__ = ()


ABSENT = Absent()

WITHOUT_STATE = frozenset({bool, int, float, complex, str, bytes, type(None), Absent})
WITHOUT_STATE |= set(np.sctypeDict.values()) - {np.void}  # a structured scalar is writable

OF_EVERY_CLASS = frozenset({
    "__module__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__qualname__",
    "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__firstlineno__",
    "__static_attributes__", "__slots__", "__dataclass_fields__", "__dataclass_params__",
    "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__",
})  # fmt: skip


MAKING = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"})
"""Methods that are called only when instances or classes are created."""

AS_TYPE = ("", "class")
"""Path labels by which a class is reached from an instance, to be read but not called."""


def is_protocol(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def key_of(value: Any) -> Hashable:
    """A plain value as a key that distinguishes equal values: 1 and True, 0.0 and -0.0."""
    return exact(value, _other_key)


def _other_key(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    return type(value), value if not isinstance(value, np.void) else Identity(value)


def is_plain(value: Any) -> bool:
    """Whether a value has no state: a number, a string, or a tuple of them."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return isinstance(value, PLAIN) and not isinstance(value, np.void)


def is_label(key: Any) -> bool:
    return type(key) in (str, int)


def objects_in(value: Any) -> list[Any]:
    """The objects in an array, or in all fields of a structured one."""
    array = np.asarray(value)
    if array.dtype.names is None:
        return array.ravel().tolist() if array.dtype.hasobject else []
    return [x for name in array.dtype.names for x in objects_in(array[name])]


def holds_objects(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.void)) and value.dtype.hasobject


def keys_of(value: dict[Any, Any]) -> list[Any]:
    """The keys in the built-in iteration order, whatever a subclass overrides.

    An `OrderedDict` has an order apart from that of its entries.
    """
    return list((OrderedDict if isinstance(value, OrderedDict) else dict).keys(value))


def referent(proxy: Any) -> Any:
    try:
        return proxy.__init__.__self__
    except ReferenceError:
        return None


def current_value(variable: ContextVar[Any]) -> list[Any]:
    """The value of a context variable, or its default, which may have a state."""
    try:
        return [variable.get()]
    except LookupError:
        return [ABSENT]


def referents_of(value: Any) -> list[Any]:
    """The referents of an object, by Python's garbage collector, and the base of ``x.flat``."""
    if isinstance(value, np.flatiter):
        return [value.base]
    return [x for x in gc.get_referents(value) if not isinstance(x, (type, types.FrameType))]


def builtins_of(function: Any) -> dict[str, Any]:
    """The dictionary in which a function looks builtins up."""
    return function.__builtins__


def added_builtins(
    function: types.FunctionType, names: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    """The builtins of a function, and which of some names are not Python's own builtins.

    Python's own are assumed not to change, but a module may have a dictionary of its own.
    """
    found = builtins_of(function)
    if found is not vars(builtins):
        return found, sorted(names)
    return found, sorted(
        x for x in names if getattr(found.get(x), "__module__", None) != "builtins"
    )


_Names = tuple[types.CodeType, frozenset[str], frozenset[str], frozenset[str]]
_known: Table[int, _Names] = Table(16384)
"""Keyed by the id of the code, which the entry keeps alive: hashing code would be slow."""


def names_of(code: types.CodeType) -> frozenset[str]:
    """The names in a function's code: globals, attributes, modules, and what `match` reads."""
    return _names_in(code)[1]


def globals_of(code: types.CodeType) -> frozenset[str]:
    """The names that code looks up among the globals, whether or not they exist now."""
    return _names_in(code)[2]


def imported(function: types.FunctionType) -> list[str]:
    """The modules that a function imports when it is called, also by relative names."""
    package = function.__globals__.get("__package__") or ""
    around = ["", *(accumulate(package.split("."), "{}.{}".format) if package else ())]
    names = _names_in(function.__code__)[3]
    return sorted({f"{parent}.{name}".strip(".") for parent in around for name in names} - {""})


_FINDS_MODULES = frozenset({"modules", "import_module", "__import__"})
"""Names with which code finds a module whose name is a string."""


def _names_in(code: types.CodeType) -> _Names:
    known = _known.get(id(code))
    if known is not None:
        return known
    names = {name for each in codes(code) for name in each.co_names}
    for each in codes(code):
        for constant in each.co_consts:
            if isinstance(constant, tuple):  # the keywords of a class pattern
                names.update(x for x in constant if isinstance(x, str))
    modules = {*imported_names(code)}
    if not names.isdisjoint(_FINDS_MODULES):
        modules |= {x for each in codes(code) for x in each.co_consts if isinstance(x, str)}
    known = code, frozenset(names), frozenset(global_names(code)), frozenset(modules)
    _known.remember(id(code), known)
    return known


@cached(1024)
def names_of_class(kind: Any) -> frozenset[str]:
    """The names in the code of an installed class, which may read attributes of subclasses."""
    functions = [
        getattr(x, "fget", None) or getattr(x, "__func__", None) or x
        for x in kind.__dict__.values()
    ]
    return frozenset().union(
        *(names_of(x.__code__) for x in functions if isinstance(x, types.FunctionType))
    )


def dictionary_of(value: Any) -> dict[str, Any]:
    if isinstance(value, threading.local):  # thread-local
        return value.__dict__
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def has_attributes(value: Any) -> bool:
    """Whether an object has attributes of its own."""
    kind: Any = type(value)
    return bool(slots_of(kind) or kind.__dictoffset__ or dictionary_of(value))


@cached(1024)
def is_native(kind: Any) -> bool:
    """Whether instances have state outside of attributes, because a base class is written in C."""
    return any(base.__flags__ & _IMMUTABLE or not _is_of_python(base) for base in kind.__mro__[:-1])


_IMMUTABLE = 1 << 8

_COMPILERS = ("numba.core.", "numba.np.", "numba.cuda.", "llvmlite.")


@cached(1024)
def is_compiled(kind: Any) -> bool:
    """Whether instances are functions that Numba has compiled, or parts of its compiler.

    The globals that such a function reads are constants of its machine code.
    """
    return f"{kind.__module__}.".startswith(_COMPILERS)


def _is_of_python(kind: Any) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return path is None or path.endswith((".py", ".pyc")) or not is_installed(path)


def attributes_of(value: Any) -> list[str]:
    """The names of an instance's own attributes, in its dictionary and its slots."""
    kind: Any = type(value)
    return [*dictionary_of(value), *slots_of(kind)]


@cached(1024)
def slots_of(kind: Any) -> tuple[str, ...]:
    found = []
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if type(member) is types.MemberDescriptorType and "__slots__" in base.__dict__:
                found.append(name)
    return tuple(found)


@cached(1024)
def is_copied(kind: Any) -> bool:
    """Whether the state of instances is in their attributes alone, so that they can be copied."""
    if hasattr(kind, "__del__") or "__getattribute__" in {
        name for base in kind.__mro__[:-1] for name in base.__dict__
    }:
        return False
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def is_of_the_interpreter(kind: Any) -> bool:
    """Whether a class is Python's own; one made by ``exec`` may only seem to be."""
    return kind.__module__ in ("builtins", "_thread") and bool(kind.__flags__ & _IMMUTABLE)


@cached(1024)
def is_installed_class(kind: Any) -> bool:
    """Whether a class belongs to Python or to an installed package."""
    module = sys.modules.get(kind.__module__) if isinstance(kind.__module__, str) else None
    if module is builtins or module is None:
        return is_of_the_interpreter(kind)
    return is_installed_module(module)


def is_installed_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to Python or to an installed package."""
    content = object.__getattribute__(module, "__dict__")
    path = content.get("__file__")
    if isinstance(path, str):
        return is_installed(path)
    name = content.get("__name__", "")
    if name == "__main__":
        return False
    origin = getattr(content.get("__spec__"), "origin", None)
    return name in sys.builtin_module_names or origin in ("built-in", "frozen")

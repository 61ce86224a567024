"""Reachability: the objects that a function can reach besides its arguments, by their state.

A function reaches the contents of its cells, its defaults and the globals that its code names; any
object reaches its components: attributes, elements, the function and arguments of a partial, the
class with its methods. The code serves only to exclude objects: an attribute that no code names is
left out, unless something may read attributes by computed names (``getattr``, ``vars``, an
installed package that receives the object).

A walk yields the *signature* of all these objects, which is equal only if tracing the function
gives the same program; the *places* of arrays; and the *holders* that must be checked to know that
nothing has changed since.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any

import numpy as np

from functrans.api import holders, kinds
from functrans.api.places import Edge, Place, Ways
from functrans.api.transformed import Transformed
from functrans.caches import Table
from functrans.ir.on_device import OnDevice
from functrans.trace.assignable import Proxy
from functrans.trace.source import is_installed
from functrans.trace.tracer import Tracer

MOST_OBJECTS = 20_000
"""The most objects that are visited, since a function may reach a whole program."""


class Walk:
    """A walk from some objects over all objects that they reach."""

    def __init__(
        self,
        root: Any,
        values: Sequence[Any],  # values to begin with, which copies may replace
        objects: Sequence[Any],  # other objects to begin with
        paths: Ways,
        names: frozenset[str],  # the names in the code that an earlier walk has reached
        any_attribute: bool,  # whether attributes may be read by computed names
        any_global: bool,  # whether globals may
        made: frozenset[int],  # the ids of classes that the function may instantiate
    ) -> None:
        self.signature: list[Hashable] = []
        self.visits: list[tuple[int, int]] = []
        """The index of the first signature entry of the value on each path."""
        self.places: list[Place] = []
        self.holders: list[holders.Holder] = []
        self.edges: list[Edge] = []
        self.alive: list[Any] = []
        """All visited objects, kept alive so that their ids are unique."""
        self.gone: list[Any] = []
        """Receives an item when a held object is deleted."""
        self.names: set[str] = set(names)
        self.any_attribute = any_attribute
        self.any_global = any_global
        self.made: set[int] = set(made)
        self.any_class = -1 in made
        self.complete = True
        self.any_traced = False
        self._wanted = names
        self._paths = paths
        self._order: dict[int, int] = {}
        self._globals: set[tuple[int, str]] = set()
        self._waiting: list[tuple[Any, int, Hashable, Any, bool, int, int]] = []
        self.root = root
        self._push(root, 0, "root", None, True)
        for i, value in enumerate((*values, *objects)):
            given = i < len(values)
            key = kinds.AS_TYPE if isinstance(value, type) and not given else ("", i)
            self._push(value, paths.step(0, ("", i)), "root", key, given)
        while self._waiting:
            self._visit(*self._waiting.pop())

    # -- one object ----------------------------------------------------------------------------

    def _push(
        self, value: Any, path: int, owner: Hashable, key: Any, presentable: bool,
        holder: int = -1, position: int = -1,
    ) -> None:  # fmt: skip
        self._waiting.append((value, path, owner, key, presentable, holder, position))

    def _visit(
        self, value: Any, path: int, owner: Hashable, key: Any, presentable: bool, holder: int,
        position: int,
    ) -> None:  # fmt: skip
        say = self.signature.append
        self.visits.append((len(self.signature), path))
        kind: Any = type(value)  # not `isinstance`, which reads the object's own ``__class__``
        if (
            kind in kinds.WITHOUT_STATE
            or issubclass(kind, (Tracer, Proxy))
            or kinds.is_compiled(kind)
        ):
            self.any_traced |= issubclass(kind, (Tracer, Proxy))
            say(kinds.key_of(value) if kind in kinds.WITHOUT_STATE else kinds.Identity(value))
            return
        if issubclass(kind, (np.ndarray, OnDevice, *kinds.BUFFERS)) and not kinds.holds_objects(
            value
        ):
            self._place(value, path, owner, key, presentable, holder, position)
            if issubclass(kind, np.ndarray) and kind is not np.ndarray:
                self._attributes(value, path)
            return
        if issubclass(kind, (kinds.Absent, *kinds.PLAIN)) and kind is not np.void:
            say(kinds.key_of(value))
            if not kinds.has_attributes(value):
                return
        self.edges.append(Edge(owner, id(value), presentable))
        if issubclass(kind, type) and key is not kinds.AS_TYPE:
            self.made.add(id(value))
        known = self._order.get(id(value))
        if known is not None:
            say(("seen", known))
            return
        if len(self._order) >= MOST_OBJECTS:
            self.complete = False
            return
        self._order[id(value)] = len(self._order)
        self.alive.append(value)
        self._contents(value, kind, path, owner, key)

    def _contents(self, value: Any, kind: Any, path: int, owner: Hashable, key: Any) -> None:
        """Visit what an object of a kind reaches, when it is met for the first time."""
        say = self.signature.append
        if issubclass(kind, types.FunctionType):
            self._function(value, path)
        elif issubclass(kind, types.MethodType):
            say("method")
            self._push(value.__func__, path, id(value), "func", True)
            self._push(value.__self__, path, id(value), "self", True)
        elif kind in (staticmethod, classmethod):
            say(kinds.Identity(value))  # what it wraps never changes
            self._push(value.__func__, path, id(value), "func", False)
        elif issubclass(kind, types.CellType):
            self._cell(value, path, kinds.AS_TYPE if key is kinds.AS_TYPE else "")
        elif issubclass(kind, kinds.BUILTIN):
            self._builtin(value, path)
        elif issubclass(kind, Transformed):
            self._transformed(value, path)
        elif issubclass(kind, type):
            self._class(value, path)
        elif issubclass(kind, types.ModuleType):
            self._module(value, path)
        elif kind in weakref.ProxyTypes:
            say("proxy")
            self._read(value, lambda x: [kinds.referent(x)], ["()"], path)
        elif issubclass(kind, weakref.ref):
            say("reference")
            self._read(value, lambda x: [x()], ["()"], path)
            if kind is not weakref.ref:
                self._attributes(value, path)
        elif issubclass(kind, ContextVar):
            say("context")
            self._read(value, kinds.current_value, [".get()"], path)
        elif issubclass(kind, (np.ndarray, np.void)):
            say(("objects", value.shape))
            if value.dtype.names is not None:  # the other fields hold numbers
                self._place(value, path, owner, key)
            self._read(value, kinds.objects_in, ((i,) for i in count()), path)
        else:
            self._object(value, path)

    def _place(
        self, value: Any, path: int, owner: Hashable, key: Any, presentable: bool = False,
        holder: int = -1, position: int = -1,
    ) -> None:  # fmt: skip
        self.alive.append(value)
        line = len(self.signature)
        self.signature.append(None)
        self.places.append(Place(value, holder, position, path, owner, key, presentable, line))

    def _hold(
        self, holder: holders.Holder, labels: Iterable[Any], path: int, owner: Hashable,
        presentable: bool = False,
    ) -> None:  # fmt: skip
        """Register a holder, to be checked before each call, and visit its values."""
        self.holders.append(holder)
        for position, (label, value) in enumerate(zip(labels, holder.read(), strict=False)):
            self._push(
                value, self._paths.step(path, label), owner, label, presentable,
                len(self.holders) - 1, position,
            )  # fmt: skip

    def _read(
        self, value: Any, read: Callable[[Any], Sequence[Any]], labels: Iterable[Any], path: int
    ) -> None:
        """Visit what a function reads from an object, which Python checks before each call."""
        self._hold(holders.Other(value, read, self.gone), labels, path, id(value))

    # -- functions -----------------------------------------------------------------------------

    def _function(self, function: types.FunctionType, path: int) -> None:
        installed = is_installed(function.__code__.co_filename)
        if installed:
            self.signature.append(kinds.Identity(function))
            self._trust(function)
        else:
            self.signature.append(kinds.Identity(function.__code__))
            self._hold(holders.Code(function, self.gone), [], path, id(function))
        number = id(function)
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            kind = kinds.AS_TYPE if name == "__class__" else cell
            self._push(cell, self._paths.step(path, f".{name}"), number, kind, True)
        if not installed or str(function.__module__).partition(".")[0] != kinds.OURS:
            self._attached(function, path)
        if not installed:
            self._code(function)

    def _attached(self, function: types.FunctionType, path: int) -> None:
        """Visit the defaults and attributes of a function."""
        labels = [".__defaults__", ".__kwdefaults__"]
        if kinds.is_plain(function.__defaults__) and not function.__kwdefaults__:
            self.signature.append(kinds.key_of(function.__defaults__))
            labels = []
        self._hold(holders.Defaults(function, self.gone), labels, path, id(function), True)
        names = [name for name in function.__dict__ if name != "__signature__"]
        holder = holders.Attributes(function, names, [], self.gone)
        self._hold(holder, [f".{name}" for name in names], path, id(function))

    def _code(self, function: types.FunctionType) -> None:
        """Visit the globals that a user's function names, and note the names in its code."""
        names = kinds.names_of(function.__code__)
        self.names |= names
        namespace = function.__globals__
        unknown = names - namespace.keys()
        self.any_attribute |= not kinds.ANY_ATTRIBUTE.isdisjoint(unknown)
        self.any_attribute |= not kinds.READS_ALL.isdisjoint(names)
        self.any_global |= not (
            kinds.ANY_GLOBAL.isdisjoint(unknown) and kinds.READS_GLOBALS.isdisjoint(names)
        )
        self.any_class |= "type" in unknown or "__class__" in names
        # an attribute may have the name of another global
        read = kinds.globals_of(function.__code__)
        wanted = set(read & namespace.keys())
        if self.any_global:
            wanted = {name for name in namespace if not name.startswith("__")}
        # a missing global may be created later, and hide a builtin
        absent = read - namespace.keys()
        self._named(namespace, sorted(wanted | absent), id(function), True)
        self._named(*kinds.added_builtins(function, absent), id(function), False)
        self._named(sys.modules, kinds.imported(function), id(function), False)

    def _named(
        self, namespace: dict[str, Any], names: list[str], by: int, presentable: bool
    ) -> None:
        """Visit global variables; each has one place, whichever functions name it."""
        names = [name for name in names if not self._is_library(namespace.get(name))]
        self.edges += [Edge(by, (id(namespace), name), presentable) for name in names]
        self.signature.append(tuple(names))
        new = [name for name in names if (id(namespace), name) not in self._globals]
        if not new:
            return
        self._globals.update((id(namespace), name) for name in new)
        self.alive.append(namespace)
        any_counts = self.any_global and namespace is not sys.modules
        holder = holders.Globals(namespace, new, any_counts, self.gone)
        self.holders.append(holder)
        for position, (name, value) in enumerate(zip(new, holder.read(), strict=False)):
            self._push(
                value, self._paths.step(0, f".{name}"), (id(namespace), name), name,
                presentable, len(self.holders) - 1, position,
            )  # fmt: skip

    def _is_library(self, value: Any) -> bool:
        """Whether a value is an installed module, which is assumed not to change."""
        if not isinstance(value, types.ModuleType) or not kinds.is_installed_module(value):
            return False
        name = value.__name__.partition(".")[0]
        self.any_global |= name in ("sys", "inspect", "importlib", "gc", "builtins")
        self.any_attribute |= name not in kinds.TRUSTED
        return True

    def _trust(self, value: Any) -> None:
        """Note a value of an installed package that may read any attribute."""
        package = str(getattr(value, "__module__", None) or "").partition(".")[0]
        if package == "builtins":
            name = getattr(value, "__name__", "")
            self.any_attribute |= name in kinds.ANY_ATTRIBUTE
            self.any_global |= name in kinds.ANY_GLOBAL
        elif package and package not in kinds.TRUSTED:
            self.any_attribute = True

    def _cell(self, cell: types.CellType, path: int, label: Any) -> None:
        self.signature.append("cell")
        self._hold(holders.Cell(cell, self.gone), [label], path, id(cell), True)

    def _builtin(self, value: Any, path: int) -> None:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            self.signature.append(kinds.Identity(value))
            self._trust(value)
            if isinstance(value, np.ufunc):  # one that `np.frompyfunc` made from a function
                for function in filter(callable, kinds.referents_of(value)):
                    self._push(function, path, id(value), "function", False)
        else:
            self.signature.append(("of", value.__name__))
            self._push(owner, path, id(value), "self", False)

    def _transformed(self, value: Transformed[..., Any], path: int) -> None:
        exact = type(value).__reduce__ is Transformed.__reduce__
        self.signature.append(kinds.Identity(type(value)))
        self._push(value._function, path, id(value), "function", exact)
        for name, option in value._options.items():  # read-only
            self._push(option, path, id(value), name, False)
        if not exact:
            rules = holders.Other(value, lambda x: list(x._rules_given().values()), self.gone)
            self._hold(rules, ["", ""], path, id(value))

    # -- classes and modules -------------------------------------------------------------------

    def _class(self, kind: type, path: int) -> None:
        self.signature.append(kinds.Identity(kind))
        bases = kind.__mro__[1:]
        if kinds.is_installed_class(kind):
            self._trust(kind)
            return
        for base in bases:
            if kinds.is_installed_class(base):
                self.signature.append(kinds.Identity(base))
                self.names |= kinds.names_of_class(base)
            else:
                self._push(base, path, id(kind), kinds.AS_TYPE, False)
                if id(kind) in self.made:
                    self.made.add(id(base))
        if type(kind) is not type:
            self._push(type(kind), path, id(kind), kinds.AS_TYPE, False)
        content = kind.__dict__
        for read_by in ("__match_args__", "__dataclass_fields__"):
            self.names.update(map(str, content.get(read_by, ())))
        unused = (
            kinds.OF_EVERY_CLASS
            if self.any_class or id(kind) in self.made
            else kinds.OF_EVERY_CLASS | kinds.MAKING
        )
        names = [
            name for name in content
            if name not in unused
            and (self.any_attribute or name in self._wanted or kinds.is_protocol(name))
        ]  # fmt: skip
        holder = holders.Class(kind, names, self.gone)
        self._hold(holder, [f".{name}" for name in names], path, id(kind))
        self.signature.append(tuple(names))

    def _module(self, module: types.ModuleType, path: int) -> None:
        self.signature.append(kinds.Identity(module))
        if self._is_library(module):
            return
        names = [
            name for name in vars(module)
            if ((self.any_attribute or name in self._wanted) and not kinds.is_protocol(name))
            or name == "__getattr__"
        ]  # fmt: skip
        names = [name for name in names if not self._is_library(vars(module)[name])]
        self.signature.append(tuple(names))
        holder = holders.Variables(module, names, self.gone)
        self._hold(holder, [f".{name}" for name in names], path, id(module))
        if type(module) is not types.ModuleType:
            self._push(type(module), path, id(module), kinds.AS_TYPE, False)

    # -- everything else -----------------------------------------------------------------------

    def _object(self, value: Any, path: int) -> None:
        """Visit a container, an instance, or both."""
        kind: Any = type(value)
        number = id(value)
        if kind.__module__.partition(".")[0] == kinds.OURS and isinstance(value, Table):
            self.signature.append(kinds.Identity(value))
            return
        exact = kind in kinds.EXACT
        if isinstance(value, dict):
            self.signature.append(("dict", len(value)))
            keys = kinds.keys_of(value)
            labels = [(key,) if kinds.is_label(key) else (i,) for i, key in enumerate(keys)]
            for i, key in enumerate(keys):
                if isinstance(key, kinds.PLAIN):
                    self.signature.append(kinds.key_of(key))
                else:
                    self._push(key, self._paths.step(path, ("key", i)), number, ("key", i), False)
            self._hold(holders.Items(value, self.gone), labels, path, number, kind is dict)
        elif isinstance(value, (*kinds.EXACT, set, frozenset)):
            self.signature.append((kind.__name__, len(value)))
            if isinstance(value, (tuple, frozenset)):  # immutable containers
                base: Any = tuple if isinstance(value, tuple) else frozenset
                for i, item in enumerate(base.__iter__(value)):
                    self._push(item, self._paths.step(path, (i,)), number, (i,), exact)
            else:
                holder: holders.Holder
                if isinstance(value, list):
                    holder = holders.Elements(value, self.gone)
                elif kind is set:
                    holder = holders.Members(value, self.gone)
                else:
                    holder = holders.Other(value, list, self.gone)
                labels = [(i,) for i in range(len(holder.ids))]
                self._hold(holder, labels, path, number, exact)
        elif isinstance(value, functools.partial):
            self.signature.append("partial")
            for name in ("func", "args", "keywords"):
                self._push(getattr(value, name), path, number, name, kind is functools.partial)
        elif kinds.is_native(kind) and not issubclass(kind, kinds.PLAIN):
            self._opaque(value, path)
        if isinstance(value, defaultdict):
            self._read(value, lambda x: [x.default_factory], [".default_factory"], path)
        self._attributes(value, path)

    def _attributes(self, value: Any, path: int) -> None:
        """Visit the attributes of an instance, and its class."""
        kind: Any = type(value)
        if not kinds.is_of_the_interpreter(kind):
            self._push(kind, path, id(value), kinds.AS_TYPE, False)
        if not kinds.has_attributes(value):
            return
        installed = kinds.is_installed_class(kind)
        all_count = self.any_attribute or installed or "__dataclass_fields__" in dir(kind)
        names = [name for name in kinds.attributes_of(value) if all_count or name in self._wanted]
        self.signature.append((kinds.Identity(kind), tuple(names)))
        content, slots = kinds.dictionary_of(value), kinds.slots_of(kind)
        inside = [name for name in names if name in content]
        others = [name for name in slots if all_count or name in self._wanted]
        holder = holders.Attributes(value, inside, others, self.gone)
        labels = [f".{name}" for name in (*inside, *others)]
        self._hold(holder, labels, path, id(value), not installed and kinds.is_copied(kind))

    def _opaque(self, value: Any, path: int) -> None:
        """Visit an object without Python attributes, by the referents that the collector knows."""
        kind: Any = type(value)
        self.signature.append(kinds.Identity(value))
        self._trust(kind)
        try:
            memoryview(value).release()
        except (TypeError, BufferError, ValueError):
            pass
        else:
            self._place(value, path, id(value), "buffer")
            return
        if not gc.is_tracked(value) and not isinstance(value, np.flatiter):
            return
        holder = holders.Referents(value, self.gone)
        self._hold(holder, [("", i) for i in range(len(holder.ids))], path, id(value))

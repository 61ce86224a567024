"""Lazy loading: modules are imported when something in them is first used.

There are four forms. `lazy` stands for a function, given as ``"module:name"``; `lazy_module` for
several functions of a module. `namespace` imports the names of a package when they are first read
(PEP 562). A `Catalogue` is a table that modules fill when they are imported; it imports the module
that defines a missing key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from os.path import exists, join
from sys import modules as _loaded
from types import SimpleNamespace
from typing import Any, TypeVar

from functrans.locks import importing, without_collection

K = TypeVar("K")
V = TypeVar("V")


class Lazy:
    """A function of a package that is imported when the function is first called."""

    def __init__(self, path: str) -> None:
        self.module, self.name = path.split(":")
        self.__name__ = self.name
        self._imported: Any = None

    def resolve(self) -> Any:
        """The function itself."""
        if self._imported is None:  # otherwise no thread need wait for imports of others
            with importing, without_collection():
                self._imported = import_module(self.module)
        return getattr(self._imported, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolve()(*args, **kwargs)


def is_imported(name: str) -> bool:
    """Whether a module has been imported completely: a circular import may still be running."""
    module = _loaded.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def lazy(path: str) -> Lazy:
    """A function given as ``"scipy.special:erf"``, whose package is not imported yet."""
    return Lazy(path)


def lazy_module(path: str, names: str) -> Any:
    """Some functions of a module, given as ``"scipy.special"`` and ``"erf expit"``."""
    return SimpleNamespace(**{name: Lazy(f"{path}:{name}") for name in names.split()})


_nearest = lazy("functrans.spelling:nearest")


class Made:
    """A value that ``make`` creates on first use; ``called`` if it is a callable."""

    def __init__(self, make: Callable[[], Any], called: bool = True) -> None:
        self.make = make
        self.called = called


def homes(table: Mapping[str, str], package: str = "") -> dict[str, str]:
    """The module of each name, from a table of names, separated by spaces, for each module."""
    inside = f"{package}." if package else ""
    return {name: inside + module for module, names in table.items() for name in names.split()}


def importer(home: Mapping[Any, str]) -> Callable[[Any], object]:
    """A function that imports the module of a name, if the table has one."""
    return lambda name: name in home and import_module(home[name])


def namespace(
    package: str, home: Mapping[str, str], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that imports its names on first use.

    ``home`` gives the module of each name, or ``"module:other"`` if the name differs there. A name
    must not be that of a submodule, because Python sets such attributes itself on import. The
    ``submodules`` are attributes of the package, too.
    """
    names = sorted([*home, *submodules])

    def getattr_(name: str) -> Any:
        if name in submodules:
            # Python calls `__getattr__` for submodules in an import statement, too
            return import_module(f"{package}.{name}")
        if name not in home:
            hidden = name.startswith("_") or is_module(package, name)
            meant = None if hidden else _nearest(name, names)
            also = f"; the nearest that it has is {meant}" if meant else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{also}", name=name)
        with importing:
            module, _, own = home[name].partition(":")
            found = getattr(import_module(module), own or name)
        setattr(_loaded[package], name, found)
        return found

    return getattr_, lambda: names


def is_module(package: str, name: str) -> bool:
    """Whether a name is that of a file of a package.

    ``from package import file`` asks the package for it before it is imported, and needs no
    suggestions, for which hundreds of names are compared.
    """
    files = f"{name}.py", join(name, "__init__.py")
    return any(exists(join(folder, each)) for folder in _loaded[package].__path__ for each in files)


class Catalogue(dict[K, V]):
    """A dictionary that modules fill when they are imported, and that imports them on demand.

    For a missing key, first the module that defines it is imported, then all modules that fill the
    table. Existing keys are looked up as in any dictionary.
    """

    def __init__(self) -> None:
        self._find: Callable[[Any], object] = lambda key: None
        self._finds_all = False
        self._rest: list[Callable[[], object]] = []

    # tables are compared by identity
    __hash__ = object.__hash__  # type: ignore[assignment]

    def filled_by(self, *rest: Callable[[], object]) -> None:
        """Set the functions that import all modules that fill the table."""
        self._rest.extend(rest)

    def found_by(self, find: Callable[[K], object], all_keys: bool = False) -> None:
        """Set the function that adds a missing key, usually by importing a module.

        If it knows ``all_keys``, other keys are missing, and nothing more is imported for them.
        """
        self._find, self._finds_all = find, all_keys

    def has(self, key: K) -> bool:
        """Whether the table has a key now, without an import."""
        return dict.__contains__(self, key)

    def complete(self) -> None:
        """Import all modules that fill the table."""
        if self._rest:
            with importing:
                for fill in self._rest[:]:
                    fill()
                self._rest.clear()

    def __missing__(self, key: K) -> V:
        with importing:
            self._find(key)
        if not self.has(key) and not self._finds_all:
            self.complete()
        if not self.has(key):
            raise KeyError(key)
        return dict.__getitem__(self, key)

    def get(self, key: K, default: Any = None) -> Any:
        """The entry of a key, or a default."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        self.complete()
        return dict.__iter__(self)

    def __len__(self) -> int:
        self.complete()
        return dict.__len__(self)

    def keys(self) -> Any:
        """All keys."""
        self.complete()
        return dict.keys(self)

    def values(self) -> Any:
        """All entries."""
        self.complete()
        return dict.values(self)

    def items(self) -> Any:
        """All keys with their entries."""
        self.complete()
        return dict.items(self)

"""Lazy loading: what is named is imported when it is first used.

There are three forms of it, for the whole library. `lazy` names a function: ``"module:name"``.
`namespace` fills the namespace of a package as its names are asked for (PEP 562). A `Catalogue` is
a table that modules fill as they are imported, and that knows which of them to import for a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from sys import modules as _loaded
from typing import Any, TypeVar

from functrans.locks import importing

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
        if self._imported is None:  # else nobody need wait for what others import
            with importing:
                self._imported = import_module(self.module)
        return getattr(self._imported, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolve()(*args, **kwargs)


def is_imported(name: str) -> bool:
    """Whether a module has been imported, and to its end: it may import what asks for it."""
    module = _loaded.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def lazy(path: str) -> Lazy:
    """Name a function as ``"scipy.special:erf"`` without importing its package yet."""
    return Lazy(path)


_nearest = lazy("functrans.spelling:nearest")


class Made:
    """What is made when it is first wanted, and whether it is something that is called."""

    def __init__(self, make: Callable[[], Any], called: bool = True) -> None:
        self.make = make
        self.called = called


def homes(table: Mapping[str, str], package: str = "") -> dict[str, str]:
    """From names to modules: of a table from modules to names, which spaces separate."""
    inside = f"{package}." if package else ""
    return {name: inside + module for module, names in table.items() for name in names.split()}


def importer(home: Mapping[Any, str]) -> Callable[[Any], object]:
    """What imports the module of a name, of a table from names to modules."""
    return lambda name: name in home and import_module(home[name])


def namespace(
    package: str, home: Mapping[str, str], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package that fills as its names are asked for.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    home : dict of str
        The modules that its names are imported from; ``"module:other"`` where a name is another
        there. None of the names may be a submodule's: Python
        enters that under its name as soon as anybody imports it.
    submodules : sequence of str
        Modules of the package that are names of it themselves.
    """
    names = sorted([*home, *submodules])

    def getattr_(name: str) -> Any:
        if name in submodules:
            # nothing but an import statement does: Python's own look for submodules so
            return import_module(f"{package}.{name}")
        if name not in home:
            meant = None if name.startswith("_") else _nearest(name, names)
            also = f"; the nearest that it has is {meant}" if meant else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{also}", name=name)
        with importing:
            module, _, own = home[name].partition(":")
            found = getattr(import_module(module), own or name)
        setattr(_loaded[package], name, found)
        return found

    return getattr_, lambda: names


class Catalogue(dict[K, V]):
    """A table that modules fill as they are imported, and that is complete for who looks.

    A key that is not there yet has its module imported, and then all that fill the table, before
    it is said to be missing. What is there is looked up as in any dictionary.
    """

    def __init__(self) -> None:
        self._find: Callable[[Any], object] = lambda key: None
        self._finds_all = False
        self._rest: list[Callable[[], object]] = []

    # tables are told apart, not compared
    __hash__ = object.__hash__  # type: ignore[assignment]

    def filled_by(self, *rest: Callable[[], object]) -> None:
        """Say what imports modules that fill the table."""
        self._rest.extend(rest)

    def found_by(self, find: Callable[[K], object], all_keys: bool = False) -> None:
        """Say what enters a key, if it knows it: by importing a module, or otherwise.

        If it knows `all_keys` that there are, nothing else is tried for others.
        """
        self._find, self._finds_all = find, all_keys

    def has(self, key: K) -> bool:
        """Whether a key is there already."""
        return dict.__contains__(self, key)

    def complete(self) -> None:
        """Import all that fills the table."""
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

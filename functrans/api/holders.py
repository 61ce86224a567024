"""Holders: objects whose values may be replaced, and how a replacement is detected.

Before each call, a holder's values are compared by identity, in machine code for most kinds
(`functrans.run.call.guards`), otherwise in Python. Reading them computes nothing.
"""

from __future__ import annotations

import gc
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from functrans.api.kinds import ABSENT, dictionary_of, held, keys_of, referents_of
from functrans.run.call import guards, layouts
from functrans.run.call.guards import ANY, INPUT, Instruction


class Holder:
    """An object that holds values, and the values that it held.

    Attributes
    ----------
    slots : list of int
        The positions of the arrays that other arrays of the same type may replace.
    """

    def __init__(
        self,
        owner: Any,  # not kept alive, if it can be weakly referenced
        # receives an item when the owner or one of the values is deleted: another object may then
        # have its id
        gone: list[Any],
    ) -> None:
        self._owner = held(owner, gone.append)
        self._gone = gone
        values = self.read()
        self.ids = [*map(id, values)]
        self.slots: list[int] = []
        self._kept: list[Any] = [held(value, gone.append) for value in values]

    @abstractmethod
    def read(self) -> Sequence[Any]:
        """The values, and everything else that must stay the same."""

    def guard(self) -> Iterator[Instruction | None]:
        """The machine instructions that check it, with None for a check that needs Python."""
        yield None

    def free(self, position: int) -> None:
        """Allow the array at a position to be replaced by others of its type."""
        self.slots.append(position)
        self._kept[position] = None

    def inputs(self) -> list[Any] | None:
        """The arrays at its ``slots``; None if anything else has changed."""
        try:
            now = self.read()
        except Exception:  # the owner has been deleted, or cannot be read
            return None
        ids = [*map(id, now)]
        if ids != self.ids:
            if len(ids) != len(self.ids) or any(
                ids[i] != self.ids[i] for i in range(len(ids)) if i not in self.slots
            ):
                return None
            self.ids = ids
        return [now[position] for position in self.slots] if self.slots else []

    def is_same(self) -> bool:
        """Whether everything but the arrays at ``slots`` is unchanged."""
        return self.inputs() is not None

    def _expected(self, position: int) -> int:
        if position in self.slots:
            return INPUT
        return 0 if self.ids[position] == id(ABSENT) else self.ids[position]


class Cell(Holder):
    """A variable of an enclosing function."""

    def read(self) -> Sequence[Any]:
        try:
            return (self._owner().cell_contents,)
        except ValueError:  # unassigned
            return ()

    def guard(self) -> Iterator[Instruction | None]:
        yield guards.CELL, id(self._owner()), self._expected(0) if self.ids else 0


class Globals(Holder):
    """Some global variables, in the dictionary that functions refer to.

    If code may read any global, their number must stay the same, too.
    """

    def __init__(
        self, namespace: dict[str, Any], names: list[str], is_any: bool, gone: list[Any]
    ) -> None:
        self._names = names
        self._size = len(namespace) if is_any else None
        super().__init__(namespace, gone)

    def read(self) -> Sequence[Any]:
        content = self._owner()
        values = [content.get(name, ABSENT) for name in self._names]
        return [*values, self._size in (None, len(content))]

    def guard(self) -> Iterator[Instruction | None]:
        yield guards.DICT, id(self._owner()), 0
        if self._size is not None:
            yield guards.SIZE, 0, self._size
        for position, name in enumerate(self._names):
            yield guards.NAMED, id(name), self._expected(position)


class Variables(Holder):
    """Some variables of a module, and their number."""

    def __init__(self, owner: Any, names: list[str], gone: list[Any]) -> None:
        self._names = names
        self._size = len(owner.__dict__)
        super().__init__(owner, gone)

    def read(self) -> Sequence[Any]:
        content = self._owner().__dict__
        return [*[content.get(name, ABSENT) for name in self._names], len(content) == self._size]

    def guard(self) -> Iterator[Instruction | None]:
        owner = self._owner()
        yield guards.OBJECT, id(owner), id(type(owner))
        yield guards.ATTRIBUTES, 0, 0
        yield guards.SIZE, 0, self._size
        for position, name in enumerate(self._names):
            yield guards.NAMED, id(name), self._expected(position)


class Class(Holder):
    """Some attributes of a class, the names of all its attributes in order, and its bases."""

    def __init__(self, owner: type, names: list[str], gone: list[Any]) -> None:
        self._names = names
        self._version = layouts.version(owner)  # first: another thread may assign to it now
        super().__init__(owner, gone)

    def read(self) -> Sequence[Any]:
        kind = self._owner()
        content = kind.__dict__
        values = [content.get(name, ABSENT) for name in self._names]
        return [*values, type(kind), kind.__bases__, *content]

    def guard(self) -> Iterator[Instruction | None]:
        kind, named = self._owner(), len(self._names)
        metaclass, bases, *keys = self.ids[named:]
        yield guards.OBJECT, id(kind), metaclass
        positions = {id(name): position for position, name in enumerate(self._names)}
        checks: list[Instruction | None] = [
            (guards.ATTRIBUTES, 0, 0),
            (guards.SIZE, 0, len(keys)),
            *[
                (guards.ENTRY, key, self._expected(positions[key]) if key in positions else ANY)
                for key in keys
            ],
            guards.bases(kind, bases),
        ]
        if self._version:
            yield guards.version(self._version, len(checks))
        yield from checks


class Attributes(Holder):
    """Some attributes of an instance, the names of all its attributes, and its class."""

    def __init__(
        self, instance: Any, names: list[str], in_slots: list[str], gone: list[Any]
    ) -> None:
        self._names = names
        self._in_slots = in_slots
        super().__init__(instance, gone)

    def read(self) -> Sequence[Any]:
        instance = self._owner()
        content = dictionary_of(instance)
        return [
            *[content.get(name, ABSENT) for name in self._names],
            *[getattr(instance, name, ABSENT) for name in self._in_slots],
            type(instance),
            *content,
        ]

    def guard(self) -> Iterator[Instruction | None]:
        instance, named = self._owner(), len(self._names)
        kind, *keys = self.ids[named + len(self._in_slots) :]
        yield guards.OBJECT, id(instance), kind
        if keys or type(instance).__dictoffset__:
            if isinstance(instance, threading.local):  # other attributes in each thread
                yield None
            yield guards.ATTRIBUTES, 0, 0
            yield guards.SIZE, 0, len(keys)
            positions = {id(name): position for position, name in enumerate(self._names)}
            for key in keys:
                yield guards.ENTRY, key, self._expected(positions[key]) if key in positions else ANY
        for position, name in enumerate(self._in_slots, named):
            yield guards.slot(type(instance), name, self._expected(position))


class Items(Holder):
    """The entries of a dictionary, in order."""

    def read(self) -> Sequence[Any]:
        content = self._owner()
        keys = keys_of(content)
        return [*[dict.__getitem__(content, key) for key in keys], *keys]

    def guard(self) -> Iterator[Instruction | None]:
        if isinstance(self._owner(), OrderedDict):  # its order is not that of its entries
            yield None
        size = len(self.ids) // 2
        yield guards.DICT, id(self._owner()), 0
        yield guards.SIZE, 0, size
        for position, key in enumerate(self.ids[size:]):
            yield guards.ENTRY, key, self._expected(position)


class Elements(Holder):
    """The elements of a list."""

    def read(self) -> Sequence[Any]:
        return [*list.__iter__(self._owner())]

    def guard(self) -> Iterator[Instruction | None]:
        yield guards.LIST, id(self._owner()), len(self.ids)
        for position in range(len(self.ids)):
            yield guards.ELEMENT, 0, self._expected(position)


class Members(Holder):
    """The elements of a set; each dataclass has an empty one, for its ``__repr__``."""

    def read(self) -> Sequence[Any]:
        return [*self._owner()]

    def guard(self) -> Iterator[Instruction | None]:
        yield None if self.ids else (guards.SET, id(self._owner()), 0)


class Code(Holder):
    """The code of a function, which IPython's autoreload replaces when a file has changed."""

    def read(self) -> Sequence[Any]:
        return (self._owner().__code__,)

    def guard(self) -> Iterator[Instruction | None]:
        yield guards.CODE, id(self._owner()), self.ids[0]


class Defaults(Holder):
    """The default values of a function's parameters."""

    def read(self) -> Sequence[Any]:
        function = self._owner()
        return function.__defaults__, function.__kwdefaults__

    def guard(self) -> Iterator[Instruction | None]:
        for op, value in zip((guards.DEFAULTS, guards.KEYWORD_DEFAULTS), self.ids, strict=True):
            yield op, id(self._owner()), 0 if value == id(None) else value


class Other(Holder):
    """Any other object, read by a Python function."""

    def __init__(self, owner: Any, read: Callable[[Any], Sequence[Any]], gone: list[Any]) -> None:
        self._read = read
        super().__init__(owner, gone)

    def read(self) -> Sequence[Any]:
        return self._read(self._owner())


class Referents(Holder):
    """The objects that an object of a C class refers to, as the garbage collector visits them."""

    def read(self) -> Sequence[Any]:
        return referents_of(self._owner())

    def guard(self) -> Iterator[Instruction | None]:
        owner = self._owner()
        every = gc.get_referents(owner)
        checks = None
        # `read` leaves out classes, of which the instructions see whether they are the same
        if not self.slots and [id(x) for x in every if not isinstance(x, type)] == self.ids:
            self._kept += [held(x, self._gone.append) for x in every if isinstance(x, type)]
            checks = guards.referents(owner, every)
        yield from [None] if checks is None else checks

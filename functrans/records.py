"""Data classes as the standard library has them, defined in a third of the time.

Python compiles five methods for each frozen data class (0.4 ms; a first call defines some
twenty). Here it compiles one, ``__init__``; the others are the same functions for all classes.
Only type checkers refuse assignments to the fields of frozen instances.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """`dataclasses.dataclass` with these options."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr)
        made = dataclasses.dataclass(cls, eq=False, repr=False)
        if repr and "__repr__" not in vars(made):
            made.__repr__ = _repr
        if eq:
            _compare_by_value(made, frozen)
        return made


def _repr(self: Any) -> str:
    names = type(self).__dataclass_fields__
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({values})"


def _compare_by_value(cls: Any, hashable: bool) -> None:
    """Define ``__eq__``, and ``__hash__`` if the fields do not change, unless the class does."""
    names = (*cls.__dataclass_fields__,)
    get = attrgetter(*names)
    values: Callable[[Any], Any] = get if len(names) > 1 else lambda self: (get(self),)

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    own = vars(cls)
    if "__eq__" not in own:
        cls.__eq__ = __eq__
    if own.get("__hash__") is None:
        cls.__hash__ = (lambda self: hash(values(self))) if hashable else None

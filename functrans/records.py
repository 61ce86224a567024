"""Named tuples and data classes as the standard library has them, defined in a quarter of the time.

The standard library compiles methods as text for each class, and each annotation as well (0.1 to
0.4 ms a class, and a first call defines some hundred). Here a constructor is compiled once for each
number of fields: a class has a copy of its code with other names. All other methods are the same
functions for all classes. Only type checkers refuse assignments to the fields of frozen instances.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

_compiled: dict[str, CodeType] = {}
"""The code of constructors, by their text."""


def _constructor(
    cls: Any, name: str, text: str, fields: Sequence[str], defaults: Sequence[Any]
) -> Any:
    """The function of a text, in which the fields are called _0, _1, ..."""
    code = _compiled.get(text)
    if code is None:
        made: dict[str, Any] = {}
        exec(text, made)
        code = _compiled[text] = made["make"].__code__
    names = {f"_{number}": field for number, field in enumerate(fields)}
    code = code.replace(
        co_varnames=tuple(names.get(each, each) for each in code.co_varnames),
        co_names=tuple(names.get(each, each) for each in code.co_names),
        co_name=name,
        co_qualname=f"{cls.__qualname__}.{name}",
    )
    return FunctionType(code, _GLOBALS, name, tuple(defaults))


class Fresh:
    """The default of a parameter for which each call makes a new value."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


_GLOBALS = {"Fresh": Fresh, "new": tuple.__new__, "__name__": __name__}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:
    _Field = type(namedtuple("_", "first").first)

    class _Methods:
        """The methods of all named tuples."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{name}={x!r}" for name, x in self._asdict().items())
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    _METHODS = {name: method for name, method in vars(_Methods).items() if name != "__module__"}

    class _Named(type):
        """Makes a class that derives from `NamedTuple` a tuple with these fields."""

        def __new__(cls, name, bases, content):
            if "__annotate_func__" in content:  # Python 3.14 would compute them
                raise TypeError(f"the module of {name} needs from __future__ import annotations")
            fields = (*content.get("__annotations__", ()),)
            defaults = {field: content[field] for field in fields if field in content}
            variables = "".join(f"_{number}, " for number in range(len(fields)))
            text = f"def make(_cls, {variables}): return new(_cls, ({variables}))"
            content |= {field: _Field(number, None) for number, field in enumerate(fields)}
            content |= {"__match_args__": fields, "_fields": fields, "_field_defaults": defaults}
            made = type(name, (tuple,), _METHODS | content)
            made.__new__ = _constructor(made, "__new__", text, fields, (*defaults.values(),))
            return made

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """`dataclasses.dataclass` with these options."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr)
        made = dataclasses.dataclass(cls, init=False, eq=False, repr=False)
        made.__init__ = _init(made)
        if repr and "__repr__" not in vars(made):
            made.__repr__ = _repr
        if eq:
            _compare_by_value(made, frozen)
        return made


def _init(cls: Any) -> Any:
    """The method ``__init__``."""
    given = [field for field in dataclasses.fields(cls) if field.init]
    parameters, lines, defaults = ["self"], ["pass"], []
    for number, field in enumerate(given):
        name = value = f"_{number}"
        parameters.append(name)
        if field.default_factory is not MISSING:
            defaults.append(Fresh(field.default_factory))
            value = f"{name}.make() if type({name}) is Fresh else {name}"
        elif field.default is not MISSING:
            defaults.append(field.default)
        lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def make({', '.join(parameters)}): {'; '.join(lines)}"
    return _constructor(cls, "__init__", text, [field.name for field in given], defaults)


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

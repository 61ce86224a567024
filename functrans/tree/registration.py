"""Registration of classes as pytree containers."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from optree import PyTreeEntry, register_pytree_node

from functrans.errors import RegistrationError, StaticArgumentError
from functrans.spelling import nearest
from functrans.tree.core import NAMESPACE

ClassT = TypeVar("ClassT", bound=type)


class _Entry(PyTreeEntry):
    """One step of a key path: an attribute if the child's name is an identifier, else a key."""

    __slots__ = ()

    def __call__(self, obj: Any) -> Any:
        return getattr(obj, self.entry) if self._is_attribute() else obj[self.entry]

    def codify(self, node: str = "") -> str:
        return f"{node}.{self.entry}" if self._is_attribute() else f"{node}[{self.entry!r}]"

    def _is_attribute(self) -> bool:
        return isinstance(self.entry, str) and self.entry.isidentifier()


def register(
    cls: ClassT,
    flatten: Callable[[Any], tuple[Any, ...]],
    unflatten: Callable[[Any, Iterable[Any]], Any],
) -> ClassT:
    """Register a class as a pytree container.

    This holds for the class itself; a subclass is registered on its own. Namedtuples need no
    registration, and for dataclasses there is `register_dataclass`.

    Parameters
    ----------
    cls : type
        The class.
    flatten : callable
        Maps an instance to ``(children, static)`` or ``(children, static, names)``: an iterable of
        subtrees; the other data of the instance, which must be hashable and is compared when
        structures are compared; and the children's names, for key paths.
    unflatten : callable
        Maps ``static`` and the tuple of children to a new instance. The children may be any
        objects, not only arrays, so this function must not inspect them.

    Returns
    -------
    type
        `cls`.

    Examples
    --------
    >>> from functrans import tree
    >>> class Interval:
    ...     def __init__(self, low, high, closed):
    ...         self.low, self.high, self.closed = low, high, closed
    >>> _ = tree.register(
    ...     Interval,
    ...     lambda i: ((i.low, i.high), i.closed, ("low", "high")),
    ...     lambda closed, children: Interval(*children, closed),
    ... )
    >>> tree.leaves([Interval(0.0, 1.0, closed=True), 2.0])
    [0.0, 1.0, 2.0]
    >>> tree.paths([Interval(0.0, 1.0, closed=True), 2.0])
    ['[0].low', '[0].high', '[1]']
    """
    if not isinstance(cls, type):
        raise RegistrationError(f"only a class can be registered as a pytree, got {cls!r}")
    try:
        register_pytree_node(cls, flatten, unflatten, path_entry_type=_Entry, namespace=NAMESPACE)
    except ValueError:
        raise RegistrationError(f"{cls.__name__} is a pytree already") from None
    return cls


@overload
def register_dataclass(cls: ClassT, /, *, static: str | Iterable[str] = ()) -> ClassT: ...


@overload
def register_dataclass(
    cls: None = None, /, *, static: str | Iterable[str] = ()
) -> Callable[[ClassT], ClassT]: ...


def register_dataclass(
    cls: ClassT | None = None, /, *, static: str | Iterable[str] = ()
) -> ClassT | Callable[[ClassT], ClassT]:
    """Register a dataclass as a pytree container: each field is a child, except the static ones.

    Instances are rebuilt field by field, without calling ``__init__`` or ``__post_init__``: the
    children of a rebuilt instance may be any objects, which checks of arrays would reject.

    Parameters
    ----------
    cls : type
        The dataclass. Left out, when used as a decorator with arguments.
    static : str or iterable of str, optional
        The fields that are part of the structure, and not children: sizes, names, functions. They
        must be hashable. A field can also declare itself static:
        ``field(metadata={"static": True})``.

    Returns
    -------
    type
        `cls`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from functrans import tree
    >>> @tree.register_dataclass(static="activation")
    ... @dataclass
    ... class Layer:
    ...     weight: float
    ...     bias: float
    ...     activation: str = "tanh"
    >>> tree.map(lambda leaf: leaf * 10, Layer(1.0, 2.0))
    Layer(weight=10.0, bias=20.0, activation='tanh')
    """
    static = (static,) if isinstance(static, str) else tuple(static)
    if cls is None:
        return lambda cls: register_dataclass(cls, static=static)
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise RegistrationError(
            f"register_dataclass takes a dataclass, got {cls!r}; "
            "write @dataclass below @register_dataclass, or use tree.register"
        )
    every = dataclasses.fields(cls)
    names = [field.name for field in every]
    for name in static:
        if name not in names:
            like = nearest(name, names)
            raise RegistrationError(
                f"{cls.__name__} has no field {name!r} to be static"
                + (f"; did you mean {like!r}?" if like else f"; its fields are {names}")
            )
    static_names = tuple(f.name for f in every if f.name in static or f.metadata.get("static"))
    child_names = tuple(name for name in names if name not in static_names)
    fields = Fields(cls, child_names, static_names)
    return register(cls, fields.flatten, fields.unflatten)


class Fields:
    """Flattening of a dataclass field by field, and rebuilding, which call nothing of the class's.

    Parameters
    ----------
    kind : type
    children, static : tuple of str
        The names of the fields.
    """

    def __init__(self, kind: type, children: tuple[str, ...], static: tuple[str, ...]) -> None:
        self.kind = kind
        self.children = children
        self.static = static

    def flatten(self, instance: Any) -> tuple[Any, ...]:
        static = tuple([getattr(instance, name) for name in self.static])
        if not _hashable(static):
            raise _unhashable(self.kind, self.static, static)
        return [getattr(instance, name) for name in self.children], static, self.children

    def unflatten(self, static: Any, children: Iterable[Any]) -> Any:
        instance: Any = object.__new__(self.kind)
        # The way around a frozen class's own __setattr__.
        for name, child in zip(self.children, children, strict=True):
            object.__setattr__(instance, name, child)
        for name, value in zip(self.static, static, strict=True):
            object.__setattr__(instance, name, value)
        return instance


def fields_of(kind: type | None) -> Fields | None:
    """The flattening of a class; None unless `register_dataclass` has registered it."""
    registered = register_pytree_node.get(kind, namespace=NAMESPACE) if kind is not None else None
    found = getattr(registered and registered.unflatten_func, "__self__", None)
    return found if isinstance(found, Fields) else None


def _unhashable(cls: type, names: tuple[str, ...], values: tuple[Any, ...]) -> StaticArgumentError:
    name, value = next(pair for pair in zip(names, values, strict=True) if not _hashable(pair[1]))
    kind = type(value).__name__
    fix = {"list": "a tuple", "dict": "a tuple of pairs", "set": "a frozenset"}.get(kind)
    return StaticArgumentError(
        f"the field {name!r} of {cls.__name__} is static, so it must be hashable, "
        f"but it is of type {kind}" + (f"; write {fix}" if fix else "; make it a child instead")
    )


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True

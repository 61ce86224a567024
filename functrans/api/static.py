"""Static arguments of `jit`, which are constants of the compiled program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from functrans.api.arguments import argument_name, name_of, normalized_argnums
from functrans.api.keys import orders_of
from functrans.api.kinds import key_of
from functrans.api.options import Named
from functrans.errors import StaticArgumentError
from functrans.ir.types import describe
from functrans.trace.tracer import Tracer
from functrans.tree.compare import Structure


class Static:
    """The static arguments of a call; ``key`` is part of the cache key."""

    def __init__(
        self, positional: tuple[tuple[int, Any], ...], keywords: tuple[tuple[str, Any], ...]
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.key: tuple[Any, ...] = _exactly(positional), _exactly(keywords)

    def position(self, i: int) -> int:
        """The position in the call of the ``i``-th positional argument that is not static."""
        for fixed, _ in self.positional:
            i += fixed <= i
        return i

    def filled(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """All arguments of the call, given those that are not static."""
        args = list(args)
        for i, value in self.positional:
            args.insert(i, value)
        return args, {**kwargs, **dict(self.keywords)}


def in_order(static: Static, args: Any, kwargs: Any) -> Static:
    """The static arguments with the orders of the dicts' keys among the others."""
    orders = orders_of((args, kwargs))
    if not orders:
        return static
    ordered = Static(static.positional, static.keywords)
    ordered.key = (*static.key, orders)
    return ordered


class Given(NamedTuple):
    """A call: the leaves of its arguments and captured inputs, and its static arguments."""

    leaves: Sequence[Any]
    structure: Structure
    static: Static


def without_static(
    function: Callable[..., Any], named: Named, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Static]:
    """Separate the static arguments of a call.

    Raises
    ------
    StaticArgumentError
        If a static argument is not hashable.
    """
    numbers = tuple(n for n in named.positions if -len(args) <= n < len(args))
    positions = sorted(normalized_argnums(tuple(set(numbers)), len(args), function))
    positional = tuple((i, args[i]) for i in positions)
    keywords = tuple((name, value) for name, value in sorted(kwargs.items()) if name in named.names)
    for position, value in positional:
        _check_hashable(argument_name(function, position), value)
    for name, value in keywords:
        _check_hashable(f"argument {name!r} of {name_of(function)}", value)
    rest = tuple(x for i, x in enumerate(args) if i not in positions)
    others = {k: v for k, v in kwargs.items() if k not in named.names}
    return rest, others, Static(positional, keywords)


def _check_hashable(name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        if isinstance(value, Tracer):
            raise StaticArgumentError(
                f"{name} is static, but it is traced by {value._owner.kind}: what is static is a "
                "constant of the compiled program"
            ) from None
        raise StaticArgumentError(
            f"{name} is static, so it must be hashable, but {describe(value)} is not: pass a tuple "
            "for a list, or let it be traced"
        ) from None


def _exactly(value: Any) -> Any:
    """A key that distinguishes values that compare equal: 1, True and 1.0, or 0.0 and -0.0.

    The fields of dataclasses and the elements of frozensets are distinguished in the same way.
    """
    if isinstance(value, tuple):
        return type(value), *map(_exactly, value)
    if isinstance(value, frozenset):
        return type(value), frozenset(map(_exactly, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        compared = [each.name for each in dataclasses.fields(value) if each.compare]
        return value, *(_exactly(getattr(value, name)) for name in compared)
    return key_of(value) if isinstance(value, Hashable) else type(value)


NO_STATIC = Static((), ())

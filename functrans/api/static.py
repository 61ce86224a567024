"""Static arguments of `jit`, which are constants of the compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.api.arguments import argument_name, name_of, normalized_argnums
from functrans.api.keys import exactly, particulars, stateful
from functrans.api.options import Named
from functrans.errors import StaticArgumentError
from functrans.ir.types import describe
from functrans.records import NamedTuple
from functrans.run.call.nodes import Constants
from functrans.trace.tracer import Tracer
from functrans.tree.compare import Structure

Present = Callable[[Any], Any]


class Static:
    """The static arguments of a call, and what else of it is constant in the compiled program.

    Attributes
    ----------
    key : tuple
        A part of the cache key.
    values, objects : tuple
        What may have a state: the static arguments, or the elements of those that are tuples; and
        the contents of the containers among the other arguments.
    order : tuple of str
        The names of all keyword arguments of the call, if some are static.
    """

    def __init__(
        self,
        positional: tuple[tuple[int, Any], ...],
        keywords: tuple[tuple[str, Any], ...],
        order: tuple[str, ...] = (),
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.order = order
        self.key: tuple[Any, ...] = exactly(positional), exactly(keywords), order
        given = *(value for _, value in positional), *(value for _, value in keywords)
        self.values = tuple(x for value in given for x in stateful(value))
        self.objects: tuple[Any, ...] = ()

    @property
    def given(self) -> tuple[Any, ...]:
        return self.values + self.objects

    @property
    def constants(self) -> Constants:
        """The static arguments, for the inline cache."""
        return Constants(dict(self.positional), dict(self.keywords), self.order)

    def position(self, i: int) -> int:
        """The position in the call of the ``i``-th positional argument that is not static."""
        for fixed, _ in self.positional:
            i += fixed <= i
        return i

    def filled(self, args: Any, kwargs: Any, present: Present) -> tuple[list[Any], dict[str, Any]]:
        """All arguments of the call, given those that are not static.

        ``present`` is applied to the ``values`` in the static ones.
        """
        args = list(args)
        for i, value in self.positional:
            args.insert(i, _presented(value, present))
        static = {name: _presented(value, present) for name, value in self.keywords}
        every = {**kwargs, **static}
        return args, {name: every[name] for name in self.order} if self.order else every


def _presented(value: Any, present: Present) -> Any:
    if type(value) is tuple:
        return tuple(_presented(each, present) for each in value)
    return present(value)


def with_containers(static: Static, args: Any, kwargs: Any) -> Static:
    """The static arguments with the particulars of containers among the others."""
    keys, objects = particulars((args, kwargs))
    if not keys and not objects:
        return static
    found = Static(static.positional, static.keywords, static.order)
    found.key = (*static.key, keys)
    found.objects = objects
    return found


class Given(NamedTuple):
    """A call: the leaves of its arguments and captured inputs, and its static arguments."""

    leaves: Sequence[Any]
    structure: Structure
    static: Static


def without_static(
    function: Callable[..., Any], named: Named, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Static]:
    """Separate the static arguments of a call.

    Raises `StaticArgumentError` if a static argument is not hashable.
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
    return rest, others, Static(positional, keywords, tuple(kwargs) if keywords else ())


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


NO_STATIC = Static((), ())

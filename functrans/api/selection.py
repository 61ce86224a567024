"""Selection of the differentiated arguments, by position or by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import Argnums, check_argnums, name_of, normalized_argnums, wrap
from functrans.api.problem import Problem, held_argument
from functrans.errors import ArgnumsError

Argnames = str | Iterable[str]


class Which:
    """The arguments with respect to which a function is differentiated."""

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: Argnums | None,
        argnames: Argnames,  # in place of ``argnums``
        allow_int: bool,  # whether they may contain integers
    ) -> None:
        self.function = function
        self.names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        if self.names and argnums is not None:
            raise ArgnumsError(
                f"argnums={argnums} and argnames={argnames!r} for {name_of(function)}: give one"
            )
        self.argnums: Argnums = 0 if argnums is None else argnums
        check_argnums(self.argnums, function)
        self.allow_int = allow_int
        number = isinstance(self.argnums, (int, np.integer))
        self.is_one = isinstance(argnames, str) if self.names else number
        if len(set(self.names)) < len(self.names):
            raise ArgnumsError(f"argnames={argnames!r} names an argument twice")

    def problem(
        self, args: Sequence[Any], kwargs: dict[str, Any], has_aux: bool, transform: str
    ) -> Problem:
        """The flat problem of a call."""
        if self.names:
            function, given = self._by_name(args, kwargs)
            positions = tuple(range(len(given)))
            return Problem(function, given, {}, positions, has_aux, transform, self.allow_int)
        positions = normalized_argnums(self.argnums, len(args), self.function)
        return Problem(self.function, args, kwargs, positions, has_aux, transform, self.allow_int)

    def _by_name(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A function of the named arguments only, and these arguments."""
        function = self.function
        parameters = inspect.signature(function).parameters
        for name in self.names:
            if name not in kwargs and name not in list(parameters)[: len(args)]:
                raise ArgnumsError(
                    f"argnames names {name!r}, which is not among the arguments of this call of "
                    f"{name_of(function)}: it takes {', '.join(parameters)}"
                )
        places = {name: i for i, name in enumerate(list(parameters)[: len(args)])}
        fixed = [held_argument(x) for x in args]
        named = {key: held_argument(x) for key, x in kwargs.items()}

        def of_named(*selected: Any) -> Any:
            given, keywords = list(fixed), dict(named)
            for name, x in zip(self.names, selected, strict=True):
                if name in keywords:
                    keywords[name] = x
                else:
                    given[places[name]] = x
            return function(*given, **keywords)

        of_named = wrap(function, of_named, "grad")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in self.names])
        of_named.__signature__ = signature  # type: ignore[attr-defined]
        return of_named, [kwargs[n] if n in kwargs else args[places[n]] for n in self.names]

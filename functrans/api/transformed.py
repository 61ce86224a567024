"""The callable that a transform returns: printed as the function was written, and pickled."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from functrans import config
from functrans.api.arguments import name_of, wrap
from functrans.lazily import lazy
from functrans.tracebacks import hide

checked = lazy("functrans.api.values:checked")

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)


class Transformed(Generic[P, R]):
    """A function that a transform has made of another one.

    It has the other's name, docstring, signature and attributes, and the other itself as
    ``__wrapped__``. It can be pickled and copied if the other can, and printed: ``grad(f)``.

    Parameters
    ----------
    transform : callable
        What was applied: ``transform(function, **options)`` gives an equal one.
    function : callable
    options : dict
    call : callable
        What a call of it calls.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        transform: Callable[..., Any],
        function: Callable[..., Any],
        options: dict[str, Any],
        call: Callable[..., Any],
    ) -> None:
        wrap(function, self, transform.__name__)
        self._transform = transform
        self._function = function
        self._options = options
        self._call = call

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result: R = self._call(*args, **kwargs)
            if config.check_values is not None:
                result = checked(self, args, kwargs, result)
            return result
        except BaseException as error:
            hide(error)
            raise

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Transformed[P, R]: ...

    @overload
    def __get__(
        self: Transformed[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Callable[Q, R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        given = [f", {name}={value!r}" for name, value in self._not_default().items()]
        return f"{self._transform.__name__}({shown(self._function)}{''.join(given)})"

    def __reduce__(self) -> Any:
        if (name := global_name(self)) is not None and not _goes_by_value(self):
            return name
        return again, (self._transform, self._function, self._options)

    def _not_default(self) -> dict[str, Any]:
        transform = getattr(self._transform, "__wrapped__", self._transform)
        defaults: dict[str, Any] = getattr(transform, "__kwdefaults__", None) or {}
        code = getattr(transform, "__code__", None)
        if code is not None:
            values = getattr(transform, "__defaults__", None) or ()
            names = code.co_varnames[: code.co_argcount]
            defaults = dict(zip(names[len(names) - len(values) :], values, strict=True)) | defaults
        return {
            name: value
            for name, value in self._options.items()
            if not (type(value) is type(defaults.get(name)) and value == defaults[name])
        }


def shown(function: Callable[..., Any]) -> str:
    """A function as the text of a call has it."""
    return repr(function) if isinstance(function, Transformed) else name_of(function)


def global_name(function: Any) -> str | None:
    """The name by which a function is found in its module, as pickle finds others."""
    name: str = getattr(function, "__qualname__", "")
    found: Any = sys.modules.get(function.__module__)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else None


def _goes_by_value(function: Any) -> bool:
    """Whether what pickles here takes functions of a script by value, as cloudpickle does.

    Another process has another ``__main__``. Libraries have copies of cloudpickle of their own
    (joblib, Spark), so it is known by the name of its module.
    """
    frame = sys._getframe(2)
    pickler = sys.modules.get(frame.f_globals.get("__name__", ""))
    if pickler is None or "cloudpickle" not in pickler.__name__:
        return False
    registered: set[str] = getattr(pickler, "list_registry_pickle_by_value", set)()
    return function.__module__ in {"__main__", *registered}


def again(transform: Callable[..., Any], function: Callable[..., Any], options: Any) -> Any:
    """What was pickled, made anew."""
    return transform(function, **options)

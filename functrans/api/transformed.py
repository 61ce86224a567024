"""The callable that a transform returns, which can be printed and pickled."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from functrans import config
from functrans.api.arguments import name_of, wrap
from functrans.lazily import lazy
from functrans.tracebacks import hide

checked = lazy("functrans.api.values:checked")

P = ParamSpec("P")
Q = ParamSpec("Q")
Options = ParamSpec("Options")
R = TypeVar("R", covariant=True)


class Transformed(Generic[P, R]):
    """A function transformed by a transform.

    It has the name, docstring, signature and attributes of the original function, which is its
    ``__wrapped__``. It can be pickled and copied if the original can, and prints as ``grad(f)``.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        # the transform: ``transform(function, **options)`` gives an equivalent function
        transform: Callable[..., Any],
        function: Callable[..., Any],
        options: dict[str, Any],
        call: Callable[..., Any],  # the function that is called
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


class Transform(Protocol[Options]):
    """A transform of a function; with options only, it returns a decorator."""

    __name__: str

    @overload
    def __call__(
        self, function: Callable[P, Any], /, *args: Options.args, **kwargs: Options.kwargs
    ) -> Transformed[P, Any]: ...

    @overload
    def __call__(
        self, function: None = None, /, *args: Options.args, **kwargs: Options.kwargs
    ) -> Callable[[Callable[P, Any]], Transformed[P, Any]]: ...


class Alike(Protocol[Options]):
    """A `Transform` whose results have the type of the function's own."""

    __name__: str

    @overload
    def __call__(
        self, function: Callable[P, R], /, *args: Options.args, **kwargs: Options.kwargs
    ) -> Transformed[P, R]: ...

    @overload
    def __call__(
        self, function: None = None, /, *args: Options.args, **kwargs: Options.kwargs
    ) -> Callable[[Callable[P, R]], Transformed[P, R]]: ...


def transform(
    build: Callable[Concatenate[Callable[..., Any], Options], Callable[..., Any]],
) -> Transform[Options]:
    """Make a transform of a function ``build(function, ...)`` that returns the callable."""
    code = build.__code__
    names = code.co_varnames[1 : code.co_argcount]

    @functools.wraps(build)
    def public(function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        try:
            options = dict(zip(names, args, strict=False)) | kwargs
            if function is None:
                _check_options(build, options)
                return functools.partial(public, **options)
            return Transformed(public, function, options, build(function, *args, **kwargs))
        except BaseException as error:
            hide(error)
            raise

    return cast(Transform[Options], public)


def alike(
    build: Callable[Concatenate[Callable[..., Any], Options], Callable[..., Any]],
) -> Alike[Options]:
    """As `transform`, for type checkers."""
    return cast(Alike[Options], transform(build))


def _check_options(build: Callable[..., Any], options: dict[str, Any]) -> None:
    """Raise, as a call would, if a transform has no such options."""
    try:
        inspect.signature(build).bind(None, **options)
    except TypeError as error:
        raise TypeError(f"{build.__name__}() {error}") from None


def shown(function: Callable[..., Any]) -> str:
    """The text of a function as an argument."""
    return repr(function) if isinstance(function, Transformed) else name_of(function)


def global_name(function: Any) -> str | None:
    """The qualified name by which pickle finds a function in its module."""
    name: str = getattr(function, "__qualname__", "")
    found: Any = sys.modules.get(function.__module__)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else None


def _goes_by_value(function: Any) -> bool:
    """Whether the active pickler pickles functions of ``__main__`` by value, as cloudpickle does.

    Another process has another ``__main__``. Some libraries (joblib, Spark) contain their own
    copies of cloudpickle, so it is recognised by the name of its module.
    """
    frame = sys._getframe(2)
    pickler = sys.modules.get(frame.f_globals.get("__name__", ""))
    if pickler is None or "cloudpickle" not in pickler.__name__:
        return False
    registered: set[str] = getattr(pickler, "list_registry_pickle_by_value", set)()
    return function.__module__ in {"__main__", *registered}


def again(transform: Callable[..., Any], function: Callable[..., Any], options: Any) -> Any:
    """Apply a transform again, to unpickle a transformed function."""
    return transform(function, **options)

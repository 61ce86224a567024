"""SciPy's Python functions and methods that delegate within a trace, and our replacements.

They are named by paths, such as ``"scipy.integrate:quad"`` or ``"scipy.stats:norm.__call__"``, so
that nothing of SciPy's is imported for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FrameType, FunctionType, MappingProxyType, SimpleNamespace
from typing import Any

from functrans.ir.on_device import callers, holds_device
from functrans.lazily import lazy
from functrans.ops.arrays.shape import any_traced, with_tracers
from functrans.scipy.from_source import FROM_SOURCE
from functrans.trace import protocols
from functrans.trace.delegation import Condition, delegate
from functrans.trace.notes import SLIPS, raise_theirs
from functrans.trace.patch import enter_late
from functrans.trace.source import is_foreign

Function = Callable[..., Any]

_entries: dict[str, dict[str, tuple[Function, Condition]]] = {}
"""By module and path within it: the replacement of a function, and for which calls it is used."""


def of_the_user(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether user code is calling: functions that it passes may compute with traced values."""
    return not is_foreign(caller.f_code.co_filename) or with_tracers(caller, args, kwargs)


def enter(path: str, ours: Function, concerned: Condition = with_tracers) -> None:
    """Replace a SciPy function by one of ours in the calls for which ``concerned`` holds."""
    module, _, inside = path.partition(":")
    _entries.setdefault(module, {})[inside] = ours, concerned


_by_source = lazy("functrans.scipy.source.reinterpret:by_source")
_answer_for_rotations = lazy("functrans.scipy.source.rotations:answer_for_rotations")


def dispatching(name: str, traced: Function, plain: Function) -> Function:
    """A function that calls ``traced`` for traced values and arrays on a device, else ``plain``."""

    def public(*args: Any, **kwargs: Any) -> Any:
        if holds_device(args, kwargs):
            return callers[-1](traced, args, kwargs, name)
        if not any_traced(args, kwargs):
            return plain(*args, **kwargs)
        try:
            return traced(*args, **kwargs)
        except SLIPS as error:
            raise_theirs(error, plain, args, kwargs)
            raise

    return public


def of_scipys(module: str, name: str) -> Any:
    """A SciPy function that our namespace lacks; traced, if it is one of `FROM_SOURCE`."""
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(import_module(f"scipy.{module}"), name)
    if name not in FROM_SOURCE[module].split():
        return found

    def traced(*args: Any, **kwargs: Any) -> Any:
        # the function may call functions of ours, also where NumPy is not patched
        enter_late()
        return _by_source(found, args, kwargs)

    return wraps(found)(dispatching(f"scipy.{module}.{name}", traced, found))


def namespace(module: str, own: list[str]) -> tuple[Function, Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of our namespace of a SciPy module, given its names."""
    names = lazy(f"scipy.{module}:__all__")
    return partial(of_scipys, module), lambda: sorted({*own, *names.resolve()})


def _entered_by_source(module: str, name: str) -> None:
    found = getattr(import_module(f"scipy.{module}"), name, None)
    if found is not None:  # this SciPy has it
        enter(f"scipy.{module}:{name}", lambda *args, **kwargs: _by_source(found, args, kwargs))


def take_the_place(name: str, namespace: bool = True) -> None:
    """Install the dispatch to our functions in a SciPy module that has been imported.

    ``namespace`` says whether we have a namespace for this module.
    """
    if namespace:
        import_module(f"functrans.scipy.{name}")
    for function in FROM_SOURCE.get(name, "").split():
        _entered_by_source(name, function)
    if name == "spatial.transform":
        _answer_for_rotations()
    public = f"scipy.{name}"
    known = [m for m in _entries if m == public or m.startswith(f"{public}._")]
    for module in filter(sys.modules.__contains__, known):  # private ones change their names
        for inside, (ours, concerned) in _entries[module].items():
            function = attrgetter(inside)(sys.modules[module])
            function = getattr(function, "__func__", function)  # if it is a bound method
            if isinstance(function, FunctionType):
                delegate(function, ours, concerned)
            elif isinstance(function, BuiltinFunctionType):
                # compiled functions have no hook; calls of them by their full name are replaced
                protocols.replacements.setdefault(sys.modules[module], {})[inside] = ours


_TRACED = "_of_traced_values"
_OF_TRACED = SimpleNamespace(asarray=lambda x: x)


def enter_class(
    path: str, ours: Function, methods: str, like: Function,
    relatives: Mapping[str, Function] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Let a SciPy class be constructed from traced values, and its methods take traced values.

    Parameters
    ----------
    path : str
        The path of the class.
    ours : type
        The class that implements the methods of objects constructed from traced values.
    methods : str
        The names of these methods.
    like : callable
        Converts an object of SciPy's class to one of ours.
    relatives : mapping of str to type
        The classes that share their constructor with SciPy's class, by name, as ``ours``.
    """

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        names = [base.__name__ for base in type(self).__mro__]
        chosen = next((relatives[name] for name in names if name in relatives), ours)
        try:
            made_of = chosen(*args, **kwargs)
        except SLIPS as error:
            raise_theirs(error, type(self), args, kwargs)
            raise
        # SciPy's properties convert those of an inner object to the arguments' type of arrays
        vars(self).update({_TRACED: made_of, "_delegate_to": made_of, "_xp": _OF_TRACED})
        for name, value in vars(made_of).items():
            if isinstance(getattr(type(self), name, None), property):
                setattr(self, f"_{name}", value)  # where SciPy before 1.18 keeps the value
                self._asarray = _OF_TRACED.asarray
            elif not name.startswith("_"):
                setattr(self, name, value)

    def method(name: str) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            of_traced = vars(self).get(_TRACED)
            stand_in = like(self) if of_traced is None else of_traced
            return getattr(stand_in, name)(*args, **kwargs)

        return call

    def of_an_object(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return _TRACED in getattr(args[0], "__dict__", ()) or any_traced(args, kwargs)

    enter(f"{path}.__init__", init)
    for name in methods.split():
        enter(f"{path}.{name}", method(name), of_an_object)

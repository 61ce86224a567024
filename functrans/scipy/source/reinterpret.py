"""Non-standard interpretation of SciPy's source: NumPy's names refer to our functions.

A SciPy function written in terms of NumPy's functions can be traced if it is run with other
globals, so it is copied with the same code and a translated namespace. In that, ``np`` and the
namespaces of array libraries are `functrans.numpy`, ``float`` and `math` accept traced values, and
other SciPy functions are translated copies, too, unless they dispatch to our functions themselves.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable
from functools import partialmethod
from importlib import import_module
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from functrans import numpy as ours
from functrans.errors import FunctransError, UnsupportedNumPyError
from functrans.lazily import lazy
from functrans.numpy.scalar_math import Complex, Float
from functrans.ops.arrays.shape import holds_tracer
from functrans.trace.absent import UNKNOWN
from functrans.trace.delegation import own, replacement_of
from functrans.trace.replacement import OF_MATH
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]

_OTHER = {
    "scipy.integrate._quadrature": lazy("functrans.scipy.integrate.samples:NAMES"),
    "scipy.interpolate._cubic": lazy("functrans.scipy.interpolate.cubic:NAMES"),
    **{
        f"scipy.ndimage.{name}": lazy("functrans.scipy.ndimage.kernels:NAMES")
        for name in ("_filters", "_interpolation", "_measurements", "_ni_support")
    },
    "scipy.signal._filter_design": lazy("functrans.scipy.source.sections:NAMES"),
    "scipy.signal._savitzky_golay": lazy("functrans.scipy.signal.fits:NAMES"),
    "scipy.signal._signaltools": lazy("functrans.scipy.signal.polyphase:NAMES"),
    "scipy.signal._spectral_py": lazy("functrans.scipy.signal.spectra:NAMES"),
    "scipy.stats._axis_nan_policy": lazy("functrans.scipy.stats.slices:NAMES"),
    "scipy.spatial.transform._rotation": lazy("functrans.scipy.source.rotations:NAMES"),
    "scipy.spatial.transform._rotation_xp": lazy("functrans.scipy.source.rotations:FORMULAS"),
}
"""The replacements for names in modules of SciPy, by the name of the module."""

_WITH_PRIVATE_KEYWORDS = {"scipy.stats._stats_py": ("kurtosis", "kurtosistest", "skew", "skewtest")}
"""Functions with a dispatch hook that these modules call with SciPy's private keywords."""

_check_policy = lazy("functrans.scipy.stats.slices:check_policy")

_AS_THEY_ARE = (
    "scipy._lib.array_api_compat",  # of SciPy before 1.18
    "scipy._external.array_api_compat",
    "scipy.special",
    "scipy.optimize",
)


def reinterpreted(function: Any) -> Any:
    """A copy of a Python function of SciPy's that computes with traced values."""
    function = own(function)
    copies = _globals_of(function.__globals__["__name__"]).copies
    return copies.get(function) or copies.setdefault(function, _copied(function))


def by_source(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a SciPy function on traced values by its translated source."""
    if function.__module__.startswith("scipy.stats"):
        _check_policy(function.__name__, args, kwargs)
    try:
        return reinterpreted(function)(*args, **kwargs)
    except (NotImplementedError, ValueError) as error:
        if isinstance(error, ValueError) and "lazy arrays" not in str(error):
            raise
        raise UnsupportedNumPyError(
            f"scipy's {function.__name__} of traced values{here()}: {error}"
        ) from error
    except TypeError as error:
        # compiled functions raise only a TypeError that names the type of the tracer
        if isinstance(error, FunctransError) or Tracer.__name__ not in str(error):
            raise
        raise UnsupportedNumPyError(
            f"scipy's {function.__name__} with these arguments is not supported on traced values"
            f"{here()}: what it calls is compiled, and takes plain arrays only"
        ) from error


def _copied(function: FunctionType) -> FunctionType:
    space = _globals_of(function.__globals__["__name__"])
    cells = function.__closure__ and tuple(map(_cell, function.__closure__))
    copy = FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _cell(cell: CellType) -> CellType:
    try:
        held = cell.cell_contents
    except ValueError:  # the cell is empty
        return cell
    return CellType(_translated(held)) if isinstance(held, FunctionType) else cell


_spaces: dict[str, _Globals] = {}
"""Translated namespaces by module name. Threads that create one concurrently must get the same
object, here and within it, because SciPy compares functions by identity.
"""


def _globals_of(module: str) -> _Globals:
    return _spaces.get(module) or _spaces.setdefault(module, _Globals(module))


class _Globals(dict[str, Any]):
    """The globals of a SciPy module, each translated when it is first read."""

    def __init__(self, module: str) -> None:
        super().__init__(__name__=module, __builtins__=_BUILTINS)
        self.copies: dict[FunctionType, FunctionType] = {}
        self._of = vars(import_module(module))
        self._other = _NAMES | (_OTHER[module].resolve() if module in _OTHER else {})
        self._private = _WITH_PRIVATE_KEYWORDS.get(module, ())

    def __missing__(self, name: str) -> Any:
        value = self._of[name]
        if name in self._other:
            value = self._other[name]
        elif name in self._private:
            value = reinterpreted(value)
        else:
            value = _translated(value)
        return self.setdefault(name, value)


class NumpyWith(SimpleNamespace):
    """`functrans.numpy`, with other functions in the place of some."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ours, name)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)  # SciPy remembers what it asks of namespaces


class _Module:
    """A SciPy module whose attributes are read from its translated globals."""

    def __init__(self, module: str) -> None:
        self._globals = _globals_of(module)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._globals[name]
        except KeyError:
            raise AttributeError(name) from None


def module(name: str) -> Any:
    """A SciPy module whose functions compute with traced values."""
    return _Module(name)


def _translated(value: Any) -> Any:
    """The translation of a global of a SciPy module."""
    if isinstance(value, ModuleType):
        return _of_module(value)
    if isinstance(value, FunctionType) and _is_scipys(value.__globals__.get("__name__", "")):
        return replacement_of(value) or reinterpreted(value)
    if isinstance(value, dict):
        return {key: _translated(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_translated, value))
    if value is np.r_:
        return ours.r_
    if callable(value) and getattr(value, "__module__", None) in ("numpy", "numpy.linalg"):
        owner = ours if value.__module__ == "numpy" else ours.linalg
        name = getattr(value, "__name__", "")
        return getattr(owner, name) if getattr(np, name, None) is value else value
    return value


def _of_module(value: ModuleType) -> Any:
    if value is np or value.__name__.endswith(".array_api_compat.numpy"):
        return ours
    if value is np.linalg:
        return ours.linalg
    if value in (math, cmath):
        return _MATH[value]
    return module(value.__name__) if _is_scipys(value.__name__) else value


def _is_scipys(name: str) -> bool:
    return name.startswith("scipy.") and not name.startswith(_AS_THEY_ARE)


_BUILTINS = {**vars(builtins), "float": Float, "complex": Complex}


class _Math:
    """A replacement of `math` or `cmath` that accepts traced values."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._module, name)
        numpys = vars(np).get(OF_MATH.get(name, "").removeprefix("np."))

        def function(*args: Any) -> Any:
            return (numpys or plain if any(map(holds_tracer, args)) else plain)(*args)

        return function if callable(plain) else plain


_MATH = {each: _Math(each) for each in (math, cmath)}


class _At:
    """``at(x)[index].set(y)``, as SciPy writes it for all array libraries.

    It assigns in place where possible, which SciPy's code relies on.
    """

    def __init__(self, x: Any, index: Any = ...) -> None:
        self._x, self._index = x, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self._x, index)

    def _with(self, operation: Function, y: Any, copy: bool | None = None, xp: Any = None) -> Any:
        fixed = holds_tracer(y) and type(self._x) is np.ndarray
        x = ours.array(self._x) if copy or fixed else self._x
        x[self._index] = operation(x[self._index], y)
        return x

    set = partialmethod(_with, lambda old, new: new)
    add = partialmethod(_with, operator.add)
    subtract = partialmethod(_with, operator.sub)
    multiply = partialmethod(_with, operator.mul)
    divide = partialmethod(_with, operator.truediv)


_NAMES = {
    "array_namespace": lambda *arrays, **options: ours,
    "at": _At,
    "is_jax": lambda xp: False,
    "is_lazy_array": lambda x: isinstance(x, Tracer) and x._known_value is UNKNOWN,
    "is_numpy": lambda xp: False,
}
"""The replacements for SciPy's queries about arrays and their library."""

"""Registration of the traced form of a SciPy function, as for those of NumPy.

The traced form is a function with those parameters of SciPy's function that apply to traced values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from functrans.ir.on_device import holds_device
from functrans.lazily import lazy
from functrans.numpy.arrays import array
from functrans.numpy.define import numpy_name, refuse, traced_form
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.arrays.structural import astype
from functrans.scipy.entries import dispatching
from functrans.scipy.entries import enter as enter_scipys

Function = Callable[..., Any]

implementations: dict[str, Function] = {}
"""The decorated functions, by the name of SciPy's function."""

refusals: dict[str, str] = {}
"""Why there is no traced form, and what to write instead, by the name of SciPy's function."""

_ANYTHING = None

WITHOUT_MEANING: dict[str, tuple[Any, ...] | None] = {
    "check_finite": _ANYTHING,
    "driver": _ANYTHING,
    "lapack_driver": _ANYTHING,
    "lwork": _ANYTHING,
    "overwrite_a": _ANYTHING,
    "overwrite_a_band": _ANYTHING,
    "overwrite_ab": _ANYTHING,
    "overwrite_b": _ANYTHING,
    "overwrite_c": _ANYTHING,
    "workers": _ANYTHING,
}
"""Keywords about memory and algorithms, which are accepted and ignored on traced values."""


def answers(model: Function | str) -> Callable[[Function], Function]:
    """Dispatch calls of a SciPy function with traced arguments to the decorated function.

    The resulting function has SciPy's name and signature, and passes all other calls on to SciPy. A
    SciPy function given by its path, such as ``"scipy.special:comb"``, is imported at the first
    call; the decorated function must then have all of its parameters.
    """
    if isinstance(model, str):
        return _answers_lazily(model)

    def enter(implementation: Function) -> Function:
        traced = traced_form(model, implementation, False, WITHOUT_MEANING)
        implementations[numpy_name(model)] = implementation
        public = dispatching(numpy_name(model), traced, model)
        enter_scipys(_path_of(model), public)
        return _named(public, model, implementation.__module__, implementation.__doc__)

    return enter


def _answers_lazily(path: str) -> Callable[[Function], Function]:
    original = lazy(path)

    def enter(implementation: Function) -> Function:
        name = path.replace(":", ".")
        implementations[name] = implementation
        public = wraps(implementation)(dispatching(name, implementation, original))
        enter_scipys(path, public)
        return public

    return enter


def double(x: Any) -> Any:
    """An array in double precision, in which SciPy computes some functions."""
    found = array(x)
    return astype(found, np.result_type(found.dtype, np.float64))


def refused(model: Function, instead: str) -> Function:
    """SciPy's function, raising an error for traced arguments that says what to write instead."""
    name = numpy_name(model)
    refusals[name] = instead

    def public(*args: Any, **kwargs: Any) -> Any:
        if any_traced(args, kwargs) or holds_device(args, kwargs):
            refuse(name, instead)
        return model(*args, **kwargs)

    enter_scipys(_path_of(model), public)
    return _named(public, model, model.__module__, model.__doc__)


def _path_of(model: Function) -> str:
    module, _, name = numpy_name(model).rpartition(".")
    return f"{module}:{name}"


def any_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tracer is among the arguments."""
    return any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values()))


def _named(public: Any, model: Function, module: str, doc: str | None) -> Function:
    # inspect.signature follows this when somebody asks
    public.__wrapped__ = model
    public.__name__ = public.__qualname__ = model.__name__
    public.__module__ = module
    public.__doc__ = doc
    found: Function = public
    return found

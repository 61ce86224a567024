"""Registration of the traced form of a SciPy function, as for those of NumPy.

The traced form is a function with those parameters of SciPy's function that apply to traced values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.lazily import lazy
from functrans.numpy.arrays import array
from functrans.numpy.define import numpy_name, traced_form
from functrans.ops.arrays.structural import astype
from functrans.scipy.entries import dispatching
from functrans.scipy.entries import enter as enter_scipys
from functrans.trace.dtypes import dtype_of

Function = Callable[..., Any]

implementations: dict[str, Function] = {}
"""The decorated functions, by the name of SciPy's function."""

WITHOUT_MEANING: dict[str, tuple[Any, ...] | None] = dict.fromkeys(
    ("check_finite", "driver", "lapack_driver", "lwork", "overwrite_a", "overwrite_a_band",
     "overwrite_ab", "overwrite_b", "overwrite_c", "workers")
)  # fmt: skip
"""Keywords about memory and algorithms, which are accepted with any value and ignored."""


def answers(model: Function | str) -> Callable[[Function], Function]:
    """Dispatch calls of a SciPy function with traced arguments to the decorated function.

    The resulting function has SciPy's name and signature, and passes all other calls on to SciPy. A
    SciPy function given by its path, such as ``"scipy.special:comb"``, is imported at the first
    call; the decorated function must then have all of its parameters.
    """
    if isinstance(model, str):
        return _answers_lazily(model)

    name = numpy_name(model)

    def enter(implementation: Function) -> Function:
        traced = traced_form(model, implementation, False, WITHOUT_MEANING)
        implementations[name] = implementation
        public = dispatching(name, traced, model)
        enter_scipys(":".join(name.rsplit(".", 1)), public)
        # inspect.signature follows this when somebody asks
        vars(public)["__wrapped__"] = model
        public.__name__ = public.__qualname__ = model.__name__
        public.__module__ = implementation.__module__
        public.__doc__ = implementation.__doc__
        return public

    return enter


def _answers_lazily(path: str) -> Callable[[Function], Function]:
    original = lazy(path)

    def enter(implementation: Function) -> Function:
        name = path.replace(":", ".")
        implementations[name] = implementation
        public = wraps(implementation)(dispatching(name, implementation, original))
        public.__name__ = public.__qualname__ = original.name
        enter_scipys(path, public)
        return public

    return enter


_version = lazy("scipy:__version__")


@cached(1)
def since_1_18() -> bool:
    """Whether this SciPy is 1.18 or newer, which computes more in single precision."""
    return bool(np.lib.NumpyVersion(_version.resolve()) >= "1.18.0.dev0")


def quotient(a: Any, b: Any, at_zero: float) -> Any:
    """``a / b``, or a constant where ``b`` is 0."""
    nothing = b == 0
    return np.where(nothing, at_zero, a / np.where(nothing, 1.0, b))


def double(x: Any) -> Any:
    """An array in double precision, in which SciPy computes some functions."""
    found = array(x)
    return astype(found, np.result_type(dtype_of(found.dtype), np.float64))


def single(x: Any) -> Any:
    """An array in single precision or more: LAPACK's dtype of float16 and of short integers."""
    found = array(x)
    return astype(found, np.result_type(dtype_of(found.dtype), np.float32))


def single_or_double(*operands: Any) -> np.dtype[Any]:
    """The dtype in which SciPy computes functions of degrees: since 1.18, single precision too."""
    narrowest = np.float32 if since_1_18() else np.float64
    return np.result_type(narrowest, *(dtype_of(array(x).dtype) for x in operands))

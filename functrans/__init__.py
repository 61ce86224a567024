"""Composable function transforms for NumPy and Numba.

Examples
--------
>>> import numpy as np
>>> from functrans import grad, vmap
>>> def loss(w, x):
...     return np.sum(np.tanh(x @ w) ** 2)
>>> per_sample = vmap(grad(loss), in_axes=(None, 0))
>>> per_sample(np.ones(3), np.ones((5, 3))).shape
(5, 3)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from functrans import config, errors, extend, lax, numpy, scipy, testing, tree
from functrans.api.bridge import compile, from_numba
from functrans.api.closure import closure_convert, custom_gradient
from functrans.api.compile import jit
from functrans.api.custom import custom_jvp, custom_vjp
from functrans.api.derivatives import grad, jvp, value_and_grad, vjp
from functrans.api.devices import device_put, devices
from functrans.api.host import callback
from functrans.api.jacobians import hessian, hvp, jacfwd, jacrev
from functrans.api.linear import linear_transpose, linearize
from functrans.api.lowered import eval_shape, trace
from functrans.api.mapping import vmap
from functrans.api.problem import FLOAT0 as float0
from functrans.api.recompute import checkpoint, stop_gradient
from functrans.api.saved import load, save
from functrans.api.traced import is_traced
from functrans.caches import clear_caches
from functrans.ir.types import Aval
from functrans.version import __version__ as __version__

if TYPE_CHECKING:
    from functrans import random
    from functrans.run.cuda.array import DeviceArray

__all__ = [
    "Aval",
    "DeviceArray",
    "callback",
    "checkpoint",
    "clear_caches",
    "closure_convert",
    "compile",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "device_put",
    "devices",
    "errors",
    "eval_shape",
    "extend",
    "float0",
    "from_numba",
    "grad",
    "hessian",
    "hvp",
    "is_traced",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "load",
    "numpy",
    "random",
    "save",
    "scipy",
    "stop_gradient",
    "testing",
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> _Any:
    # its distributions are many primitives and tables: they are loaded when they are first used
    if name == "random":
        return _import_module(f"{__name__}.random")
    # for those who have a GPU
    if name == "DeviceArray":
        return _import_module(f"{__name__}.run.cuda.array").DeviceArray
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

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

from functrans import config, errors, extend, lax, numpy, random, scipy, testing, tree
from functrans.api.bridge import compile, from_numba
from functrans.api.compile import jit
from functrans.api.custom import custom_jvp, custom_vjp
from functrans.api.derivatives import grad, jvp, value_and_grad, vjp
from functrans.api.jacobians import hessian, hvp, jacfwd, jacrev
from functrans.api.linear import linear_transpose, linearize
from functrans.api.lowered import eval_shape, trace
from functrans.api.mapping import vmap
from functrans.api.recompute import checkpoint, stop_gradient
from functrans.caches import clear_caches
from functrans.ir.types import Aval
from functrans.version import __version__ as __version__

__all__ = [
    "Aval",
    "checkpoint",
    "clear_caches",
    "compile",
    "config",
    "custom_jvp",
    "custom_vjp",
    "errors",
    "eval_shape",
    "extend",
    "from_numba",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "numpy",
    "random",
    "scipy",
    "stop_gradient",
    "testing",
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
]

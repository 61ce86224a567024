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

from functools import partial as _partial
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from functrans import numpy as _numpy  # noqa: F401  registers implementations of NumPy's functions
from functrans import scipy as _scipy  # noqa: F401  and of SciPy's
from functrans.ir.primitive import registry as _registry
from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace
from functrans.version import __version__ as __version__

if TYPE_CHECKING:
    from functrans import (
        config,
        debug,
        distributed,
        errors,
        extend,
        lax,
        numpy,
        random,
        scipy,
        testing,
        train,
        tree,
    )
    from functrans.api.bridge import compile, from_numba
    from functrans.api.closure import closure_convert, custom_gradient
    from functrans.api.compile import jit
    from functrans.api.cotangents import on_cotangent
    from functrans.api.custom import custom_jvp, custom_vjp
    from functrans.api.derivatives import grad, jvp, value_and_grad, vjp
    from functrans.api.devices import cuda_stream, device_put, devices
    from functrans.api.flat import FLOAT0 as float0
    from functrans.api.hessians import hessian, hvp
    from functrans.api.host import callback
    from functrans.api.jacobians import jacfwd, jacobian, jacrev, sparsity
    from functrans.api.linear import linear_transpose, linearize
    from functrans.api.lowered import eval_shape, trace
    from functrans.api.mapping import vmap
    from functrans.api.operators import ggn_operator, hessian_operator, jacobian_operator
    from functrans.api.recompute import checkpoint, stop_gradient
    from functrans.api.saved import load, save
    from functrans.api.sums import divergence, laplacian
    from functrans.api.taylor import derivatives, jet
    from functrans.api.traced import is_traced
    from functrans.caches import clear_caches
    from functrans.ir.types import Aval
    from functrans.run.cuda.array import DeviceArray
    from functrans.scipy.optimize.implicit import implicit

__all__ = [
    "Aval", "DeviceArray", "callback", "checkpoint", "clear_caches", "closure_convert", "compile",
    "config", "cuda_stream", "custom_gradient", "custom_jvp", "custom_vjp", "debug", "derivatives",
    "device_put", "devices", "distributed", "divergence", "errors", "eval_shape", "extend",
    "float0", "from_numba", "ggn_operator", "grad", "hessian", "hessian_operator", "hvp",
    "implicit", "is_traced", "jacfwd", "jacobian", "jacobian_operator", "jacrev", "jet", "jit",
    "jvp", "laplacian", "lax", "linear_transpose", "linearize", "load", "numpy", "on_cotangent",
    "random", "save", "scipy", "sparsity", "stop_gradient", "testing", "trace", "train", "tree",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip

_HOME = _homes(
    {
        "functrans.api.bridge": "compile from_numba",
        "functrans.api.closure": "closure_convert custom_gradient",
        "functrans.api.compile": "jit",
        "functrans.api.cotangents": "on_cotangent",
        "functrans.api.custom": "custom_jvp custom_vjp",
        "functrans.api.derivatives": "grad jvp value_and_grad vjp",
        "functrans.api.devices": "cuda_stream device_put devices",
        "functrans.api.host": "callback",
        "functrans.api.hessians": "hessian hvp",
        "functrans.api.jacobians": "jacfwd jacobian jacrev sparsity",
        "functrans.api.linear": "linear_transpose linearize",
        "functrans.api.lowered": "eval_shape trace",
        "functrans.api.mapping": "vmap",
        "functrans.api.operators": "ggn_operator hessian_operator jacobian_operator",
        "functrans.api.recompute": "checkpoint stop_gradient",
        "functrans.api.saved": "load save",
        "functrans.api.sums": "divergence laplacian",
        "functrans.api.taylor": "derivatives jet",
        "functrans.api.traced": "is_traced",
        "functrans.caches": "clear_caches",
        "functrans.ir.types": "Aval",
        "functrans.run.cuda.array": "DeviceArray",
        "functrans.scipy.optimize.implicit": "implicit",
    }
)

__getattr__, __dir__ = _namespace(
    __name__,
    _HOME | {"float0": "functrans.api.flat:FLOAT0"},
    (
        "config", "debug", "distributed", "errors", "extend", "lax", "numpy", "random", "scipy",
        "testing", "train", "tree",
    ),
)  # fmt: skip

_registry.filled_by(_partial(_import_module, "functrans.api.call"))
# importing the subpackage `trace` has set this name, which is that of a public function
del globals()["trace"]

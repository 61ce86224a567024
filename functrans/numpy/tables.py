"""The modules that define the functions, methods and operators of traced values.

These modules fill the tables of `functrans.trace.protocols`, and are imported on first use of one
of their functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from functrans import ops
from functrans.lazily import homes, importer, lazy
from functrans.trace import protocols

Function = Callable[..., Any]

NAMES = {
    "bits": "packbits ravel_multi_index unpackbits unravel_index",
    "building": "c_ fromiter mgrid ogrid r_",
    "choice": (
        "allclose argwhere array_equal array_equiv choose clip flatnonzero isclose nan_to_num "
        "nonzero select where"
    ),
    "contraction": "cross dot einsum einsum_path inner kron outer tensordot trace vdot",
    "counting": (
        "bincount isin trim_zeros unique unique_all unique_counts unique_inverse unique_values"
    ),
    "creation": (
        "arange array asanyarray asarray ascontiguousarray astype copy diag diagflat diagonal "
        "empty empty_like eye full full_like geomspace identity indices linspace logspace "
        "meshgrid ones ones_like tri tril triu vander zeros zeros_like"
    ),
    "elementwise": (
        "angle around can_cast common_type fix i0 imag iscomplex iscomplexobj isneginf "
        "isposinf isreal isrealobj kaiser real real_if_close result_type round sinc unwrap"
    ),
    "functional": "apply_along_axis apply_over_axes piecewise",
    "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
    "indexing": (
        "argpartition argsort compress digitize extract ix_ lexsort nanargmax nanargmin partition "
        "searchsorted sort sort_complex take take_along_axis"
    ),
    "inplace": "copyto fill_diagonal may_share_memory place put put_along_axis putmask",
    "joining": (
        "append array_split block column_stack concat concatenate delete dsplit dstack hsplit "
        "hstack insert repeat resize split stack tile unstack vsplit vstack"
    ),
    "padding": "pad",
    "polynomials": "polyadd polyder polydiv polyint polymul polysub polyval",
    "quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "reductions": (
        "all amax amin any argmax argmin average count_nonzero cumprod cumsum cumulative_prod "
        "cumulative_sum max mean min prod ptp std sum var"
    ),
    "polynomial_roots": "poly polyfit roots",
    "sequences": "convolve corrcoef correlate cov diff ediff1d gradient interp trapezoid",
    "sets": "intersect1d setdiff1d setxor1d union1d",
    "shapes": (
        "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag_indices_from "
        "expand_dims flip fliplr flipud matrix_transpose moveaxis ndim permute_dims ravel "
        "reshape roll rollaxis rot90 shape size squeeze swapaxes transpose tril_indices_from "
        "triu_indices_from"
    ),
    "special": "log_softmax logsumexp softmax",
    "standard": "finfo from_dlpack iinfo",
    "stride_tricks": "as_strided sliding_window_view",
    "text": (
        "array2string array_repr array_str asarray_chkfinite isscalar min_scalar_type "
        "ndenumerate require"
    ),
    "vectorizing": "vectorize",
    "without_nan": ("nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar"),
}
"""The names that each module here has an implementation of (its ``__all__``)."""


HOME = homes(NAMES, "functrans.numpy") | {"at": "functrans.ops.indexing.at"}
"""The module of each name of the namespace that is not NumPy's own."""

_NOT_DISPATCHED = homes(
    {
        "building": NAMES["building"],
        "standard": NAMES["standard"],
        "text": "isscalar ndenumerate",
        "vectorizing": NAMES["vectorizing"],
    }
)
"""Names that do not dispatch on arguments, or are no functions, and have other traced forms."""

_OF_NUMPY = {name: module for name, module in HOME.items() if name not in _NOT_DISPATCHED}
_OF_NUMPY["asfortranarray"] = "functrans.numpy.creation"
_DISPATCHED = type(np.sum)

NUMPYS_CALL: Function = np.vectorize.__call__
"""NumPy's own method, which is replaced within a trace."""

_FUNCTIONS: dict[str, Callable[[str], str | None]] = {
    "numpy": _OF_NUMPY.get,
    "numpy.fft": lambda name: "functrans.numpy.fft",
    "numpy.lib.stride_tricks": lambda name: "functrans.numpy.stride_tricks",
    "numpy.linalg": lambda name: "functrans.numpy.linalg",
}
"""For each module of NumPy, our modules by the names of its functions."""


def _find_function(function: Any) -> None:
    of = _FUNCTIONS.get(getattr(function, "__module__", None) or "")
    module = of(function.__name__) if of is not None else None
    if module is not None:
        import_module(module)


def answered(module: ModuleType, name: str, numpys: Any) -> bool:
    """Whether an object in a NumPy module is a function with a traced form."""
    if module is not np:
        return isinstance(numpys, _DISPATCHED)
    return callable(numpys) and getattr(numpys, "__name__", name) in _OF_NUMPY


def _import_all() -> None:
    for module in (*NAMES, "fft", "linalg"):
        import_module(f"functrans.numpy.{module}")


_find_clip = importer({"clip": "functrans.numpy.choice"})  # a plain array's method is a ufunc

protocols.ufuncs.found_by(lambda name: _find_clip(name) or ops.find(name))
protocols.functions.found_by(_find_function)
protocols.functions.filled_by(_import_all)
protocols.ufunc_methods.filled_by(partial(import_module, "functrans.numpy.ufuncs"))

_OPERATORS = {
    "numpy.arrays": "asarray traced",
    "numpy.standard": "array_namespace",
    "numpy.ufuncs": "store",
    "ops.arrays.structural": "astype strengthen",
    "ops.elementwise.arithmetic": "divmod",
    "ops.elementwise.power": "pow",
    "ops.indexing.index": "getitem setitem",
    "ops.linalg.products": "matmul",
}
_ATTRIBUTES = {
    "numpy.flat": "flat",
    "numpy.methods": "base device",
    "numpy.stride_tricks": "strides",
    "ops.indexing.views": "T imag mT real",
    "ops.indexing.at": "at",
}
_METHODS = {
    "numpy.standard": "__dlpack__ __dlpack_device__ to_device",
    "ops.indexing.views": (
        "__copy__ __deepcopy__ copy diagonal flatten ravel reshape squeeze swapaxes transpose view"
    ),
}
_find_view = importer(homes(_METHODS, "functrans"))
_functions_as_methods = lazy("functrans.numpy.methods:enter")


def _find_method(name: str) -> None:
    if not _find_view(name):
        _functions_as_methods(name)


protocols.operators.found_by(importer(homes(_OPERATORS, "functrans")), all_keys=True)
protocols.attributes.found_by(importer(homes(_ATTRIBUTES, "functrans")), all_keys=True)
protocols.methods.found_by(_find_method, all_keys=True)
for _table, _modules in (
    (protocols.operators, _OPERATORS),
    (protocols.attributes, _ATTRIBUTES),
    (protocols.methods, _METHODS),
):
    _table.filled_by(*(partial(import_module, f"functrans.{name}") for name in _modules))
protocols.methods.filled_by(lazy("functrans.numpy.methods:enter_all"))

protocols.imported_when_read[np] = ("fft", "polynomial")
for _name in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre"):
    _series = lazy("functrans.numpy.series:answer_for")
    protocols.late[f"numpy.polynomial.{_name}"] = partial(_series, _name)
protocols.late["numpy"] = lazy("functrans.numpy.substitutes:answer_for_numpy")
protocols.late["polars"] = lazy("functrans.numpy.frames:answer_for_polars")
protocols.late["array_api_compat"] = lazy("functrans.numpy.standard:answer_for_compat")
protocols.late["functrans.numpy"] = lazy("functrans.numpy.substitutes:answer_for_namespace")
for _name in ("numpy.fft", "numpy.linalg"):
    protocols.late[_name] = partial(lazy("functrans.numpy.substitutes:answer_for"), _name)

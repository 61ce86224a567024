"""The arguments `axis`, `keepdims` and `nan_policy` of SciPy's statistics, of traced samples."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axes_of, inexact, known
from functrans.numpy.define import refuse
from functrans.ops.arrays.structural import expand_axes
from functrans.trace.tracer import Tracer

_WITHOUT_NAN = {
    "omit": "leave NaN out first, as x[~np.isnan(x)] does",
    "raise": "look for NaN in the plain array, before it is traced",
}
"""What to write instead of each ``nan_policy``."""


def propagates(function: str, nan_policy: Any) -> None:
    """Raise unless NaN are propagated: whether there are any may be unknown in a trace."""
    if nan_policy == "propagate":
        return
    if nan_policy not in _WITHOUT_NAN:
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    refuse(f"scipy.stats.{function}(..., nan_policy={nan_policy!r})", _WITHOUT_NAN[nan_policy])


def check_policy(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a policy where SciPy's decorator would not follow it: it must see the elements.

    It sees the known ones of samples with one axis.
    """
    given = (*args, *kwargs.values())
    policies = [x for x in given if isinstance(x, str) and x in _WITHOUT_NAN]
    if policies and any(isinstance(x, Tracer) and (x.ndim > 1 or known(x) is None) for x in given):
        propagates(function, policies[0])
    if function in _OF_RANKS and any(
        isinstance(x, Tracer) and x.ndim > 1 and _contains_nan(x) for x in given
    ):
        refuse(f"scipy.stats.{function} of several samples with NaN", "call it for one at a time")
    along = kwargs.get("axis", _OF_ONE.get(function)) is not None
    if function in _OF_ONE and along and any(isinstance(x, Tracer) and x.ndim > 1 for x in given):
        refuse(f"scipy.stats.{function} along an axis", "use vmap of the function of one sample")


_OF_ONE = {"ranksums": 0, "theilslopes": None}
"""The default axis of functions that SciPy's decorator calls for each of several plain samples."""

_OF_RANKS = ("ansari", "cramervonmises_2samp", "fligner", "mood")
"""Tests whose formulas rank NaN as they rank numbers."""


def _contains_nan(x: Any, nan_policy: Any = "propagate", **options: Any) -> bool:
    """Whether an element is known to be NaN; of others, NaN are propagated by the formulas."""
    values = known(array(x))
    if values is None or nan_policy not in _WITHOUT_NAN:
        propagates("statistic", nan_policy)
    found = values is not None and bool(np.isnan(values).any())
    if found and nan_policy == "raise":
        raise ValueError("The input contains nan values")
    return found


NAMES = {"is_lazy_array": lambda x: False, "_contains_nan": _contains_nan}
"""The replacements for names in the module of SciPy's decorator of statistics, which moves axes and
keeps those that are reduced, also of samples whose elements are not known.
"""


def on_slices(
    *samples: Any, axis: Any, keepdims: bool = False
) -> tuple[list[Any], Callable[[Any], Any]]:
    """Move the axes given by ``axis`` to the end, and merge them.

    Parameters
    ----------
    *samples : array_like
        Samples; leading axes of size 1 are added to those with fewer axes.
    axis : int, tuple of int or None
        None for all axes.
    keepdims : bool
        Whether results keep the reduced axes with size 1.

    Returns
    -------
    samples : list of array
        Floats.
    kept : callable
        A function that reshapes a result without the last axis according to ``keepdims``.
    """
    arrays = [inexact(x) for x in samples]
    rank = max(x.ndim for x in arrays)
    arrays = [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]
    axes = axes_of(axis, rank)
    last = tuple(range(rank - len(axes), rank))

    def joined(x: Any) -> Any:
        x = np.moveaxis(x, axes, last)
        outer = x.shape[: rank - len(axes)]
        return x.reshape((*outer, prod(x.shape[rank - len(axes) :])))

    return list(map(joined, arrays)), lambda x: expand_axes(x, axes) if keepdims else x

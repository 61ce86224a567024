"""Spherical Bessel functions and associated Legendre functions.

References
----------
NIST Digital Library of Mathematical Functions, 10.51, 14.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.elementwise.compare import less
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.rounding import trunc
from functrans.ops.elementwise.special.scipy import computed, ordered
from functrans.ops.samples import reals, whole
from functrans.trace import protocols

ORDER = not_differentiable("the order is an integer")

# -- spherical Bessel functions --------------------------------------------------------------------


def _spherical(name: str, below: float, above: float) -> Primitive:
    """A function whose slope is ``(below n f_(n-1) + above (n + 1) f_(n+1)) / (2 n + 1)``.

    SciPy truncates the order; functions of negative orders are NaN.
    """

    def slope(n: Any, x: Any) -> Any:
        n = trunc(n)
        n = select(less(n, 0), math.nan, n)
        lower = below * n * op(maximum(n - 1, 0), x)
        return (lower + above * (n + 1) * op(n + 1, x)) / (2 * n + 1)

    op = ordered(name, [whole(0, 4), reals(0.5, 5)], ORDER, slope)
    # SciPy's functions are Python around ufuncs of these names
    protocols.ufuncs[f"_{name}"] = op
    protocols.ufuncs[f"_{name}_d"] = slopes[name] = slope
    return op


slopes: dict[str, Callable[..., Any]] = {}
"""The derivatives, by the names of the functions."""


spherical_jn = _spherical("spherical_jn", 1, -1)
spherical_yn = _spherical("spherical_yn", 1, -1)
spherical_in = _spherical("spherical_in", 1, 1)
spherical_kn = _spherical("spherical_kn", -1, -1)

# -- Legendre functions ----------------------------------------------------------------------------


def _with_slope(
    name: str, domains: list[Any], curvature: Callable[..., Any], **options: Any
) -> tuple[Primitive, Primitive]:
    """A function of degree, order and a variable, and its derivative, both from SciPy."""
    function = lazy(f"scipy.special:{name}")
    label = "_".join([name, *(key for key, on in options.items() if on)])

    def numpy(k: int) -> Callable[..., Any]:
        def evaluate(n: Any, m: Any, x: Any) -> Any:
            degree, order = np.asarray(n).astype(int), np.asarray(m).astype(int)
            result = function(degree, order, x, diff_n=1, **options)[k]
            return result.astype(np.result_type(x))[()]

        return evaluate

    value: Primitive = computed(
        label, numpy(0), domains, ORDER, ORDER, lambda n, m, x: slope(n, m, x)
    )
    slope: Primitive = computed(
        f"{label}_slope", numpy(1), domains, ORDER, ORDER,
        lambda n, m, x, out: curvature(n, m, x, value(n, m, x), out),
    )  # fmt: skip
    return value, slope


def _legendre(n: Any, m: Any, x: Any, y: Any, slope: Any) -> Any:
    rest = (1 - x) * (1 + x)
    return (2 * x * slope - (n * (n + 1) - m * m / rest) * y) / rest


def _on_the_sphere(n: Any, m: Any, theta: Any, y: Any, slope: Any) -> Any:
    """By the slopes of both adjacent orders: the differential equation divides by the sine."""
    above = sqrt(maximum((n - m) * (n + m + 1), 0)) * sph_legendre_p_slope(n, m + 1, theta)
    below = sqrt(maximum((n + m) * (n - m + 1), 0)) * sph_legendre_p_slope(n, m - 1, theta)
    return 0.5 * (above - below)


_DEGREES = [whole(2, 5), whole(0, 3)]

assoc_legendre_p, assoc_legendre_p_slope = _with_slope(
    "assoc_legendre_p", [*_DEGREES, reals(-0.9, 0.9)], _legendre
)
normed_legendre_p, normed_legendre_p_slope = _with_slope(
    "assoc_legendre_p", [*_DEGREES, reals(-0.9, 0.9)], _legendre, norm=True
)
sph_legendre_p, sph_legendre_p_slope = _with_slope(
    "sph_legendre_p", [*_DEGREES, reals(0.3, 2.8)], _on_the_sphere
)

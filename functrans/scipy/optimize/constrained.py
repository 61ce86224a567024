"""Constrained minima by SciPy, with implicit differentiation of the KKT conditions.

The active set is taken from SciPy's solution. With it, the conditions of Karush, Kuhn and Tucker
are equations for the point and the multipliers, to which `lax.custom_root` applies the implicit
function theorem. If an active constraint has the multiplier 0, the minimum is not differentiable,
and a one-sided derivative results. Source: Fiacco, Introduction to Sensitivity and Stability
Analysis in Nonlinear Programming (1983), chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import numpy as np

from functrans.api.derivatives import grad
from functrans.api.jacobians import jacfwd
from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import inexact
from functrans.numpy.joining import concatenate
from functrans.records import NamedTuple
from functrans.scipy.along_a_path import custom_root
from functrans.scipy.inside import arguments
from functrans.scipy.optimize.scalar import dense_solve
from functrans.scipy.optimize.vectors import Function, ends_of

_CLOSE = 1e-6


class Region(NamedTuple):
    """A feasible region: bounds, equality constraints (= 0) and inequality constraints (>= 0)."""

    low: Any
    high: Any
    equal: Callable[[Any], Any]
    positive: Callable[[Any], Any]


def _nothing(x: Any) -> Any:
    return np.zeros(0)


def within(low: Any, high: Any) -> Region:
    """The region of bounds without other constraints."""
    return Region(low, high, _nothing, _nothing)


def bounds_of(bounds: Any, size: int) -> tuple[Any, Any]:
    """SciPy's bounds as two vectors, infinite where there is no bound."""
    if bounds is None or hasattr(bounds, "lb"):
        return ends_of(bounds, (size,))
    pairs = [(low, high) for low, high in bounds]
    low = np.stack([inexact(-np.inf if low is None else low) for low, _ in pairs])
    high = np.stack([inexact(np.inf if high is None else high) for _, high in pairs])
    return ends_of((low, high), (size,))


def region_of(bounds: Any, constraints: Any, size: int) -> Region:
    """The region of the arguments ``bounds`` and ``constraints`` of `minimize`."""
    low, high = bounds_of(bounds, size)
    alone = isinstance(constraints, dict) or hasattr(constraints, "lb")
    parts = [_parts(c) for c in ([constraints] if alone else constraints)]

    def joined(place: int) -> Callable[[Any], Any]:
        functions = [part[place] for part in parts]
        return lambda x: concatenate([np.zeros(0), *(f(x) for f in functions)])

    return Region(low, high, joined(0), joined(1))


def _parts(constraint: Any) -> tuple[Function, Function]:
    """The equality and inequality functions of a constraint, which should be 0 and >= 0."""
    if isinstance(constraint, dict):
        given = arguments(constraint.get("args", ()))

        def function(x: Any) -> Any:
            return np.atleast_1d(inexact(constraint["fun"](x, *given))).reshape(-1)

        if constraint["type"] == "eq":
            return function, _nothing
        if constraint["type"] == "ineq":
            return _nothing, function
        raise ValueError(f"Unknown constraint type {constraint['type']!r}.")
    value = constraint.fun if hasattr(constraint, "fun") else partial(matmul, constraint.A)
    low, high = np.asarray(constraint.lb, float), np.asarray(constraint.ub, float)

    def bounded(x: Any) -> tuple[Any, Any, Any]:
        f = np.atleast_1d(inexact(value(x))).reshape(-1)
        return f, np.broadcast_to(low, f.shape), np.broadcast_to(high, f.shape)

    def equal(x: Any) -> Any:
        f, below, above = bounded(x)
        same = np.flatnonzero(below == above)
        return f[same] - below[same]

    def positive(x: Any) -> Any:
        f, below, above = bounded(x)
        from_below = np.flatnonzero((below != above) & np.isfinite(below))
        from_above = np.flatnonzero((below != above) & np.isfinite(above))
        return concatenate([f[from_below] - below[from_below], above[from_above] - f[from_above]])

    return equal, positive


class Active(NamedTuple):
    """What is active at a minimum."""

    at_low: Any
    bound: Any  # the variables at a bound
    constraints: Any
    multipliers: Any


def active_at(x: Any, function: Function, constraints: Function, region: Region) -> Active:
    """The active set at a minimum that a solver has found."""
    equations = region.equal(x).shape[0]
    slope, values = stop_gradient(grad(function)(x)), stop_gradient(constraints(x))
    slopes = stop_gradient(_rows(constraints, x))
    below, above = x - stop_gradient(region.low), stop_gradient(region.high) - x
    required = np.arange(values.shape[0]) < equations

    def active_set(reach: float) -> tuple[Any, ...]:
        """The constraints that are active within a distance, and the residual of stationarity."""
        close = reach * (1 + np.abs(x))
        near_low, near_high = below <= close, above <= close
        touching = required | (values <= reach * (1 + np.max(np.abs(x))))
        multipliers = _multipliers(slope, slopes, touching, ~(near_low | near_high))
        active = required | (touching & (multipliers > 0))
        multipliers = np.where(active, multipliers, 0.0)
        rest = slope - slopes.T @ multipliers
        at_low = near_low & ((rest > 0) | near_high)
        bound = at_low | (near_high & (rest < 0))
        return at_low, bound, active, multipliers, np.max(np.abs(np.where(bound, 0.0, rest)))

    # an interior-point method stops at a distance from active constraints
    near, far = active_set(_CLOSE), active_set(1e3 * _CLOSE)
    stationary = near[-1] <= 1e-3 * (1 + np.max(np.abs(slope)))
    return Active(*(np.where(stationary, *each) for each in zip(near[:-1], far[:-1], strict=True)))


def implicit_minimum(function: Function, found: Any, region: Region) -> Any:
    """A minimum found by a solver, with the derivative from its KKT conditions."""
    x = stop_gradient(found)

    def constraints(x: Any) -> Any:
        return concatenate([region.equal(x), region.positive(x)])

    at_low, bound, active, multipliers = active_at(x, function, constraints, region)
    end = np.where(bound, np.where(at_low, region.low, region.high), 0.0)
    size, is_point = x.shape[0], ~np.isnan(x)

    def conditions(z: Any) -> Any:
        x, multipliers = z[:size], z[size:]
        free = grad(lambda x: function(x) - np.sum(multipliers * constraints(x)))(x)
        free = np.where(is_point, free, np.nan * x)  # not a singular system where there is no point
        on_constraints = np.where(active, constraints(x), multipliers)
        return concatenate([np.where(bound, x - end, free), on_constraints])

    z = custom_root(conditions, concatenate([x, multipliers]), lambda f, z: z, dense_solve)
    return z[:size]


def _rows(constraints: Function, x: Any) -> Any:
    if constraints(x).shape[0] == 0:
        return np.zeros((0, x.shape[0]))
    return jacfwd(constraints)(x)


def _multipliers(slope: Any, slopes: Any, touching: Any, free: Any) -> Any:
    """Least-squares Lagrange multipliers: stationarity in the variables that are not at a bound."""
    if slopes.shape[0] == 0:
        return np.zeros(0)
    columns = np.where(touching, 1.0, 0.0) * slopes.T * np.where(free, 1.0, 0.0)[:, None]
    return np.linalg.pinv(columns) @ np.where(free, slope, 0.0)

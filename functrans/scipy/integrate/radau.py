"""Radau IIA of order 5: an implicit Runge-Kutta method for stiff problems.

The stages of a step are the solution of equations, found by Newton's method; `lax.custom_root`
differentiates these equations. Source: Hairer and Wanner, Solving Ordinary Differential Equations
II (1996), section IV.8, for the method, its error estimate and the step-size control.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from functrans.api.jacobians import jacfwd
from functrans.api.recompute import stop_gradient
from functrans.scipy.along_a_path import custom_root, while_loop
from functrans.scipy.integrate import runge_kutta
from functrans.scipy.optimize.scalar import dense_solve

_ROOT = 6**0.5
_TIMES = np.array([(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0])
_WEIGHTS = np.array([
    [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
    [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
    [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
])  # fmt: skip
# coefficients of the stages' increments: for the error estimate, and for the interpolant
_ERROR = np.array([-13 - 7 * _ROOT, -13 + 7 * _ROOT, -1.0]) / 3
_POWERS = np.array([
    [13 / 3 + 7 * _ROOT / 3, -23 / 3 - 22 * _ROOT / 3, 10 / 3 + 5 * _ROOT],
    [13 / 3 - 7 * _ROOT / 3, -23 / 3 + 22 * _ROOT / 3, 10 / 3 - 5 * _ROOT],
    [1 / 3, -8 / 3, 10 / 3],
])  # fmt: skip
_REAL_EIGENVALUE = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)

_MOST_ITERATIONS = 10


def _stage_equations(field: runge_kutta.Field, t: Any, y: Any, h: Any) -> Any:
    """The residual of the stage equations, as a function of the changes from y to each stage."""

    def equations(changes: Any) -> Any:
        slopes = [field(t + c * h, y + z) for c, z in zip(_TIMES, changes, strict=True)]
        return changes - h * (_WEIGHTS @ np.stack(slopes))

    return equations


def _solved(problem: runge_kutta.Problem, t: Any, y: Any, h: Any, slopes: Any) -> tuple[Any, Any]:
    """The increments of the stages, and whether Newton's method has converged.

    The Jacobian is evaluated once, at the beginning of the step (simplified Newton iteration).
    """
    n = y.size
    matrix = np.eye(3 * n) - np.kron(_WEIGHTS, np.eye(n)) @ np.kron(np.eye(3), h * slopes)
    scale = problem.atol + np.abs(stop_gradient(y)) * problem.rtol
    least = np.maximum(
        10 * np.finfo(float).eps / np.min(problem.rtol),
        np.minimum(0.03, np.min(problem.rtol) ** 0.5),
    )

    def solve(equations: Any, changes: Any) -> Any:
        inverse = np.linalg.inv(matrix)

        def goes_on(state: Any) -> Any:
            _, before, now, count = state
            return (now > 1e-3 * least) & (count < _MOST_ITERATIONS) & (now < 2 * before)

        def improve(state: Any) -> Any:
            changes, _, before, count = state
            step = (inverse @ equations(changes).reshape(-1)).reshape(changes.shape)
            return changes - step, before, runge_kutta.rms(step / scale), count + 1

        start = (changes, np.asarray(np.inf), np.asarray(np.finfo(float).max), 0)
        found, _, size, _ = while_loop(goes_on, improve, start)
        converged = size <= least
        return np.where(converged, found, 0.0), converged

    equations = _stage_equations(problem.field, t, y, h)
    start = np.zeros((3, n), y.dtype)
    return custom_root(equations, start, solve, dense_solve, has_aux=True)


def _implicit_step(problem: runge_kutta.Problem, state: runge_kutta.State) -> runge_kutta.State:
    t, y = state.t, state.y
    t_new, h, failed = runge_kutta.trial(problem, state)
    holomorphic = np.iscomplexobj(y)  # which SciPy assumes, too
    slopes = stop_gradient(jacfwd(lambda y: problem.field(t, y), holomorphic=holomorphic)(y))
    here = stop_gradient(h)
    changes, converged = _solved(problem, t, y, h, slopes)
    y_new = y + changes[2]
    slope = problem.field(t_new, y_new)
    # the step size affects only the error, so it is not differentiated
    scale = problem.atol + np.maximum(np.abs(y), np.abs(y_new)) * problem.rtol
    matrix = _REAL_EIGENVALUE / here * np.eye(y.size) - slopes
    change = runge_kutta.combination(_ERROR, changes) / here
    error = np.linalg.solve(matrix, stop_gradient(state.slope + change))
    # filter the error estimate a second time where stiff components still dominate it
    again = np.linalg.solve(matrix, stop_gradient(problem.field(t, y + error) + change))
    norm = runge_kutta.rms(error / scale)
    norm = stop_gradient(
        np.where(state.rejected & (norm > 1), runge_kutta.rms(again / scale), norm)
    )
    norm = np.where(converged, norm, np.inf)
    accepted = (norm < 1) & ~failed
    factor = np.where(converged, runge_kutta.change_of_size(problem, state, norm, accepted), 0.5)
    step = runge_kutta.Step(t_new, y_new, slope, changes, np.abs(here) * factor)
    return runge_kutta.moved(state, step, accepted, failed, 3 * _MOST_ITERATIONS)


RADAU = runge_kutta.Method(
    lambda: SimpleNamespace(n_stages=2, error_estimator_order=3),
    lambda *_: None,
    # coefficients of the powers 1, 2, 3 of the fraction of the step
    lambda tableau, field, state: np.stack(
        [runge_kutta.combination(p, state.slopes) for p in _POWERS.T]
    ),
    runge_kutta.power_series, 0, _implicit_step,
)  # fmt: skip

"""The Levenberg-Marquardt method: damped Gauss-Newton steps for nonlinear least squares.

Sources: Nocedal and Wright, Numerical Optimization (2006), chapter 10; Nielsen, Damping Parameter
in Marquardt's Method (1999).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.jacobians import jacfwd
from functrans.records import NamedTuple
from functrans.scipy.along_a_path import while_loop
from functrans.scipy.optimize.vectors import Function, largest


class Tolerances(NamedTuple):
    """Tolerances for changes of the cost, for the steps and for the gradient."""

    ftol: Any
    xtol: Any
    gtol: Any


STEPS_EXCEEDED, _BY_GRADIENT, _BY_COST, _BY_STEP, _BY_BOTH = range(5)

MESSAGES = {
    STEPS_EXCEEDED: "The maximum number of function evaluations is exceeded.",
    _BY_GRADIENT: "`gtol` termination condition is satisfied.",
    _BY_COST: "`ftol` termination condition is satisfied.",
    _BY_STEP: "`xtol` termination condition is satisfied.",
    _BY_BOTH: "Both `ftol` and `xtol` termination conditions are satisfied.",
}
"""The messages of SciPy's statuses."""


_LEAST_DAMPING = 1e-14
"""The least damping, which keeps the system of a step regular if the Jacobian is rank-deficient."""

_MOST_DAMPING = 1e20
"""The damping at which any step is shorter than the rounding error of the point."""


class _State(NamedTuple):
    """The state of an iteration: its point, and the result of its last step."""

    x: Any
    cost: Any
    damping: Any
    growth: Any
    status: Any
    ended: Any
    count: Any


def levenberg_marquardt(
    r: Function, x: Any, tolerances: Tolerances, maxiter: int
) -> tuple[Any, Any, Any]:
    """Minimise a sum of squares by damped Gauss-Newton steps.

    The damping is adapted by the ratio of actual to predicted reduction of the cost. Iteration ends
    if no step reduces the cost, or if steps are small enough; the other tolerances only determine
    the status. Returns the point, the status and the number of steps.
    """
    ftol, xtol, gtol = (0.0 if each is None else each for each in tolerances)

    def cost(x: Any) -> Any:
        return np.sum(r(x) ** 2)

    def step(state: _State) -> _State:
        x, value = state.x, state.cost
        slopes = jacfwd(r)(x)
        normal, right = slopes.T @ slopes, slopes.T @ r(x)
        scale = state.damping * np.where(np.diag(normal) > 0, np.diag(normal), 1.0)
        moved = np.linalg.solve(normal + np.diag(scale), -right)
        following = cost(x + moved)
        better = following < value
        gain = (value - following) / np.maximum(moved @ (scale * moved - right), 1e-300)
        eased = state.damping * np.maximum(1 / 3, 1 - (2 * np.minimum(gain, 1.0) - 1) ** 3)
        damping = np.where(better, np.maximum(eased, _LEAST_DAMPING), state.damping * state.growth)
        small = largest(moved) <= xtol * (xtol + largest(x))
        nothing = better & (value - following <= xtol**2 * value)
        flat = largest(right) == 0
        unchanged = np.abs(value - following) <= ftol * value
        by_steps = np.where(unchanged, np.where(small, _BY_BOTH, _BY_COST), _BY_STEP)
        ended = small | flat | nothing | ~(damping < _MOST_DAMPING)
        by_gradient = flat | (largest(right) < gtol)
        status = np.where(ended | (better & unchanged), by_steps, STEPS_EXCEEDED)
        status = np.where(by_gradient, _BY_GRADIENT, status)
        return _State(
            np.where(better, x + moved, x),
            np.where(better, following, value),
            damping,
            np.where(better, 2.0, 2 * state.growth),
            np.where(np.isfinite(value), status, STEPS_EXCEEDED),
            ended | ~np.isfinite(value),
            state.count + 1,
        )

    none = np.asarray(STEPS_EXCEEDED)
    begin = _State(x, cost(x), np.asarray(1e-3), np.asarray(2.0), none, np.zeros((), bool), 0)
    found = while_loop(lambda state: ~state.ended & (state.count < maxiter), step, begin)
    return found.x, found.status, found.count

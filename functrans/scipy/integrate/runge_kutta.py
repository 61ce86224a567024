"""Explicit Runge-Kutta pairs with step-size control, as SciPy's `solve_ivp` takes their steps.

Sources: Bogacki and Shampine, Appl. Math. Lett. 2 (1989) for RK23; Dormand and Prince, J. Comp.
Appl. Math. 6 (1980) and Shampine, Math. Comp. 46 (1986) for RK45 and its interpolant; Hairer,
Norsett and Wanner, Solving Ordinary Differential Equations I, sections II.4 (step sizes), II.5 and
II.6 for DOP853. The tableaus are those of SciPy's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.records import NamedTuple

Field = Callable[[Any, Any], Any]

_SAFETY, _LEAST_FACTOR, _GREATEST_FACTOR = 0.9, 0.2, 10.0


class Method(NamedTuple):
    """A Runge-Kutta method with an estimate of its error."""

    tableau: Any  # the object with the coefficients; for an explicit pair, SciPy's class
    error: Callable[[Any, Any, Any, Any], Any]
    interpolant: Callable[..., Any]
    value: Callable[[Any, Any], Any]
    extra: int  # the number of evaluations for the interpolant
    # tries one step, and accepts it if its error estimate is small enough
    attempt: Callable[[Problem, State], State]

    @property
    def stages(self) -> int:
        return int(self.tableau().n_stages)

    @property
    def exponent(self) -> float:
        return -1 / (int(self.tableau().error_estimator_order) + 1)


class State(NamedTuple):
    """The current time and solution, and the step that led there."""

    t: Any
    y: Any
    slope: Any
    size: Any  # the size of the next step
    rejected: Any
    failed: Any
    t_before: Any
    y_before: Any
    slopes: Any  # (stages + 1, n)
    evaluations: Any


class Problem(NamedTuple):
    """An initial value problem, with the method and the tolerances."""

    field: Field
    method: Method
    end: Any
    direction: Any
    rtol: Any
    atol: Any
    max_step: Any


def combination(weights: Iterable[float], slopes: Iterable[Any]) -> Any:
    """A weighted sum that skips terms of weight 0."""
    terms = [float(w) * k for w, k in zip(weights, slopes, strict=False) if w != 0.0]
    return sum(terms[1:], terms[0])


def rms(x: Any) -> Any:
    """The root of the mean of squares; 0 of nothing."""
    return np.sqrt(np.sum(np.abs(x) ** 2) / max(x.size, 1))


# -- the pairs -------------------------------------------------------------------------------------


def _embedded_error(tableau: Any, slopes: Any, h: Any, scale: Any) -> Any:
    return rms(h * combination(tableau.E, slopes) / scale)


def _matrix_interpolant(tableau: Any, field: Field, state: State) -> Any:
    """Coefficients of the powers 1, 2, ... of the fraction of the step, times the step."""
    h = state.t - state.t_before
    columns = [h * combination(column, state.slopes) for column in tableau.P.T]
    return np.stack(columns)


def power_series(coefficients: Any, x: Any) -> Any:
    """Evaluate a polynomial without a constant term from its coefficients."""
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = coefficient + x * value
    return x * value


def _error_of_eighth_order(tableau: Any, slopes: Any, h: Any, scale: Any) -> Any:
    fifth = np.sum(np.abs(combination(tableau.E5, slopes) / scale) ** 2)
    third = np.sum(np.abs(combination(tableau.E3, slopes) / scale) ** 2)
    both = fifth + 0.01 * third
    nothing = both == 0.0
    norm = np.abs(h) * fifth / np.sqrt(np.where(nothing, 1.0, both) * max(scale.size, 1))
    return np.where(nothing, 0.0, norm)


def _interpolant_of_seventh_order(tableau: Any, field: Field, state: State) -> Any:
    """Coefficients of x, x (1 - x), x (1 - x) x, ...; it needs three more evaluations."""
    t, y, h = state.t_before, state.y_before, state.t - state.t_before
    slopes = list(state.slopes)
    for row, c in zip(tableau.A_EXTRA, tableau.C_EXTRA, strict=True):
        slopes.append(field(t + c * h, y + h * combination(row, slopes)))
    change = state.y - y
    first, last = slopes[0], state.slope
    more = [h * combination(row, slopes) for row in tableau.D]
    return np.stack([change, h * first - change, 2 * change - h * (last + first), *more])


def _alternating_series(coefficients: Any, x: Any) -> Any:
    value = np.zeros_like(coefficients[0])
    for i in range(len(coefficients)):
        value = (value + coefficients[-1 - i]) * (x if i % 2 == 0 else 1 - x)
    return value


# -- steps -----------------------------------------------------------------------------------------


def first_step(problem: Problem, t: Any, y: Any, slope: Any) -> Any:
    """The first step's size, by an estimate of the second derivative (Hairer, section II.4)."""
    whole = np.abs(problem.end - t)
    if y.size == 0:
        return np.minimum(whole, problem.max_step)
    scale = problem.atol + np.abs(y) * problem.rtol
    size_y, size_f = rms(y / scale), rms(slope / scale)
    tiny = (size_y < 1e-5) | (size_f < 1e-5)
    guess = np.where(tiny, 1e-6, 0.01 * size_y / np.where(tiny, 1.0, size_f))
    guess = np.minimum(guess, whole)
    step = guess * problem.direction
    turned = problem.field(t + step, y + step * slope)
    nothing = guess == 0.0
    bend = rms((turned - slope) / scale) / np.where(nothing, 1.0, guess)
    most = np.maximum(size_f, bend)
    straight = most <= 1e-15
    by_bend = (0.01 / np.where(straight, 1.0, most)) ** -problem.method.exponent
    size = np.where(straight, np.maximum(1e-6, guess * 1e-3), by_bend)
    size = np.minimum(np.minimum(100 * guess, size), np.minimum(whole, problem.max_step))
    return np.where(nothing, 0.0, size)


def start(problem: Problem, t: Any, y: Any, size: Any) -> State:
    """The initial state; the size of the first step is estimated unless it is given."""
    slope = problem.field(t, y)
    evaluations = 1
    if size is None:
        size = first_step(problem, t, y, slope)
        evaluations += 1
    # two fields with the same value would be one variable, but the steps change them separately
    slopes = np.stack([0.0 * slope] * (problem.method.stages + 1))
    no = np.zeros((), bool)
    return State(t, y, slope, stop_gradient(size), no, no, t, y, slopes, np.asarray(evaluations))


class Trial(NamedTuple):
    """The size and the end of the step to be tried."""

    end: Any
    size: Any  # with its sign
    failed: Any  # the step size has become too small


def trial(problem: Problem, state: State) -> Trial:
    """The next step, not beyond the end of the problem."""
    t = state.t
    here = stop_gradient(t)
    smallest = 10 * np.abs(np.nextafter(here, problem.direction * np.inf) - here)
    failed = state.rejected & ~(state.size >= smallest)  # also if it is NaN
    allowed = np.minimum(np.maximum(state.size, smallest), problem.max_step)
    size = np.where(state.rejected, state.size, allowed)
    t_new = t + size * problem.direction
    t_new = np.where(problem.direction * (t_new - problem.end) > 0, problem.end, t_new)
    return Trial(t_new, t_new - t, failed)


def change_of_size(problem: Problem, state: State, norm: Any, accepted: Any) -> Any:
    """The factor from the size of a step to that of the next one, by the norm of its error."""
    factor = _SAFETY * np.where(norm == 0.0, 1.0, norm) ** problem.method.exponent
    factor = np.fmin(_GREATEST_FACTOR, np.fmax(_LEAST_FACTOR, factor))  # the least for NaN
    factor = np.where(norm == 0.0, _GREATEST_FACTOR, factor)
    return np.where(accepted & state.rejected, np.minimum(factor, 1.0), factor)


def _explicit_step(problem: Problem, state: State) -> State:
    tableau = problem.method.tableau()
    t, y = state.t, state.y
    t_new, h, failed = trial(problem, state)
    slopes = [state.slope]
    for row, c in zip(tableau.A[1:], tableau.C[1:], strict=True):
        slopes.append(problem.field(t + c * h, y + h * combination(row, slopes)))
    y_new = y + h * combination(tableau.B, slopes)
    slope = problem.field(t_new, y_new)
    slopes.append(slope)
    # the step size affects only the error, so it is not differentiated
    scale = problem.atol + np.maximum(np.abs(y), np.abs(y_new)) * problem.rtol
    norm = stop_gradient(problem.method.error(tableau, slopes, h, scale))
    accepted = (norm < 1) & ~failed
    size = stop_gradient(np.abs(h)) * change_of_size(problem, state, norm, accepted)
    step = Step(t_new, y_new, slope, np.stack(slopes), size)
    return moved(state, step, accepted, failed, problem.method.stages)


class Step(NamedTuple):
    """The result of a step."""

    t: Any
    y: Any
    slope: Any
    slopes: Any
    size: Any  # the size of the next step


def moved(state: State, step: Step, accepted: Any, failed: Any, evaluations: Any) -> State:
    """The state after a step, which is the one before if the step was not accepted."""

    def chosen(new: Any, old: Any) -> Any:
        return np.where(accepted, new, old)

    return State(
        chosen(step.t, state.t),
        chosen(step.y, state.y),
        chosen(step.slope, state.slope),
        step.size,
        ~accepted,
        failed,
        chosen(state.t, state.t_before),
        chosen(state.y, state.y_before),
        chosen(step.slopes, state.slopes),
        state.evaluations + evaluations * ~failed,
    )


def before(problem: Problem, state: State, target: Any) -> Any:
    """Whether a time has not been reached, and the last step has not failed."""
    unfinished = problem.direction * (state.t - problem.end) < 0
    return unfinished & (problem.direction * (state.t - target) < 0) & ~state.failed


def interpolated(problem: Problem, state: State, t: Any) -> Any:
    """The solution at a time within the last step; NaN if the time was not reached."""
    y = within_step(problem, state)(t)
    return np.where(state.failed & (problem.direction * (t - state.t) > 0), np.nan, y)


def within_step(problem: Problem, state: State) -> Callable[[Any], Any]:
    """The solution within the last step, as a function of time."""
    method = problem.method
    coefficients = method.interpolant(method.tableau(), problem.field, state)
    h = state.t - state.t_before

    def at(t: Any) -> Any:
        x = (t - state.t_before) / np.where(h == 0.0, 1.0, h)
        return state.y_before + method.value(coefficients, x)

    return at


_EMBEDDED = _embedded_error, _matrix_interpolant, power_series, 0, _explicit_step

METHODS = {
    "RK23": Method(lazy("scipy.integrate:RK23").resolve, *_EMBEDDED),
    "RK45": Method(lazy("scipy.integrate:RK45").resolve, *_EMBEDDED),
    "DOP853": Method(
        lazy("scipy.integrate:DOP853").resolve, _error_of_eighth_order,
        _interpolant_of_seventh_order, _alternating_series, 3, _explicit_step,
    ),
}  # fmt: skip

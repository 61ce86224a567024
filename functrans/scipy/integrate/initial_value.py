"""`solve_ivp` and `odeint`: the solution of an initial value problem at given times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.lazily import lazy
from functrans.numpy.arrays import array, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.ops.indexing.at import at
from functrans.records import NamedTuple
from functrans.scipy.along_a_path import cond, while_loop
from functrans.scipy.define import double
from functrans.scipy.inside import arguments, refuse_options, within_traces
from functrans.scipy.integrate.path import (
    Event,
    Path,
    Solution,
    event_of,
    path_of,
    stacked,
    zeros_of,
)
from functrans.scipy.integrate.radau import RADAU
from functrans.scipy.integrate.runge_kutta import (
    METHODS as EXPLICIT,
)
from functrans.scipy.integrate.runge_kutta import (
    Problem,
    State,
    before,
    interpolated,
    start,
)

_result = lazy("scipy.optimize:OptimizeResult")

_METHODS = {**EXPLICIT, "Radau": RADAU, "BDF": RADAU, "LSODA": RADAU}
_EVENTS = "find the time by functrans.scipy.optimize.brentq on what solve_ivp gives at t_eval=[t]"
_ENDS = "A termination event occurred."
_MESSAGES = {
    True: "The solver successfully reached the end of the integration interval.",
    False: "Required step size is less than spacing between numbers.",
    None: "`success` says whether the solver reached the end of the integration interval.",
}


@within_traces("scipy.integrate:solve_ivp")
def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None,
    dense_output: bool = False, events: Any = None, vectorized: bool = False, args: Any = None, *,
    first_step: Any = None, max_step: Any = np.inf, rtol: Any = 1e-3, atol: Any = 1e-6,
    **options: Any,
) -> Any:  # fmt: skip
    """The solution of ``y' = fun(t, y)`` from ``y0`` at ``t_span[0]`` to ``t_span[1]``.

    The solver is an explicit Runge-Kutta pair, with the steps of `scipy.integrate.solve_ivp`, or
    for stiff problems the implicit Radau method. The steps are differentiated with respect to
    ``y0``, ``args``, ``t_span``, ``t_eval`` and whatever ``fun`` reads; their sizes are treated as
    constants. Under `vmap`, each lane takes its own steps.

    Parameters
    ----------
    fun : callable
        ``fun(t, y, *args)`` returns the derivative of ``y``, in its shape.
    t_span : pair of float
    y0 : array of shape (n,), of floats or complex numbers
    method : {"RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"}
        The last three select the same method, for stiff problems: Radau IIA of order 5, with
        automatic derivatives of ``fun``, to the given tolerances.
    t_eval : array of shape (m,)
        The times of the solution, in the order of ``t_span``. By default they are the ends of the
        steps, whose number must be known: it is under `grad`, and is not under `jit` and `vmap`.
    dense_output : bool
        Whether the solution is also returned as a function of time, ``sol``. Under `jit` and
        `vmap`, each call of ``sol`` solves the problem again.
    events : callable or list of callable, optional
        ``event(t, y, *args)``, with SciPy's attributes ``terminal`` and ``direction``. The times of
        its zeros are differentiated implicitly. Their number must be known, as it is under `grad`.
    vectorized : bool
        Whether ``fun`` takes several states, as columns.
    args : tuple, optional
    first_step, max_step, rtol, atol : float
        As in SciPy; ``atol`` may be an array of shape (n,).

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``t`` of shape (m,), ``y`` of shape (n, m), ``sol``, ``t_events``, ``y_events``,
        ``nfev``, ``status`` and ``success``.
        If the step size becomes too small, ``success`` is False, and ``y`` is NaN from then on.

    Raises
    ------
    UnsupportedNumPyError
        For ``events``, and without ``t_eval``, under `jit` and `vmap`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.integrate import solve_ivp
    >>> def left(rate):
    ...     decay = lambda t, y: -rate * y
    ...     return solve_ivp(decay, (0.0, 2.0), [1.0], t_eval=[2.0], rtol=1e-8, atol=1e-8).y[0, 0]
    >>> left(0.5).round(6), grad(left)(0.5).round(6)            # exp(-2 rate), -2 exp(-2 rate)
    (np.float64(0.367879), np.float64(-0.735759))
    """
    method = method if isinstance(method, str) else getattr(method, "__name__", method)
    if method not in _METHODS:
        raise ValueError(f"`method` must be one of {list(_METHODS)} or OdeSolver class.")
    field = _field(fun, args if args is not None else (), vectorized)
    t0, end = (double(t) for t in t_span)
    y = double(y0)
    if y.ndim != 1:
        raise ValueError(f"`y0` must be 1-dimensional, and has shape {y.shape}")
    if known(np.all(np.isfinite(y))) == np.False_:
        raise ValueError("All components of the initial state `y0` must be finite.")
    if y.dtype.kind == "c" and method in ("Radau", "LSODA"):
        raise ValueError(f"{method} does not support a complex `y0`: choose BDF, or RK45")
    dtype = np.result_type(y.dtype, field(t0, y).dtype)
    _check_steps(first_step, max_step, end - t0, atol, y)
    problem = _problem(field, method, t0, end, rtol, atol, max_step)
    state = start(problem, t0, y.astype(dtype), first_step)
    several = isinstance(events, (list, tuple))
    watched = [] if events is None else list(events) if several else [events]
    watching = [event_of(event, args if args is not None else ()) for event in watched]
    times: Any = None
    if t_eval is not None:
        times = double(t_eval)
        ordered = _ordered(times, t0, end)
    asked = (state.t, state.y, state.slope, state.size, problem.end)
    has_path = all(known(x) is not None for x in asked)
    if not has_path:
        _refuse_unknown(t_eval, events)
    if not has_path or (t_eval is not None and not dense_output and events is None):
        ys, last = _at(problem, state, times)
        made = _Made(times, ordered(ys).T, _anew(problem, state) if dense_output else None, last)
    else:
        path = path_of(problem, state, watching)
        if path.length == 0:
            made = _nowhere(path, times, dense_output)
        else:
            made = _along(problem, path, watching, times, dense_output)
    success = ~made.state.failed
    ended = made.ended
    found = known(success)
    return _result(
        t=made.t,
        y=made.y,
        sol=made.sol,
        t_events=made.t_events if events is not None else None,
        y_events=made.y_events if events is not None else None,
        nfev=made.state.evaluations,
        njev=0,
        nlu=0,
        status=1 if ended else np.where(success, 0, -1) if found is None else int(found) - 1,
        message=_ENDS if ended else _MESSAGES[None if found is None else bool(found)],
        success=success,
    )


class _Made(NamedTuple):
    """The parts of a result of `solve_ivp`."""

    t: Any
    y: Any
    sol: Any
    state: State
    t_events: Any = None
    y_events: Any = None
    ended: bool = False


def _refuse_unknown(t_eval: Any, events: Any) -> None:
    if events is not None:
        refuse("scipy.integrate.solve_ivp(..., events=...), under jit or vmap,", _EVENTS)
    if t_eval is None:
        refuse(
            "scipy.integrate.solve_ivp without t_eval=, under jit or vmap,",
            "the number of steps would be the size of the result: pass t_eval=times",
        )


def _anew(problem: Problem, state: State) -> Callable[[Any], Any]:
    """A dense output that solves the problem again, up to the times that it is called with."""

    def solution(t: Any) -> Any:
        t = inexact(t)
        flat = t.reshape(-1)
        order = np.argsort(flat * problem.direction)
        ys, _ = _at(problem, state, take(flat, order))
        ys = ys[np.argsort(order)]
        return ys[0] if t.ndim == 0 else ys.T

    return solution


def _nowhere(path: Path, times: Any, dense_output: bool) -> _Made:
    """SciPy's result for an interval of length 0, or if the first step fails."""
    t, y = path.start.t, path.start.y
    if times is None:
        times = np.stack([t, t])
    sol = (lambda x: _like_times(y, inexact(x))) if dense_output else None
    return _Made(times, _like_times(y, times), sol, path.end, [], [])


def _like_times(y: Any, t: Any) -> Any:
    return y if t.ndim == 0 else np.stack([y] * t.shape[0], axis=1)


def _along(
    problem: Problem, path: Path, events: list[Event], times: Any, dense_output: bool
) -> _Made:
    """The solution at given times, or at the ends of the steps, with its events."""
    solution = Solution(problem, path)
    found = zeros_of(path, solution, events)
    end = solution.ts[-1] if found.end is None else found.end
    if times is None:
        inner = concatenate([path.start.y[None], path.steps.y[:-1]])
        t = concatenate([solution.ts[:-1], end[None]])
        last = path.steps.y[-1] if found.end is None else solution(end)
        y = concatenate([inner, last[None]]).T
    else:
        way = problem.direction
        reached = known(stop_gradient(times * way <= end * way))
        if found.end is None and not bool(known(path.end.failed)):
            reached = np.ones(times.shape, bool)
        t = times[np.flatnonzero(reached)]
        y = solution(t) if t.shape[0] else np.zeros((path.start.y.shape[0], 0), path.start.y.dtype)
    return _Made(
        t, y, solution if dense_output else None, path.end, list(map(stacked, found.times)),
        list(map(stacked, found.solutions)), found.end is not None,
    )  # fmt: skip


def _field(fun: Callable[..., Any], args: Any, vectorized: bool) -> Callable[[Any, Any], Any]:
    def field(t: Any, y: Any) -> Any:
        return array(fun(t, y[:, None], *args)).ravel() if vectorized else array(fun(t, y, *args))

    def checked(t: Any, y: Any) -> Any:
        slope = field(t, y)
        if slope.shape != y.shape:
            raise ValueError(
                f"the slope that `fun` gives has shape {slope.shape}, and `y` has {y.shape}"
            )
        return slope if slope.dtype.kind in "fc" else slope.astype(np.float64)

    return checked


def _problem(
    field: Any, method: str, t0: Any, end: Any, rtol: Any, atol: Any, max_step: Any
) -> Problem:
    way = stop_gradient(end - t0)
    direction = np.where(way < 0, -1.0, 1.0)
    least = 100 * np.finfo(np.float64).eps  # the smallest tolerance that SciPy uses, too
    return Problem(
        field, _METHODS[method], end, direction,
        np.maximum(stop_gradient(array(rtol)), least), stop_gradient(array(atol)), max_step,
    )  # fmt: skip


def _ordered(times: Any, t0: Any, end: Any) -> Callable[[Any], Any]:
    """Raise if times are known to be outside the interval, or out of order.

    If they are not known, the result replaces the solution at such times by NaN.
    """
    if times.ndim != 1:
        raise ValueError("`t_eval` must be 1-dimensional.")
    plain = [known(x) for x in (times, t0, end)]
    if any(x is None for x in plain):
        return lambda ys: np.where(_misplaced(times, t0, end)[:, None], np.nan, ys)
    ts, first, last = plain
    if np.any(ts < min(first, last)) or np.any(ts > max(first, last)):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    if first != last and np.any(np.diff(ts) * np.where(last < first, -1, 1) <= 0):
        raise ValueError("Values in `t_eval` are not properly sorted.")
    return lambda ys: ys


def _misplaced(times: Any, t0: Any, end: Any) -> Any:
    """Which times are outside the interval, by more than rounding, or before an earlier one."""
    times, t0, end = (stop_gradient(x) for x in (times, t0, end))
    way = np.where(end < t0, -1.0, 1.0)
    since, rounding = way * (times - t0), 1e-14 * (np.abs(t0) + np.abs(end))
    outside = (since < -rounding) | (since > way * (end - t0) + rounding)
    return outside | (since < np.maximum.accumulate(since))


def _check_steps(first_step: Any, max_step: Any, whole: Any, atol: Any, y: Any) -> None:
    """Raise if sizes of steps, or tolerances, are known to be out of range."""

    def holds(test: Callable[..., Any], *operands: Any) -> bool:
        plain = [known(array(x)) for x in operands]
        return all(x is not None for x in plain) and bool(np.any(test(*plain)))

    if holds(lambda most: most <= 0, max_step):
        raise ValueError("`max_step` must be positive.")
    if np.ndim(atol) > 0 and np.shape(atol) != y.shape:
        raise ValueError("`atol` has wrong shape.")
    if holds(lambda tolerance: tolerance < 0, atol):
        raise ValueError("`atol` must be positive.")
    if first_step is None:
        return
    if holds(lambda first: first <= 0, first_step):
        raise ValueError("`first_step` must be positive.")
    if holds(lambda first, whole: first > np.abs(whole), first_step, whole):
        raise ValueError("`first_step` exceeds bounds.")


class _Progress(NamedTuple):
    """The state of the loop over steps and output times."""

    state: State
    used: Any
    count: Any  # the number of output times that have been reached
    y: Any  # the solution at the last of these times


def _at(problem: Problem, state: State, times: Any) -> tuple[Any, State]:
    """The solution at sorted output times, and the state at the end.

    Steps and times are one loop: an iteration tries a step, or interpolates at the next time. With
    two nested loops, reverse mode would need a stack of stacks.
    """
    t0, total = state.t, times.shape[0]

    def tries_a_step(progress: _Progress) -> Any:
        state = progress.state
        following = take(times, np.minimum(progress.count, total - 1))
        t = np.where(progress.count < total, following, problem.end)
        begins = before(problem, state, problem.end) & (state.t == t0)
        return begins | before(problem, state, t)

    def step(progress: _Progress) -> _Progress:
        following = problem.method.attempt(problem, progress.state)
        return progress._replace(state=following, used=progress.used & following.rejected)

    def interpolate(progress: _Progress) -> _Progress:
        state, count = progress.state, progress.count
        y = interpolated(problem, state, take(times, count))
        more = np.where(progress.used, 0, problem.method.extra)
        state = state._replace(evaluations=state.evaluations + more)
        return _Progress(state, np.ones((), bool), count + 1, y)

    def goes_on(pair: Any) -> Any:
        progress, _ = pair
        return (progress.count < total) | before(problem, progress.state, problem.end)

    def either(pair: Any) -> Any:
        progress, ys = pair
        steps = tries_a_step(progress)
        # always write one row in place (the last one if there is nothing to write): a branch that
        # returned the array would copy all rows
        row = np.where(steps, total, progress.count)
        progress = _Progress(*cond(steps, step, interpolate, progress))
        return progress, at(ys)[row].set(progress.y)

    def only_steps(pair: Any) -> Any:
        return step(pair[0]), pair[1]

    ys = array(np.zeros((total + 1, *state.y.shape), state.y.dtype))
    start = _Progress(state, np.zeros((), bool), 0, np.zeros_like(state.y))
    progress, ys = while_loop(goes_on, either if total else only_steps, (start, ys))
    return ys[:total], _Progress(*progress).state


@within_traces("scipy.integrate:odeint")
def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Any = (), Dfun: Any = None,
    col_deriv: bool = False, full_output: bool = False, ml: Any = None, mu: Any = None,
    rtol: Any = None, atol: Any = None, tcrit: Any = None, h0: float = 0.0, hmax: float = 0.0,
    hmin: float = 0.0, ixpr: bool = False, mxstep: int = 0, mxhnil: int = 0, mxordn: int = 12,
    mxords: int = 5, printmessg: bool = False, tfirst: bool = False,
) -> Any:  # fmt: skip
    """The solution of ``y' = func(y, t)`` at the times ``t``, of which the first is that of ``y0``.

    It is computed by the pair of order 8 that `solve_ivp` calls DOP853, to the given tolerances
    (by default those of SciPy, 1.5e-8). SciPy's LSODA changes to implicit steps if a problem is
    stiff; this function takes as many steps as stability requires. For stiff problems, use
    `solve_ivp` with ``method="LSODA"``.
    Parameters of LSODA alone (``Dfun``, ``ml``, ``mxordn``, ...) are accepted and ignored.

    Parameters
    ----------
    func : callable
        ``func(y, t, *args)``, or with ``tfirst`` ``func(t, y, *args)``, returns the derivative.
    y0 : array of shape (n,)
    t : array of shape (m,)
        Times in increasing or decreasing order.
    args : tuple
    rtol, atol : float or array of shape (n,)
    h0, hmax : float
        The sizes of the first step, and of the longest.
    tfirst : bool

    Returns
    -------
    array of shape (m, n)
        NaN from the time at which the step size became too small.

    Raises
    ------
    UnsupportedNumPyError
        For ``full_output`` and ``tcrit``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.integrate import odeint
    >>> def height(g):
    ...     return odeint(lambda y, t: [y[1], -g], [10.0, 0.0], [0.0, 1.0])[-1, 0]
    >>> grad(height)(9.81)
    np.float64(-0.5)
    """
    refuse_options(
        "scipy.integrate.odeint",
        [
            ("full_output", full_output, "leave it out; solve_ivp gives nfev"),
            ("tcrit", tcrit, "solve up to the critical time, and from there on"),
        ],
    )
    args = arguments(args)
    field = _field(func if tfirst else lambda t, y, *args: func(y, t, *args), args, False)
    times, y = double(t), double(y0)
    if y.ndim > 1:
        raise ValueError("Initial condition y0 must be one-dimensional.")
    if y.dtype.kind == "c":
        raise ValueError("`y0` must be real: solve_ivp takes complex states")
    y = y.reshape(-1)
    if times.size == 0:
        return np.zeros((0, y.size))
    default = 1.49012e-8
    problem = _problem(
        field, "DOP853", times[0], times[-1],
        default if rtol is None else rtol, default if atol is None else atol, hmax or np.inf,
    )  # fmt: skip
    y = y.astype(np.result_type(y.dtype, field(times[0], y).dtype))
    plain = known(times)
    if plain is not None and len({*np.sign(np.diff(plain))} - {0.0}) > 1:
        raise ValueError(
            "The values in t must be monotonically increasing or monotonically decreasing; "
            "repeated values are allowed."
        )
    ys, _ = _at(problem, start(problem, times[0], y, h0 or None), times[1:])
    if plain is None:
        ys = np.where(_misplaced(times[1:], times[0], times[-1])[:, None], np.nan, ys)
    return concatenate([y[None], ys])

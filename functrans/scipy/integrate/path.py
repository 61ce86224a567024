"""The steps of an ODE solution: their ends, interpolation between them, and events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import array, inexact, known
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.records import NamedTuple
from functrans.scipy.along_a_path import scan, while_loop
from functrans.scipy.integrate.runge_kutta import Problem, State, before, within_step
from functrans.scipy.optimize.scalar import brentq

_EPS = float(np.finfo(np.float64).eps)


class Event(NamedTuple):
    """A function of time and solution, whose zeros are located."""

    function: Callable[[Any, Any], Any]
    direction: float
    """Positive if only rising zeros count, negative if only falling ones do."""
    most: float
    """The number of zeros after which the solution ends."""


def event_of(function: Callable[..., Any], args: Any) -> Event:
    """An event as `scipy.integrate.solve_ivp` takes it: with ``terminal`` and ``direction``."""
    terminal = getattr(function, "terminal", None)
    most = np.inf if not terminal else float(terminal)
    return Event(
        lambda t, y: inexact(function(t, y, *args)).reshape(()),
        float(getattr(function, "direction", 0)), most,
    )  # fmt: skip


class _Watched(NamedTuple):
    """A state, the values of the events there, and the number of zeros of each so far."""

    state: State
    values: Any
    zeros: Any
    waits: Any  # whether the next step is not accepted yet


class Path(NamedTuple):
    """All accepted steps, stacked along the first axis of each field."""

    start: State
    steps: State
    values: Any
    """The values of the events at the start, and at the end of each step."""
    end: State
    """The state after the last attempt."""

    @property
    def length(self) -> int:
        """The number of steps."""
        return int(self.steps.t.shape[0])


def path_of(problem: Problem, state: State, events: Sequence[Event]) -> Path:
    """The steps up to the end of a problem, or to an event that ends it."""
    directions = np.array([event.direction for event in events])
    most = np.array([event.most for event in events])

    def values_at(state: State) -> Any:
        return np.stack([np.zeros(()), *(e.function(state.t, state.y) for e in events)])[1:]

    def step(watched: _Watched) -> _Watched:
        following = problem.method.attempt(problem, watched.state)
        values = np.where(following.rejected, watched.values, values_at(following))
        happens = crossings(watched.values, values, directions) & ~following.rejected
        return _Watched(
            following, values, watched.zeros + happens, watched.waits & following.rejected
        )

    def unfinished(watched: _Watched) -> Any:
        return before(problem, watched.state, problem.end) & ~np.any(watched.zeros >= most)

    def counted(pair: Any) -> Any:
        watched, count = pair
        following = step(watched)
        return following, count + ~following.state.rejected

    start = _Watched(state, values_at(state), np.zeros(len(events), np.int64), np.ones((), bool))
    _, count = while_loop(lambda pair: unfinished(pair[0]), counted, (start, 0))

    def one(watched: _Watched, _: Any) -> Any:
        """Attempt steps until one is accepted."""
        waiting = watched._replace(waits=np.ones((), bool))
        following = while_loop(lambda w: w.waits & unfinished(w), step, waiting)
        return following, (following.state, following.values)

    last, (steps, values) = scan(one, start, np.arange(int(known(count))))
    last = while_loop(unfinished, step, last)
    return Path(state, steps, concatenate([start.values[None], values]), last.state)


def crossings(before: Any, now: Any, directions: Any) -> Any:
    """The events that have a zero between two values, in the direction that counts."""
    up = (before <= 0) & (now >= 0)
    down = (before >= 0) & (now <= 0)
    return (up & (directions >= 0)) | (down & (directions <= 0))


class Solution:
    """Dense output at traced times, in place of `scipy.integrate.OdeSolution`."""

    def __init__(self, problem: Problem, path: Path) -> None:
        self._problem, self._path = problem, path
        self.ts = concatenate([path.start.t[None], path.steps.t])
        self.t_min, self.t_max = np.min(self.ts), np.max(self.ts)

    def __call__(self, t: Any) -> Any:
        """The solution at a time, of shape (n,), or at m times, of shape (n, m)."""
        t = inexact(t)
        way = stop_gradient(self._problem.direction)
        after = np.searchsorted(stop_gradient(self.ts) * way, stop_gradient(t) * way)
        step = np.clip(after - 1, 0, self._path.length - 1)

        def at(i: Any, t: Any) -> Any:
            return self.within(i)(t)

        return at(step, t) if t.ndim == 0 else vmap(at)(step, t).T

    def within(self, i: Any) -> Callable[[Any], Any]:
        """The solution within one step."""
        state = State(*(take(x, i, axis=0) for x in self._path.steps))
        return within_step(self._problem, state)


class Found(NamedTuple):
    """The zeros of each event, and the time at which an event has ended the solution."""

    times: list[list[Any]]
    solutions: list[list[Any]]
    end: Any


def zeros_of(path: Path, solution: Solution, events: Sequence[Event]) -> Found:
    """The zeros of events within each step, differentiated by the implicit function theorem."""
    found = Found([[] for _ in events], [[] for _ in events], None)
    directions = np.array([event.direction for event in events])
    values = known(stop_gradient(path.values))
    zeros = np.zeros(len(events))
    for i in range(path.length):
        active = np.flatnonzero(crossings(values[i], values[i + 1], directions))
        if active.size == 0:
            continue
        zeros[active] += 1
        within, ends = solution.within(i), (solution.ts[i], solution.ts[i + 1])
        roots = [_zero(events[int(j)], within, *ends) for j in active]
        way = known(stop_gradient(ends[1] - ends[0]))
        order = np.argsort([float(known(stop_gradient(root)) * np.sign(way)) for root in roots])
        for place in order:
            j = int(active[place])
            found.times[j].append(roots[place])
            found.solutions[j].append(within(roots[place]))
            if zeros[j] >= events[j].most:
                return found._replace(end=roots[place])
    return found


def _zero(event: Event, within: Callable[[Any], Any], first: Any, last: Any) -> Any:
    return brentq(lambda t: event.function(t, within(t)), first, last, xtol=4 * _EPS, rtol=4 * _EPS)


def stacked(rows: list[Any]) -> Any:
    """A list of rows as an array, which is of shape (0,) if there are none, as SciPy's."""
    return np.stack([array(row) for row in rows]) if rows else np.zeros(0)

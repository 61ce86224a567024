"""History of compilations: when a function was traced, and how each call differed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from sys import modules
from time import perf_counter
from typing import Any

from functrans import config
from functrans.api.arguments import aval_of_leaf, name_of, positional_names
from functrans.api.outside import Outside
from functrans.api.paths import Made, Path
from functrans.api.state import Snapshot
from functrans.api.static import Given, Static
from functrans.errors import RecompilationWarning
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.records import NamedTuple
from functrans.spans import span
from functrans.trace.source import is_library, warn_user
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

_warn_of_unused = lazy("functrans.api.host:warn_of_unused")

MOST_EVENTS = 100
"""The number of traces that are recorded for a function."""

ADVISED = 10
"""The number of traces after which a warning explains how to avoid them."""


class Compilation(NamedTuple):
    """One trace of a function.

    Parameters
    ----------
    reasons : tuple of str
        How the call differed from the most similar earlier one; empty for the first.
    arguments : dict of str to str
        The types of the arguments' leaves, by name, and the values of static arguments.
    traced : float
        The seconds that tracing took.
    made : Made
        How the program was compiled or loaded, once it has been run.
    """

    reasons: tuple[str, ...]
    arguments: Mapping[str, str]
    traced: float
    made: Made


class _Event(NamedTuple):
    """The signature of a traced call, without the arrays themselves."""

    structure: Structure
    static: Static
    types: tuple[Aval, ...]
    captured: Mapping[int, Aval]  # by the path to each array that is an input
    outcomes: Any
    state: Snapshot | None
    seconds: float
    made: Made


class History:
    """The compilations of one function."""

    def __init__(
        self,
        function: Callable[..., Any],
        outside: Outside,  # its closed-over state
    ) -> None:
        self._function = function
        self._outside = outside
        self._events: deque[_Event] = deque(maxlen=MOST_EVENTS)
        self._count = 0

    def traced(
        self, stage: Callable[..., tuple[Path, Any]], given: Given, outcomes: Any, number: int
    ) -> Path:
        """Trace a call, and record the trace."""
        start = perf_counter()
        with span("trace", name_of(self._function)):
            path, _ = stage(given, outcomes, number)
        seconds = perf_counter() - start
        avals = tuple(map(aval_of_leaf, given.leaves))
        count = given.structure.num_leaves
        captured = dict(zip(self._outside.paths_of_inputs(), avals[count:], strict=False))
        state = self._outside.snapshot()
        self._events.append(
            _Event(
                given.structure,
                given.static,
                avals[:count],
                captured,
                outcomes,
                state,
                seconds,
                path.made,
            )
        )
        if "functrans.api.host" in modules:
            _warn_of_unused(path.graph)
        self._count += 1
        if config.log_compiles:
            print(f"functrans: {name_of(self._function)}: {said(self.compilations()[-1])}")
        if self._count == ADVISED and not self._is_ours():
            self._advise(self.compilations()[-1].reasons)
        return path

    def _is_ours(self) -> bool:
        """Whether it is a function of the library, which a user cannot change."""
        code = getattr(self._function, "__code__", None)
        return code is not None and is_library(code.co_filename)

    def compilations(self) -> list[Compilation]:
        """The recorded compilations, the oldest first."""
        events = list(self._events)
        arguments = [dict(_named(self._function, event)) for event in events]
        found = []
        for i, event in enumerate(events):
            candidates = [
                tuple(self._differences(events[j], event, arguments[j], arguments[i]))
                for j in reversed(range(i))
            ]
            nearest = min(candidates, key=len, default=None)
            reasons = () if nearest is None else nearest or ("it was no longer in memory",)
            found.append(Compilation(reasons, arguments[i], event.seconds, event.made))
        return found

    def _differences(
        self, one: _Event, other: _Event, before: Mapping[str, str], now: Mapping[str, str]
    ) -> Iterator[str]:
        """The differences between a call and an earlier one."""
        for name in {**before, **now}:
            if name not in before:
                yield f"{name} is given as well"
            elif name not in now:
                yield f"{name} is no longer given"
            elif before[name] != now[name]:
                yield f"{name}: {before[name]} -> {now[name]}"
        if before.keys() == now.keys() and one.structure != other.structure:
            yield f"built otherwise: {difference(one.structure, other.structure)}"
        if one.structure == other.structure and one.static.key[2:] != other.static.key[2:]:
            yield "a dict has its keys in another order"
        if one.state and other.state and one.state.number != other.state.number:
            yield f"what it reads from outside: {self._outside.difference(one.state, other.state)}"
        for path, kind in other.captured.items():
            if (was := one.captured.get(path, kind)) != kind:
                yield f"what it reads from outside: {self._outside.name_at(path)}: {was} -> {kind}"
        if one.outcomes != other.outcomes:
            yield "another way through Python's branches"

    def _advise(self, reasons: tuple[str, ...]) -> None:
        advice = next((how for kind, how in _ADVICE.items() if reasons and kind in reasons[0]), "")
        warn_user(
            f"{name_of(self._function)} has been traced and compiled {ADVISED} times; the last "
            f"reason: {'; '.join(reasons) or 'its first call'}. {advice or _PAD} "
            "functrans.debug.why_compiled(f) shows all of them.",
            RecompilationWarning,
        )


_PAD = "Each type and shape of arguments is compiled: pad arrays to a few shapes."

_ADVICE = {
    "outside": "Pass what changes as an argument.",
    "static": "Each value of a static argument is compiled: pass numbers as arrays, not static.",
    "branches": "Each way through Python's branches is compiled: write functrans.lax.cond.",
    "given": "Each structure of arguments is compiled: give the same ones.",
    "order": "Each order of a dict's keys is compiled: fill dicts in the same order.",
    "built": "Each structure of arguments is compiled: build them alike.",
}


def _named(function: Callable[..., Any], event: _Event) -> Iterator[tuple[str, str]]:
    """The leaves and static arguments of a call, by names as a user would write them."""
    names = positional_names(function)

    def name_at(position: int) -> str:
        return names[position] if position < len(names) else f"argument {position}"

    args, kwargs = tree.unflatten(event.structure, event.types)
    given = {name_at(event.static.position(i)): arg for i, arg in enumerate(args)}
    for name, arg in {**given, **kwargs}.items():
        for path, aval in tree.flatten_with_path(arg)[0]:
            yield f"{name}{path}", str(aval)
    static = {name_at(i): value for i, value in event.static.positional}
    for name, value in {**static, **dict(event.static.keywords)}.items():
        yield f"{name} (static)", repr(value)


def said(one: Compilation) -> str:
    arguments = ", ".join(f"{name}: {kind}" for name, kind in one.arguments.items())
    reason = "; ".join(one.reasons) or f"first call with {arguments or 'no arguments'}"
    return f"{reason}; traced in {1e3 * one.traced:.1f} ms"


class CompilationReport:
    """The traces of a function, and the reason for each; prints as a list.

    Attributes
    ----------
    compilations : list of Compilation
    """

    def __init__(self, name: str, compilations: list[Compilation]) -> None:
        self._name = name
        self.compilations = compilations

    def __repr__(self) -> str:
        count = len(self.compilations)
        lines = [f"{self._name} has been traced {count} time{'' if count == 1 else 's'}"]
        for i, one in enumerate(self.compilations, 1):
            lines.append(f"  {i}. {said(one)}, {one.made}")
        return "\n".join(lines)

"""Closed-over state: what a function reads besides its arguments, checked before each call.

A compiled program contains the values that were read while the function was traced. So a program is
valid for one *state* of all objects that the function can reach (`functrans.api.reach`), identified
by a signature. Large arrays, and arrays that have changed once, are not part of the state: they are
inputs of the program, like arguments. Before a call, only the identities of the held objects, and
the contents of arrays that are constants, are compared.
"""

from __future__ import annotations

import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from functrans.api.arguments import name_of
from functrans.api.hidden_state import warn_of_hidden_state
from functrans.api.paths import Path
from functrans.api.places import Ways
from functrans.api.reach import Walk
from functrans.api.state import Look, Snapshot, State, paths_of_inputs
from functrans.api.static import NO_STATIC, Static
from functrans.caches import Table
from functrans.locks import library_threads, lock, without_collection

_MOST_STATES = 64
_MOST_LATEST = 8

Traced = TypeVar("Traced")


class Moved(Exception):
    """The state of a function has changed just before it was traced."""


_MOST_MOVES = 8
"""The most times that a call determines the state anew, if it changes all the time. Then the
function is traced for that call alone, in the state that was found last."""


_MOST_TRACES = 3
"""How often a function is traced again if its state has changed during a trace, and there are other
threads."""


class Outside:
    """The closed-over state of a function: what it reads besides its arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        # returns the instance whose method the function is, or None if it was deleted
        instance: Look | None = None,
    ) -> None:
        self._function = function
        self._instance = instance
        self._ways = Ways()
        self._numbers: Table[tuple[Any, ...], int] = Table(_MOST_STATES)
        self._count = itertools.count()
        self._changed: set[int] = set()
        self._compared: set[int] = set()
        self._known: tuple[frozenset[str], bool, bool, frozenset[int]] = (
            frozenset(), False, False, frozenset()
        )  # fmt: skip

        # by the ids of what the calls have given; a state keeps these alive
        self._latest_with: Table[tuple[int, ...], State] = Table(_MOST_LATEST)
        self._latest: State | None = None
        self._moves = 0
        self._has_looked = False
        self._lock = lock()

    @property
    def watches(self) -> bool:
        """Whether there is anything to check before a call."""
        return self._latest is None or self._latest.watches

    def state(self, static: Static = NO_STATIC) -> tuple[State, list[Any]]:
        """The current state, and the arrays in it that are inputs.

        What a call gives that is not traced may be reached, too: its static arguments, and the
        classes and static data of containers.
        """
        latest = self._latest_for(static)
        if latest is not None:
            values = latest.values_again()
            if values is not None:
                return latest, values
        return self.look(static)

    def _latest_for(self, static: Static) -> State | None:
        latest = self._latest
        given = static.given
        if latest is None or (not given and not latest.static.given):
            return latest
        return self._latest_with.get(tuple(map(id, given)))

    def traced(
        self, number: int, static: Static, trace: Callable[[State], tuple[Path, Traced]]
    ) -> tuple[Path, Traced]:
        """Trace a path in the state of a given number.

        Raises `Moved` if another state is current.
        """
        state, is_settled = self._fresh(number, static)
        others = _has_other_threads()
        path, more = trace(state)
        others = others or _has_other_threads()
        path.states = self._states(state, static, path, trace, others) if is_settled else ()
        return path, more

    def _fresh(self, number: int, static: Static) -> tuple[State, bool]:
        """The state of a number, and whether it is certainly current."""
        state = self._latest_for(static)
        moves = self._moves
        if state is None or not state.is_fresh or (moves < _MOST_MOVES and state.values() is None):
            state, _ = self.look(static)
        if state.number != number:
            self._moves += 1
            raise Moved
        is_settled = state.values() is not None
        self._moves = 0 if is_settled else moves
        return state, is_settled

    def _states(
        self,
        before: State,
        static: Static,
        path: Path,
        trace: Callable[[State], tuple[Path, Traced]],
        others: bool,
    ) -> tuple[int, ...]:
        """The states for which a path, traced in one state, is valid.

        If the state has changed during tracing, either the function has changed it itself, by a
        counter or a cache, and the program is valid for both states. Or ``others``, other threads,
        may have changed it before or after the function has read it. Then the program is valid for
        neither, and the function is traced again in the next state. If that changes, too, each time
        and without effect on the program, the function has done it.

        If the function has kept a traced value, such as new parameters in an attribute, the next
        call traces it again, and raises an error if it uses that value.
        """
        if before.values() is not None:
            return (before.number,)
        for _ in range(_MOST_TRACES):
            after, _ = self.look(static)
            try:
                keeps_traced = after.any_traced and not before.any_traced
                if keeps_traced or paths_of_inputs(before) != paths_of_inputs(after):
                    return () if others else (before.number,)
                if not others:
                    return before.number, after.number
                if not trace(after)[0].is_like(path):
                    return ()
                if after.values() is not None:
                    return (after.number,)
            except Exception:  # of the user's function: the first trace is valid for this call
                return ()
            finally:
                after.release()
        last, _ = self.look(static)
        last.release()
        return after.number, *(
            [last.number] if paths_of_inputs(last) == paths_of_inputs(after) else ()
        )

    def report(self, name: str) -> OutsideReport:
        """The report that `Jitted.outside` returns."""
        state, _ = self.state(NO_STATIC if self._latest is None else self._latest.static)
        state.release()
        return OutsideReport(name, state, self._ways)

    def root(self) -> Any:
        """The function, bound to its instance if it is a method."""
        if self._instance is None:
            return self._function
        function: Any = self._function.__wrapped__  # type: ignore[attr-defined]
        return types.MethodType(function, self._instance())

    def snapshot(self) -> Snapshot | None:
        """A snapshot of the state that was determined last."""
        return None if self._latest is None else self._latest.snapshot

    def difference(self, before: Snapshot, now: Snapshot) -> str:
        """The difference between a state and a later one, in words."""
        return before.difference(now, self._ways)

    def paths_of_inputs(self) -> list[int]:
        """The paths to the captured arrays that are inputs in the state that was found last."""
        return [] if self._latest is None else paths_of_inputs(self._latest)

    def name_at(self, path: int) -> str:
        """The name in messages of what is reached by a path."""
        return self._ways.text(path)

    def label(self, i: int) -> str:
        """The name in messages of a captured array that is an input."""
        state = self._latest
        if state is None or i >= len(state.slots):
            return "an array of an enclosing function"
        return f"{self._ways.text(state.slots[i].path)}, an array of an enclosing function"

    def look(self, static: Static = NO_STATIC) -> tuple[State, list[Any]]:
        """As `state`, by a walk over all reachable objects."""
        with self._lock, without_collection():
            walk = self._walk(static)
            first, self._has_looked = not self._has_looked, True
            before = self._latest_for(static) or self._latest
            state = State(walk, static, before, self._changed, self._compared, self.number_of)
            self._latest = state
            self._latest_with.remember(tuple(map(id, static.given)), state)
        if first:
            warn_of_hidden_state(walk, name_of(self._function))
        values = state.values()
        return state, state.first if values is None else values

    def compared(self, paths: set[int]) -> AbstractContextManager[None]:
        """Turn input arrays into compared constants, since the function does not accept tracers.

        If it fails with constants, too, that was not the reason, and they become inputs again.
        """
        return self._extended(self._compared, paths)

    def constants(self, state: State) -> set[int]:
        """The paths to the arrays that are constants and may become inputs."""
        return state.copies.keys() - self._changed - self._compared

    def lifted(self, paths: set[int]) -> AbstractContextManager[None]:
        """Turn constants into input arrays, since plain arrays do not accept tracers.

        If it fails with inputs, too, that was not the reason, and they become constants again.
        """
        return self._extended(self._changed, paths)

    @contextmanager
    def _extended(self, known: set[int], paths: set[int]) -> Iterator[None]:
        """Add paths to a set, and take them out again if an error occurs."""
        known |= paths
        self._forget()
        try:
            yield
        except BaseException:
            known -= paths
            self._forget()
            raise

    def _forget(self) -> None:
        self._latest = None
        self._latest_with.clear()

    def _walk(self, static: Static = NO_STATIC) -> Walk:
        root = self.root()
        while True:
            walk = Walk(root, static.values, static.objects, self._ways, *self._known)
            made = frozenset({*walk.made, -1} if walk.any_class else walk.made)
            known = frozenset(walk.names), walk.any_attribute, walk.any_global, made
            if known == self._known:
                return walk
            self._known = known

    def number_of(self, signature: tuple[Any, ...]) -> int:
        """The number of a state, by which its programs are found."""
        number = self._numbers.get(signature)
        if number is None:
            number = next(self._count)
            self._numbers.remember(signature, number)
        return number


def _has_other_threads() -> bool:
    """Whether there are other threads that may change the objects that a function reads.

    Python's list of threads also contains foreign threads, if they have ever called
    `threading.current_thread`, even after they have ended. The thread with which tqdm redraws bars
    is ignored: it changes nothing else.
    """
    if threading.active_count() == 1:
        return False
    # not the frames themselves, which would keep their locals alive
    running = set(sys._current_frames())
    ours = library_threads | {threading.get_ident()}
    return any(
        thread.ident not in ours
        and type(thread).__module__ != "tqdm._monitor"
        and (thread.ident in running or not isinstance(thread, threading._DummyThread))
        for thread in threading.enumerate()
    )


class OutsideReport:
    """The values that a function reads besides its arguments; prints as a list, largest first.

    Attributes
    ----------
    by_reference : dict
        The bytes of each array that is an input of the program, by its path.
    compared : dict
        The bytes of each array that is a constant, and compared with a copy before each call.
    complete : bool
        Whether all reachable objects have been visited.
    """

    def __init__(self, name: str, state: State, ways: Ways) -> None:
        self._name = name
        self.complete = state.complete
        self.by_reference, self.compared = (
            {ways.text(path): size for path, size in sorted(found.items(), key=lambda x: -x[1])}
            for found in (state.inputs, state.constants)
        )

    def __repr__(self) -> str:
        lines = [f"{self._name} reads besides its arguments"]
        for title, found in (
            ("by reference, as if they were arguments:", self.by_reference),
            ("compared with copies before each call:", self.compared),
        ):
            if found:
                lines += [f"  {title}", *(f"    {n}  {_bytes(size)}" for n, size in found.items())]
        if len(lines) == 1:
            lines[0] += " no arrays"
        if not self.complete:
            lines.append("  and more objects than are looked at")
        return "\n".join(lines)


def _bytes(size: int) -> str:
    return f"{size} bytes" if size < 10_000 else f"{size / 1e6:.2f} MB"

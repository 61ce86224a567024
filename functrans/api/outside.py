"""Closed-over state: what a function reads besides its arguments, checked before each call.

A compiled function holds what it read while it was traced. So each program is for one *state* of
what the function reaches (`functrans.api.reach`), which is its signature. Large arrays, and those
that have changed once, are no part of it: they are inputs of the program, like arguments. Between
calls nothing is compared but the identity of what is held, and the arrays that are constants.
"""

from __future__ import annotations

import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from functrans.api.arguments import name_of
from functrans.api.kinds import is_plain
from functrans.api.paths import Path
from functrans.api.places import Ways
from functrans.api.reach import Walk
from functrans.api.state import Look, Snapshot, State, paths_of_inputs
from functrans.api.unseen import warn_of_unseen
from functrans.caches import Table
from functrans.locks import library_threads, lock

_MOST_STATES = 256

Traced = TypeVar("Traced")


class Moved(Exception):
    """What a function reads has changed while it was about to be traced."""


_MOST_MOVES = 8
"""So many times a call looks again, if something changes all the time: then it is traced for that
call alone, as things were when they were looked at last."""


class Outside:
    """The closed-over state of a function: what it reads besides its arguments.

    Parameters
    ----------
    function : callable
    instance : callable, optional
        Gives the instance whose method the function is, if it is still there.
    """

    def __init__(self, function: Callable[..., Any], instance: Look | None = None) -> None:
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

        self._static: Table[int, Any] = Table(64)
        self._latest: State | None = None
        self._moves = 0
        self._has_looked = False
        self._lock = lock()

    @property
    def watches(self) -> bool:
        """Whether there is anything to be looked at before a call."""
        return self._latest is None or self._latest.watches

    def state(self) -> tuple[State, list[Any]]:
        """The state that things are in now, and the arrays in it that are inputs."""
        latest = self._latest
        if latest is not None:
            values = latest.values()
            if values is not None:
                return latest, values
        return self.look()

    def traced(
        self, number: int, trace: Callable[[State], tuple[Path, Traced]]
    ) -> tuple[Path, Traced]:
        """The path that is traced in the state of a number, and what comes with it.

        Raises
        ------
        Moved
            If things are in another state.
        """
        state, is_settled = self._fresh(number)
        others = _are_others()
        path, more = trace(state)
        others = others or _are_others()
        path.states = self._states(state, path, trace, others) if is_settled else ()
        return path, more

    def _fresh(self, number: int) -> tuple[State, bool]:
        """The state of a number, and whether it is that for certain."""
        state = self._latest
        moves = self._moves
        if state is None or not state.is_fresh or (moves < _MOST_MOVES and state.values() is None):
            state, _ = self.look()
        if state.number != number:
            self._moves += 1
            raise Moved
        is_settled = state.values() is not None
        self._moves = 0 if is_settled else moves
        return state, is_settled

    def _states(
        self,
        before: State,
        path: Path,
        trace: Callable[[State], tuple[Path, Traced]],
        others: bool,
    ) -> tuple[int, ...]:
        """The states that a path holds for which was traced in one.

        If things have moved meanwhile, that was the function itself: what it counts, or keeps of
        what it has computed, makes no other program of it. Or it was one of ``others``, threads of
        which nobody knows what they did before something was read, and what after. Then it is
        traced once more, in the next state; for the one before, nothing is known.
        """
        if before.values() is not None:
            return (before.number,)
        after, _ = self.look()
        try:
            if paths_of_inputs(before) != paths_of_inputs(after):
                return () if others else (before.number,)
            if not others:
                return before.number, after.number
            if not trace(after)[0].is_like(path):
                return ()
        except Exception:  # of the user's function: the first trace is good for this call
            return ()
        finally:
            after.release()
        last, _ = self.look()
        last.release()
        return after.number, *(
            [last.number] if paths_of_inputs(last) == paths_of_inputs(after) else ()
        )

    def report(self, name: str) -> OutsideReport:
        """What `Jitted.outside` gives."""
        state, _ = self.state()
        state.release()
        return OutsideReport(name, state, self._ways)

    def root(self) -> Any:
        """The function, bound to its instance if it is a method."""
        if self._instance is None:
            return self._function
        function: Any = self._function.__wrapped__  # type: ignore[attr-defined]
        return types.MethodType(function, self._instance())

    def snapshot(self) -> Snapshot | None:
        """The state that was looked at last, as it was."""
        return None if self._latest is None else self._latest.snapshot

    def difference(self, before: Snapshot, now: Snapshot) -> str:
        """What had changed from one state to a later one."""
        return before.difference(now, self._ways)

    def label(self, i: int) -> str:
        """What messages call an array that is an input."""
        state = self._latest
        if state is None or i >= len(state.slots):
            return "an array of an enclosing function"
        return f"{self._ways.text(state.slots[i].path)}, an array of an enclosing function"

    def look(self) -> tuple[State, list[Any]]:
        """As `state`, by a walk over everything."""
        with self._lock:
            walk = self._walk()
            first, self._has_looked = not self._has_looked, True
            state = State(walk, self._latest, self._changed, self._compared, self.number_of)
            self._latest = state
        if first:
            warn_of_unseen(walk, name_of(self._function))
        values = state.values()
        return state, state.first if values is None else values

    def add(self, value: Any) -> None:
        """Let a static argument be among what the function reaches."""
        if id(value) not in self._static and not is_plain(value):
            self._static.remember(id(value), value)
            self._latest = None

    @contextmanager
    def compared(self, paths: set[int]) -> Iterator[None]:
        """Compare arrays that were inputs, which something in the function does not take.

        If it fails with them, too, that was not the reason.
        """
        self._compared |= paths
        self._latest = None
        try:
            yield
        except BaseException:
            self._compared -= paths
            self._latest = None
            raise

    def _walk(self) -> Walk:
        roots = [self.root(), *self._static.values()]
        while True:
            walk = Walk(roots, self._ways, *self._known)
            made = frozenset({*walk.made, -1} if walk.any_class else walk.made)
            known = frozenset(walk.names), walk.any_attribute, walk.any_global, made
            if known == self._known:
                return walk
            self._known = known

    def number_of(self, signature: tuple[Any, ...]) -> int:
        """The number of a state, by which programs are for it."""
        number = self._numbers.get(signature)
        if number is None:
            number = next(self._count)
            self._numbers.remember(signature, number)
        return number


def _are_others() -> bool:
    """Whether there are other threads that may change what a function reads.

    Python's list of threads also has those that it has not started, if they have ever asked who
    they are, and keeps them when they have ended. The thread by which tqdm redraws its bars, from
    the first bar to the end of the process, changes nothing but bars.
    """
    if threading.active_count() == 1:
        return False
    # not the frames themselves: who holds them keeps alive what is computed in them
    running = set(sys._current_frames())
    ours = library_threads | {threading.get_ident()}
    return any(
        thread.ident not in ours
        and type(thread).__module__ != "tqdm._monitor"
        and (thread.ident in running or not isinstance(thread, threading._DummyThread))
        for thread in threading.enumerate()
    )


class OutsideReport:
    """What a function reads besides its arguments; prints as a list, the largest first.

    Attributes
    ----------
    by_reference : dict
        The bytes of each array that is an input of the program, by the way to it.
    compared : dict
        The same of arrays that are constants: before each call they are compared with copies.
    complete : bool
        Whether all that can be reached has been looked at.
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

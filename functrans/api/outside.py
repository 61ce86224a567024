"""Closed-over state: what a function reads besides its arguments, before each call of its program.

A compiled function holds what it read while it was traced. So each program is for one *state* of
what the function reaches (`functrans.api.reach`), which is its signature. Large arrays, and those
that have changed once, are no part of it: they are inputs of the program, like arguments. Between
calls nothing is compared but the identity of what is held, and the arrays that are constants.
"""

from __future__ import annotations

import itertools
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from functrans.api.arguments import name_of
from functrans.api.constants import SMALL, Copy, Same
from functrans.api.flat import Flat
from functrans.api.kinds import held, is_plain
from functrans.api.paths import Path
from functrans.api.places import Place, Ways
from functrans.api.presented import Presented, fixed
from functrans.api.reach import Walk
from functrans.api.unseen import warn_of_unseen
from functrans.caches import Table
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import current
from functrans.ir.types import may_change
from functrans.locks import lock
from functrans.run.call import guards
from functrans.run.call.guards import Guards, Instruction
from functrans.trace.dependence import inputs_of
from functrans.trace.trace import Trace

MOST_ENTRIES = 1024
"""For so many types of arguments, and values of static ones, a function remembers its programs.
What came first goes first: a static value that changes at every call must not fill the memory."""

_MOST_STATES = 256
_LIFTED = frozenset("?bhilqBHILQefdFD")

Look = Callable[[], Any]

Traced = TypeVar("Traced")


class Moved(Exception):
    """What a function reads has changed while it was about to be traced."""


_MOST_MOVES = 8
"""So many times a call looks again, if something changes all the time: then it is traced for that
call alone, as things were when they were looked at last."""


class Unpresentable(Exception):
    """A function does not take traced values in the place of arrays that it closes over.

    ``paths`` are those of the arrays.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.paths = {place.path for place in places}


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
        others = threading.active_count() > 1
        path, more = trace(state)
        others = others or threading.active_count() > 1
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
            if _inputs(before) != _inputs(after):
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
        return after.number, *([last.number] if _inputs(last) == _inputs(after) else ())

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
            state = State(walk, self._latest, self)
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


class Closed:
    """A function of its arguments and of arrays that it closes over; ``result`` is as of `Flat`.

    Raises
    ------
    Unpresentable
        If it does not take what it is given in the place of an array.
    """

    def __init__(
        self, flat_of: Callable[[Any], Flat], walk: Walk, slots: Sequence[Place], count: int
    ) -> None:
        self._flat_of = flat_of
        self._walk = walk
        self._slots = list(slots)
        self._count = count

    def __call__(self, *tracers: Any) -> list[Any]:
        if not self._slots:
            return self._called(self._walk.root, tracers)
        instead = tracers[self._count :]
        try:
            presented = Presented(self._walk, self._slots, instead)
            outs = self._called(presented.of(self._walk.root), tracers[: self._count])
        except Exception as error:
            raise Unpresentable(self._asked_for(instead)) from error
        if not presented.unchanged():
            raise Unpresentable(self._slots)
        return outs

    def _asked_for(self, instead: Sequence[Any]) -> Sequence[Place]:
        """The arrays behind the value that Python was refused.

        Where that was not the reason, those that may say which elements or how many; else all.
        """
        trace = current.get()
        found: list[Place] = []
        if isinstance(trace, Trace) and trace.asked is not None:
            inputs = inputs_of(trace.asked, trace) or set()
            pairs = zip(self._slots, instead, strict=True)
            found = [place for place, tracer in pairs if tracer._variable in inputs]
        return found or [x for x in self._slots if x.array.dtype.kind in "biu"] or self._slots

    def _called(self, function: Any, tracers: Sequence[Any]) -> list[Any]:
        flat = self._flat_of(function)
        outs = flat(*tracers)
        self.result = flat.result
        return outs


class State:
    """A state: all that a function reaches at one time.

    Attributes
    ----------
    number : int
        The same for all states in which tracing gives the same program.
    slots : list of Place
        Where the arrays are that are inputs.
    entries : Table
        What native code knows calls in this state by, for each path through the function.
    inputs, constants : dict
        The bytes of each array that is an input, and of those that are compared, by its path.
    """

    def __init__(self, walk: Walk, before: State | None, outside: Outside) -> None:
        self.complete = walk.complete
        self.entries: Table[Path, Any] = Table(MOST_ENTRIES)
        self._gone = walk.gone
        self._holders = walk.holders
        stays = fixed(walk)
        self.slots: list[Place] = []
        self.copies: dict[int, Copy] = {}
        self._constants: list[tuple[Look, Copy]] = []
        earlier = before.copies if before is not None else {}
        for place in walk.places:
            array, path = place.array, place.path
            eligible = _is_lifted(array) and place.presentable and place.owner not in stays
            if eligible and path in earlier and not earlier[path].same(array):
                outside._changed.add(path)
            large = isinstance(array, OnDevice) or array.nbytes > SMALL if eligible else False
            if eligible and path not in outside._compared and (large or path in outside._changed):
                walk.signature[place.line] = ("input", path)
                if place.holder >= 0:
                    self._holders[place.holder].free(place.position)
                self.slots.append(place)
            elif isinstance(array, OnDevice) or not may_change(array):
                walk.signature[place.line] = Same(array)
            else:
                known = earlier.get(path)
                if known is None or not known.same(array):
                    known = Copy(array)
                self.copies[path] = known
                walk.signature[place.line] = known.key
                self._constants.append((held(array, walk.gone.append), known))
        self.slots.sort(key=lambda place: (place.holder, place.position))
        for holder in self._holders:
            holder.slots.sort()
        self.inputs = {place.path: int(place.array.nbytes) for place in self.slots}
        self.constants = {path: copy.nbytes for path, copy in self.copies.items()}
        self.first = [place.array for place in self.slots]
        self._fixed = [
            held(place.array, walk.gone.append) for place in self.slots if place.holder < 0
        ]
        self._walk: Walk | None = walk
        self.number = outside.number_of(tuple(walk.signature))
        self.watches = bool(self._holders or self.slots or self._constants)

    def values(self) -> list[Any] | None:
        """The arrays that are inputs, as they are now; None if anything else is not as it was."""
        if self._gone:
            return None
        values = [get() for get in self._fixed]
        for holder in self._holders:
            inputs = holder.inputs()
            if inputs is None or not all(map(_is_lifted, inputs)):
                return None
            values += inputs
        for get, copy in self._constants:
            if not copy.same(get()):
                return None
        return values

    def guards(self) -> Guards | None:
        """What native code looks at to know that things are in this state; None if it cannot.

        What Python has to look at comes first: after that, no more Python runs.
        """
        if self._gone:
            return None
        asked: list[Callable[[], bool]] = []
        looked: list[Instruction] = [(guards.LIST, id(self._gone), 0)]
        kept: list[Any] = [self._gone, self._holders]
        for get, copy in self._constants:
            constant = copy.guard(get())
            if constant is None:
                asked.append(partial(_is_copy, get, copy))
            else:
                looked.append(constant[0])
                kept.append(constant[1])
        looked += [(guards.ITSELF, id(get()), guards.INPUT) for get in self._fixed]
        for holder in self._holders:
            found = list(holder.guard())
            known = [each for each in found if each is not None]
            if len(known) == len(found):
                looked += known
            elif holder.slots:
                return None
            else:
                asked.append(holder.is_same)
        asking = [(guards.ASK, id(each), 0) for each in asked]
        return guards.assembled([*asking, *looked], [*kept, asked])

    @property
    def is_fresh(self) -> bool:
        """Whether the function can be traced in this state."""
        return self._walk is not None

    def closed(self, flat_of: Callable[[Any], Flat], count: int) -> Closed:
        """The function as one of ``count`` leaves of arguments, and of the arrays behind them."""
        assert self._walk is not None
        return Closed(flat_of, self._walk, self.slots, count)

    def release(self) -> None:
        """Keep nothing alive any more."""
        self._walk = None
        self.first = []
        self.slots = [place._replace(array=None) for place in self.slots]


def _inputs(state: State) -> list[int]:
    return [place.path for place in state.slots]


def _is_copy(get: Look, copy: Copy) -> bool:
    return copy.same(get())


def _is_lifted(array: Any) -> bool:
    """Whether an array may be an input of a program."""
    return (type(array) is np.ndarray and array.dtype.char in _LIFTED) or isinstance(
        array, OnDevice
    )

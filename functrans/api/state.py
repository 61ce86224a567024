"""Closed-over states of a function, and the function with the captured arrays as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from struct import unpack
from typing import Any

import numpy as np

from functrans.api.closure_copies import Copies, fixed
from functrans.api.constants import SMALL, Copy
from functrans.api.flat import Flat
from functrans.api.kinds import Identity, held
from functrans.api.originals import copied
from functrans.api.paths import Path
from functrans.api.places import Place, Ways
from functrans.api.reach import Walk
from functrans.api.static import Present, Static
from functrans.caches import Table
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import current
from functrans.ir.types import may_change
from functrans.records import NamedTuple
from functrans.run.call import agreement, guards
from functrans.run.call.guards import Guards, Instruction
from functrans.trace.dependence import inputs_of
from functrans.trace.trace import Trace

MOST_ENTRIES = 1024
"""The most programs that a function keeps, by argument types and static values. The oldest are
dropped first: a static value that changes at every call must not fill the memory."""

_ASKED = 4
"""From this call on, native code compares the state: it is loaded for calls that are repeated."""

_LIFTED = frozenset("?bhilqBHILQefdFD")

Look = Callable[[], Any]
FlatOf = Callable[[Any, Present], Flat]
"""Takes the function, or a copy of it, and what gives a copy of any other object that has one."""


class Unpresentable(Exception):
    """A function does not accept tracers in place of arrays that it closes over.

    ``paths`` are the paths to these arrays.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.paths = {place.path for place in places}


class State:
    """The state of all objects that a function reaches.

    Attributes
    ----------
    number : int
        Equal for states in which tracing gives the same program.
    slots : list of Place
        The places of the arrays that are inputs.
    entries : Table
        The inline cache's entries for calls in this state, for each path through the function.
    static : Static
        The part of a call that is constant in programs for this state.
    any_traced : bool
        Whether a traced value has been kept in an attribute, a list or the like.
    inputs, constants : dict
        The bytes of the arrays that are inputs, and of those that are compared, by path.
    """

    def __init__(
        self,
        walk: Walk,
        static: Static,
        before: State | None,
        changed: set[int],
        compared: set[int],
        number_of: Callable[[tuple[Any, ...]], int],
    ) -> None:
        self.complete = walk.complete
        self.any_traced = walk.any_traced
        self.static = static
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
                changed.add(path)
            large = isinstance(array, OnDevice) or array.nbytes > SMALL if eligible else False
            if eligible and path not in compared and (large or path in changed):
                walk.signature[place.line] = ("input", path)
                if place.holder >= 0:
                    self._holders[place.holder].free(place.position)
                self.slots.append(place)
            elif isinstance(array, OnDevice) or not may_change(array):
                walk.signature[place.line] = Identity(array)
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
        signature, visits = tuple(walk.signature), walk.visits
        if before is not None:
            signature, visits = before.snapshot.shared_with(signature, visits)
        self.number = number_of(signature)
        self.snapshot: Snapshot = Snapshot(self.number, signature, visits)
        self.watches = bool(self._holders or self.slots or self._constants)
        self._guards: Guards | None = None
        self._agreement: Callable[[], tuple[Any, ...] | None] | None = None
        self._asked = 0

    def values(self) -> list[Any] | None:
        """The current arrays that are inputs; None if anything else has changed."""
        if self._gone:
            return None
        values = [get() for get in self._fixed]
        for holder in self._holders:
            inputs = holder.inputs()
            if inputs is None or (inputs and not all(map(_is_lifted, inputs))):
                return None
            values += inputs
        return values if all(_is_same(*constant) for constant in self._constants) else None

    def values_again(self) -> list[Any] | None:
        """As `values`, in machine code from some calls on, if it finds nothing changed."""
        self._asked += 1
        if self._asked == _ASKED:
            found = self.guards()
            self._agreement = found and agreement.function(found)
        if self._agreement is not None and (inputs := self._agreement()) is not None:
            if not inputs or all(map(_is_lifted, inputs)):
                return list(inputs)
        return self.values()

    def guards(self) -> Guards | None:
        """The checks by which native code recognises this state; None if it cannot.

        Checks that need Python come first: after these, no Python code runs.
        """
        if self._guards is None and not self._gone:
            self._guards = self._assembled()
        return self._guards

    def _assembled(self) -> Guards | None:
        asked: list[Callable[[], bool]] = []
        looked: list[Instruction] = [(guards.LIST, id(self._gone), 0)]
        kept: list[Any] = [self._gone, self._holders]
        for get, copy in self._constants:
            constant = copy.guard(get())
            if constant is None:
                asked.append(partial(_is_same, get, copy))
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
        """Whether this state is current, so that the function can be traced in it."""
        return self._walk is not None

    def closed(self, flat_of: FlatOf, count: int) -> Closed:
        """The function of ``count`` argument leaves, followed by the captured arrays."""
        assert self._walk is not None
        return Closed(flat_of, self._walk, self.slots, count)

    def release(self) -> None:
        """Release all references to objects."""
        self._walk = None
        self.first = []
        self.slots = [place._replace(array=None) for place in self.slots]


def paths_of_inputs(state: State) -> list[int]:
    return [place.path for place in state.slots]


def _is_lifted(array: Any) -> bool:
    """Whether an array may be an input of a program."""
    return (type(array) is np.ndarray and array.dtype.char in _LIFTED) or isinstance(
        array, OnDevice
    )


class Closed:
    """A function of its arguments and of the arrays that it closes over; ``result`` as in `Flat`.

    Raises `Unpresentable` if it does not accept a tracer in place of an array.
    """

    def __init__(self, flat_of: FlatOf, walk: Walk, slots: Sequence[Place], count: int) -> None:
        self._flat_of = flat_of
        self._walk = walk
        self._slots = list(slots)
        self._count = count

    def __call__(self, *tracers: Any) -> list[Any]:
        if not self._slots:
            return self._called(lambda value: value, tracers)
        instead = tracers[self._count :]
        try:
            copies = Copies(self._walk, self._slots, instead)
            with copied(copies.original):
                outs = self._called(copies.of, tracers[: self._count])
        except Exception as error:
            raise Unpresentable(self._asked_for(instead)) from error
        if not copies.unchanged():
            raise Unpresentable(self._slots)
        return outs

    def _asked_for(self, instead: Sequence[Any]) -> Sequence[Place]:
        """The arrays that determine the value that Python needed, but which was not known.

        If that is unknown, the integer and boolean arrays, which may be indices or sizes; else all.
        """
        trace = current.get()
        found: list[Place] = []
        if isinstance(trace, Trace) and trace.asked is not None:
            inputs = inputs_of(trace.asked, trace) or set()
            pairs = zip(self._slots, instead, strict=True)
            found = [place for place, tracer in pairs if tracer._variable in inputs]
        return found or [x for x in self._slots if x.array.dtype.kind in "biu"] or self._slots

    def _called(self, present: Present, tracers: Sequence[Any]) -> list[Any]:
        flat = self._flat_of(present(self._walk.root), present)
        outs = flat(*tracers)
        self.result = flat.result
        return outs


def _is_same(get: Look, copy: Copy) -> bool:
    """Whether a constant still has the value that was copied."""
    return copy.same(get())


class Snapshot(NamedTuple):
    """A record of a state that keeps none of its objects alive."""

    number: int
    signature: tuple[Any, ...]
    visits: list[tuple[int, int]]

    def shared_with(
        self, signature: tuple[Any, ...], visits: list[tuple[int, int]]
    ) -> tuple[tuple[Any, ...], list[tuple[int, int]]]:
        """A later signature and its visits, of the same objects where they are equal.

        A function remembers many states, which differ little and may have 100,000 entries each.
        """
        pairs = zip(self.signature, signature, strict=False)
        same = [old if old == new else new for old, new in pairs]
        rest = signature[len(same) :]
        return (*same, *rest), self.visits if self.visits == visits else visits

    def difference(self, after: Snapshot, ways: Ways) -> str:
        """The first difference from a later state, in words."""
        old, new = self.signature, after.signature
        line = next((i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), 0)
        path = max((visit for visit in after.visits if visit[0] <= line), default=(0, 0))[1]
        name = ways.text(path) or "something"
        before, now = (_plain(one[line]) if line < len(one) else "" for one in (old, new))
        return f"{name}: {before} -> {now}" if before and now else f"{name} has changed"


def _plain(key: Any) -> str:
    """The text of a number or a string in a signature entry."""
    if not isinstance(key, tuple) or len(key) != 2 or not isinstance(key[0], type):
        return ""
    kind, value = key
    if issubclass(kind, (float, complex)):
        real, imag = unpack("2d", value)
        value = complex(real, imag) if issubclass(kind, complex) else real
    return repr(value)

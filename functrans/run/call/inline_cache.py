"""Inline cache of calls: machine code dispatches a repeated call from beginning to end.

Python calls an object through the call slot of its type. Here that slot holds native code: it
compares the arguments with those of recent calls (types, dtypes, shapes, containers), collects
addresses, allocates the results, runs the program and assembles the result. Every other call falls
back to the ordinary slot: other arguments, a call within a trace, an array with another memory
order, a failure.

An entry of the cache is a tuple of a table and of the objects to which the table has addresses. The
table is an array of 64-bit words:

    word  0  address of the state, which is shared by all entries
          1  guards, or 0          2  address of the program (`functrans.run.call.steps`), or 0
          3  words of the frame    4  those of them that the program takes
          5  number of nodes       6  number of results
          7  the offset of the result records
          8  the offset of the program that assembles the results
          9  the allocator for large results, or 0; without a native program, the function that
             is called with the leaves: its result is that of the call, unless it is None
         10  the additional arguments of the program, after those of the call: a tuple
         11  the object that stands for keyword arguments if there are none
         12  number of inputs that the guards find (`functrans.run.call.guards`)
    from 13  for each node: its kind, two operands, and further words that depend on the kind
    then for each result: its dtype, its number of axes, its slot, its extents
    then stack operations: a number, two operands, and for dictionaries their keys

The nodes are the trees of the call (positional arguments, keyword arguments, each input that the
guards find, the additional arguments), in breadth-first order. The frame is the memory of one call:
scalar results, the queue of nodes, converted Python integers, the results, the program's own frame
and the stack.
"""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeGuard
from weakref import WeakSet

import numpy as np
from optree import PyTreeKind

from functrans import caches, config
from functrans.caches import once
from functrans.ir.on_device import kinds
from functrans.ir.primitive import current
from functrans.locks import lock
from functrans.run.call import entry, guards, layouts, memory, numpy_interface, steps
from functrans.run.call.guards import Guards
from functrans.run.call.nodes import (
    CONTAINERS,
    Constants,
    Unknown,
    fields_and_static,
    in_insertion_order,
    leaf,
    nodes,
    object_leaf,
    only_dtype,
    roots,
)
from functrans.run.call.program import NativeProgram
from functrans.run.code import cache
from functrans.run.code.modules import joined
from functrans.tracebacks import hide
from functrans.tree.compare import Structure
from functrans.tree.registration import Fields

MOST_RECENT = 4
"""The most entries of a cache, which are compared in order."""

Entry = tuple[Any, ...]

_END, _RESULT, _CONSTANT, _MAKE_TUPLE, _MAKE_LIST, _MAKE_DICT, _CALL, _MAKE_FIELDS = range(8)

NODES = 13

_OFF = 1
"""The word of the state that disables the cache."""

_CALLED = (numpy_interface.NEW_FROM_DESCR, numpy_interface.SCALAR, numpy_interface.SET_HANDLER)

_TEXT = Path(__file__).with_name("inline_cache.ll")


def attach(
    kind: type,  # a class whose ``__call__`` is written in Python; its subclasses are not affected
    slot: str,  # one of its ``__slots__``, which holds a tuple of entries
) -> bool:
    """Install the inline cache for calls of a class's instances.

    False if the layouts of objects are not the known ones.
    """
    with _attaching:
        if kind not in _attached and _attach(kind, slot):
            _attached.add(kind)
        return kind in _attached


_attaching = lock()
_attached: WeakSet[type] = WeakSet()


def _attach(kind: type, slot: str) -> bool:
    if not layouts.hold() or _state() is None:
        return False
    place, call = layouts.slot(kind, slot), layouts.call_slot(kind)
    if place is None or call is None:
        return False
    text = joined(entry.CHECK, guards.TEXT, _TEXT).replace("PLACE", str(place))
    imports = {"run": steps.code().address, "usual": call.value}
    code = cache.load(text, "lookup", imports)
    # never freed: instances may be called until the interpreter ends
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    call.value = code.address
    return True


@once
def _state() -> np.ndarray[Any, Any] | None:
    """Addresses in Python and NumPy for native code; None if NumPy's interface is unknown."""
    functions = numpy_interface.functions()
    if functions is None:
        return None
    called = [functions[number] for number in _CALLED]
    objects = map(id, (np.ndarray, True, False))
    copying = functions[numpy_interface.NEW_COPY], functions[numpy_interface.SET_BASE]
    words = np.array([0, 0, id(current), id(None), *called, *objects, *copying], np.int64)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))

    def switch(_: object) -> None:
        words[_OFF] = config.check_floats or config.check_values is not None

    for name in ("check_floats", "check_values"):
        config.on_change(name, switch)
    switch(None)
    caches.register(_holders)
    return words


class _Holders:
    """The objects with entries, for `clear_caches`."""

    def __init__(self) -> None:
        self._all: WeakSet[Any] = WeakSet()
        self._adding = lock()

    def add(self, holder: Any) -> None:
        with self._adding:
            self._all.add(holder)

    def clear(self) -> None:
        """Remove all entries."""
        with self._adding:
            found = list(self._all)
        for each in found:
            each.forget_calls()


_holders = _Holders()
add_holder = _holders.add


class PythonProgram:
    """A program that is called in Python, after native code has matched the arguments.

    For calls with device arrays among their leaves.
    """

    @abstractmethod
    def attempt(
        self,
        # leaves of the same types as when the entry was made: device arrays of equal shapes and
        # dtypes, and Python numbers
        leaves: tuple[Any, ...],
    ) -> Sequence[Any] | None:
        """The results; None, without side effects, if the call must be dispatched by Python."""


def takes(program: Any) -> TypeGuard[NativeProgram | PythonProgram]:
    """Whether calls of a program can have entries."""
    return type(program) is NativeProgram or isinstance(program, PythonProgram)


def with_first(entry: Entry, recent: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries of a cache, with the most recent one first."""
    others = [each for each in recent if each is not entry]
    return (entry, *others[: MOST_RECENT - 1])


def entry_of(
    # the program, which takes the leaves and the captured values
    program: NativeProgram | PythonProgram,
    call: Structure,  # the structure of the positional and keyword arguments
    leaves: Sequence[Any],  # the leaves of the arguments, then the inputs that the guards find
    captures: Sequence[Any],
    result: Structure,
    guarded: Guards | None,  # the checks of closed-over state
    constants: Constants,  # the arguments that are not in ``call``
) -> Entry | None:
    """The entry for calls similar to a completed one; None if native code cannot make them."""
    state = _state()
    inputs, guard = (0, 0) if guarded is None else (guarded.inputs, guarded.program.ctypes.data)
    if state is None or call.num_leaves + inputs != len(leaves):
        return None
    trees = partial(roots, call, constants, inputs)
    make: Callable[..., _Words] = _in_python if isinstance(program, PythonProgram) else _native
    kept: list[Any] = [guarded]
    try:
        own, rest = make(program, trees, leaves, tuple(captures), result, kept)
    except Unknown:
        return None
    head = [state.ctypes.data, guard, *own, id(None), inputs]
    return (np.array([*head, *chain(*rest)], np.int64), *kept)


_Words = tuple[list[int], Iterable[list[int]]]
"""The words of a table that depend on the program, from the second to the tenth, and those that
follow its head."""

_Trees = Callable[[int], Sequence[Any]]
"""Returns the trees of a call, given the number of its additional arguments."""


def _native(
    program: NativeProgram,
    trees: _Trees,
    leaves: Sequence[Any],
    captures: tuple[Any, ...],
    result: Structure,
    kept: list[Any],  # receives the objects to which the words have addresses
) -> _Words:
    kept += [program, captures]
    values = [*leaves, *captures]
    avals, results = program.in_avals, program.out_avals
    if len(values) != len(avals) or result.num_leaves != len(results):
        raise Unknown
    looks = [
        partial(leaf, x, slot, aval)
        for slot, (x, aval) in enumerate(zip(values, avals, strict=True))
    ]
    every = list(nodes(trees(len(captures)), looks, kept))
    records = [
        [id(only_dtype(aval)), len(aval.shape), len(avals) + number, *aval.shape]
        for number, aval in enumerate(results)
    ]
    operations = [*_operations(result, 0, kept), [_END, 0, 0]]
    frame = int(program.steps_table[steps.FRAME])
    total = 3 * len(results) + 2 * len(every) + frame + len(operations)
    allocator = memory.allocator() if program.is_large else None
    kept.append(allocator)
    records_at = NODES + sum(map(len, every))
    operations_at = records_at + sum(map(len, records))
    own = [
        program.steps_table.ctypes.data, total, frame, len(every), len(results), records_at,
        operations_at, 0 if allocator is None else id(allocator), id(captures),
    ]  # fmt: skip
    return own, (*every, *records, *operations)


def _in_python(
    program: PythonProgram,
    trees: _Trees,
    leaves: Sequence[Any],
    captures: tuple[Any, ...],
    result: Structure,
    kept: list[Any],
) -> _Words:
    # results are on a device if an argument is
    if kinds.isdisjoint(map(type, leaves)):
        raise Unknown
    attempt = program.attempt
    assemble = itemgetter(0) if result.is_leaf() else result.unflatten

    def called(*leaves: Any) -> Any:
        try:
            found = attempt(leaves + captures)
            return None if found is None else assemble(found)
        except BaseException as error:
            hide(error)
            raise

    nothing: tuple[Any, ...] = ()
    kept += [called, nothing]
    looks = [partial(object_leaf, x, slot, kept) for slot, x in enumerate(leaves)]
    every = list(nodes(trees(0), looks, kept))
    end, frame = NODES + sum(map(len, every)), 2 * len(every) + len(leaves) + 1
    own = [0, frame, len(leaves), len(every), 0, end, end, id(called), id(nothing)]
    return own, (*every, [_END])


def _operations(structure: Structure, first: int, kept: list[Any]) -> Iterator[list[int]]:
    """The stack operations that assemble a result from its leaves."""
    if structure.is_leaf():
        yield [_RESULT, first, 0]
        return
    if structure.kind is PyTreeKind.NONE:
        yield [_CONSTANT, 0, id(None)]
        return
    fields: Fields | None = None
    if structure.kind is PyTreeKind.CUSTOM:
        fields, static = fields_and_static(structure)
    elif structure.kind not in CONTAINERS:
        raise Unknown
    firsts = accumulate((each.num_leaves for each in structure.children()), initial=first)
    parts = list(zip(structure.children(), firsts, strict=False))
    size = len(parts)
    if structure.kind is PyTreeKind.DICT:
        order = in_insertion_order(structure)
        kept.append(list(order))
        parts = [parts[number] for number in order.values()]
        last = [[_MAKE_DICT, size, 0, *map(id, order)]]
    elif fields is not None:
        make, names = partial(object.__new__, fields.kind), (*fields.children, *fields.static)
        kept += [make, names, static]
        constants = [[_CONSTANT, 0, id(value)] for value in static]
        last = [*constants, [_MAKE_FIELDS, len(names), id(make), *map(id, names)]]
    elif structure.kind is PyTreeKind.LIST:
        last = [[_MAKE_LIST, size, 0]]
    elif structure.kind is PyTreeKind.NAMEDTUPLE:
        kept.append(structure.type)
        last = [[_MAKE_TUPLE, size, 0], [_CALL, 1, id(structure.type)]]
    else:
        last = [[_MAKE_TUPLE, size, 0]]
    for part, number in parts:
        yield from _operations(part, number, kept)
    yield from last

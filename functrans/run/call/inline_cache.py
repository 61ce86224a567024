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
from collections import deque
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
from functrans.ir.types import Aval
from functrans.locks import lock
from functrans.run.call import entry, guards, layouts, memory, numpy_interface, steps
from functrans.run.call.guards import Guards
from functrans.run.call.program import NativeProgram
from functrans.run.code import cache
from functrans.run.code.modules import joined
from functrans.tracebacks import hide
from functrans.tree import core as tree
from functrans.tree.compare import Structure

MOST_RECENT = 4
"""The most entries of a cache, which are compared in order."""

Entry = tuple[Any, ...]

_SAME, _TUPLE, _LIST, _DICT, _ARRAY, _NUMBER, _INTEGER, _TRUTH, _ON_DEVICE, _OBJECT = range(10)
_END, _RESULT, _CONSTANT, _MAKE_TUPLE, _MAKE_LIST, _MAKE_DICT, _CALL = range(7)

NODES = 13

_OFF = 1
"""The word of the state that disables the cache."""

_CALLED = (
    numpy_interface.NEW_FROM_DESCR,
    numpy_interface.SCALAR,
    numpy_interface.SET_HANDLER,
)

_TEXT = Path(__file__).with_name("inline_cache.ll")


class _Unknown(Exception):
    """A container or leaf that native code does not support."""


def attach(kind: type, slot: str) -> bool:
    """Install the inline cache for calls of a class's instances; their entries are in a slot.

    Parameters
    ----------
    kind : type
        A class whose ``__call__`` is written in Python. Its subclasses are not affected.
    slot : str
        One of its ``__slots__``, which holds a tuple of entries.

    Returns
    -------
    bool
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
    words = np.array(
        [0, 0, id(current), id(None), *called, *map(id, (np.ndarray, True, False))], np.int64
    )
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
    def attempt(self, leaves: tuple[Any, ...]) -> Sequence[Any] | None:
        """The results; None, without side effects, if the call must be dispatched by Python.

        Parameters
        ----------
        leaves : tuple
            Leaves of the same types as when the entry was made: device arrays of equal shapes
            and dtypes, and Python numbers.
        """


def takes(program: Any) -> TypeGuard[NativeProgram | PythonProgram]:
    """Whether calls of a program can have entries."""
    return type(program) is NativeProgram or isinstance(program, PythonProgram)


def with_first(entry: Entry, recent: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries of a cache, with the most recent one first."""
    others = [each for each in recent if each is not entry]
    return (entry, *others[: MOST_RECENT - 1])


def entry_of(
    program: NativeProgram | PythonProgram,
    call: Structure,
    leaves: Sequence[Any],
    captures: Sequence[Any],
    result: Structure,
    guarded: Guards | None = None,
) -> Entry | None:
    """The entry for calls similar to a completed one; None if native code cannot make them.

    Parameters
    ----------
    program : NativeProgram or PythonProgram
        The program, which takes the leaves and the captured values.
    call : Structure
        The structure of the positional and keyword arguments.
    leaves : sequence
        The leaves of the arguments, then the inputs that the guards find.
    guarded : Guards, optional
        The checks of closed-over state.
    """
    state = _state()
    if state is None:
        return None
    try:
        if isinstance(program, PythonProgram):
            return _python_entry(state, program, call, leaves, tuple(captures), result, guarded)
        return _entry(state, program, call, leaves, tuple(captures), result, guarded)
    except _Unknown:
        return None


def _entry(
    state: np.ndarray[Any, Any],
    program: NativeProgram,
    call: Structure,
    leaves: Sequence[Any],
    captures: tuple[Any, ...],
    result: Structure,
    guarded: Guards | None,
) -> Entry:
    kept: list[Any] = [program, captures, guarded]
    inputs = 0 if guarded is None else guarded.inputs
    values = [*leaves, *captures]
    avals, results = program.in_avals, program.out_avals
    if call.num_leaves + inputs != len(leaves):
        raise _Unknown
    if len(values) != len(avals) or result.num_leaves != len(results):
        raise _Unknown
    looks = [
        partial(_leaf, x, slot, aval)
        for slot, (x, aval) in enumerate(zip(values, avals, strict=True))
    ]
    nodes = list(_nodes(_roots(call, inputs, len(captures)), looks, kept))
    records = [
        [id(_only(aval)), len(aval.shape), len(avals) + number, *aval.shape]
        for number, aval in enumerate(results)
    ]
    operations = [*_operations(result, 0, kept), [_END, 0, 0]]
    frame = int(program.steps_table[steps.FRAME])
    total = 3 * len(results) + 2 * len(nodes) + frame + len(operations)
    allocator = memory.allocator() if program.is_large else None
    kept.append(allocator)
    records_at = NODES + sum(map(len, nodes))
    operations_at = records_at + sum(map(len, records))
    guard = 0 if guarded is None else guarded.program.ctypes.data
    head = [
        state.ctypes.data, guard, program.steps_table.ctypes.data, total, frame, len(nodes),
        len(results), records_at, operations_at, 0 if allocator is None else id(allocator),
        id(captures), id(None), inputs,
    ]  # fmt: skip
    return (np.array([*head, *chain(*nodes, *records, *operations)], np.int64), *kept)


def _python_entry(
    state: np.ndarray[Any, Any],
    program: PythonProgram,
    call: Structure,
    leaves: Sequence[Any],
    captures: tuple[Any, ...],
    result: Structure,
    guarded: Guards | None,
) -> Entry:
    inputs = 0 if guarded is None else guarded.inputs
    # results are on a device if an argument is
    if call.num_leaves + inputs != len(leaves) or kinds.isdisjoint(map(type, leaves)):
        raise _Unknown

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
    kept: list[Any] = [called, nothing, guarded]
    looks = [partial(_object, x, slot, kept) for slot, x in enumerate(leaves)]
    nodes = list(_nodes(_roots(call, inputs, 0), looks, kept))
    end = NODES + sum(map(len, nodes))
    guard = 0 if guarded is None else guarded.program.ctypes.data
    head = [
        state.ctypes.data, guard, 0, 2 * len(nodes) + len(leaves) + 1, len(leaves), len(nodes),
        0, end, end, id(called), id(nothing), id(None), inputs,
    ]  # fmt: skip
    return (np.array([*head, *chain(*nodes), _END], np.int64), *kept)


def _only(aval: Aval) -> np.dtype[Any]:
    """The only dtype object of its type: NumPy's own, or one that a package has registered."""
    dtype = np.dtype(aval.dtype.type)
    if not dtype.isbuiltin:
        raise _Unknown
    return dtype


# -- the call -------------------------------------------------------------------------------------


def _roots(call: Structure, inputs: int, captured: int) -> list[Structure]:
    positional, keywords = call.children()
    given = keywords if keywords.num_children else tree.structure(None)
    leaf = tree.structure(0)
    return [positional, given, *[leaf] * inputs, tree.structure((0,) * captured)]


def _nodes(
    roots: Sequence[Structure], leaves: Sequence[Callable[[], list[int]]], kept: list[Any]
) -> Iterator[list[int]]:
    waiting: deque[tuple[Structure, int]] = deque()

    def wait_for(each: Sequence[Structure], first: int, order: Iterable[int]) -> None:
        firsts = list(accumulate((structure.num_leaves for structure in each), initial=first))
        waiting.extend((each[i], firsts[i]) for i in order)

    wait_for(roots, 0, range(len(roots)))
    while waiting:
        structure, first = waiting.popleft()
        if structure.is_leaf():
            yield leaves[first]()
            continue
        if structure.kind is PyTreeKind.NONE:
            yield [_SAME, id(None), 0]
            continue
        kind = _CONTAINERS.get(structure.kind)
        if kind is None:
            raise _Unknown
        kept.append(structure.type)
        order: dict[Any, int] = {}
        if kind == _DICT:
            order = _in_insertion_order(structure)
            _check_keys(order, kept)
        yield [kind, id(structure.type), structure.num_children, *map(id, order)]
        children = structure.children()
        wait_for(children, first, order.values() if kind == _DICT else range(len(children)))


_CONTAINERS = {
    PyTreeKind.TUPLE: _TUPLE,
    PyTreeKind.NAMEDTUPLE: _TUPLE,
    PyTreeKind.LIST: _LIST,
    PyTreeKind.DICT: _DICT,
}


def _in_insertion_order(structure: Structure) -> dict[Any, int]:
    """The number of the child at each key of a dict: children are in the order of sorted keys."""
    level: Any = structure.one_level()
    order: dict[Any, int] = level.unflatten(range(structure.num_children))
    return order


def _check_keys(keys: Iterable[Any], kept: list[Any]) -> None:
    # comparing other keys may run the user's code
    if not _PLAIN.issuperset(map(type, keys)):
        raise _Unknown
    kept.append(list(keys))


_PLAIN = {str, int, bool, float, bytes, type(None)}

_NUMBERS = {
    float: (np.dtype(np.float64), _NUMBER),
    complex: (np.dtype(np.complex128), _NUMBER),
    int: (np.dtype(np.int64), _INTEGER),
    bool: (np.dtype(np.bool_), _TRUTH),
}


def _leaf(value: Any, slot: int, aval: Aval) -> list[int]:
    dtype, kind = _only(aval), type(value)
    if kind in _NUMBERS:
        wanted, number = _NUMBERS[kind]
        if wanted != dtype or aval.shape:
            raise _Unknown
        return [number, id(kind), slot]
    if (not isinstance(value, np.generic) and kind is not np.ndarray) or value.dtype != dtype:
        raise _Unknown
    if value.shape != aval.shape:
        raise _Unknown
    record = entry.input_record(aval)
    # Python numbers are weak, and need another program
    return [_ARRAY, 0, slot, *record[:2], 0, *record[3:]]


def _object(value: Any, slot: int, kept: list[Any]) -> list[int]:
    """The node of a leaf that is passed to Python."""
    kind = type(value)
    if kind in _NUMBERS:
        return [_OBJECT, id(kind), slot]
    places = [layouts.slot(kind, name) for name in ("dtype", "shape")] if kind in kinds else [None]
    if None in places:
        raise _Unknown
    kept.append(value.dtype)
    dtype_at, shape_at = places
    shape = value.shape
    return [_ON_DEVICE, id(kind), slot, dtype_at, id(value.dtype), shape_at, len(shape), *shape]


# -- the result -----------------------------------------------------------------------------------


def _operations(structure: Structure, first: int, kept: list[Any]) -> Iterator[list[int]]:
    """The stack operations that assemble a result from its leaves."""
    if structure.is_leaf():
        yield [_RESULT, first, 0]
        return
    if structure.kind is PyTreeKind.NONE:
        yield [_CONSTANT, 0, id(None)]
        return
    if structure.kind not in _CONTAINERS:
        raise _Unknown
    firsts = accumulate((each.num_leaves for each in structure.children()), initial=first)
    parts = list(zip(structure.children(), firsts, strict=False))
    size = len(parts)
    if structure.kind is PyTreeKind.DICT:
        order = _in_insertion_order(structure)
        kept.append(list(order))
        parts = [parts[number] for number in order.values()]
        last = [[_MAKE_DICT, size, 0, *map(id, order)]]
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

"""Nodes of the inline cache: the trees by which native code recognises the arguments of a call.

`functrans.run.call.inline_cache` has them in its tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from optree import PyTreeKind

from functrans.ir.on_device import kinds
from functrans.ir.types import Aval
from functrans.records import NamedTuple
from functrans.run.call import entry, layouts
from functrans.tree import core as tree
from functrans.tree.compare import Structure
from functrans.tree.registration import Fields, fields_of

(
    _SAME, TUPLE, LIST, DICT, _ARRAY, _NUMBER, _INTEGER, _TRUTH, _ON_DEVICE, _OBJECT, _FIELDS,
) = range(11)  # fmt: skip


class Unknown(Exception):
    """A container or leaf that native code does not support."""


def only_dtype(aval: Aval) -> np.dtype[Any]:
    """The only dtype object of its type: NumPy's own, or one that a package has registered."""
    dtype = np.dtype(aval.dtype.type)
    if not dtype.isbuiltin:
        raise Unknown
    return dtype


class Constants(NamedTuple):
    """Arguments that must be these very objects: by position, and by name.

    ``order`` has the names of all keyword arguments of the call, if some are constants.
    """

    positional: Mapping[int, Any]
    keywords: Mapping[str, Any]
    order: Sequence[str]


class _Same(NamedTuple):
    value: Any
    num_leaves: int = 0


class _Mixed(NamedTuple):
    """A container with constants; each child with the number of leaves before it."""

    words: list[int]
    children: list[tuple[Structure | _Same, int]]
    num_leaves: int


_Node = Structure | _Same | _Mixed


def roots(call: Structure, constants: Constants, inputs: int, captured: int) -> list[_Node]:
    """The trees of a call: positional and keyword arguments, inputs and captured values."""
    positional, keywords = call.children()
    given: list[_Node] = [positional, keywords if keywords.num_children else tree.structure(None)]
    if constants.positional:
        given[0] = _with_positional(positional, constants.positional)
    if constants.keywords:
        given[1] = _with_keywords(keywords, constants)
    return [*given, *[tree.structure(0)] * inputs, tree.structure((0,) * captured)]


def _numbered(structure: Structure) -> list[tuple[Structure | _Same, int]]:
    children = structure.children()
    firsts = accumulate((each.num_leaves for each in children), initial=0)
    return list(zip(children, firsts, strict=False))


def _with_positional(structure: Structure, constants: Mapping[int, Any]) -> _Mixed:
    children = _numbered(structure)
    for position in sorted(constants):
        children.insert(position, (_Same(constants[position]), 0))
    return _Mixed([TUPLE, id(tuple), len(children)], children, structure.num_leaves)


def _with_keywords(structure: Structure, constants: Constants) -> _Mixed:
    found = dict(zip(structure.entries(), _numbered(structure), strict=True))
    found |= {name: (_Same(value), 0) for name, value in constants.keywords.items()}
    order = constants.order
    words = [DICT, id(dict), len(order), *map(id, order)]
    return _Mixed(words, [found[name] for name in order], structure.num_leaves)


def nodes(
    roots: Sequence[_Node], leaves: Sequence[Callable[[], list[int]]], kept: list[Any]
) -> Iterator[list[int]]:
    """The nodes of trees, in breadth-first order."""
    waiting: deque[tuple[_Node, int]] = deque()

    def wait_for(each: Sequence[_Node], first: int, order: Iterable[int]) -> None:
        firsts = list(accumulate((node.num_leaves for node in each), initial=first))
        waiting.extend((each[i], firsts[i]) for i in order)

    wait_for(roots, 0, range(len(roots)))
    while waiting:
        structure, first = waiting.popleft()
        if isinstance(structure, _Same):
            kept.append(structure.value)
            yield [_SAME, id(structure.value), 0]
            continue
        if isinstance(structure, _Mixed):
            yield structure.words
            waiting.extend((child, first + before) for child, before in structure.children)
            continue
        if structure.is_leaf():
            yield leaves[first]()
            continue
        if structure.kind is PyTreeKind.NONE:
            yield [_SAME, id(None), 0]
            continue
        kept.append(structure.type)
        order: dict[Any, int] = {}
        if structure.kind is PyTreeKind.CUSTOM:
            yield _fields(structure, kept)
        elif structure.kind in CONTAINERS:
            kind = CONTAINERS[structure.kind]
            if kind == DICT:
                order = in_insertion_order(structure)
                _check_keys(order, kept)
            yield [kind, id(structure.type), structure.num_children, *map(id, order)]
        else:
            raise Unknown
        wait_for(structure.children(), first, order.values() or range(structure.num_children))


def _fields(structure: Structure, kept: list[Any]) -> list[int]:
    """The node of a registered dataclass: its children, then static fields, compared by identity.

    The guards check that its class computes none of them (`functrans.api.reach`).
    """
    fields, static = fields_and_static(structure)
    kept.append((fields, static))
    names = *fields.children, *fields.static
    places = [layouts.attribute(fields.kind, name) for name in names]
    expected = [0] * len(fields.children) + [*map(id, static)]
    words: list[int] = []
    for name, place, value in zip(names, places, expected, strict=True):
        if place is None:
            raise Unknown
        words += [place or id(name), value]
    return [_FIELDS, id(fields.kind), len(names), int(0 in places), *words]


def fields_and_static(structure: Structure) -> tuple[Fields, list[Any]]:
    """The fields of a registered dataclass, and the values of those that are static."""
    fields = fields_of(structure.type)
    if fields is None:
        raise Unknown
    one: Any = structure.one_level()
    instance = one.unflatten(range(structure.num_children))
    return fields, [object.__getattribute__(instance, name) for name in fields.static]


CONTAINERS = {
    PyTreeKind.TUPLE: TUPLE,
    PyTreeKind.NAMEDTUPLE: TUPLE,
    PyTreeKind.LIST: LIST,
    PyTreeKind.DICT: DICT,
}


def in_insertion_order(structure: Structure) -> dict[Any, int]:
    """The number of the child at each key of a dict: children are in the order of sorted keys."""
    level: Any = structure.one_level()
    return level.unflatten(range(structure.num_children))


def _check_keys(keys: Iterable[Any], kept: list[Any]) -> None:
    # comparing other keys may run the user's code
    if not _PLAIN.issuperset(map(type, keys)):
        raise Unknown
    kept.append(list(keys))


_PLAIN = {str, int, bool, float, bytes, type(None)}

_NUMBERS = {
    float: (np.dtype(np.float64), _NUMBER),
    complex: (np.dtype(np.complex128), _NUMBER),
    int: (np.dtype(np.int64), _INTEGER),
    bool: (np.dtype(np.bool_), _TRUTH),
}


def leaf(value: Any, slot: int, aval: Aval) -> list[int]:
    """The node of a number or an array, for a native program."""
    dtype, kind = only_dtype(aval), type(value)
    if kind in _NUMBERS:
        wanted, number = _NUMBERS[kind]
        if wanted != dtype or aval.shape:
            raise Unknown
        return [number, id(kind), slot]
    if (not isinstance(value, np.generic) and kind is not np.ndarray) or value.dtype != dtype:
        raise Unknown
    if value.shape != aval.shape:
        raise Unknown
    record = entry.input_record(aval)
    # Python numbers are weak, and need another program
    return [_ARRAY, 0, slot, *record[:2], 0, *record[3:]]


def object_leaf(value: Any, slot: int, kept: list[Any]) -> list[int]:
    """The node of a leaf that is passed to Python."""
    kind = type(value)
    if kind in _NUMBERS:
        return [_OBJECT, id(kind), slot]
    places = [layouts.slot(kind, name) for name in ("dtype", "shape")] if kind in kinds else [None]
    if None in places:
        raise Unknown
    kept.append(value.dtype)
    dtype_at, shape_at = places
    shape = value.shape
    return [_ON_DEVICE, id(kind), slot, dtype_at, id(value.dtype), shape_at, len(shape), *shape]

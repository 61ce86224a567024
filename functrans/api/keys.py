"""Cache keys of compiled programs: the types of the leaves of a call, and its containers."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from optree import PyTreeKind, register_pytree_node

from functrans.api.kinds import is_installed_class, is_plain, key_of
from functrans.caches import cached
from functrans.ir.on_device import kinds
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree
from functrans.tree.compare import Structure
from functrans.tree.core import NAMESPACE
from functrans.tree.registration import register_dataclass

NUMBERS = frozenset({float, int, bool, complex})

NO_CONTAINERS = NUMBERS | {np.ndarray, np.float64, np.float32, np.int64}
"""Types of common arguments that need not be searched for leaves."""


def no_containers(on_host: bool) -> frozenset[type]:
    """These types; with device arrays, unless these must be copied to the host."""
    return NO_CONTAINERS if on_host else NO_CONTAINERS | kinds


@cached(256)
def structure_of_leaves(count: int) -> Structure:
    """The structure of a call with ``count`` arguments, none of which is a container."""
    return tree.structure(((0,) * count, {}))


def leaf_key(x: Any) -> Any:
    kind = type(x)
    if kind in kinds:
        return x.dtype, x.shape, x.device
    if kind is np.ndarray or isinstance(x, np.generic):
        return x.dtype, x.shape
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, kind  # a subclass, which `as_array` converts or refuses
    return kind


def particulars(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What a pytree's structure lacks as a cache key: static data, and objects of its containers.

    The key has the order of each dict's keys, as a loop over it sees them, and static data with
    values that compare equal told apart. The objects are users' classes of containers, whose
    methods a function may call, the functions that rebuild them, and static data that may have a
    state.
    """
    keys: list[Any] = []
    objects: list[Any] = []
    _look(value, keys, objects)
    return tuple(keys), tuple({id(x): x for x in objects}.values())


_MAPPINGS = (dict, OrderedDict, defaultdict)
_SEQUENCES = (tuple, list, deque)


def _look(x: Any, keys: list[Any], objects: list[Any]) -> None:
    kind: Any = type(x)
    if kind in _MAPPINGS:
        if len(x) > 1 or not all(type(key) is str for key in x):
            keys.append(tuple(x) if all(type(key) is str for key in x) else exactly(tuple(x)))
            objects += stateful(tuple(x))
        if kind is defaultdict:
            objects += stateful(x.default_factory)
        children: Any = x.values()
    elif kind in _SEQUENCES:
        children = x
    elif x is None or isinstance(x, (np.ndarray, np.generic, Tracer)):
        return
    else:
        registered = register_pytree_node.get(kind, namespace=NAMESPACE)
        if registered is None:
            return
        if not is_installed_class(kind):
            objects.append(kind)
        children, data, *_ = registered.flatten_func(x)
        if registered.kind == PyTreeKind.CUSTOM:
            keys.append(exactly(data))
            objects += stateful(data)
            if not _is_ours(registered.unflatten_func):
                objects.append(registered.unflatten_func)
    for each in children:
        if type(each) not in NO_CONTAINERS:
            _look(each, keys, objects)


def _is_ours(rebuild: Any) -> bool:
    """Whether a function is that of `register_dataclass`, which calls nothing of the class's."""
    return getattr(rebuild, "__module__", None) == register_dataclass.__module__


def stateful(value: Any) -> Iterator[Any]:
    """The objects that may have a state: a value, or the elements of a tuple, but no numbers."""
    if type(value) is tuple:
        for each in value:
            yield from stateful(each)
    elif type(value).__dictoffset__ or not is_plain(value):
        yield value


def exactly(value: Any) -> Any:
    """A key that distinguishes values that compare equal: 1, True and 1.0, or 0.0 and -0.0.

    The fields of dataclasses and the elements of frozensets are distinguished in the same way.
    """
    if isinstance(value, tuple):
        return type(value), *map(exactly, value)
    if isinstance(value, frozenset):
        return type(value), frozenset(map(exactly, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        compared = [each.name for each in dataclasses.fields(value) if each.compare]
        return value, *(exactly(getattr(value, name)) for name in compared)
    return key_of(value) if isinstance(value, Hashable) else type(value)

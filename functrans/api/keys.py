"""Cache keys of compiled programs: the types of the leaves of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.on_device import kinds
from functrans.tree import core as tree
from functrans.tree.compare import Structure

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


def orders_of(tree: Any) -> tuple[tuple[Any, ...], ...]:
    """The keys of each dict in a tree, in the order that a loop over it sees.

    A structure does not tell dicts with the same keys in another order apart.
    """
    return tuple(_orders(tree))


def _orders(x: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(x, dict):
        if len(x) > 1:
            yield tuple(x)
        x = x.values()
    elif not isinstance(x, (list, tuple)):
        of_class = dataclasses.fields(x) if dataclasses.is_dataclass(x) else ()
        x = [getattr(x, field.name, None) for field in of_class]
    for each in x:
        if type(each) not in NO_CONTAINERS:
            yield from _orders(each)

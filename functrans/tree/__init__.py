"""Pytrees: nested containers of arrays, taken apart into leaves and put together again.

Tuples, lists, dicts (also OrderedDict and defaultdict), deques, namedtuples and None are
containers; everything else is a leaf until its class is registered. None is an empty container:
it has no leaves. A dict's leaves come in the order of its sorted keys, so that two dicts with the
same keys have the same structure however they were filled; an OrderedDict keeps its own order,
and OrderedDicts with different orders have different structures.

This is a thin face over `optree`, whose C++ does the work. Classes are registered in the namespace
`NAMESPACE` of its registry, not in the global one: `optree` keeps that to itself, and a class
registered here must not start to come apart in another library that uses `optree` for purposes of
its own. What the global registry knows is seen here all the same.
"""

from functrans.tree.compare import Structure, check_same_structure, difference
from functrans.tree.core import (
    NAMESPACE,
    broadcast,
    broadcast_prefix,
    flatten,
    flatten_with_path,
    leaves,
    map,
    map_with_path,
    paths,
    structure,
    transpose,
    unflatten,
)
from functrans.tree.partial import Partial
from functrans.tree.path import KeyPath, keystr
from functrans.tree.registration import register, register_dataclass
from functrans.tree.vector import ravel

__all__ = [
    "NAMESPACE",
    "KeyPath",
    "Partial",
    "Structure",
    "broadcast",
    "broadcast_prefix",
    "check_same_structure",
    "difference",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "map",
    "map_with_path",
    "paths",
    "ravel",
    "register",
    "register_dataclass",
    "structure",
    "transpose",
    "unflatten",
]


def __dir__() -> list[str]:
    return sorted(__all__)

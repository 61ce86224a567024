"""Pytrees: nested containers of arrays, flattened into leaves and rebuilt from them.

Tuples, lists, dicts (also OrderedDict and defaultdict), deques, namedtuples and None are
containers; everything else is a leaf until its class is registered. None is an empty container:
it has no leaves. A dict's leaves come in the order of its sorted keys, so that two dicts with the
same keys have the same structure however they were filled; an OrderedDict keeps its own order,
and OrderedDicts with different orders have different structures.

This is a thin layer over `optree`, which is written in C++. Classes are registered in the namespace
`NAMESPACE` of its registry, not in the global one: another library that uses `optree` must not
flatten instances of a class that is registered here. Classes in the global registry are known here,
too.
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
    "NAMESPACE", "KeyPath", "Partial", "Structure", "broadcast", "broadcast_prefix",
    "check_same_structure", "difference", "flatten", "flatten_with_path", "keystr", "leaves", "map",
    "map_with_path", "paths", "ravel", "register", "register_dataclass", "structure", "transpose",
    "unflatten",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)

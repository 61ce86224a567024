"""Serialisation of pytree structures as plain data.

A file contains names of classes, not classes: the named tuples that NumPy's functions return are
found in NumPy, and other named tuples are created again from the names of their fields.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import optree

from functrans.caches import cached
from functrans.tree import core as tree
from functrans.tree.compare import Structure

Data = Any

_CONTAINERS: dict[str, type] = {"tuple": tuple, "list": list}


def structure_to_data(structure: Structure) -> Data:
    """A structure as plain data.

    Raises `TypeError` if it has containers of classes that cannot be saved.
    """
    return _to_data(tree.unflatten(structure, range(structure.num_leaves)))


def structure_from_data(data: Data) -> Structure:
    """The inverse of `structure_to_data`."""
    return tree.structure(_from_data(data))


def _to_data(node: Any) -> Data:
    kind = type(node)
    if node is None or kind is int:
        return node
    if kind in (tuple, list):
        return {kind.__name__: [_to_data(x) for x in node]}
    if kind is dict and all(type(key) in (str, int) for key in node):
        return {"dict": [[key, _to_data(x)] for key, x in node.items()]}
    if optree.is_namedtuple_class(kind):
        parts = [_to_data(x) for x in node]
        if _numpys().get(kind.__name__) is kind:
            return {"numpy": [kind.__name__, *parts]}
        return {"named": [kind.__name__, *zip(kind._fields, parts, strict=True)]}
    raise TypeError(
        f"its arguments or results hold a {kind.__name__}, and a file holds tuples, lists, named "
        "tuples, and dicts with strings and integers for keys"
    )


def _from_data(data: Data) -> Any:
    if data is None or type(data) is int:
        return data
    ((kind, parts),) = data.items()
    if kind == "dict":
        return {key: _from_data(x) for key, x in parts}
    if kind == "numpy":
        return _numpys()[parts[0]](*map(_from_data, parts[1:]))
    if kind == "named":
        name, *fields = parts
        return _named(name, tuple(field for field, _ in fields))(
            *(_from_data(x) for _, x in fields)
        )
    return _CONTAINERS[kind](map(_from_data, parts))


@cached(256)
def _named(name: str, fields: tuple[str, ...]) -> Any:
    """A class for a named tuple in a file, whose names must be valid identifiers."""
    if not all(type(each) is str and each.isidentifier() for each in (name, *fields)):
        raise ValueError(f"{name!r} with {fields!r} is no named tuple")
    return namedtuple(name, fields)


@cached(1)
def _numpys() -> dict[str, type]:
    """The named tuple classes of NumPy's results, which have no public names."""
    one, row = np.eye(1), np.zeros(1)
    linear = np.linalg.eig, np.linalg.eigh, np.linalg.qr, np.linalg.slogdet, np.linalg.svd
    unique = np.unique_all, np.unique_counts, np.unique_inverse
    results = [*(f(one) for f in linear), *(f(row) for f in unique)]
    return {type(result).__name__: type(result) for result in results}

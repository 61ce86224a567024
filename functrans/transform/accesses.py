"""Array dataflow analysis: the elements of its operands that an element of a result reads.

The ``pull`` rule of a primitive is an expression with the elements that it reads. Here it is
interpreted for all elements of the result at once: indices are arrays, a fold adds an axis to them,
and each side of a guard is followed for the elements that take it. A read at an unknown index (from
data that may change) may be at any position along that axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.loop.nodes import as_index, index
from functrans.loop.scalar import Scalar, meaning, postorder
from functrans.ops.dependence import check_entries
from functrans.records import NamedTuple

_fresh = count()


class _Unknown(Exception):
    """A number is read from an array whose values may change."""


class Accesses(NamedTuple):
    """Pairs of flat positions: elements of the result, and operand elements that they read."""

    rows: Any
    columns: Any


def accesses(
    primitive: Primitive,
    avals: Sequence[Aval],
    values: Sequence[Any],
    wanted: Sequence[int],
    params: Mapping[str, Any],
    out: Aval,
) -> dict[int, Accesses]:
    """The accesses to each of the wanted operands of a primitive with a ``pull`` rule.

    ``values`` has the known values of operands, and None for the others.
    """
    assert primitive.pull is not None
    reader = _Reader(avals, values, wanted)
    element = tuple(index("i", extent) for extent in out.shape)
    expression = primitive.pull(reader.read, element, *avals, **params)
    rows = np.arange(prod(out.shape))
    places = np.unravel_index(rows, out.shape) if out.shape else ()
    reader.follow(expression, rows, dict(zip(element, places, strict=True)))
    return {number: reader.found(number) for number in wanted}


Places = dict[Scalar, Any]
"""The value of each index in each row that is followed."""


class _Reader:
    def __init__(self, avals: Sequence[Aval], values: Sequence[Any], wanted: Sequence[int]) -> None:
        self._avals = avals
        self._values = values
        self._found: dict[int, list[Accesses]] = {number: [] for number in wanted}

    def read(self, number: int, position: Sequence[Any]) -> Scalar:
        """The ``read`` argument of the rule: it makes a distinct node for each read."""
        args = tuple(map(as_index, position))
        return Scalar("operand", args, self._avals[number].dtype, (number, next(_fresh)))

    def found(self, number: int) -> Accesses:
        """All accesses to an operand that were found."""
        found = self._found[number]
        if not found:
            return Accesses(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Accesses(*map(np.concatenate, zip(*found, strict=True)))

    def follow(self, node: Scalar, rows: Any, places: Places) -> None:
        """Find the accesses of an expression, for each of the rows (which may repeat)."""
        if not len(rows) or not self._reads_wanted(node):
            return
        match node.op:
            case "operand" if node.attribute[0] in self._found:
                self._note(node, rows, places)
            case "guard" | "where":
                self._branch(node, rows, places)
            case "fold":
                self._fold(node, rows, places)
            case _:
                for arg in node.args:
                    self.follow(arg, rows, places)

    def _reads_wanted(self, node: Scalar) -> bool:
        return any(x.op == "operand" and x.attribute[0] in self._found for x in postorder([node]))

    def _note(self, node: Scalar, rows: Any, places: Places) -> None:
        number = node.attribute[0]
        shape = self._avals[number].shape
        flat = np.zeros(len(rows), np.int64)
        for position, extent in zip(node.args, shape, strict=True):
            try:
                along = np.broadcast_to(self._value(position, places), rows.shape)
            except _Unknown:
                rows, flat, places = _repeated(rows, flat, places, extent)
                along = np.tile(np.arange(extent), len(rows) // max(extent, 1))
            flat = flat * extent + along
        self._found[number].append(Accesses(rows, flat))

    def _branch(self, node: Scalar, rows: Any, places: Places) -> None:
        condition, value, otherwise = node.args
        try:
            holds = np.broadcast_to(self._value(condition, places), rows.shape)
        except _Unknown:
            self.follow(value, rows, places)
            self.follow(otherwise, rows, places)
            return
        for side, taken in ((value, holds), (otherwise, ~holds)):
            self.follow(side, rows[taken], {i: at[taken] for i, at in places.items()})

    def _fold(self, node: Scalar, rows: Any, places: Places) -> None:
        term, *extents = node.args
        _, indices = node.attribute
        sizes = [int(self._value(extent, places)) for extent in extents]
        rows, _, places = _repeated(rows, rows, places, prod(sizes))
        turns = len(rows) // max(prod(sizes), 1)
        inner = np.unravel_index(np.arange(prod(sizes)), sizes)
        places |= {i: np.tile(at, turns) for i, at in zip(indices, inner, strict=True)}
        self.follow(term, rows, places)

    def _value(self, node: Scalar, places: Places) -> Any:
        """The value of an integer or a condition in each row; `_Unknown` if it may change."""
        if node.op == "index":
            return places[node]
        if node.op == "operand":
            value = self._values[node.attribute[0]]
            if value is None:
                raise _Unknown
            at = [self._value(arg, places) for arg in node.args]
            # an index may be out of bounds where its guard is false
            return value[tuple(np.clip(i, 0, n - 1) for i, n in zip(at, value.shape, strict=True))]
        args = [self._value(arg, places) for arg in node.args]
        match node.op:
            case "checked":
                return args[0]
            case "guard":
                return np.where(*args)
            case _:
                return meaning(node, args)


def _repeated(rows: Any, flat: Any, places: Places, times: int) -> tuple[Any, Any, Places]:
    """Repeat each row a number of times."""
    check_entries(len(rows) * times)
    repeated = {i: np.repeat(at, times) for i, at in places.items()}
    return np.repeat(rows, times), np.repeat(flat, times), repeated

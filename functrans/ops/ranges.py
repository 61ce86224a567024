"""Validation of parameters: the values that equations read from a file may have.

The library's own functions make equations with parameters in normal form, which the rules of
primitives use unchecked; a file may contain any values. `RANGES` has a check for each parameter
name. With parameters that pass, no rule reads or writes outside the memory of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.types import Aval, is_supported
from functrans.records import NamedTuple


class Given(NamedTuple):
    """The context of a parameter: the types of the operands, and the other parameters."""

    avals: Sequence[Aval]
    params: Mapping[str, Any]


_FAR = 2**31

Range = Callable[[Any, Given], bool]


def check_parameters(eqn: Eqn) -> None:
    """Raise `ShapeError` unless the parameters of one of the library's primitives are in range."""
    given = Given([x.aval for x in eqn.inputs], eqn.params)
    for name, value in eqn.params.items():
        known = RANGES.get(name)
        if known is not None and not known(value, given):
            raise ShapeError(f"{eqn.primitive.name} has no {name} {value!r}")


def _whole(value: Any, low: float = -np.inf, high: float = np.inf) -> bool:
    return type(value) is int and low <= value < high


def _at_least(low: int) -> Range:
    return lambda value, given: _whole(value, low)


def _or_none(found: Range) -> Range:
    return lambda value, given: value is None or found(value, given)


def _one_of(*values: Any) -> Range:
    return lambda value, given: any(type(value) is type(x) and value == x for x in values)


def _of(kind: type) -> Range:
    return lambda value, given: type(value) is kind


def _each(found: Range) -> Range:
    return lambda value, given: type(value) is tuple and all(found(x, given) for x in value)


def _are_axes(value: Any, ndim: float) -> bool:
    """Whether a value is a tuple of distinct axes of an array of ``ndim`` axes."""
    return (
        type(value) is tuple
        and all(_whole(x, 0, ndim) for x in value)
        and len({*value}) == len(value)
    )


def _axis(value: Any, given: Given) -> bool:
    return _whole(value, 0, given.avals[0].ndim)


def _position(value: Any, given: Given) -> bool:
    """Whether a value is a position along the one indexed axis."""
    axis = given.params["axis"]
    return _axis(axis, given) and _whole(value, 0, given.avals[0].shape[axis])


def _axes(value: Any, given: Given) -> bool:
    # an overlap-add has its own parameter ``shape``
    shape = given.params.get("shape", given.avals[0].shape)
    return _are_axes(value, len(shape))


def _pairs(value: Any, given: Given) -> bool:
    """Whether a value pairs axes of two operands, none both contracted and a batch axis."""
    x, y = given.avals
    used = [given.params["contract"], given.params["batch"]]
    return len(value) == 2 and all(
        _are_axes(sum((kind[number] for kind in used), ()), of.ndim)
        for number, of in enumerate((x, y))
    )


def _parts(value: Any, given: Given) -> bool:
    contracted = given.params["contract"][0]
    return _whole(value, 1) and value <= min(given.avals[0].shape[axis] for axis in contracted)


def _entry(value: Any, given: Given) -> bool:
    if type(value) is tuple and len(value) == 3:
        start, size, step = value
        return _whole(start) and _whole(size, 0) and _whole(step) and step != 0
    return _whole(value, 0)


def _window(value: Any, given: Given) -> bool:
    if "x_labels" in given.params:
        label, value = value
        if label not in given.params["x_labels"] or label not in given.params["y_labels"]:
            return False
    places, taps, stride, dilation, _, base = value
    # products of two such numbers are 64-bit indices
    return (
        all(_whole(x, -_FAR, _FAR) for x in value) and places >= 0 and taps >= 0
        and stride != 0 and dilation != 0 and base > 0
    )  # fmt: skip


def _labels(value: Any, given: Given) -> bool:
    return _are_axes(value, np.inf)


def _dtype(value: Any, given: Given) -> bool:
    return isinstance(value, np.dtype) and is_supported(value)


def _number(value: Any, given: Given) -> bool:
    if isinstance(value, np.generic):
        return is_supported(value.dtype)
    return isinstance(value, (bool, int, float, complex))


_graph = _of(Graph)
_count = _at_least(0)
_index = _each(_entry)

_KINDS: dict[str, Range] = {
    "adds complete full hermitian lower panels permuted reverse scaled symmetric": _of(bool),
    "inverse transpose_a unique unit_diagonal": _of(bool),
    "axes permutation": _axes,
    "axis": _axis,
    "batch contract": _pairs,
    "body cond graph matvec": _graph,
    "branches transposed": _each(_graph),
    "count n_carry n_consts points rank residuals size start": _count,
    "dtype": _dtype,
    "entries": _each(lambda value, given: _whole(value, -(2**63), 2**63)),
    "index": _index,
    "indices": _each(_index),
    "kind": _one_of("cos", "sin"),
    # -1 stands for a number of steps that the loop determines at run time
    "length": _at_least(-1),
    "max_steps": _or_none(_count),
    "n shift": lambda value, given: _whole(value, -_FAR, _FAR),
    "norm": _one_of("backward", "ortho", "forward"),
    "out x_labels y_labels": _labels,
    "part": _one_of(0, 1),
    "parts": _or_none(_parts),
    "period steps": _at_least(1),
    "positions": _each(_position),
    # known once the steps have been counted, never before
    "room": _or_none(lambda value, given: False),
    "scale": _of(float),
    "shape": _each(_count),
    "type": _one_of(1, 2, 3, 4),
    "upper": lambda value, given: _whole(value, 0, given.avals[0].shape[-2]),
    "windows": _each(_window),
}
RANGES = {name: admits for names, admits in _KINDS.items() for name in names.split()}
"""The admissible values of the parameters of the library's primitives, by their names."""

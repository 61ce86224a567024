"""known_integers: a small constant array of integers, such as indices, as a parameter.

Long constant arrays of equal elements become a `full`. (Short ones, such as the taps of a moving
average, stay arrays: products with equal constants would be shared, and too much recomputed.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval, Shape
from functrans.loop.nodes import entry, linear
from functrans.ops.arrays.structural import full_p, iota
from functrans.ops.define import primitive
from functrans.ops.samples import cases

INDEX = np.dtype(np.int64)


def _infer(*, shape: Shape, entries: tuple[int, ...]) -> Aval:
    if prod(shape) != len(entries):
        raise ShapeError(f"{len(entries)} integers for an array of shape {shape}")
    return Aval(shape, INDEX)


known_integers = primitive(
    "known_integers",
    infer=_infer,
    numpy=lambda *, shape, entries: np.array(entries, INDEX).reshape(shape),
    jvp=ZERO_DERIVATIVE,
    pull=lambda read, index, *, shape, entries: entry(entries, linear(index, shape)),
    samples=cases(
        ({"shape": (3,), "entries": (2, 0, 1)},), ({"shape": (2, 2), "entries": (3, -2, 1, 0)},),
        ({"shape": (0, 2), "entries": ()},),
    ),
)  # fmt: skip
"""A constant array that needs no memory: each element is a constant where it is used."""

FEW_INTEGERS = 256
"""The most elements of a `known_integers`; a larger array is replaced if uniform, or an iota."""


def as_known(array: np.ndarray[Any, Any]) -> dict[str, tuple[int, ...]]:
    """An array as the parameters of `known_integers`."""
    return {"shape": array.shape, "entries": tuple(array.ravel().tolist())}


def with_known_arrays(graph: Graph, captures: Sequence[Any]) -> tuple[Graph, Sequence[Any]]:
    """Replace captured arrays of equal elements or of a few integers by constants.

    The captures are the last inputs of the graph.

    Returns the graph and the remaining captures. 0-d integers are literals since they were traced.
    """
    made = [_made(x) for x in captures]
    if not any(made):
        return graph, captures
    first = len(graph.inputs) - len(captures)
    given = list(zip(graph.inputs[first:], captures, made, strict=True))
    eqns = [Eqn(how[0], (), (var,), how[1]) for var, _, how in given if how is not None]
    left = [(var, x) for var, x, how in given if how is None]
    inputs = [*graph.inputs[:first], *(var for var, _ in left)]
    return Graph(inputs, [*eqns, *graph.eqns], graph.outputs), [x for _, x in left]


def _made(x: Any) -> tuple[Primitive, dict[str, Any]] | None:
    """The primitive that makes a constant array, and its parameters; None if there is none."""
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc":
        return None
    if x.size <= FEW_INTEGERS:
        return (known_integers, as_known(x)) if x.dtype == INDEX else None
    if x.dtype == INDEX and x.ndim == 1 and x[0] == 0 and x[-1] == x.size - 1:
        # an index array that is known to be contiguous needs no gather
        counts = np.array_equal(x, np.arange(x.size))
        return (iota, {"size": x.size, "dtype": INDEX}) if counts else None
    if not all(map(_is_uniform, (x.real, x.imag) if x.dtype.kind == "c" else (x,))):
        return None
    return full_p, {"shape": x.shape, "value": x.flat[0].item(), "dtype": x.dtype}


def _is_uniform(x: np.ndarray[Any, Any]) -> bool:
    """Whether all elements are one number, other than NaN and -0, whose sign zeros lose."""
    first = x.flat[0]
    # most arrays differ in their first elements
    if not (x.flat[:16] == first).all() or not (x == first).all():
        return False
    return first != 0 or x.dtype.kind != "f" or not np.signbit(x).any()

"""known_integers: a small constant array of integers, such as indices, as a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import ZERO_DERIVATIVE
from functrans.ir.types import Aval, Shape
from functrans.loop.nodes import entry, linear
from functrans.loop.scalar import Scalar
from functrans.ops.define import primitive
from functrans.ops.samples import cases

INDEX = np.dtype(np.int64)


def _infer(*, shape: Shape, entries: tuple[int, ...]) -> Aval:
    if prod(shape) != len(entries):
        raise ShapeError(f"{len(entries)} integers for an array of shape {shape}")
    return Aval(shape, INDEX)


def _pull(read: Any, index: Any, *, shape: Shape, entries: tuple[int, ...]) -> Scalar:
    return entry(entries, linear(index, shape))


known_integers = primitive(
    "known_integers",
    infer=_infer,
    numpy=lambda *, shape, entries: np.array(entries, INDEX).reshape(shape),
    jvp=ZERO_DERIVATIVE,
    pull=_pull,
    samples=cases(
        ({"shape": (3,), "entries": (2, 0, 1)},), ({"shape": (2, 2), "entries": (3, -2, 1, 0)},),
        ({"shape": (0, 2), "entries": ()},),
    ),
)  # fmt: skip
"""A constant array that needs no memory: each element is a constant where it is used."""

FEW_INTEGERS = 256
"""The most integers of a constant array."""


def as_known(array: np.ndarray[Any, Any]) -> dict[str, tuple[int, ...]]:
    """An array as the parameters of `known_integers`."""
    return {"shape": array.shape, "entries": tuple(array.ravel().tolist())}


def with_known_integers(graph: Graph, captures: Sequence[Any]) -> tuple[Graph, Sequence[Any]]:
    """Replace captured arrays of a few integers, the last inputs of a graph, by constants.

    Returns the graph and the remaining captures. 0-d integers are literals since they were traced.
    """
    if not any(map(_is_known, captures)):
        return graph, captures
    first = len(graph.inputs) - len(captures)
    given = list(zip(graph.inputs[first:], captures, strict=True))
    eqns = [Eqn(known_integers, (), (var,), as_known(x)) for var, x in given if _is_known(x)]
    left = [(var, x) for var, x in given if not _is_known(x)]
    inputs = [*graph.inputs[:first], *(var for var, _ in left)]
    return Graph(inputs, [*eqns, *graph.eqns], graph.outputs), [x for _, x in left]


def _is_known(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == INDEX and x.size <= FEW_INTEGERS

"""Selection: the elements of a few ranks along the last axis, without sorting the others.

Order statistics are of one rank, or of two neighbouring ones. A partial sort gives the least or the
greatest elements of a line in order. The compiler replaces sorts by these if the other elements are
not read (`functrans.optimise.machine.selection`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.reductions.sorting import argsort
from functrans.ops.samples import cases, integers

DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8")))
"""The dtypes of elements, whose bits in order are integers of the same length."""

BLOCK = 32
"""The number of elements that a partial sort compares with its bound before one is read by
itself."""


def room(count: int) -> int:
    """The number of candidates that a partial sort sorts together: a power of two."""
    return 1 << (2 * count + BLOCK - 1).bit_length()


def _infer(x: Aval, *, rank: int, count: int) -> Aval:
    if x.dtype not in DTYPES:
        raise DtypeError(f"order_statistics takes numbers of 4 or 8 bytes, not {x.dtype}")
    if not (x.ndim and 0 <= rank and 1 <= count <= 2 and rank + count <= x.shape[-1]):
        raise ShapeError(f"there are no {count} elements of rank {rank} in an array like {x}")
    return x.update(shape=(*x.shape[:-1], count))


def _infer_ends(x: Aval, *, count: int, greatest: bool) -> Aval:
    if x.dtype not in DTYPES:
        raise DtypeError(f"a partial sort takes numbers of 4 or 8 bytes, not {x.dtype}")
    if not x.ndim or x.shape[-1] < room(count):
        raise ShapeError(f"a partial sort for {count} elements of lines of {room(count)}, not {x}")
    return x.update(shape=(*x.shape[:-1], count))


def _ends(ordered: Any, count: int, greatest: bool) -> Any:
    return ordered[..., ordered.shape[-1] - count :] if greatest else ordered[..., :count]


def _operations(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """A comparison with each element for each bit."""
    aval = eqn.inputs[0].aval
    return 8 * aval.dtype.itemsize * aval.size


def _comparisons(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """A comparison of each element with the bound."""
    return eqn.inputs[0].aval.size


order_statistics: Primitive = primitive(
    "order_statistics",
    infer=_infer,
    numpy=lambda x, *, rank, count: np.sort(x, axis=-1)[..., rank : rank + count],
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    emit=Emit(
        lazy("functrans.ops.reductions.compiled.bisection:emit"), operations=_operations
    ),
    samples=cases(
        ((7,), {"rank": 3, "count": 1}), ((2, 20), {"rank": 9, "count": 2}),
        ((0, 3), {"rank": 1, "count": 1}),
        (np.array([0.0, np.nan, -0.0, 0.0, -np.inf, -0.0]), {"rank": 2, "count": 2}),
        (np.array([np.nan, 2.0, np.nan, np.inf]), {"rank": 1, "count": 2}),
        ((integers(-3, 3), (3, 9)), {"rank": 4, "count": 2}),
    ),
)  # fmt: skip

_special = np.tile([0.0, np.nan, -0.0, 0.0, -np.inf, -0.0], 11)
_end_samples = cases(
    ((64,), {"count": 3, "greatest": False}), ((2, 90), {"count": 4, "greatest": True}),
    ((0, 64), {"count": 1, "greatest": True}), ((2, 65), {"count": 0, "greatest": False}),
    (_special, {"count": 4, "greatest": False}), (_special, {"count": 14, "greatest": True}),
    ((integers(-3, 3), (3, 90)), {"count": 9, "greatest": True}),
    ((integers(-3, 3), (3, 700)), {"count": 9, "greatest": False}),
)  # fmt: skip

partial_sort: Primitive = primitive(
    "partial_sort",
    infer=_infer_ends,
    numpy=lambda x, *, count, greatest: _ends(np.sort(x, axis=-1), count, greatest),
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    emit=Emit(
        lazy("functrans.ops.reductions.compiled.partial_sort:partial_sort"),
        operations=_comparisons,
    ),
    samples=_end_samples,
)

partial_argsort: Primitive = primitive(
    "partial_argsort",
    infer=lambda x, **params: _infer_ends(x, **params).update(dtype=INDEX),
    numpy=lambda x, *, count, greatest: _ends(argsort.numpy(x, axis=x.ndim - 1), count, greatest),
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    emit=Emit(
        lazy("functrans.ops.reductions.compiled.partial_sort:partial_argsort"),
        operations=_comparisons,
    ),
    samples=_end_samples,
)

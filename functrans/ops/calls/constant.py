"""constant: an array, held by a rule of a custom derivative, as an equation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import ZERO_DERIVATIVE
from functrans.ir.types import Aval
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.compiled.emission import Element, Emission, Emit, elements
from functrans.ops.define import primitive
from functrans.ops.samples import cases

if TYPE_CHECKING:
    from functrans.loop.target import Target


class Constant:
    """An array as a parameter, which compares and hashes by its bytes."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array.copy()
        self.array.flags.writeable = False
        self._key = (array.shape, array.dtype, self.array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __repr__(self) -> str:
        return repr(Aval(self.array.shape, self.array.dtype))


LARGEST_TABLE = 1024
"""The most elements of a constant that is a table in the code; a larger one is a NumPy array."""


def _emit_constant(at: Emission) -> None:
    array = at.eqn.params["value"].array
    loops = at.loops(array.shape)
    number: Scalar = scalar.const(0, np.int64)
    for i, extent in zip(loops, array.shape, strict=True):
        number = number * extent + i
    table = tuple(array.ravel().tolist())
    element = Element(loops, at.simplify(scalar.lookup(table, number, array.dtype)))
    at.compute(at.result(), loops, range(array.ndim), [element])


def _fits_a_table(eqn: Eqn, target: Target) -> bool:
    array = eqn.params["value"].array
    return 0 < array.size <= LARGEST_TABLE and array.dtype in (np.float64, np.int64)


constant = primitive(
    "constant",
    infer=lambda *, value: Aval(value.array.shape, value.array.dtype),
    numpy=lambda *, value: value.array,
    jvp=ZERO_DERIVATIVE,
    emit=Emit(_emit_constant, applies=_fits_a_table, operations=elements),
    samples=cases(({"value": Constant(np.arange(3.0))},)),
)

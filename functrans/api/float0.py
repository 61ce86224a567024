"""The derivatives of integers: arrays of dtype float0, which hold nothing.

A graph has no type for them. As a result of a traced function they are a container of zeros, which
gives them their shape, also where `vmap` or a loop adds an axis to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.ir.types import Aval, is_inexact
from functrans.tree import core as tree
from functrans.tree.registration import register

FLOAT0 = np.dtype([("float0", np.void, 0)])
"""The dtype of derivatives with respect to integers, which hold no data."""


class _Contained:
    """Zeros in the place of an array of dtype float0, as which they come out of the tree."""

    def __init__(self, zeros: Any) -> None:
        self.zeros = zeros


register(
    _Contained,
    lambda contained: ((contained.zeros,), None),
    lambda _, children: np.zeros(np.shape(next(iter(children))), FLOAT0),
)


def is_float0(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == FLOAT0


def contained(result: Any) -> Any:
    """The result of a traced function with its arrays of dtype float0 as containers of zeros."""
    return tree.map(lambda x: _Contained(np.zeros(x.shape, bool)) if is_float0(x) else x, result)


def among_floats(found: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Derivatives with respect to all arguments, from those with respect to the floats."""
    rest = iter(found)
    return [next(rest) if is_inexact(a.dtype) else np.zeros(a.shape, FLOAT0) for a in avals]

"""Operators of polars objects with a traced value as their right operand.

They would treat the tracer as a literal, and do not defer to its reflected operator. A dispatch
hook refuses the operation with the same message as for a tracer on the left.
"""

from __future__ import annotations

import sys
from types import FrameType, FunctionType
from typing import Any

from functrans.trace.delegation import delegate
from functrans.trace.foreign import refuse_labelled
from functrans.trace.tracer import Tracer

_OPERATORS = (
    "add sub mul truediv floordiv mod pow matmul and or xor eq ne lt le gt ge "
    "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor"
)


def answer_for_polars() -> None:
    """Install the dispatch in the operators of series, frames and expressions."""
    polars = sys.modules["polars"]
    for kind in (polars.Series, polars.DataFrame, polars.Expr):
        for name in _OPERATORS.split():
            operator = vars(kind).get(f"__{name}__")
            if isinstance(operator, FunctionType):
                delegate(operator, lambda self, other: refuse_labelled(self), _meets_a_traced_value)


def _meets_a_traced_value(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(x, Tracer) for x in args)

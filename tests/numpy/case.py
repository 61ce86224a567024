"""Test cases: the text of a call, and its arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """``call(*operands)``; the operands are what is traced."""

    name: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]
    needs_values: bool = False


def _rng():
    return np.random.default_rng(7)


v = _rng().normal(size=5)
w = _rng().uniform(0.5, 2.0, size=5)
m = _rng().normal(size=(3, 4))
n = _rng().uniform(0.5, 2.0, size=(4, 2))
t = _rng().normal(size=(2, 3, 4))
sq = _rng().normal(size=(3, 3)) + 4 * np.eye(3)
spd = sq @ sq.T
k = np.array([3, -1, 2, 0, 3])
ki = np.array([[1, 2, 0], [5, 7, 3]], np.int32)
kb = np.array([[True, False, True], [True, True, True]])
f32 = _rng().normal(size=(2, 3)).astype(np.float32)
holes = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 6.5]])


def case(call, *operands, needs_values=False):
    """A case named by the text of the call, which is evaluated with ``np`` and its operands."""
    names = "abc"[: len(operands)]
    function = eval(f"lambda {', '.join(names)}: {call}", {"np": np, "inf": np.inf})
    shapes = ",".join(f"{x.dtype}{list(x.shape)}" for x in map(np.asarray, operands))
    return Case(f"{call}|{shapes}", function, operands, needs_values)


def each(calls, *operands, **options):
    return [case(call, *operands, **options) for call in calls]

"""Interval arithmetic: the range of an operation, from the ranges of its operands."""

from __future__ import annotations

from typing import TypeVar

N = TypeVar("N", int, float)


def interval(op: str, x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N] | None:
    """The least and the greatest result, as if nothing wrapped; None if no rule gives them."""
    (a, b), (c, d) = x, y
    match op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "neg":
            return -b, -a
        case "mul":
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "idiv" if a >= 0 and c == d > 0:
            return a // c, b // c
        case "irem" if a >= 0 and c == d > 0:
            return (a, b) if b < c else (0, c - 1)
    return None

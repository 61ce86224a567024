"""Reshaping of buffers: an array of equal size, in C order, as a kernel's buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def as_in_kernel(
    given: Sequence[int],  # the extents of the array
    inner: Sequence[int],  # the extents of the kernel's buffer except the first, which is computed
    has_axes: bool,  # whether the kernel's buffer has axes at all
) -> tuple[int, ...] | None:
    """The extents of an array as a kernel takes it; None if its shape does not fit."""
    if not has_axes:
        return () if prod(given) == 1 else None
    if tuple(given[1:]) == tuple(inner) and given:
        return tuple(given)
    rows, rest = divmod(prod(given), prod(inner) or 1)
    return None if rest or not prod(inner) else (rows, *inner)

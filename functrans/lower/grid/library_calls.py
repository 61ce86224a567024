"""Library calls: products that are no part of a larger kernel.

Expects roots, of which some have a call that computes the same. Leaves roots that are one or the
other. Attention, which comes before this, has taken in the products that it is made of: scores
and weights that a library computed would be in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functrans.loop.walk import loaded
from functrans.lower.select.root import Root, kept_for_calls


def with_library_calls(roots: Sequence[Root]) -> tuple[Root, ...]:
    """Roots, of which those that may be calls are; what these read is in memory."""
    if not any(root.instead for root in roots):
        return tuple(roots)
    return tuple(kept_for_calls([_called(root) if root.instead else root for root in roots]))


def _called(root: Root) -> Root:
    """A root whose elements are computed by its call."""
    operands = tuple(sorted(loaded(root.instead), key=lambda each: each.name))
    return replace(
        root, loops=(), axes=(), elements=(), call=root.instead, instead=(), operands=operands
    )

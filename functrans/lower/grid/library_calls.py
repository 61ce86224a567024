"""Library calls: products that are not part of a larger kernel.

Expects roots, of which some have an equivalent call. Leaves roots with or without a call.
Attention, which is fused before this stage, contains its products: if a library computed scores and
weights, they would be stored in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functrans.lower.select.root import Elements, Root, kept_for_calls


def with_library_calls(roots: Sequence[Root]) -> tuple[Root, ...]:
    """The roots, as calls where possible; the values that these read are in memory."""
    called = [_called(root) for root in roots]
    return tuple(roots) if called == [*roots] else tuple(kept_for_calls(called))


def _called(root: Root) -> Root:
    """The call that computes the elements of a root; None if there is none."""
    if not isinstance(root, Elements) or root.instead is None:
        return root
    return replace(root.instead, output=root.output)

"""Library calls: products that are no part of a larger kernel.

Expects roots, of which some have a call that computes the same. Leaves roots that are one or the
other. Attention, which comes before this, has taken in the products that it is made of: scores
and weights that a library computed would be in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functrans.lower.select.root import Elements, Root, kept_for_calls


def with_library_calls(roots: Sequence[Root]) -> tuple[Root, ...]:
    """Roots, of which those that may be calls are; what these read is in memory."""
    called = [_called(root) for root in roots]
    return tuple(roots) if called == [*roots] else tuple(kept_for_calls(called))


def _called(root: Root) -> Root:
    """The call that computes the elements of a root, if there is one."""
    if not isinstance(root, Elements) or root.instead is None:
        return root
    return replace(root.instead, output=root.output)

"""Loop fusion around products: a product starts a nest, which operations on it may join."""

from __future__ import annotations

from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Contraction, Root


def begins_a_nest(nest: Loop, root: Root) -> bool | None:
    """A `functrans.lower.nest.fusion.Rule`: products join no nest; for others it is undecided."""
    return False if isinstance(root, Contraction) else None

"""Access analysis of products by warps: which elements of the operands each thread reads.

Arrays have an axis for each enclosing loop (`functrans.loop.domain`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from functrans.loop import fragments
from functrans.loop.access import Array, along
from functrans.loop.domain import Fault, Unknown, Value, aligned
from functrans.loop.statements import MatrixMultiply, Panel


def lane(thread: Array | None, team: int) -> Array:
    """The lanes of the threads that reach a product, which must be whole warps of a team."""
    if thread is not None and team % fragments.WARP == 0 == thread.size % fragments.WARP:
        number = thread % fragments.WARP
        if (number.reshape(-1, fragments.WARP) == np.arange(fragments.WARP)).all():
            return number
    raise Fault("a product of matrices is done by whole warps of a team")


def check_alike(values: Sequence[Value], lane: Array) -> None:
    """Check that values are the same for all threads of a warp, which are an axis of ``lane``."""
    axis = int(np.argmax(lane.shape))
    for value in values:
        if isinstance(value, Unknown) or not _is_alike(value, axis):
            raise Fault("the threads of a warp do not come to the same product of matrices")


def _is_alike(value: Array, axis: int) -> bool:
    if value.ndim <= axis or value.shape[axis] == 1:
        return True
    warps = np.moveaxis(value, axis, 0).reshape(-1, fragments.WARP, value.size // value.shape[axis])
    return bool((warps == warps[:, :1]).all())


def read(
    statement: MatrixMultiply, lane: Array, corners: Sequence[Array], depth: int
) -> Iterator[tuple[Panel, Array]]:
    """The elements that threads read of both operands, given those at which they begin."""
    quotient, rest = divmod(lane, 4)
    left, right = statement.left, statement.right
    rows = fragments.own_rows(quotient, left.rows), fragments.own_columns(rest, right.rows)
    term = along(depth, np.arange(fragments.terms(statement.dtype)), depth + 1)
    for panel, corner, own in zip((left, right), corners, rows, strict=True):
        for row in own:
            offset = np.add(*aligned(row * panel.apart, term * panel.terms_apart))
            yield panel, np.add(*aligned(corner, offset))

"""Scatters: updates are written to a copy of the array, in order."""

from __future__ import annotations

from functrans.ir.types import Aval
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Statement, Store
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.indexing.positions import index_shape, pull_indices
from functrans.records import NamedTuple


class Scatter(NamedTuple):
    """A scatter: its updates, and their positions."""

    at: Emission
    x: Aval
    updates: Aval
    axes: tuple[int, ...]  # the indexed axes of ``x``
    shape: tuple[int, ...]  # the shape of the index arrays

    @property
    def loops(self) -> Position:
        """Indices of all updates."""
        return tuple(index("u", n) for n in self.updates.shape)

    def pointed_at(self, loops: Position) -> list[Scalar]:
        """The positions in the index arrays, along each indexed axis."""
        indices = [operand.aval for operand in self.at.eqn.inputs[2:]]
        return pull_indices(self.at.element, 2, loops, self.x, indices, self.axes)

    def position(self, loops: Position) -> Position:
        """The position of the element that an update changes."""
        ndim = len(self.shape)
        own = dict(zip(self.axes, self.pointed_at(loops[:ndim]), strict=True))
        rest = iter(loops[ndim:])
        return tuple(own[a] if a in own else next(rest) for a in range(self.x.ndim))


def scatter_of(at: Emission) -> Scatter:
    """The scatter of an equation."""
    x, updates, *indices = (operand.aval for operand in at.eqn.inputs)
    return Scatter(at, x, updates, at.eqn.params["axes"], index_shape(indices))


def emit(combine: str | None, at: Emission) -> None:
    """Combine each update with the element by a scalar operation; None replaces the element.

    If an element is set twice, the last update wins.
    """
    own = scatter_of(at)
    loops = own.loops
    before, store = store_of(own, combine, loops)
    ndim = len(own.shape)
    if _is_window(own, store, loops[:ndim]) and not before:
        order = (*loops[ndim:], *loops[: ndim - 1])
        statements = nest(order, vectorised(loops[ndim - 1], store, at.target))
    elif _inside(own):  # loop over parts of the array; in each, updates keep their order
        statements = nest((*loops[ndim:], *loops[:ndim]), (*before, store))
    elif before or own.updates.size == 0 or ndim == len(loops):
        statements = nest(loops, (*before, store))
    else:  # the elements of one row have different positions: their order does not matter
        statements = nest(loops[:-1], vectorised(loops[-1], store, at.target))
    at.call(statements)


def store_of(
    own: Scatter, combine: str | None, loops: Position, atomic: bool = False
) -> tuple[list[Statement], Store]:
    """The statements that compute an update, and its store."""
    target = own.at.copied(0)
    before, value, position = update_of(own, loops)
    return before, Store(target, position, value, combine, atomic)


def update_of(own: Scatter, loops: Position) -> tuple[list[Statement], Scalar, Position]:
    """The statements that compute an update, its value, and its position."""
    at = own.at
    values = [at.element(1, loops), *map(at.simplify, own.position(loops))]
    before, (value, *position) = lower_folds(values, 1, at.simplify, at.target)
    return before, value, tuple(position)


def _is_window(own: Scatter, store: Store, loops: Position) -> bool:
    """Whether updates along the last axis of the index arrays are of adjacent elements."""
    if not loops:
        return False
    factors = Coefficients(loops[-1])
    *rest, last = map(factors.of, store.indices)
    return own.updates.size > 0 and last in (1, -1) and not any(rest)


def _inside(own: Scatter) -> bool:
    """Whether the last axis is one of the indexed axes."""
    return own.x.ndim - 1 in own.axes

"""Constant propagation into indices: gathers and scatters at known indices become slices.

The elements that an index array refers to are known at compile time if the array is part of the
program, or is computed from such arrays and from counters. A gather at equally spaced positions
becomes a slice, and at other positions a `pick`. A scatter becomes a `put`, which computes each
element of the result by inverting the map from updates to positions, so the array need not be
filled first and updated afterwards. Several indexed axes are treated as a single, merged axis. If
several updates have the same position, they are applied in rounds, in NumPy's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.ir.primitive import Primitive
from functrans.ir.types import Shape
from functrans.ops.arrays.known import FEW_INTEGERS, known_integers
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import full_p, inverse, iota, reshape, transpose
from functrans.ops.compiled.places import Range, whole
from functrans.ops.elementwise.arithmetic import add, multiply
from functrans.ops.indexing.fixed import Positions, pick, put
from functrans.ops.indexing.gather import gather, scatter_add, scatter_multiply, scatter_set
from functrans.optimise.rewrite import Rule, replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment

LONGEST_TARGET = 512
"""The largest number of elements along the indexed axes of a scatter, since a table lists all of
them."""

FEW_TARGETS = 64
"""Up to this many elements along the indexed axes, a `put` is used whatever the number of
updates is."""

SPARSE = 4
"""The ratio of elements to updates at which the scatter remains, since it leaves most elements
unchanged."""

MOST_ROUNDS = 4
"""The largest number of updates of one element."""

COMBINES: dict[Primitive, Callable[[Any, Any], Any] | None] = {
    scatter_set: None,
    scatter_add: add,
    scatter_multiply: multiply,
}
"""How each scatter combines an update with the old element; None: the update replaces it."""


def index_by_constants(graph: Graph) -> Graph:
    """Replace gathers and scatters at known indices by slices and selections.

    Expects equations in their simplest form, so that index arrays can be traced back to constants.
    Leaves no gather at a few known indices, and no scatter to a few elements.
    """
    if not any(eqn.primitive in _RULES for eqn in graph.eqns):
        return graph
    known = Known(graph)
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        find = _RULES.get(eqn.primitive)
        rule = find(eqn, known) if find is not None else None
        if rule is not None:
            rules[eqn] = rule
    return replaced(graph, rules)


# -- known values ----------------------------------------------------------------------------------


class Known:
    """The values of a graph that can be computed from small constants."""

    def __init__(self, graph: Graph) -> None:
        self._makers = graph.makers
        self._values: dict[Atom, Any] = {}

    def value(self, atom: Atom) -> Any:
        """The value of an atom; None if it is not known."""
        if isinstance(atom, Literal):
            return atom.aval.dtype.type(atom.value)
        if atom not in self._values:
            self._values[atom] = None
            self._values[atom] = self._computed(atom)
        return self._values[atom]

    def _computed(self, atom: Atom) -> Any:
        maker = self._makers.get(atom)
        if maker is None or atom.aval.dtype.kind not in "biu" or atom.aval.size > FEW_INTEGERS:
            return None
        primitive = maker.primitive
        if primitive.several or primitive.higher_order or not primitive.by_elements:
            return None
        if not maker.inputs and primitive not in (known_integers, iota, full_p):
            return None
        values = [self.value(x) for x in maker.inputs]
        if any(value is None for value in values):
            return None
        with np.errstate(all="ignore"):
            return primitive.numpy(*values, **maker.params)


class Target(NamedTuple):
    """An indexed array, as one whose indexed axes are merged into a single axis."""

    shape: Shape  # the shape of the array
    axes: tuple[int, ...]  # the indexed axes
    index_shape: Shape  # the shape of the index arrays
    positions: Positions  # the positions along the merged axis to which the indices refer

    @property
    def axis(self) -> int:
        """The merged axis, which takes the place of the first indexed axis."""
        return sum(a not in self.axes for a in range(self.axes[0]))

    @property
    def order(self) -> tuple[int, ...]:
        """The array's axes, reordered so that the indexed ones are adjacent."""
        rest = [a for a in range(len(self.shape)) if a not in self.axes]
        return (*rest[: self.axis], *self.axes, *rest[self.axis :])

    @property
    def extent(self) -> int:
        """The extent of the merged axis."""
        return prod(self.shape[a] for a in self.axes)

    @property
    def rest(self) -> Shape:
        """The extents of the axes that are not indexed."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.axes)

    def merged(self, x: Any) -> Any:
        """The array with its indexed axes merged."""
        rest = self.rest
        shape = (*rest[: self.axis], self.extent, *rest[self.axis :])
        return reshape(transpose(x, permutation=self.order), shape=shape)

    def split(self, x: Any) -> Any:
        """The inverse of `merged`."""
        shape = tuple(self.shape[a] for a in self.order)
        return transpose(reshape(x, shape=shape), permutation=inverse(self.order))

    def _first(self) -> tuple[int, ...]:
        """The permutation that moves the merged axis to the front."""
        others = [a for a in range(len(self.rest) + 1) if a != self.axis]
        return (self.axis, *others)

    def as_gathered(self, x: Any) -> Any:
        """Picked elements in the axis order of a gather's result: the index shape comes first."""
        first = transpose(x, permutation=self._first())
        return reshape(first, shape=(*self.index_shape, *self.rest))

    def as_picked(self, updates: Any) -> Any:
        """The inverse of `as_gathered`."""
        first = reshape(updates, shape=(len(self.positions), *self.rest))
        return transpose(first, permutation=inverse(self._first()))


def _target(x: Atom, indices: Sequence[Atom], axes: tuple[int, ...], known: Known) -> Target | None:
    """The indexed elements; None if an index is unknown, too long, or out of bounds."""
    found = [known.value(each) for each in indices]
    if not found or any(each is None for each in found):
        return None
    arrays = np.broadcast_arrays(*found)
    extents = [x.aval.shape[a] for a in axes]
    if arrays[0].size > FEW_INTEGERS:
        return None
    flat = np.zeros(arrays[0].shape, np.int64)
    for array, extent in zip(arrays, extents, strict=True):
        if np.any((array < -extent) | (array >= extent)):
            return None  # evaluation raises the error
        flat = flat * extent + np.where(array < 0, array + extent, array)
    return Target(x.aval.shape, axes, flat.shape, tuple(flat.ravel().tolist()))


# -- rules -----------------------------------------------------------------------------------------


def _of_gather(eqn: Eqn, known: Known) -> Rule | None:
    x, *indices = eqn.inputs
    target = _target(x, indices, eqn.params["axes"], known)
    return None if target is None else partial(_picked, eqn, target)


def _picked(eqn: Eqn, target: Target, values: Environment) -> list[Any]:
    x = target.merged(values.read(eqn.inputs[0]))
    return [target.as_gathered(_selected(x, target.axis, target.positions))]


def _selected(x: Any, axis: int, positions: Positions) -> Any:
    """The elements at some positions of an axis; a slice if these are equally spaced."""
    entry = _spaced(positions)
    if entry is None:
        return pick(x, axis=axis, positions=positions)
    index = tuple(entry if a == axis else whole(n) for a, n in enumerate(x.shape))
    return read_slice(x, index=index)


def _spaced(positions: Positions) -> Range | None:
    """Equally spaced positions as a range; None if they are not equally spaced."""
    if not positions:
        return (0, 0, 1)
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    wanted = tuple(positions[0] + i * step for i in range(len(positions)))
    return (positions[0], len(positions), step) if step and wanted == positions else None


def _of_scatter(eqn: Eqn, known: Known) -> Rule | None:
    x, _, *indices = eqn.inputs
    target = _target(x, indices, eqn.params["axes"], known)
    if target is None or not _is_dense(target):
        return None
    combine = COMBINES[eqn.primitive]
    rounds = _in_rounds(target.positions) if combine else [_last_of_each(target.positions)]
    return partial(_put_in, eqn, target, rounds) if len(rounds) <= MOST_ROUNDS else None


def _is_dense(target: Target) -> bool:
    """Whether a `put`, which computes all elements, is about as little work as a scatter."""
    most = max(FEW_TARGETS, SPARSE * len(target.positions))
    return 0 < target.extent <= min(most, LONGEST_TARGET)


def _in_rounds(positions: Positions) -> list[Positions]:
    """The indices of the positions, in the fewest groups without equal positions.

    Of equal positions, earlier ones are in earlier groups.
    """
    times: dict[int, int] = {}
    rounds: list[list[int]] = []
    for number, position in enumerate(positions):
        turn = times.get(position, 0)
        times[position] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(number)
    return [tuple(each) for each in rounds]


def _last_of_each(positions: Positions) -> Positions:
    """The indices of those positions that are not repeated later."""
    last = {position: number for number, position in enumerate(positions)}
    return tuple(sorted(last.values()))


def _put_in(
    eqn: Eqn, target: Target, rounds: Sequence[Positions], values: Environment
) -> list[Any]:
    combine = COMBINES[eqn.primitive]
    result = target.merged(values.read(eqn.inputs[0]))
    updates = target.as_picked(values.read(eqn.inputs[1]))
    for numbers in rounds:
        positions = tuple(target.positions[number] for number in numbers)
        new = _selected(updates, target.axis, numbers)
        if combine is not None:
            new = combine(_selected(result, target.axis, positions), new)
        result = put(result, new, axis=target.axis, positions=positions)
    return [target.split(result)]


_RULES: Mapping[Primitive, Callable[[Eqn, Known], Rule | None]] = {
    gather: _of_gather,
    **dict.fromkeys(COMBINES, _of_scatter),
}
"""By primitive: the rule that computes an equation whose positions are known."""

"""Root building: the expressions of the values of a graph that are materialised.

A *root* has an iteration space of its own: it is stored element by element, to memory or, when the
nests have been fused, to a local. All other values are pulled into the expressions of roots. Too
many roots do no harm: fusion turns a root that is only used in its own nest into a local.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Shape
from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX, linear, separated
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.statements import Buffer, buffer
from functrans.loop.target import Target
from functrans.lower.plan import View
from functrans.lower.select.recomputation import Demand, Evaluation, Recorder, demand
from functrans.lower.select.root import Elements, Root, in_memory, kept_for_calls, makers_of
from functrans.lower.select.unrolling import (
    Loops,
    Trial,
    Unrolling,
    axes_to_unroll,
    folded_along_rows,
    operations,
    work_along_axes,
)
from functrans.lower.select.views import view_of
from functrans.ops.compiled import emission
from functrans.ops.compiled.elements import Index
from functrans.ops.compiled.emission import Inner
from functrans.ops.compiled.regrouping import regrouped
from functrans.records import NamedTuple

LoopsAndElements = tuple[tuple[Scalar, ...], tuple[tuple[Index, Scalar], ...]]
"""Loops over some axes of a value, and its elements inside them with their indices."""


class Subprogram(NamedTuple):
    """A call of a subprogram: its graph, and the buffers of its operands and results."""

    graph: Graph
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]


class RootBuilder:
    """Builds the roots of a graph, and records the buffers of its values."""

    def __init__(
        self,
        graph: Graph,  # of equations with a compiled form only
        inputs: Sequence[Buffer],  # the buffers of the graph's inputs
        lower: Callable[[Graph], Inner],  # lowers an inner graph
        target: Target,
        whole: bool = False,  # whether the graph is a program, and not inside another graph
        fixed: Sequence[Buffer] = (),  # the inputs of which parts are read in place
    ) -> None:
        self.lower = lower
        self.whole = whole
        self.target = target
        self.buffers: dict[Var, Buffer] = dict(zip(graph.inputs, inputs, strict=True))
        self.folded = folded_along_rows(graph, target)
        is_step = not whole and not target.lanes_are_threads
        self._work = work_along_axes(graph, target) if is_step else {}
        self._producers = dict(graph.makers)
        self._results = set(graph.outputs)
        self._numbers = {eqn: number for number, eqn in enumerate(graph.eqns)}
        self._readers = graph.readers
        self.puller = Recorder(self._producers, self.buffers)
        self._written = 0  # operations of all unrolled elements together
        self.loops = Loops()
        self.all: list[Root] = []
        self._written_out: dict[Buffer, Elements] = {}
        self.evaluations: list[Evaluation] = []
        self.outputs: list[Buffer] = []
        self.inner: list[Inner] = []
        self.shared: dict[Hashable, Any] = {}
        self.subprograms: dict[str, Subprogram] = {}
        self.views: dict[Buffer, View] = {}
        self._parts = {one: View(one, 0) for one in fixed}  # these inputs, and the views

    def demand(self) -> Demand:
        """The number of times that each value which is not materialised is computed."""
        return demand(self.puller, self.evaluations)

    def finish(self, atoms: Sequence[Atom]) -> None:
        """Copy outputs to buffers of their own, and determine which values have to be in memory."""
        self.all = kept_for_calls(self.all)
        makers = makers_of(self.all)
        for number, atom in enumerate(atoms):
            home = self._home(atom)
            if home is not None and home in makers and home not in self.outputs:
                maker = makers[home]
                self.all[maker] = in_memory(self.all[maker])
                self.outputs.append(home)
            else:
                self.outputs.append(self.add(atom, f"out{number}", output=True))

    def _home(self, atom: Atom) -> Buffer | None:
        """The buffer of a value, or in a program for cores of one with the same elements."""
        is_program = self.whole and not self.target.lanes_are_threads
        while is_program and atom not in self.buffers and isinstance(atom, Var):
            eqn = self._producers.get(atom)
            if eqn is None or eqn.primitive.regroups is None or not eqn.inputs[0].aval.shape:
                return None
            (atom,) = eqn.inputs
        return self.buffers.get(atom) if isinstance(atom, Var) else None

    def regrouped(self, atom: Atom) -> Atom:
        """A value with the same elements in memory, but with axes that suit loops better."""
        found = regrouped(atom, self._producers, self.buffers)
        if found is None or self.target.lanes_are_threads:
            return atom
        var, eqn = found
        self._producers[var] = eqn
        return var

    def loop_axes(self, atom: Atom) -> tuple[int, ...]:
        """The axes of a value that become loops; the others are unrolled.

        Unrolling in a program is bounded, because compile time grows with it. Beyond the bound, all
        axes become loops, except for a last axis of few elements in front of which vectors are
        longer.
        """
        shape = atom.aval.shape
        axes = self._loop_axes(atom)
        if not self.whole or all(n == 1 for axis, n in enumerate(shape) if axis not in axes):
            return axes
        room = self.target[Unrolling].largest_program - self._written
        written = self._operations(atom, axes, room)
        if written > room:
            long = tuple(axis for axis, n in enumerate(shape) if n > 1)
            return long[:-1] if self._vectors_go_before(atom, long, axes) else long
        self._written += written
        return axes

    def _vectors_go_before(self, atom: Atom, long: Sequence[int], axes: Sequence[int]) -> bool:
        """Whether the last axis would be unrolled, is a part of a vector, and is the shorter one.

        ``long`` are the axes of more than one element, ``axes`` those that would be loops.
        """
        few = self.target[Unrolling].one_vector // 2
        *_, before, last = (0, *(atom.aval.shape[axis] for axis in long))
        return long[-1] not in axes and last <= min(few, before - 1)

    def _operations(self, atom: Atom, axes: Sequence[int], enough: int) -> int:
        """The operations of unrolled elements; counting stops once they exceed ``enough``.

        Shared and folded operations are not counted: elements along constants are often zeros and
        ones.
        """
        known: set[Scalar] = set()
        count = 0
        for position in self._positions(atom.aval.shape, axes):
            if count > enough:
                break
            new = postorder([self.puller.element(atom, position)], known=known)
            known.update(new)
            count += node_count(new)
        return count

    def _loop_axes(self, atom: Atom) -> tuple[int, ...]:
        """The axes of a value that become loops, without regard to the program's size."""
        shape, last = atom.aval.shape, atom.aval.ndim - 1
        limits = self.target[Unrolling]
        is_few = prod(shape) <= (limits.alone if self.whole else limits.sums)
        if is_few and not self._fills_half_vectors(shape):
            return ()
        loops = self.loops(shape)
        nodes = postorder([self.puller.element(atom, loops)])
        trial = Trial(shape, loops, nodes, atom.aval.dtype.itemsize)
        if is_few:
            return () if trial.reduces or trial.branches_along(last) else (last,)
        if trial.reduces and prod(shape) <= limits.sums:
            return tuple(range(len(shape)))  # a team of threads for each element
        unrolled = self._short_axes(trial)
        if len(unrolled) == len(shape) and shape[-1] >= limits.one_vector:
            if self._is_much_work(trial) and not trial.branches_along(last):
                return (last,)
        elif last in unrolled and self._has_vectors_of_its_own(trial):
            unrolled.remove(last)
        else:
            unrolled = self._without_unrelated(atom, trial, unrolled)
        # vectors are along the longer axis: that of all windows, and not that of their rows
        inner = max(set(range(len(shape))) - unrolled, default=len(shape))
        longer = [axis for axis in unrolled if axis > inner and shape[axis] >= shape[inner] > 1]
        if not trial.branches_along(*longer):
            unrolled.difference_update(longer)
        return tuple(axis for axis in range(len(shape)) if axis not in unrolled)

    def _short_axes(self, trial: Trial) -> set[int]:
        """The axes that are short enough to be unrolled, and for which it is profitable."""
        shape, limits = trial.shape, self.target[Unrolling]
        most = trial.most_unrolled(limits)
        behind, front = axes_to_unroll(shape, limits.longest, most, limits.one_vector)
        # an axis of one element needs no loop: the next one is then the outermost, which threads
        # share
        single = [axis for axis, extent in enumerate(shape) if extent == 1]
        return {*behind, *single, *(front if trial.branches_along(*front) else ())}

    def _is_much_work(self, trial: Trial) -> bool:
        """Whether vectors are profitable though all axes are short."""
        limits = self.target[Unrolling]
        work_of_step = self._work.get(trial.shape[-1], 0)
        return node_count(trial.nodes) >= limits.much_work or work_of_step >= limits.work_of_step

    def _has_vectors_of_its_own(self, trial: Trial) -> bool:
        """Whether vectors are along a short last axis, and not along the one before it."""
        is_longer = trial.shape[-1] > self.target[Unrolling].largest_interleaved
        is_folded = trial.shape in self.folded
        return is_longer and not is_folded and not self._is_made_by_elements(trial)

    def _without_unrelated(self, atom: Atom, trial: Trial, unrolled: set[int]) -> set[int]:
        """The axes to unroll, without those of many elements that have nothing in common.

        If they share no operations, and nothing reads them one by one, vectors along the
        last of these axes that is long enough are as good as vectors along an axis in front, and
        the code is shorter.
        """
        shape, limits = trial.shape, self.target[Unrolling]
        written = sorted(axis for axis in unrolled if shape[axis] > 1)
        long = {axis for axis in written if shape[axis] >= limits.half_vector}
        vector = max(long, default=-1)
        if vector < 0 or prod(shape[axis] for axis in written) <= limits.longest:
            return unrolled
        loops = [axis for axis in range(len(shape)) if axis not in unrolled]
        if not loops or loops[-1] > vector or not self.whole or self.target.lanes_are_threads:
            return unrolled
        is_bound = trial.reduces or trial.branches_along(*long) or self._is_made_by_elements(trial)
        if is_bound or not trial.is_near_along(vector, loops[-1]):
            return unrolled
        elements = [self.puller.element(atom, at) for at in self._positions(shape, loops)]
        own = len(elements) * operations(trial.nodes)
        shares = operations(postorder(elements)) < limits.unrelated * own
        return unrolled if shares or not self._is_read_as_a_whole(atom) else unrolled - long

    def _is_read_as_a_whole(self, atom: Atom) -> bool:
        """Whether nothing reads elements of a value at other places than its own."""
        stack, seen = [atom], set[Eqn]()
        while stack:
            for reader in self._readers.get(stack.pop(), ()):
                if reader in seen or emission.emitted(reader, self.target) is not None:
                    continue
                seen.add(reader)
                if reader.primitive.scalar is None and reader.primitive.regroups is None:
                    return False
                stack += reader.outputs
        return True

    def _fills_half_vectors(self, shape: Shape) -> bool:
        """Whether a step's few elements along the last axis are at least half a vector."""
        limits = self.target[Unrolling]
        count = prod(shape)
        if not shape or count != shape[-1] or count < limits.half_vector:
            return False
        computed = -(-count // limits.half_vector) * limits.half_vector
        return 3 * computed <= 4 * count and self._work.get(count, 0) >= limits.much_work

    def _is_made_by_elements(self, trial: Trial) -> bool:
        """Whether vectors should not be along the last axis, though it would fill one.

        They cannot be if its elements are computed differently; and they would have to wait for
        everything that has been unrolled along the axes in front.
        """
        return trial.branches_along(len(trial.shape) - 1) or any(
            bool(maker.axes)
            and len(maker.target.shape) - 1 not in maker.axes
            and all(load.args[axis] in trial.loops[:-1] for axis in maker.axes)
            for load in trial.nodes
            if load.op == "load" and (maker := self._written_out.get(load.attribute)) is not None
        )

    def name(self) -> str:
        """A name for the next root's value."""
        return f"t{len(self.all)}"

    def in_memory(self, atom: Atom) -> Buffer:
        """The buffer of a value, which is materialised if it has not been before."""
        if isinstance(atom, Var) and atom in self.buffers:
            return self.buffers[atom]
        if isinstance(atom, Var) and self._parts and atom.aval.size:
            view = view_of(atom, self.puller, self.loops, self._parts)
            if view is not None:
                one = buffer(f"v{len(self.views)}", atom.aval.dtype, atom.aval.shape)
                self.views[one] = self._parts[one] = view
                self.puller.keep(atom, one)
                return one
        return self.add(atom, self.name())

    def to_be_changed(self, eqn: Eqn, operand: int) -> Buffer:
        """A buffer with the value of an operand, which an equation updates in place.

        It is the operand's own buffer if its value is not needed any more.
        """
        atom = eqn.inputs[operand]
        home = self.buffers.get(atom) if isinstance(atom, Var) else None
        is_own = atom in self._producers and home not in self.views
        if home is not None and is_own and self._is_last(eqn, atom):
            return home
        return self.add(atom, self.name(), copied=True)

    def _is_last(self, eqn: Eqn, atom: Atom) -> bool:
        """Whether an equation is the only reader of a value in memory, and reads it once.

        Other values that depend on it must be in memory, or be read only by such values.
        """
        number, times = self._numbers[eqn], 0
        asked = {atom}
        stack = [atom]
        while stack:
            one = stack.pop()
            if one in self._results:
                return False
            for reader in self._readers.get(one, ()):
                times += reader is eqn
                if self._numbers[reader] > number or times > 1:
                    return False
                left = {x for x in reader.outputs if x not in self.buffers} - asked
                if reader is not eqn:
                    asked |= left
                    stack += left
        return True

    def add(self, atom: Atom, name: str, output: bool = False, copied: bool = False) -> Buffer:
        """Compute a value into a buffer; one that is ``copied`` is to be updated there."""
        shape = atom.aval.shape
        target = buffer(name, atom.aval.dtype, shape)
        if 0 in shape:  # nothing to compute, and no other axis to unroll or to loop over
            return target
        whole = atom if copied else self.regrouped(atom)
        if whole is not atom and isinstance(atom, Var):
            self.all.append(self.along_other_axes(whole, target, output))
            if not output:
                self.puller.keep(atom, target)
            return target
        streams = output and self.whole and self.target.lanes_are_threads and self._streams(atom)
        axes = tuple(range(len(shape))) if streams else self.loop_axes(atom)
        loops, elements = self.evaluated(atom, axes)
        root = Elements(target, loops, axes, elements, output)
        self.all.append(root)
        if not output and len(elements) > 1:
            self._written_out[target] = root
        if not output and not copied and isinstance(atom, Var):
            self.puller.keep(atom, target)
        return target

    def along_other_axes(
        self,
        whole: Atom,
        target: Buffer,
        output: bool = False,
        place: Callable[[Scalar], Index] | None = None,
    ) -> Elements:
        """The root of a value that has better axes for loops than its target.

        ``place`` gives the position of an element in the target, which may be larger, by its linear
        index.
        """
        own = self.loop_axes(whole) or tuple(range(whole.aval.ndim))
        loops, elements = self.evaluated(whole, own)
        extents = [int(extent.attribute) for extent in target.shape]
        find = place or (lambda number: separated(number, extents))
        placed = tuple(
            (tuple(map(self.puller.simplify, find(linear(at, whole.aval.shape)))), value)
            for at, value in elements
        )
        # it shares no loops with its readers, whose loops are along the axes of the target
        return Elements(target, loops, (0,) * len(own), placed, output, part=True, distant=True)

    def _streams(self, atom: Atom) -> bool:
        """Whether each element depends only on those at its own position: contiguous accesses."""
        trial = self.loops(atom.aval.shape)
        nodes = postorder([self.puller.element(atom, trial)])
        loads = [node for node in nodes if node.op == "load"]
        return all(load.args in (trial, ()) for load in loads)

    def evaluated(self, atom: Atom, axes: Sequence[int]) -> LoopsAndElements:
        """The `elements` of a value, recorded as an evaluation."""
        loops, elements = self.elements(atom, axes)
        if atom not in self.buffers:
            self.evaluations.append(
                Evaluation(atom, tuple(position for position, _ in elements), loops)
            )
        return loops, elements

    def elements(self, atom: Atom, axes: Sequence[int]) -> LoopsAndElements:
        """Loops over some of a value's axes, and its elements inside them with their indices."""
        shape = atom.aval.shape
        elements = tuple(
            (position, self.puller.element(atom, position))
            for position in self._positions(shape, axes)
        )
        return self.loops([shape[axis] for axis in axes]), elements

    def _positions(self, shape: Shape, axes: Sequence[int]) -> Iterator[Index]:
        """The indices of elements, inside loops over some of the axes."""
        loops = dict(zip(axes, self.loops([shape[axis] for axis in axes]), strict=True))
        return product(
            *(
                [loops[axis]] if axis in loops else [const(i, INDEX) for i in range(extent)]
                for axis, extent in enumerate(shape)
            )
        )

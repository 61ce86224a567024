"""Which values of a graph are computed as a whole, once, and which wherever they are used.

A *root* has an iteration space of its own: it is stored element by element, to memory or, when the
nests have been fused, to a local number. Everything else is pulled into the expressions of roots.
Too many roots do no harm: fusion turns a root that is used only where it is made into a local.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.loop.functions import size
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.statements import Buffer, Call, Statement, buffer
from functrans.loop.walk import loaded
from functrans.lower.select.recomputation import Demand, Made, Recorder, demand
from functrans.lower.select.root import Root
from functrans.lower.select.unrolling import Loops, folded_along_rows, small_axes, told_apart
from functrans.ops.arrays.slicing import Index as Place
from functrans.ops.arrays.slicing import is_whole
from functrans.ops.calls.call import step_p
from functrans.ops.compiled.elements import Index
from functrans.ops.compiled.inplace import SCATTERS, is_inplace, running, updates, written
from functrans.ops.control.compiled.loops import Lower, is_control, lower_control
from functrans.ops.linalg.compiled import lapack
from functrans.ops.linalg.compiled.blas import by_library, call, work
from functrans.ops.linalg.compiled.written_out import by_elements, is_matrices, written_out
from functrans.optimise.machine.joins import (
    FEW_ELEMENTS,
    TOGETHER,
    TOGETHER_IN_LOOP,
    apart,
    covers,
    is_join,
    parts_of,
)

ONE_VECTOR = 8
"""So many elements fill a vector."""

MUCH_WORK = 48
"""Operations for one element that are rather done as vectors: about an exponential."""

LARGEST_INTERLEAVED = 8
"""Vectors go along the axis before the last one if that is so short, and along itself if not."""

LARGEST_BODY = 16_000
"""About so many operations at most are written out for the elements along small axes."""

UNROLLED_SUMS = 7
"""So many long sums at most are written out in a loop's body; vectors go along more of them."""

UNROLLED_ELEMENTS = 64
"""So many elements of small axes at most are written out in a loop's body."""


class StepCall(NamedTuple):
    """A call of a part of the program: its graph, and where its operands and results are."""

    graph: Graph
    operands: tuple[Buffer, ...]
    targets: tuple[Buffer, ...]


class Rooting:
    """Chooses the roots of a graph and makes their expressions.

    Parameters
    ----------
    graph : Graph
        Of equations with a compiled form only.
    inputs : sequence of Buffer
        Where the graph's inputs are.
    lower : callable
        Lowers an inner graph.
    kept : set of Var
        What is to be computed once.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Buffer], lower: Lower, kept: Set[Var]
    ) -> None:
        self.graph = graph
        self.lower = lower
        self.kept = kept
        self.buffers: dict[Var, Buffer] = dict(zip(graph.inputs, inputs, strict=True))
        self.producers = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
        self.folded = folded_along_rows(graph)
        self.puller = Recorder(self.producers, self.buffers)
        self.loops = Loops()
        self.roots: list[Root] = []
        self.made: list[Made] = []
        self.outputs: list[Buffer] = []
        self.factors: dict[Buffer, lapack.Factors] = {}
        self.steps: dict[str, StepCall] = {}

    def run(self) -> list[Root]:
        """All roots, each after those that it reads."""
        for eqn in self.graph.eqns:
            if by_library(eqn):
                self._add_contraction(eqn)
                continue
            if is_control(eqn):
                self._add_control(eqn)
                continue
            if is_inplace(eqn):
                self._add_inplace(eqn)
                continue
            if is_join(eqn):
                self._add_join(eqn)
                continue
            if is_matrices(eqn):
                self._add_matrices(eqn)
                continue
            if eqn.primitive is step_p:
                self._add_step(eqn)
                continue
            for var in eqn.outputs:
                if var in self.kept:
                    self._add(var, f"t{len(self.roots)}")
        makers: dict[Buffer, int] = {}
        for number, root in enumerate(self.roots):
            for target in (root.target, *root.also):
                makers.setdefault(target, number)
        for operand in [operand for root in self.roots for operand in root.operands]:
            if operand in makers:
                self._stays(makers[operand])
        for number, atom in enumerate(self.graph.outputs):
            self.outputs.append(self._output(atom, f"out{number}", makers))
        return self.roots

    def demand(self) -> Demand:
        """How often the values are computed that are not kept."""
        return demand(self.puller, self.made)

    def _output(self, atom: Atom, name: str, makers: Mapping[Buffer, int]) -> Buffer:
        """Compute an output into a buffer of its own; `makers` are the first roots of buffers."""
        where = self.buffers.get(atom) if isinstance(atom, Var) else None
        if where in makers and where not in self.outputs:
            assert where is not None
            self._stays(makers[where])
            return where
        return self._add(atom, name, output=True)

    def _stays(self, number: int) -> None:
        """Take note that what a root makes is in memory in any case."""
        if not self.roots[number].output:
            self.roots[number] = replace(self.roots[number], output=True)

    def _loop_axes(self, atom: Atom) -> tuple[int, ...]:
        """The axes that a value is computed in loops over."""
        shape = atom.aval.shape
        if prod(shape) <= UNROLLED_SUMS:
            return ()
        trial = self.loops(shape)
        nodes = postorder([self.puller.element(atom, trial)])
        reduces = any(node.op == "fold" for node in nodes)
        most = UNROLLED_SUMS if reduces else UNROLLED_ELEMENTS
        unrolled, front = small_axes(shape, min(most, max(LARGEST_BODY // size(nodes), 1)))
        if any(told_apart(nodes, trial[axis]) for axis in front):
            unrolled += front
        # what comes once needs no loop: the next one is then the outermost, which threads share
        unrolled += tuple(i for i, n in enumerate(shape) if n == 1 and i not in unrolled)
        if len(unrolled) == len(shape) and shape[-1] >= ONE_VECTOR:
            # nothing is large: vectors pay all the same where an element is much work
            if size(nodes) >= MUCH_WORK and not told_apart(nodes, trial[-1]):
                return (len(shape) - 1,)
        elif len(shape) - 1 in unrolled and shape[-1] > LARGEST_INTERLEAVED:
            if shape not in self.folded and not told_apart(nodes, trial[-1]):
                unrolled = tuple(axis for axis in unrolled if axis != len(shape) - 1)
        return tuple(axis for axis in range(len(shape)) if axis not in unrolled)

    def _add_control(self, eqn: Eqn) -> None:
        """A loop or a branch, on operands in memory."""
        operands = [self._in_memory(operand) for operand in eqn.inputs]
        targets = self._targets(eqn)
        done = lower_control(eqn, operands, targets, self.lower)
        first, *also = targets
        self._add_call(first, done.statements, operands, done.work, also, done.scratch)
        self.buffers.update(zip(eqn.outputs, targets, strict=True))

    def _add_step(self, eqn: Eqn) -> None:
        """A call of a part of the program, which stands for its kernels until these are called."""
        operands = [self._in_memory(operand) for operand in eqn.inputs]
        targets = self._targets(eqn)
        symbol = f"step{len(self.steps)}"
        self.steps[symbol] = StepCall(eqn.params["graph"], tuple(operands), tuple(targets))
        statement = Call(symbol, (), tuple(operands), tuple(targets))
        first, *also = targets
        self._add_call(first, (statement,), operands, 0, also)
        self.buffers.update(zip(eqn.outputs, targets, strict=True))

    def _add_inplace(self, eqn: Eqn) -> None:
        """What is done to memory in order; a scatter starts from a copy of its first operand."""
        (var,) = eqn.outputs

        def element(number: int, position: Index) -> Scalar:
            simple = tuple(map(self.puller.simplify, position))
            return self.puller.element(eqn.inputs[number], simple)

        if eqn.primitive.name in SCATTERS:
            target = self._add(eqn.inputs[0], f"t{len(self.roots)}", copied=True)
            statements = updates(eqn, target, element, self.puller.simplify)
        else:
            target = buffer(f"t{len(self.roots)}", var.aval.dtype, var.aval.shape)
            statements = running(eqn, target, element, self.puller.simplify)
        read = (*loaded(statements), target)
        self._add_call(target, statements, read, 16 * eqn.inputs[-1].aval.size)
        self.buffers[var] = target

    def _add_matrices(self, eqn: Eqn) -> None:
        """Linear algebra: written out for small matrices, else by LAPACK."""
        operands = [self._in_memory(operand) for operand in eqn.inputs]
        targets = self._targets(eqn)
        if by_elements(eqn):
            for value in written_out(eqn, operands, targets, self.loops):
                self.roots.append(Root(*value))
        elif all(var.aval.size for var in eqn.outputs):
            self._add_by_lapack(eqn, operands, targets)
        self.buffers.update(zip(eqn.outputs, targets, strict=True))

    def _add_by_lapack(
        self, eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer]
    ) -> None:
        factors = None
        read = list(operands)
        if eqn.primitive.name in lapack.FROM_FACTORS:
            factors = self._factors(operands[0])
            read += factors
        first, *also = targets
        statements = lapack.call(eqn, operands, targets, factors)
        self._add_call(first, statements, read, lapack.work(eqn), also)

    def _factors(self, a: Buffer) -> lapack.Factors:
        """The triangular factors of matrices, which are computed once."""
        if a not in self.factors:
            self.factors[a] = factors = lapack.factors_of(a)
            first, *also = factors
            statements = lapack.factorise(a, factors)
            self._add_call(first, statements, [a], lapack.work_of_factors(a), also)
        return self.factors[a]

    def _add_call(
        self,
        target: Buffer,
        statements: tuple[Statement, ...],
        operands: Sequence[Buffer],
        work: int,
        also: Sequence[Buffer] = (),
        scratch: Sequence[Buffer] = (),
    ) -> None:
        """What is computed from memory to memory."""
        self.roots.append(
            Root(
                target,
                (),
                (),
                (),
                call=statements,
                operands=tuple(operands),
                also=tuple(also),
                scratch=tuple(scratch),
                given_work=work,
            )
        )

    def _targets(self, eqn: Eqn) -> list[Buffer]:
        """Buffers for the results of an equation."""
        return [
            buffer(f"t{len(self.roots)}_{i}", var.aval.dtype, var.aval.shape)
            for i, var in enumerate(eqn.outputs)
        ]

    def _add_contraction(self, eqn: Eqn) -> None:
        """A contraction, as a call of BLAS on operands in memory."""
        (var,) = eqn.outputs
        x, y = (self._in_memory(operand) for operand in eqn.inputs)
        target = buffer(f"t{len(self.roots)}", var.aval.dtype, var.aval.shape)
        statements = call(eqn, target, x, y)
        self._add_call(target, statements, (x, y), work(eqn))
        self.buffers[var] = target

    def _in_memory(self, atom: Atom) -> Buffer:
        """The buffer of a value, which is computed now if it is not there."""
        if isinstance(atom, Var) and atom in self.buffers:
            return self.buffers[atom]
        return self._add(atom, f"t{len(self.roots)}")

    def _add(self, atom: Atom, name: str, output: bool = False, copied: bool = False) -> Buffer:
        """Compute a value into a buffer; one that is copied is to be changed there."""
        shape = atom.aval.shape
        target = buffer(name, atom.aval.dtype, shape)
        if 0 in shape:  # nothing to compute, and no other axis to write out or to run over
            return target
        axes = self._loop_axes(atom)
        loops, elements = self._elements(atom, axes)
        self.roots.append(Root(target, loops, axes, elements, output))
        if not output and not copied and isinstance(atom, Var):
            self.puller.keep(atom, target)
        return target

    def _elements(
        self, atom: Atom, axes: Sequence[int]
    ) -> tuple[tuple[Scalar, ...], tuple[tuple[Index, Scalar], ...]]:
        """Loops over some of the axes of a value, and inside of them its elements, with indices."""
        loops = self.loops([atom.aval.shape[axis] for axis in axes])
        ranges = []
        for axis, extent in enumerate(atom.aval.shape):
            if axis in axes:
                ranges.append([loops[axes.index(axis)]])
            else:
                ranges.append([const(i, INDEX) for i in range(extent)])
        elements = tuple(
            (position, self.puller.element(atom, position)) for position in product(*ranges)
        )
        if atom not in self.buffers:
            self.made.append(Made(atom, tuple(position for position, _ in elements), loops))
        return loops, elements

    # -- joins --------------------------------------------------------------------------------

    def _add_join(self, eqn: Eqn) -> None:
        """Parts, each of which is written to its place."""
        (var,) = eqn.outputs
        parts = parts_of(eqn)
        adds = eqn.params.get("adds", False)
        name = f"t{len(self.roots)}"
        base = parts.pop(0)[1] if parts and is_whole(parts[0][0], var.aval.shape) else None
        places = [place for place, _ in parts]
        in_order = (adds and base is not None) or not apart(places)
        if base is not None:
            target = self._add(base, name, copied=True)
        else:
            target = buffer(name, var.aval.dtype, var.aval.shape)
            if in_order or not covers(places, var.aval.shape):
                self._add_zeros(target, var)
        if in_order:
            self._add_in_order(target, parts, "add" if adds else None)
        else:
            self._add_parts(target, parts)
        self.puller.keep(var, target)

    def _add_zeros(self, target: Buffer, var: Var) -> None:
        loops = self.loops(var.aval.shape)
        nothing = const(0, target.dtype)
        self.roots.append(Root(target, loops, tuple(range(len(loops))), ((loops, nothing),)))

    def _add_parts(self, target: Buffer, parts: Sequence[tuple[Place, Atom]]) -> None:
        """Parts that go to different places: in any order, and with loops of their own."""
        together: list[Root] = []
        for place, x in parts:
            own = self._loop_axes(x)
            if not own and x.aval.size > FEW_ELEMENTS and x.aval.size * len(parts) > TOGETHER:
                # the elements of all parts would be too much code
                own = (max(range(x.aval.ndim), key=x.aval.shape.__getitem__),)
            loops, elements = self._elements(x, own)
            placed = tuple((self._placed(place, position), value) for position, value in elements)
            kept = [axis for axis, entry in enumerate(place) if not isinstance(entry, int)]
            axes = tuple(kept[axis] for axis in own)
            before = place[: axes[0] + 1] if axes else ()
            elsewhere = not is_whole(before, x.aval.shape[: len(before)])
            root = Root(target, loops, axes, placed, part=True, apart=elsewhere)
            if len(place) - 1 in axes or root.folds:
                self.roots.append(root)
                continue
            most = TOGETHER_IN_LOOP if loops else TOGETHER
            count = len(placed) * (len(together) + 1)
            if together and (together[0].loops != loops or count > most):
                self._add_together(together)
            together.append(root)
        self._add_together(together)

    def _add_together(self, together: list[Root]) -> None:
        """Make one root of some over the same loops, which are taken off the list."""
        if together:
            elements = tuple(element for root in together for element in root.elements)
            self.roots.append(replace(together[0], elements=elements))
            together.clear()

    def _placed(self, place: Place, position: Index) -> Index:
        """Where in a join the element of a part goes."""
        own = iter(position)
        return tuple(
            const(entry, INDEX)
            if isinstance(entry, int)
            else self.puller.simplify(next(own) * entry[2] + entry[0])
            for entry in place
        )

    def _add_in_order(
        self, target: Buffer, parts: Sequence[tuple[Place, Atom]], op: str | None
    ) -> None:
        """Parts of which a later one changes what an earlier one has written."""
        statements: list[Statement] = []
        for number, (place, x) in enumerate(parts):
            loops = tuple(index("u", n) for n in x.aval.shape)
            value = self.puller.element(x, loops)
            if x not in self.buffers:
                self.made.append(Made(x, (loops,), loops))
            dense = bool(loops) and isinstance(place[-1], tuple) and place[-1][2] == 1
            statements += written(
                target, self._placed(place, loops), loops, value, op, dense, self.puller.simplify
            )
            if loops or len(statements) >= TOGETHER or number == len(parts) - 1:
                read = (*loaded(statements), target)
                self._add_call(target, tuple(statements), read, 4 * max(x.aval.size, 1))
                statements = []
